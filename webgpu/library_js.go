//go:build !nowebgpu

package webgpu

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall/js"
	"time"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/hardware"
)

// library is the part of a device that the browser implements.
type library struct {
	handle, queue js.Value
	last          js.Value // promise of everything that was submitted
	upload        js.Value // Uint8Array for data to write
	events        *events
}

// events are what the browser reported. Its callbacks must not block, so they take no lock.
type events struct {
	done    atomic.Uint64                 // submissions
	failure atomic.Pointer[error]         // why the device cannot be used; the first reason stays
	changed atomic.Pointer[chan struct{}] // closed when something is reported
	closed  atomic.Bool                   // by Close, after all work

	onDone, onLost, onError js.Func
}

// The rest of the package uses these names, which library.go also defines.
type (
	usage     int
	object    = js.Value
	bindGroup struct{ js.Value }
	queries   struct{ js.Value } // a GPUQuerySet
)

// Numbers of GPUBufferUsage and GPUMapMode.
const (
	usageOperand usage = 0x80 | 0x4 | 0x8 // STORAGE, COPY_SRC, COPY_DST
	usageRead    usage = 0x1 | 0x8        // MAP_READ, COPY_DST
	usageResolve usage = 0x200 | 0x4      // QUERY_RESOLVE, COPY_SRC
	mapRead            = 1
)

// clearFirst: see buffer. Browsers clear new memory themselves.
const clearFirst = false

// openDevice opens the adapter with these facts. An adapter can be opened only once, so it is requested
// again.
func openDevice(ctx context.Context, info driver.Info, maxBinding uint64) (*device, error) {
	list, err := requestAdapters(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(list, func(a adapter) bool { return a.id() == info.ID })
	if i < 0 {
		return nil, fmt.Errorf("webgpu: device %d (%s) is gone: %w", info.Index, info.Name,
			hardware.ErrUnavailable)
	}
	handle, err := list[i].request(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("webgpu: open %s: %w: %w", info.Name, hardware.ErrUnavailable, err)
	}
	d := newDevice(info, limitsOf(handle.Get("limits")), maxBinding)
	if handle.Get("features").Call("has", timestamps).Bool() {
		d.period = 1
	}
	d.shader.Dot = knows("packed_4x8_integer_dot_product")
	d.library = library{handle: handle, queue: handle.Get("queue"), last: js.Undefined(),
		events: listen(handle)}
	if err := d.makeDummy(); err != nil {
		_ = d.free() // nothing of it is in use
		return nil, err
	}
	return d, nil
}

// listen subscribes to the browser's events of a device.
func listen(handle js.Value) *events {
	e := new(events)
	e.tell()
	e.onDone = js.FuncOf(func(js.Value, []js.Value) any {
		e.done.Add(1)
		e.tell()
		return nil
	})
	e.onError = js.FuncOf(func(_ js.Value, args []js.Value) any {
		e.fail(thrown(args[0].Get("error")))
		return nil
	})
	e.onLost = js.FuncOf(func(_ js.Value, args []js.Value) any {
		if e.closed.Load() {
			e.onDone.Release()
			e.onLost.Release()
			handle.Call("removeEventListener", "uncapturederror", e.onError)
			e.onError.Release()
			return nil
		}
		e.fail(thrown(args[0]))
		return nil
	})
	handle.Call("addEventListener", "uncapturederror", e.onError)
	handle.Get("lost").Call("then", e.onLost)
	return e
}

// tell wakes all waiting goroutines.
func (e *events) tell() {
	next := make(chan struct{})
	if last := e.changed.Swap(&next); last != nil {
		close(*last)
	}
}

func (e *events) fail(reason error) {
	e.failure.CompareAndSwap(nil, &reason)
	e.tell()
}

// closeLibrary frees the idle device.
func (d *device) closeLibrary() error {
	if err := d.failed("close"); err != nil {
		return err
	}
	d.events.closed.Store(true)
	d.handle.Call("destroy")
	return nil
}

// failed declares the device lost if the browser reported it. It also reports mistakes in queued work: they
// show late, when only those who wait for the missing results can be told.
func (d *device) failed(op string) error {
	if reason := d.events.failure.Load(); reason != nil {
		return d.state.Lose(&d.info, fmt.Errorf("%s: %w", op, *reason))
	}
	return nil
}

// scopes are the kinds of errors that a browser distinguishes.
var scopes = []string{"validation", "internal", "out-of-memory"}

// scoped makes an object, which browsers check later, and waits for their verdict.
func (d *device) scoped(op string, call func()) error {
	var found []any
	err := try(func() {
		for _, s := range scopes {
			d.handle.Call("pushErrorScope", s)
		}
		defer func() {
			for range scopes { // the last scope first
				found = append(found, d.handle.Call("popErrorScope"))
			}
		}()
		call()
	})
	all, failed := await(context.Background(), js.Global().Get("Promise").Call("all", found))
	if lost := d.failed(op); lost != nil {
		return lost
	}
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("webgpu: %s: %w", op, err)
	}
	for i := range scopes {
		switch e := all.Index(i); {
		case e.IsNull():
		case i == 0:
			return fmt.Errorf("webgpu: %s: %w", op, hardware.ErrOutOfMemory)
		default:
			return fmt.Errorf("webgpu: %s: %w", op, thrown(e))
		}
	}
	return nil
}

// memory is a GPUBuffer, or none if that is undefined.
type memory struct{ handle js.Value }

func (d *device) makeMemory(op string, size uint64, use usage) (m memory, err error) {
	err = d.scoped(op, func() {
		m.handle = d.handle.Call("createBuffer", map[string]any{"size": size, "usage": int(use)})
	})
	if err != nil {
		m.release()
		return memory{}, err
	}
	return m, nil
}

func (m memory) release() {
	if !m.handle.IsUndefined() {
		m.handle.Call("destroy")
	}
}

// unmap ends a read whose data is not needed any more.
func (m memory) unmap() { m.handle.Call("unmap") }

// writeMemory copies twice, because Go's memory may move: to a JavaScript array that is kept, and from there
// to the queue.
func (d *device) writeMemory(m memory, offset uint64, data []byte) error {
	if err := d.failed("write"); err != nil {
		return err
	}
	err := try(func() {
		if d.upload.IsUndefined() || d.upload.Length() < len(data) {
			d.upload = js.Global().Get("Uint8Array").New(len(data))
		}
		js.CopyBytesToJS(d.upload, data)
		d.queue.Call("writeBuffer", m.handle, offset, d.upload, 0, len(data))
	})
	if err != nil {
		return fmt.Errorf("webgpu: write: %w", err)
	}
	return nil
}

// readMapped copies from a staging buffer whose copy is done. enqueue has mapped it.
func (d *device) readMapped(s *staging, offset uint64, dst []byte) error {
	if err := d.failed("read"); err != nil {
		return err
	}
	err := try(func() {
		mapped := s.handle.Call("getMappedRange", 0, roundUp(offset+uint64(len(dst)), 16))
		js.CopyBytesToGo(dst, js.Global().Get("Uint8Array").New(mapped, offset, len(dst)))
	})
	if err != nil {
		return fmt.Errorf("webgpu: read: %w", err)
	}
	return nil
}

// kernel is a GPUComputePipeline.
type kernel struct{ handle, layout js.Value }

// makeKernel needs no lock.
func (d *device) makeKernel(source string) (k kernel, err error) {
	var made js.Value
	err = d.scoped("shader", func() {
		module := d.handle.Call("createShaderModule", map[string]any{"code": source})
		made = d.handle.Call("createComputePipelineAsync", map[string]any{
			"layout": "auto", "compute": map[string]any{"module": module, "entryPoint": encoding.EntryPoint},
		})
	})
	if made.IsUndefined() {
		return k, err
	}
	handle, failed := await(context.Background(), made) // always: nothing else would learn of its end
	if err != nil {
		return k, err
	}
	if failed != nil {
		return k, fmt.Errorf("webgpu: pipeline: %w", failed)
	}
	return kernel{handle, handle.Call("getBindGroupLayout", 0)}, nil
}

// free leaves it to the browser's collector.
func (k *kernel) free() {}

// Release leaves it to the browser's collector.
func (bindGroup) Release() {}

// makeGroup does not wait for the browser's verdict: groups are made between runs. A mistake in a group is a
// fault of this package, and the device is then lost.
func (d *device) makeGroup(of bound) (g bindGroup, err error) {
	var entries []any
	for binding, w := range of.at {
		if w.buffer != nil {
			entries = append(entries, map[string]any{
				"binding":  binding,
				"resource": map[string]any{"buffer": w.buffer.handle, "offset": w.offset, "size": w.size},
			})
		}
	}
	err = try(func() {
		g.Value = d.handle.Call("createBindGroup", map[string]any{"layout": of.pipeline.layout,
			"entries": entries})
	})
	if err != nil {
		return g, fmt.Errorf("webgpu: bind: %w", err)
	}
	return g, nil
}

func (p *pipeline) dispatch(g bindGroup, count int) dispatch {
	return dispatch{pipeline: p.handle, group: g.Value, count: uint32(count), pieces: p.pieces}
}

// enqueue queues a submission. It maps the next destination of a read at once, which saves a round trip to
// the GPU's process.
func (d *device) enqueue(w *work, then move) error {
	if err := d.failed("submit"); err != nil {
		return err
	}
	err := try(func() {
		encoder := d.handle.Call("createCommandEncoder")
		timed := map[string]any{} // timestamps of a pass
		if then.clock != nil {
			timed["timestampWrites"] = map[string]any{
				"querySet": then.clock.queries.Value, "beginningOfPassWriteIndex": 0,
				"endOfPassWriteIndex": 1}
		}
		if len(w.list) > 0 || then.clock != nil {
			pass := encoder.Call("beginComputePass", timed)
			for i := range w.list {
				x := &w.list[i]
				if i == 0 || !x.pipeline.Equal(w.list[i-1].pipeline) {
					pass.Call("setPipeline", x.pipeline)
				}
				pass.Call("setBindGroup", 0, x.group)
				pass.Call("dispatchWorkgroups", x.count, x.pieces)
			}
			pass.Call("end")
		}
		if then.clock != nil {
			encoder.Call("resolveQuerySet", then.clock.queries.Value, 0, 2, then.clock.resolved.handle, 0)
		}
		if then.size > 0 {
			encoder.Call("copyBufferToBuffer", then.source.handle, then.offset, then.destination.handle,
				then.to, then.size)
		}
		d.queue.Call("submit", []any{encoder.Call("finish")})
		ends := []any{d.last, d.queue.Call("onSubmittedWorkDone")} // in order
		if then.read {
			ends = append(ends, then.destination.handle.Call("mapAsync", mapRead, 0, then.size))
		}
		d.last = js.Global().Get("Promise").Call("allSettled", ends).Call("then", d.events.onDone)
	})
	if err != nil {
		return fmt.Errorf("webgpu: submit: %w", err)
	}
	return nil
}

// finished returns how many submissions are known to be done.
func (d *device) finished() uint64 { return d.events.done.Load() }

// collect has nothing to ask, because the browser reports by itself.
func (d *device) collect(uint64, int) error { return d.failed("wait") }

// patience is how long watch waits for the browser before it asks again. Changes by other goroutines are no
// events.
const patience = 100 * time.Millisecond

// watch asks until something is done, each time the browser reports something. A fixed pause would last 4
// ms, the shortest in browsers.
func (d *device) watch(ctx context.Context, limit time.Duration, ask func() (done bool, err error)) error {
	for start := time.Now(); ; {
		changed := *d.events.changed.Load()
		if err := d.state.Ready(ctx); err != nil {
			return err
		}
		if done, err := ask(); done || err != nil {
			return err
		}
		if time.Since(start) > limit {
			return fmt.Errorf("%w within %v", backend.ErrUnfinished, limit)
		}
		again := time.NewTimer(min(limit, patience))
		select {
		case <-changed:
		case <-ctx.Done():
		case <-again.C:
		}
		again.Stop()
	}
}

// makeQueries makes the two timestamps of a clock.
func (d *device) makeQueries() (q queries, err error) {
	err = d.scoped("timestamps", func() {
		q.Value = d.handle.Call("createQuerySet", map[string]any{"type": "timestamp", "count": 2})
	})
	return q, err
}

func (q queries) release() {
	if q.Truthy() {
		q.Call("destroy")
	}
}
