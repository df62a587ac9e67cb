//go:build cgo && linux && (amd64 || arm64)

package cuda

// #include <stdlib.h>
// #include "gcu.h"
import "C"

import (
	"context"
	"fmt"
	"math"
	"unsafe"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/native"
	"github.com/batchgemm/batchgemm/planner"
)

// kernel is a loaded kernel and its launch geometry.
type kernel struct {
	function                C.CUfunction
	threads, shared, pieces int
}

// kernel finds a kernel. The image is loaded for the first one, kernels are made
// resident one by one, and both are kept until the device is closed.
func (d *device) kernel(k planner.Kernel) (*kernel, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if found := d.kernels[k]; found != nil {
		return found, nil
	}
	if err := d.loadModule(); err != nil {
		return nil, err
	}
	threads, shared, pieces := native.Geometry(k)
	made := &kernel{threads: threads, shared: shared, pieces: max(pieces, 1)}
	symbol := native.KernelName(k)
	name := C.CString(symbol)
	defer C.free(unsafe.Pointer(name))
	var most C.int
	if err := d.check("kernel "+symbol, C.gcu_function(d.handle, d.module, name, C.int(shared), &made.function, &most)); err != nil {
		return nil, err
	}
	if threads > int(most) {
		return nil, fmt.Errorf("cuda: kernel %s has %d threads, its registers allow %d", symbol, threads, most)
	}
	d.kernels[k] = made
	return made, nil
}

func (d *device) loadModule() error {
	if d.module != nil {
		return nil
	}
	image, kind, err := native.Image(d.gpu.facts.major, d.gpu.facts.minor)
	if err != nil {
		return fmt.Errorf("cuda: %w", err)
	}
	code := unsafe.Pointer(unsafe.SliceData(image))
	var log [4096]C.char
	if err := d.check("load "+kind, C.gcu_module(d.handle, code, &d.module, &log[0], C.size_t(len(log)))); err != nil {
		return fmt.Errorf("%w %s", err, C.GoString(&log[0]))
	}
	return nil
}

// program is a plan on the device.
type program struct {
	dev       *device
	words     C.CUdeviceptr // the encoded plan; 0 without launches
	workspace C.CUdeviceptr // 0 when no tile is split

	// What follows belongs to dev.mu.
	closed   bool
	launches []C.gcu_launch // in memory of C
	graphs   map[operands]C.CUgraphExec
}

// operands are the addresses of A, B and C.
type operands struct{ a, b, c C.CUdeviceptr }

// maxGraphs bounds the graphs that a program keeps; making one takes 15 us.
const maxGraphs = 64

func (d *device) Prepare(ctx context.Context, plan *planner.Plan) (driver.Program, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.leave()
	p := &program{dev: d, graphs: map[operands]C.CUgraphExec{}}
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
	memory := C.calloc(C.size_t(n), C.sizeof_gcu_launch)
	if memory == nil {
		return driver.ErrOutOfMemory
	}
	p.launches = unsafe.Slice((*C.gcu_launch)(memory), n)
	for i := range plan.Launches {
		l := &plan.Launches[i]
		if l.Count < 1 || l.Count > math.MaxInt32 { // the largest grid
			return fmt.Errorf("launch %d: cuda: %d workgroups, the device allows %d", i, l.Count, math.MaxInt32)
		}
		k, err := p.dev.kernel(l.Kernel)
		if err != nil {
			return fmt.Errorf("launch %d: %w", i, err)
		}
		made := C.gcu_launch{
			function: k.function,
			count:    C.uint32_t(l.Count),
			pieces:   C.uint32_t(k.pieces),
			threads:  C.uint32_t(k.threads),
			shared:   C.uint32_t(k.shared),
			items:    p.words + 4*C.CUdeviceptr(l.Items),
			a:        4 * C.uint64_t(l.BaseA),
			b:        4 * C.uint64_t(l.BaseB),
			c:        4 * C.uint64_t(l.BaseC),
		}
		if l.Loop {
			made.table = p.words + 4*C.CUdeviceptr(l.Table)
		}
		if l.Split || l.Fixup {
			made.workspace = p.workspace
		}
		p.launches[i] = made
	}
	return nil
}

// bind returns the run of the program on these operands. The second run on the
// same ones records a graph, because the first may be the only one. Where no
// graph can be had, launches go one by one.
func (p *program) bind(o operands) C.gcu_run {
	run := C.gcu_run{
		launches: unsafe.SliceData(p.launches), count: C.size_t(len(p.launches)),
		a: o.a, b: o.b, c: o.c,
	}
	if p.dev.foreign {
		return run
	}
	graph, seen := p.graphs[o]
	if !seen {
		if len(p.graphs) >= maxGraphs {
			p.forget()
		}
		p.graphs[o] = nil
		return run
	}
	if graph == nil {
		graph = p.record(run)
		p.graphs[o] = graph
	}
	run.graph = graph
	return run
}

// record makes the graph of a run, or nil.
func (p *program) record(run C.gcu_run) (graph C.CUgraphExec) {
	if C.gcu_record(p.dev.handle, &run, &graph) != 0 {
		return nil
	}
	return graph
}

// forget drops all graphs; those that are queued still run.
func (p *program) forget() {
	for _, graph := range p.graphs {
		if graph != nil {
			C.gcu_graph_free(p.dev.handle, graph)
		}
	}
	clear(p.graphs)
}

// Close frees the program once queued work that uses it is done.
func (p *program) Close() error {
	d := p.dev
	d.life.RLock()
	defer d.life.RUnlock()
	if d.state.Load() != nil {
		return nil // freed with its device, or abandoned with it
	}
	d.mu.Lock()
	first := !p.closed
	p.closed = true
	delete(d.programs, p)
	d.mu.Unlock()
	if first {
		p.free()
	}
	return nil
}

func (p *program) free() {
	p.forget()
	for _, memory := range [...]C.CUdeviceptr{p.words, p.workspace} {
		if memory != 0 {
			C.gcu_free(p.dev.handle, memory) // waits for queued work
		}
	}
	C.free(unsafe.Pointer(unsafe.SliceData(p.launches)))
	p.launches = nil
}
