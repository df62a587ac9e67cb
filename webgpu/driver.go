//go:build !nowebgpu && (js || (cgo && ((linux && amd64) || darwin || (windows && amd64))))

package webgpu

import (
	"context"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/invalid"
)

// Driver returns the WebGPU backend.
func Driver() driver.Driver { return webgpuDriver{} }

// webgpuDriver opens devices. Tests lower maxBinding (bytes; 0: the adapter's) to get plans of many windows
// without large buffers. They also request the shaders of devices on which a store to a component may touch
// the whole vector.
type webgpuDriver struct {
	maxBinding uint64
	whole      bool
}

func (webgpuDriver) Name() string { return "webgpu" }

func (d webgpuDriver) Open(ctx context.Context, index int) (driver.Device, error) {
	infos, err := d.Devices(ctx)
	if err != nil {
		return nil, err
	}
	if index < 0 || index >= len(infos) {
		return nil, invalid.Errorf("webgpu: device %d: there are %d", index, len(infos))
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	opened, err := openDevice(ctx, infos[index], d.maxBinding)
	if err != nil {
		return nil, err
	}
	opened.shader.Components = opened.shader.Components && !d.whole
	return opened, nil
}
