//go:build cgo && !nowebgpu && ((linux && amd64) || darwin || (windows && amd64))

package webgpu

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"time"
	"unsafe"

	"github.com/rajveermalviya/go-webgpu/wgpu"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/hardware"
)

// library is the part of a device that go-webgpu implements.
type library struct {
	instance *wgpu.Instance
	adapters []adapter
	handle   *wgpu.Device
	queue    *wgpu.Queue
	gpu      *C.gpu
	clears   []C.handle // buffers to clear in the submission being queued
}

// The rest of the package uses these names, which library_js.go also defines.
type (
	limits    = wgpu.Limits
	usage     = wgpu.BufferUsage
	object    = C.handle
	bindGroup = *wgpu.BindGroup
	queries   struct{ *wgpu.QuerySet }
)

// Usages of buffers.
const (
	usageOperand = wgpu.BufferUsage_Storage | wgpu.BufferUsage_CopySrc | wgpu.BufferUsage_CopyDst
	usageRead    = wgpu.BufferUsage_MapRead | wgpu.BufferUsage_CopyDst
	usageResolve = wgpu.BufferUsage_QueryResolve | wgpu.BufferUsage_CopySrc
)

// clearFirst: see buffer.
const clearFirst = true

// openDevice opens the adapter with these facts in its own instance.
func openDevice(_ context.Context, info driver.Info, maxBinding uint64) (*device, error) {
	instance, adapters := enumerate()
	if info.Index >= len(adapters) || adapters[info.Index].id != info.ID {
		release(instance, adapters)
		return nil, fmt.Errorf("webgpu: device %d (%s) is gone: %w", info.Index, info.Name,
			hardware.ErrUnavailable)
	}
	a := &adapters[info.Index]
	// The descriptor also silences the handler of lost devices, which would abort.
	descriptor := wgpu.DeviceDescriptor{RequiredLimits: a.required()}
	if a.timestamp {
		descriptor.RequiredFeatures = []wgpu.FeatureName{wgpu.FeatureName_TimestampQuery}
	}
	handle, err := a.handle.RequestDevice(&descriptor)
	if err != nil {
		release(instance, adapters)
		return nil, fmt.Errorf("webgpu: open %s: %w: %w", info.Name, hardware.ErrUnavailable, err)
	}
	d := newDevice(info, handle.GetLimits().Limits, maxBinding)
	// on macOS, Vulkan is a layer on Metal
	d.shader.Components = a.api() == "vulkan" && runtime.GOOS != "darwin"
	d.library = library{instance: instance, adapters: adapters, handle: handle, queue: handle.GetQueue()}
	if a.props.VendorId == vendorMesa {
		d.inFlight = 1
	}
	if a.timestamp && a.vulkan != nil {
		d.period = a.vulkan.period
	}
	d.gpu = C.gpu_new(ref(handle), ref(d.queue))
	if d.gpu == nil {
		d.queue.Release()
		d.handle.Release()
		release(instance, adapters)
		return nil, hardware.ErrOutOfMemory
	}
	if err := d.selfTest(); err != nil {
		d.free()
		return nil, err
	}
	return d, nil
}

// selfTest makes the dummy, and uses it to check that ref finds the library's handles.
func (d *device) selfTest() error {
	if err := d.makeDummy(); err != nil {
		return err
	}
	if got := C.gpu_buffer_size(d.dummy.ref); got != 16 {
		return fmt.Errorf("webgpu: %w: the library's handles are not where expected", hardware.ErrUnavailable)
	}
	return nil
}

// ref returns the library's handle of an object. Package wgpu does not export it.
func ref[T any](object *T) C.handle {
	return C.handle(reflect.ValueOf(object).Elem().FieldByName("ref").Pointer())
}

// closeLibrary releases the idle device. It fails if the GPU is lost meanwhile.
func (d *device) closeLibrary() error {
	C.gpu_release(d.gpu)
	if d.gpu.lost != 0 {
		return d.lose("close")
	}
	release(d.instance, d.adapters)
	C.free(unsafe.Pointer(d.gpu))
	d.gpu = nil
	return nil
}

// lose declares the device lost, with the library's reason. Queued work may still run and use memory, so its
// memory is never freed.
func (d *device) lose(op string) error {
	return d.state.Lose(&d.info, fmt.Errorf("%s: %s", op, C.GoString(&d.gpu.message[0])))
}

// check returns the error of a call of the binding: its result, or an error that the callback received
// meanwhile.
func (d *device) check(op string, err error) error {
	if d.gpu.lost != 0 {
		return d.lose(op)
	}
	if err == nil && d.gpu.errors > 0 {
		err = errors.New(C.GoString(&d.gpu.message[0]))
	}
	C.gpu_forget(d.gpu)
	if err == nil {
		return nil
	}
	// The binding has no error codes; these are the texts of wgpu-core's
	// DeviceError.
	text := err.Error()
	switch {
	case strings.Contains(text, "Parent device is lost"):
		return d.state.Lose(&d.info, fmt.Errorf("%s: %w", op, err))
	case strings.Contains(text, "Not enough memory left"), strings.Contains(text, "Out of Memory"):
		return fmt.Errorf("webgpu: %s: %w", op, hardware.ErrOutOfMemory)
	}
	return fmt.Errorf("webgpu: %s: %s", op, text)
}

// memory is a buffer of the library, or none if the handle is nil.
type memory struct {
	handle *wgpu.Buffer
	ref    C.handle
}

func (d *device) makeMemory(op string, size uint64, use usage) (memory, error) {
	b, err := d.handle.CreateBuffer(&wgpu.BufferDescriptor{Size: size, Usage: use})
	if err = d.check(op, err); err != nil {
		if b != nil {
			b.Release()
		}
		return memory{}, err
	}
	return memory{b, ref(b)}, nil
}

func (m memory) release() {
	if m.handle != nil {
		m.handle.Release()
	}
}

// unmap does nothing: readMapped leaves nothing mapped.
func (m memory) unmap() {}

func (d *device) writeMemory(m memory, offset uint64, data []byte) error {
	return d.check("write", d.queue.WriteBuffer(m.handle, offset, data))
}

// readMapped copies from a staging buffer that no queued work uses.
func (d *device) readMapped(s *staging, offset uint64, dst []byte) error {
	size := roundUp(offset+uint64(len(dst)), 16)
	switch status := C.gpu_map(d.gpu, s.ref, C.size_t(size)); {
	case status < 0:
		return d.lose("read")
	case status > 0:
		return d.check("read", nil)
	}
	copy(dst, s.handle.GetMappedRange(0, uint(size))[offset:])
	return d.check("read", s.handle.Unmap())
}

// kernel is a pipeline of the library.
type kernel struct {
	handle *wgpu.ComputePipeline
	ref    C.handle
	layout *wgpu.BindGroupLayout
}

func (d *device) makeKernel(source string) (kernel, error) {
	module, err := d.handle.CreateShaderModule(&wgpu.ShaderModuleDescriptor{
		WGSLDescriptor: &wgpu.ShaderModuleWGSLDescriptor{Code: source},
	})
	if module != nil {
		defer module.Release()
	}
	if err = d.check("shader", err); err != nil {
		return kernel{}, err
	}
	h, err := d.handle.CreateComputePipeline(&wgpu.ComputePipelineDescriptor{
		Compute: wgpu.ProgrammableStageDescriptor{Module: module, EntryPoint: encoding.EntryPoint},
	})
	if err = d.check("pipeline", err); err != nil {
		if h != nil {
			h.Release()
		}
		return kernel{}, err
	}
	return kernel{h, ref(h), h.GetBindGroupLayout(0)}, nil
}

func (k *kernel) free() {
	k.layout.Release()
	k.handle.Release()
}

func (d *device) makeGroup(of bound) (bindGroup, error) {
	var entries []wgpu.BindGroupEntry
	for binding, w := range of.at {
		if w.buffer != nil {
			entries = append(entries, wgpu.BindGroupEntry{Binding: uint32(binding), Buffer: w.buffer.handle,
				Offset: w.offset, Size: w.size})
		}
	}
	g, err := d.handle.CreateBindGroup(&wgpu.BindGroupDescriptor{Layout: of.pipeline.layout,
		Entries: entries})
	if err = d.check("bind", err); err != nil {
		if g != nil {
			g.Release()
		}
		return nil, err
	}
	return g, nil
}

func (p *pipeline) dispatch(g bindGroup, count int) dispatch {
	return dispatch{pipeline: p.ref, group: ref(g), count: uint32(count), pieces: p.pieces}
}

// enqueue queues a submission by one call of C, for any number of runs.
func (d *device) enqueue(w *work, then move) error {
	d.clears = d.clears[:0]
	for _, b := range w.clears {
		d.clears = append(d.clears, b.ref)
	}
	c := C.gpu_copy{
		source: then.source.ref, destination: then.destination.ref,
		offset: C.uint64_t(then.offset), to: C.uint64_t(then.to), size: C.uint64_t(then.size),
	}
	if then.clock != nil {
		c.queries, c.resolved = ref(then.clock.queries.QuerySet), then.clock.resolved.ref
	}
	// dispatch has the layout of gpu_dispatch.
	var _ [unsafe.Sizeof(C.gpu_dispatch{})]byte = [unsafe.Sizeof(dispatch{})]byte{}
	list := (*C.gpu_dispatch)(unsafe.Pointer(unsafe.SliceData(w.list)))
	status := C.gpu_submit(d.gpu, unsafe.SliceData(d.clears), C.size_t(len(d.clears)), list,
		C.size_t(len(w.list)), c)
	if status != 0 {
		return d.check("submit", nil)
	}
	return nil
}

// finished returns how many submissions are known to be done.
func (d *device) finished() uint64 { return uint64(d.gpu.done) }

// collect notes finished work, until n submissions are done.
func (d *device) collect(n uint64, turns int) error {
	C.gpu_poll(d.gpu, C.uint64_t(n), C.int(turns))
	if d.gpu.lost != 0 {
		return d.lose("wait")
	}
	return nil
}

// watch asks until something is done. It does not let the binding wait, because that gives up after 5 s and
// reports success.
func (d *device) watch(ctx context.Context, limit time.Duration, ask func() (done bool, err error)) error {
	return d.state.Await(ctx, limit, ask)
}

// makeQueries makes the two timestamps of a clock.
func (d *device) makeQueries() (q queries, err error) {
	q.QuerySet, err = d.handle.CreateQuerySet(&wgpu.QuerySetDescriptor{Type: wgpu.QueryType_Timestamp,
		Count: 2})
	return q, d.check("timestamps", err)
}

func (q queries) release() {
	if q.QuerySet != nil {
		q.Release()
	}
}
