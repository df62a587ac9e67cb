//go:build cgo && !nowebgpu && amd64

package webgpu

// // Programs are 50 KB smaller without debug information of C.
// #cgo CFLAGS: -g0
// #cgo LDFLAGS: -ldl
// #include "vulkan_linux.h"
import "C"

import (
	"math"
	"sync"
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/hardware"
)

// vulkanKinds maps VkPhysicalDeviceType. Other types, such as 3, a virtual GPU, stay unknown.
var vulkanKinds = map[C.uint32_t]hardware.Kind{1: hardware.KindIntegrated, 2: hardware.KindDiscrete,
	4: hardware.KindSoftware}

// maxVulkanGPUs bounds the query. The largest known hosts have 8 GPUs with two drivers each.
const maxVulkanGPUs = 64

// vulkanGPUs asks the Vulkan loader for what the binding does not report, once per process. The list is
// empty without a loader.
var vulkanGPUs = sync.OnceValue(func() []vulkanGPU {
	var list [maxVulkanGPUs]C.vulkan_gpu
	gpus := make([]vulkanGPU, C.vulkan_query(&list[0], maxVulkanGPUs))
	for i := range gpus {
		g := &list[i]
		gpus[i] = vulkanGPU{
			vendor:   uint32(g.vendor),
			device:   uint32(g.device),
			name:     C.GoString(&g.name[0]),
			kind:     vulkanKinds[g._type],
			uuid:     *(*[16]byte)(unsafe.Pointer(&g.uuid)),
			memory:   int64(min(g.memory, math.MaxInt64)),
			subgroup: int(g.subgroup),
			units:    int(g.units),
			warps:    int(g.warps),
			period:   float64(g.period),
		}
	}
	return gpus
})
