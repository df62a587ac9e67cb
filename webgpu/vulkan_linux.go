//go:build cgo && !nowebgpu && amd64

package webgpu

// #cgo LDFLAGS: -ldl
// #include "vulkan_linux.h"
import "C"

import "sync"

// maxVulkanGPUs bounds the query; larger hosts than 8 GPUs with two drivers
// each are not known.
const maxVulkanGPUs = 64

// vulkanGPUs asks the Vulkan loader once per process what the binding does not
// tell. The list is empty when there is no loader.
var vulkanGPUs = sync.OnceValue(func() []vulkanGPU {
	var list [maxVulkanGPUs]C.vulkan_gpu
	gpus := make([]vulkanGPU, C.vulkan_query(&list[0], maxVulkanGPUs))
	for i := range gpus {
		g := &list[i]
		gpus[i] = vulkanGPU{
			vendor:   uint32(g.vendor),
			device:   uint32(g.device),
			name:     C.GoString(&g.name[0]),
			cpu:      g._type == 4, // VK_PHYSICAL_DEVICE_TYPE_CPU
			subgroup: int(g.subgroup),
			units:    int(g.units),
			warps:    int(g.warps),
			period:   float64(g.period),
		}
	}
	return gpus
})
