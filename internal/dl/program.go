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
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/planner"
)

// kernel is a loaded kernel.
type kernel struct {
	Kernel
	function C.dl_function
}

// kernel finds a kernel. The first kernel of an image loads the image. Kernels are made resident one by one.
// Both stay until the device is closed.
func (d *device) kernel(k encoding.Kernel) (*kernel, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if loaded := d.kernels[k]; loaded != nil {
		return loaded, nil
	}
	made := &kernel{Kernel: d.gpu.Kernel(k)}
	module, err := d.module(made.Image)
	if err != nil {
		return nil, err
	}
	name := C.CString(made.Symbol)
	defer C.free(unsafe.Pointer(name))
	var most C.int
	if err := d.check("kernel "+made.Symbol, C.dl_find(d.handle, module.code, name, C.int(made.Shared),
		&made.function, &most)); err != nil {
		return nil, err
	}
	if made.Threads > int(most) {
		return nil, d.errorf("kernel %s has %d threads, its registers allow %d", made.Symbol,
			made.Threads, most)
	}
	d.kernels[k] = made
	return made, nil
}

// Compile loads kernels one at a time, because the driver does not load two at once.
func (d *device) Compile(ctx context.Context, kernels []encoding.Kernel, done func(i int)) error {
	for i, k := range kernels {
		if err := d.state.Ready(ctx); err != nil {
			return err
		}
		if _, err := d.kernel(k); err != nil {
			return fmt.Errorf("kernel %s: %w", k, err)
		}
		done(i)
	}
	return nil
}

// module is a loaded image. HIP does not copy it, and may read it as long as the module lives.
type module struct {
	code   C.dl_module
	memory unsafe.Pointer // allocated by C
}

// module loads an image, unless it is loaded.
func (d *device) module(image string) (*module, error) {
	if loaded := d.modules[image]; loaded != nil {
		return loaded, nil
	}
	code, err := d.gpu.Image(image)
	if err != nil {
		return nil, d.errorf("%w", err)
	}
	m := &module{memory: C.CBytes(code)}
	var log [4096]C.char
	if err := d.check("load "+image, C.dl_module_load(d.handle, m.memory, &m.code, &log[0],
		C.size_t(len(log)))); err != nil {
		C.free(m.memory)
		if text := C.GoString(&log[0]); text != "" {
			err = fmt.Errorf("%w: %s", err, text)
		}
		return nil, err
	}
	d.modules[image] = m
	return m, nil
}

// maxWorkers bounds the workgroups of a launch: 31 bits, if the device has no other limit (CUDA C++
// Programming Guide, "Technical Specifications").
func (d *device) maxWorkers() int {
	if n := d.gpu.Planner.MaxWorkers; n > 0 {
		return n
	}
	return math.MaxInt32
}

// program is a plan on the device.
type program struct {
	dev       *device
	workspace memory // for all its plans
	encoded   []uint32

	// dev.mu protects the next fields.
	images [2]image // for plans, alternating: runs of the last but one may be queued
	now    int      // index of the current image
	plans  uint64   // number of plans so far; a graph belongs to one
	ragged bool     // its runs have sizes
	apart  [3]bool  // A, B and C that have pointers, or that the plan does not have
	fresh  bool     // no run since Update
	graphs *graphs
}

// image is a plan in the form that the driver takes.
type image struct {
	words    memory        // the encoded plan
	launches []C.dl_launch // in memory of C
	// number of first launches, which make items from records; only Update runs them
	makers int
}

// runs returns the launches of a run.
func (m *image) runs() []C.dl_launch { return m.launches[m.makers:] }

// memory is device memory of size bytes, or none if size is 0.
type memory struct {
	address C.dl_pointer
	size    int
}

func (p *program) On() *device { return p.dev }

// Apart implements backend.Apart. The caller holds dev.mu.
func (p *program) Apart() [3]bool { return p.apart }

func (d *device) Prepare(ctx context.Context, plan *planner.Plan) (driver.Program, error) {
	p := &program{dev: d, graphs: newGraphs[operands](d),
		ragged: plan.Takes().Sizes && len(plan.Launches) > 0}
	if err := p.Update(ctx, plan); err != nil {
		p.free()
		return nil, err
	}
	p.encoded = nil // the plan may be the only one
	d.mu.Lock()
	defer d.mu.Unlock()
	d.programs[p] = struct{}{}
	return p, nil
}

// Update makes the image of the plan beside the last one, which stays if Update fails.
func (p *program) Update(ctx context.Context, plan *planner.Plan) error {
	d := p.dev
	if err := d.state.Ready(ctx); err != nil {
		return err
	}
	workspace := p.workspace
	if err := d.grow(&workspace, 4*plan.Workspace); err != nil {
		return fmt.Errorf("workspace: %w", err)
	}
	next := 1 - p.now
	if err := p.upload(ctx, &p.images[next], plan, workspace.address); err != nil {
		if workspace != p.workspace {
			d.drop(workspace)
		}
		return err
	}
	d.mu.Lock()
	p.now = next
	p.plans++
	p.fresh = p.plans > 1
	by := plan.Options.Epilogue.Pointers
	p.apart = [3]bool{by.A, by.B || !plan.Takes().B, by.C}
	d.mu.Unlock()
	if workspace != p.workspace {
		d.drop(p.workspace)
		p.workspace = workspace
	}
	return nil
}

// upload copies a plan to the device, after all queued work, and finds its kernels.
func (p *program) upload(ctx context.Context, m *image, plan *planner.Plan, workspace C.dl_pointer) error {
	d := p.dev
	if len(plan.Launches) == 0 {
		m.launches, m.makers = m.launches[:0], 0
		return nil
	}
	p.encoded = plan.Encode(p.encoded)
	words := m.words
	if err := d.grow(&words, 4*plan.Words); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	if words != m.words {
		d.drop(m.words)
		m.words = words
	}
	if err := m.load(d, plan, workspace); err != nil {
		return err
	}
	if err := (transfer{d, m.words.address, bytesOf(p.encoded), toDevice}).run(ctx); err != nil ||
		m.makers == 0 {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.work = append(d.work[:0], C.dl_run{launches: unsafe.SliceData(m.launches), count: C.size_t(m.makers)})
	return d.queue(d.work, clock{})
}

// grow replaces m by larger memory if it is too small. On failure m stays.
func (d *device) grow(m *memory, size int) error {
	if size <= m.size {
		return nil
	}
	address, err := d.alloc(size)
	if err == nil {
		*m = memory{address, size}
	}
	return err
}

// drop frees memory. The driver waits for queued work.
func (d *device) drop(m memory) {
	if m.address != 0 {
		C.dl_free(d.handle, m.address)
	}
}

// load finds the kernels and prepares the launches.
func (m *image) load(d *device, plan *planner.Plan, workspace C.dl_pointer) error {
	n := len(plan.Launches)
	if n > cap(m.launches) {
		larger := C.calloc(C.size_t(n), C.sizeof_dl_launch)
		if larger == nil {
			return hardware.ErrOutOfMemory
		}
		C.free(unsafe.Pointer(unsafe.SliceData(m.launches)))
		m.launches = unsafe.Slice((*C.dl_launch)(larger), n)
	}
	m.launches, m.makers = m.launches[:n], 0
	for i := range plan.Launches {
		l := &plan.Launches[i]
		groups := l.Count * max(int(l.Cluster), 1)
		if most := d.maxWorkers(); groups < 1 || groups > most {
			return d.invalid("launch %d: %d workgroups, the device allows %d", i, groups, most)
		}
		k, err := d.kernel(l.Kernel)
		if err != nil {
			return fmt.Errorf("launch %d: %w", i, err)
		}
		made := C.dl_launch{
			function: k.function,
			count:    C.uint32_t(groups),
			cluster:  C.uint32_t(l.Cluster),
			pieces:   C.uint32_t(d.gpu.Pieces(l)),
			threads:  C.uint32_t(k.Threads),
			shared:   C.uint32_t(k.Shared),
			items:    m.words.address + 4*C.dl_pointer(l.Items),
			a:        C.uint64_t(l.TypeA.Size(l.BaseA)),
			b:        C.uint64_t(l.TypeB().Size(l.BaseB)),
			c:        C.uint64_t(l.TypeC.Size(l.BaseC)),
			b2:       C.uint64_t(l.TypeB().Size(l.BaseB2)),
			epilogue: C.uint64_t(l.Kernel.Word()),
		}
		if l.Loop {
			made.table = m.words.address + C.dl_pointer(4*l.Table+l.TableMark())
		}
		if d.gpu.Waits {
			made.waits = 1
			if early(plan, l) {
				made.table += encoding.EarlyMark
			}
		}
		switch {
		case l.Layer > 0: // numbers are in the place of operands
			made.layer = 1
			b, b2, epilogue := plan.Layer.Parameters(l)
			made.b, made.b2, made.epilogue = C.uint64_t(b), C.uint64_t(b2), C.uint64_t(epilogue)
		case l.Split || l.Fixup || l.Ragged == 0 && l.Kernel.Kept() > 0:
			made.workspace = workspace
		case l.Ragged > 0: // it writes tables and items
			made.ragged, made.workspace = 1, m.words.address
			if len(plan.Records) > 0 {
				made.ragged, made.table = 0, m.words.address+4*encoding.RaggedHead
				m.makers = i + 1
			}
		}
		m.launches[i] = made
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
	d.sequences.Drop(func(of sequence) bool { return of.has(p) })
	d.mu.Unlock()
	p.free()
	return nil
}

// free first frees the memory: the driver then waits for queued work, and graphs must not be destroyed
// before they have run.
func (p *program) free() {
	d := p.dev
	for i := range p.images {
		d.drop(p.images[i].words)
	}
	d.drop(p.workspace)
	p.graphs.Clear()
	for i := range p.images {
		C.free(unsafe.Pointer(unsafe.SliceData(p.images[i].launches)))
	}
	p.images = [2]image{}
}

// Status reads the word that the kernel leaves, and clears it, after queued work.
func (p *program) Status(ctx context.Context) (group int, err error) {
	d := p.dev
	if err := d.state.Ready(ctx); err != nil {
		return -1, err
	}
	if !p.ragged {
		return -1, nil
	}
	var word [1]uint32
	at := p.images[p.now].words.address + 4*encoding.StatusWord
	if err := (transfer{d, at, bytesOf(word[:]), toHost}).run(ctx); err != nil || word[0] == 0 {
		return -1, err
	}
	refused := int(word[0]) - 1
	word[0] = 0
	return refused, transfer{d, at, bytesOf(word[:]), toDevice}.run(ctx)
}
