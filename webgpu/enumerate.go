//go:build cgo && !nowebgpu && ((linux && amd64) || darwin || (windows && amd64))

package webgpu

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/rajveermalviya/go-webgpu/wgpu"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/hardware"
)

// Devices lists the adapters, GPUs before software. It makes the list once per process, because drivers take
// up to a second to start.
func (d webgpuDriver) Devices(context.Context) ([]driver.Info, error) {
	adapters := listAdapters()
	if len(adapters) == 0 {
		return nil, fmt.Errorf("%w: no adapter: is a %s driver installed?", hardware.ErrUnavailable,
			graphicsAPI())
	}
	infos := make([]driver.Info, len(adapters))
	for i, a := range adapters {
		infos[i] = a.info(i, d.maxBinding)
	}
	return infos, nil
}

// backends returns the APIs that the instance may load. Zero would mean none. The binding's default includes
// OpenGL, which prints warnings without a display.
func backends() wgpu.InstanceBackend {
	switch runtime.GOOS {
	case "darwin":
		return wgpu.InstanceBackend_Metal
	case "windows":
		return wgpu.InstanceBackend_Vulkan | wgpu.InstanceBackend_DX12
	}
	return wgpu.InstanceBackend_Vulkan
}

func graphicsAPI() string {
	switch runtime.GOOS {
	case "darwin":
		return "Metal"
	case "windows":
		return "Vulkan or Direct3D 12"
	}
	return "Vulkan"
}

// enumerate starts an instance and returns its adapters, best first: GPUs before software, Vulkan before
// Direct3D 12 (whose shader compiler is slower), discrete before integrated. The caller releases them.
func enumerate() (*wgpu.Instance, []adapter) {
	quiet()
	instance := wgpu.CreateInstance(&wgpu.InstanceDescriptor{Backends: backends()})
	handles := instance.EnumerateAdapters(&wgpu.InstanceEnumerateAdapterOptons{Backends: backends()})
	list := make([]adapter, len(handles))
	for i, h := range handles {
		list[i] = newAdapter(h)
	}
	identify(list, vulkanGPUs())
	slices.SortStableFunc(list, func(a, b adapter) int {
		return cmp.Or(
			cmp.Compare(btoi(a.software()), btoi(b.software())),
			cmp.Compare(b.props.BackendType, a.props.BackendType), // Vulkan is the larger
			cmp.Compare(a.props.AdapterType, b.props.AdapterType), // discrete is 0
		)
	})
	return instance, list
}

// listAdapters keeps only facts. Every device enumerates again in its own instance.
var listAdapters = sync.OnceValue(func() []adapter {
	instance, list := enumerate()
	release(instance, list)
	return list
})

func release(instance *wgpu.Instance, list []adapter) {
	for i := range list {
		list[i].handle.Release()
		list[i].handle = nil
	}
	instance.Release()
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
