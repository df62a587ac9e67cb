//go:build cgo && linux && (amd64 || arm64)

package dl

// #include <stdlib.h>
// #include "dl.h"
import "C"

import (
	"context"
	"fmt"
	"math"
	"unsafe"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/encoding"
)

// kernel is a loaded kernel.
type kernel struct {
	Kernel
	function C.dl_function
}

// kernel finds a kernel. The image is loaded for the first one, kernels are made
// resident one by one, and both are kept until the device is closed.
func (d *device) kernel(k encoding.Kernel) (*kernel, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if loaded := d.kernels[k]; loaded != nil {
		return loaded, nil
	}
	if err := d.loadModule(); err != nil {
		return nil, err
	}
	made := &kernel{Kernel: d.gpu.Kernel(k)}
	name := C.CString(made.Symbol)
	defer C.free(unsafe.Pointer(name))
	var most C.int
	if err := d.check("kernel "+made.Symbol, C.dl_find(d.handle, d.module, name, C.int(made.Shared), &made.function, &most)); err != nil {
		return nil, err
	}
	if made.Threads > int(most) {
		return nil, d.errorf("kernel %s has %d threads, its registers allow %d", made.Symbol, made.Threads, most)
	}
	d.kernels[k] = made
	return made, nil
}

func (d *device) loadModule() error {
	if d.module != nil {
		return nil
	}
	image, name, err := d.gpu.Image()
	if err != nil {
		return d.errorf("%w", err)
	}
	// HIP does not copy the image, and may read it as long as the module lives.
	memory := C.CBytes(image)
	var log [4096]C.char
	if err := d.check("load "+name, C.dl_module_load(d.handle, memory, &d.module, &log[0], C.size_t(len(log)))); err != nil {
		C.free(memory)
		if text := C.GoString(&log[0]); text != "" {
			err = fmt.Errorf("%w: %s", err, text)
		}
		return err
	}
	d.image = memory
	return nil
}

// maxWorkers bounds the workgroups of a launch: where the device does not, 31
// bits do (CUDA C++ Programming Guide, "Technical Specifications").
func (d *device) maxWorkers() int {
	if n := d.gpu.Planner.MaxWorkers; n > 0 {
		return n
	}
	return math.MaxInt32
}

// program is a plan on the device.
type program struct {
	dev       *device
	words     C.dl_pointer // the encoded plan; 0 without launches
	workspace C.dl_pointer // 0 when no tile is split

	// What follows belongs to dev.mu.
	launches []C.dl_launch // in memory of C
	graphs   *graphs
}

func (p *program) On() *device { return p.dev }

func (d *device) Prepare(ctx context.Context, plan *planner.Plan) (driver.Program, error) {
	if err := d.state.Ready(ctx); err != nil {
		return nil, err
	}
	p := &program{dev: d, graphs: d.newGraphs()}
	err := p.upload(ctx, plan)
	if err == nil {
		err = p.load(plan)
	}
	if err != nil {
		p.free()
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.programs[p] = struct{}{}
	return p, nil
}

// upload allocates and fills the program's own memory.
func (p *program) upload(ctx context.Context, plan *planner.Plan) (err error) {
	if len(plan.Launches) == 0 {
		return nil
	}
	words := bytesOf(plan.Encode(nil))
	if p.words, err = p.dev.alloc(len(words)); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	if plan.Workspace > 0 {
		if p.workspace, err = p.dev.alloc(4 * plan.Workspace); err != nil {
			return fmt.Errorf("workspace: %w", err)
		}
	}
	return transfer{p.dev, p.words, words, toDevice}.run(ctx)
}

// load finds the kernels and prepares the launches.
func (p *program) load(plan *planner.Plan) error {
	n := len(plan.Launches)
	if n == 0 {
		return nil
	}
	memory := C.calloc(C.size_t(n), C.sizeof_dl_launch)
	if memory == nil {
		return driver.ErrOutOfMemory
	}
	p.launches = unsafe.Slice((*C.dl_launch)(memory), n)
	for i := range plan.Launches {
		l := &plan.Launches[i]
		groups := l.Count * max(int(l.Cluster), 1)
		if most := p.dev.maxWorkers(); groups < 1 || groups > most {
			return p.dev.invalid("launch %d: %d workgroups, the device allows %d", i, groups, most)
		}
		k, err := p.dev.kernel(l.Kernel)
		if err != nil {
			return fmt.Errorf("launch %d: %w", i, err)
		}
		made := C.dl_launch{
			function: k.function,
			count:    C.uint32_t(groups),
			cluster:  C.uint32_t(l.Cluster),
			pieces:   C.uint32_t(k.Pieces),
			threads:  C.uint32_t(k.Threads),
			shared:   C.uint32_t(k.Shared),
			items:    p.words + 4*C.dl_pointer(l.Items),
			a:        4 * C.uint64_t(l.BaseA),
			b:        4 * C.uint64_t(l.BaseB),
			c:        4 * C.uint64_t(l.BaseC),
		}
		if l.Loop {
			made.table = p.words + 4*C.dl_pointer(l.Table)
		}
		if l.Split || l.Fixup {
			made.workspace = p.workspace
		}
		p.launches[i] = made
	}
	return nil
}

// Close frees the program once queued work that uses it is done.
func (p *program) Close() error {
	d := p.dev
	if d.state.Err() != nil {
		return nil // abandoned with its device
	}
	d.mu.Lock()
	delete(d.programs, p)
	d.mu.Unlock()
	p.free()
	return nil
}

// free gives back the memory first: the driver waits for queued work then, and
// graphs must not be destroyed before they have run.
func (p *program) free() {
	for _, memory := range [...]C.dl_pointer{p.words, p.workspace} {
		if memory != 0 {
			C.dl_free(p.dev.handle, memory)
		}
	}
	p.graphs.Clear()
	C.free(unsafe.Pointer(unsafe.SliceData(p.launches)))
	p.launches = nil
}
