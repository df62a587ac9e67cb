//go:build cgo && !nowebgpu && ((linux && amd64) || darwin || (windows && amd64))

package webgpu

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rajveermalviya/go-webgpu/wgpu"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/encoding"
	"github.com/batchgemm/batchgemm/wgsl"
)

// pipeline is a compiled kernel.
type pipeline struct {
	handle *wgpu.ComputePipeline
	ref    C.handle
	layout *wgpu.BindGroupLayout
	pieces C.uint32_t // workgroups of a worker
}

// pipeline returns the compiled kernel. Kernels are compiled on first use, which
// takes 0.1 to 0.5 s, and kept until the device is closed.
func (d *device) pipeline(k encoding.Kernel) (*pipeline, error) {
	if p := d.pipelines[k]; p != nil {
		return p, nil
	}
	s, err := wgsl.Render(k, d.shader)
	if err != nil {
		return nil, err
	}
	p, err := d.compile(s)
	if err != nil {
		return nil, fmt.Errorf("kernel %s: %w", k, err)
	}
	d.pipelines[k] = p
	return p, nil
}

// compile makes a pipeline. It checks what the binding does not: it crashes on
// an empty source and on a shader without bindings, and one with too much
// workgroup memory compiles and never ends.
func (d *device) compile(s wgsl.Shader) (*pipeline, error) {
	switch {
	case !strings.Contains(s.Source, "@binding(0)"):
		return nil, errors.New("webgpu: the shader has no bindings")
	case s.Threads > d.shader.Threads:
		return nil, fmt.Errorf("webgpu: the shader has %d threads, the device allows %d", s.Threads, d.shader.Threads)
	case s.SharedBytes > d.shader.SharedBytes:
		return nil, fmt.Errorf("webgpu: the shader has %d bytes of workgroup memory, the device allows %d", s.SharedBytes, d.shader.SharedBytes)
	}
	module, err := d.handle.CreateShaderModule(&wgpu.ShaderModuleDescriptor{
		WGSLDescriptor: &wgpu.ShaderModuleWGSLDescriptor{Code: s.Source},
	})
	if module != nil {
		defer module.Release()
	}
	if err = d.check("shader", err); err != nil {
		return nil, err
	}
	h, err := d.handle.CreateComputePipeline(&wgpu.ComputePipelineDescriptor{
		Compute: wgpu.ProgrammableStageDescriptor{Module: module, EntryPoint: wgsl.EntryPoint},
	})
	if err = d.check("pipeline", err); err != nil {
		if h != nil {
			h.Release()
		}
		return nil, err
	}
	return &pipeline{handle: h, ref: ref(h), layout: h.GetBindGroupLayout(0), pieces: C.uint32_t(max(s.Pieces, 1))}, nil
}

func (p *pipeline) free() {
	p.layout.Release()
	p.handle.Release()
}

// program is a plan on the device.
type program struct {
	dev       *device
	workspace *buffer // of the plans that it has had; nil: none split a tile
	encoded   []uint32

	images [2]image // of plans, in turn, so that the last stays where the next fails
	now    int      // of images

	sizes  int           // that runs of a ragged plan have; 0: it is not ragged
	status chan struct{} // holds the token of the one Status that runs

	// sets are the bind groups of the operands that the plan ran with last. They
	// belong to dev.mu.
	sets *backend.Cache[operands, bindings]
}

// launch is a encoding.Launch with its sections of the plan in bytes.
type launch struct {
	encoding.Launch
	pipeline     *pipeline
	items, table span
	sizes        int // words that a launch reads that makes items
}

type span struct{ offset, size uint64 }

// operands are A, B, C and the sizes, which are nil where the plan is not ragged.
type operands [4]*buffer

// bindings are the dispatches of a program for one set of operands.
type bindings struct {
	groups []*wgpu.BindGroup
	list   []C.gpu_dispatch
}

func newSets() *backend.Cache[operands, bindings] { return backend.NewCache[operands](bindings.free) }

func (p *program) On() *device { return p.dev }

func (d *device) Prepare(ctx context.Context, plan *planner.Plan) (driver.Program, error) {
	p := &program{dev: d, sets: newSets(), status: make(chan struct{}, 1)}
	if plan.TakesSizes() {
		p.sizes = plan.Ragged.SizesLen()
	}
	if err := p.Update(ctx, plan); err != nil {
		p.Close()
		return nil, err
	}
	p.encoded = nil // the plan may be the only one
	if err := d.lock(); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	d.programs[p] = struct{}{}
	return p, nil
}

// prepareLaunch compiles a launch's kernel and places its sections.
func (d *device) prepareLaunch(ctx context.Context, plan *planner.Plan, i int) (launch, error) {
	l := launch{Launch: plan.Launches[i]}
	if limit := int(d.limits.MaxComputeWorkgroupsPerDimension); l.Count < 1 || l.Count > limit {
		return l, invalid.Errorf("webgpu: %d workgroups, the device allows %d", l.Count, limit)
	}
	if (l.Split || l.Fixup) && plan.Workspace == 0 {
		return l, invalid.Errorf("webgpu: the plan has no workspace")
	}
	l.items = span{4 * uint64(l.Items), roundUp(4*uint64(itemWords(plan, &l.Launch)), 16)}
	if l.Ragged > 0 {
		l.sizes = plan.Ragged.SizesLen()
	}
	l.table = span{4 * uint64(l.Table), roundUp(4*uint64(l.Count+1), 16)}
	if need := max(l.items.size, 4*uint64(plan.Workspace)); need > d.binding {
		return l, fmt.Errorf("webgpu: %w: the plan's items or workspace take %d bytes, a binding has %d",
			driver.ErrOutOfMemory, need, d.binding)
	}
	if err := ctx.Err(); err != nil {
		return l, err
	}
	if err := d.lock(); err != nil {
		return l, err
	}
	defer d.mu.Unlock()
	var err error
	l.pipeline, err = d.pipeline(l.Kernel)
	return l, err
}

// itemWords is the length of a launch's items. The device knows how many those of a ragged
// plan are; launches that make them have all words.
func itemWords(plan *planner.Plan, l *encoding.Launch) int {
	switch {
	case plan.Ragged != nil:
		return plan.Words - l.Items
	case l.Fixup:
		return l.Count * encoding.FixupWords
	}
	return int(plan.Workers[l.First+l.Count]-plan.Workers[l.First]) * encoding.ItemWords
}

// Close frees the program once queued work that uses it is done.
func (p *program) Close() error {
	d := p.dev
	if d.lock() != nil {
		return nil // abandoned with its device
	}
	delete(d.programs, p)
	p.unbind()
	d.mu.Unlock()
	for _, b := range []*buffer{p.images[0].words, p.images[1].words, p.images[0].records, p.images[1].records, p.workspace} {
		if b != nil {
			b.Close()
		}
	}
	return nil
}

// unbind drops all bind groups.
func (p *program) unbind() {
	p.sets.Clear()
	for i := range p.images {
		p.images[i].made.free()
		p.images[i].made = made{}
	}
}

// forget drops the bind groups that hold a buffer.
func (p *program) forget(b *buffer) {
	p.sets.Drop(func(o operands) bool { return slices.Contains(o[:], b) })
}

// free releases bind groups that no work being recorded has; of those in queued
// work the library keeps what it needs.
func (s bindings) free() {
	for _, g := range s.groups {
		g.Release()
	}
}

// bind returns the program's dispatches for these operands, for the work being
// recorded.
func (p *program) bind(o operands) (*bindings, error) {
	d := p.dev
	if s := p.sets.Get(o, d.recording); s != nil {
		return s, nil
	}
	m := &p.images[p.now]
	s, err := p.bindAll(m, m.launches[m.makers:], o)
	if err != nil {
		return nil, err
	}
	if !p.sets.Room(d.recording - 1) {
		d.work.over = append(d.work.over, p)
	}
	return p.sets.Put(o, s, d.recording), nil
}

// bindAll binds launches of an image.
func (p *program) bindAll(m *image, launches []launch, o operands) (s bindings, err error) {
	for i := range launches {
		l := &launches[i]
		g, err := p.bindLaunch(m, l, o)
		if err != nil {
			s.free()
			return s, fmt.Errorf("launch %d: %w", i, err)
		}
		s.groups = append(s.groups, g)
		s.list = append(s.list, C.gpu_dispatch{pipeline: l.pipeline.ref, group: ref(g), count: C.uint32_t(l.Count), pieces: l.pipeline.pieces})
	}
	return s, nil
}

func (p *program) bindLaunch(m *image, l *launch, o operands) (*wgpu.BindGroup, error) {
	d := p.dev
	var entries []wgpu.BindGroupEntry
	add := func(binding uint32, b *buffer, s span) {
		entries = append(entries, wgpu.BindGroupEntry{Binding: binding, Buffer: b.handle, Offset: s.offset, Size: s.size})
	}
	if l.Ragged > 0 {
		add(wgsl.BindItems, m.words, span{0, m.words.size})
	} else {
		add(wgsl.BindItems, m.words, l.items)
	}
	for _, x := range [...]struct {
		binding    uint32
		name       string
		buffer     *buffer
		base, span int
		used       bool
	}{
		{wgsl.BindC, "C", o[2], l.BaseC, l.SpanC, l.Ragged == 0},
		{wgsl.BindA, "A", o[0], l.BaseA, l.SpanA, l.Ragged == 0 && !l.Fixup},
		{wgsl.BindB, "B", o[1], l.BaseB, l.SpanB, l.Ragged == 0 && !l.Fixup},
		{wgsl.BindSizes, "sizes", o[3], 0, l.sizes, l.Ragged > 0},
	} {
		if !x.used {
			continue
		}
		b, s, err := d.window(x.buffer, x.base, x.span)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", x.name, err)
		}
		add(x.binding, b, s)
	}
	if l.Loop {
		add(wgsl.BindTable, m.words, l.table)
	}
	if l.Split || l.Fixup {
		add(wgsl.BindWorkspace, p.workspace, span{0, p.workspace.size})
	}
	g, err := d.handle.CreateBindGroup(&wgpu.BindGroupDescriptor{Layout: l.pipeline.layout, Entries: entries})
	if err = d.check("bind", err); err != nil && g != nil {
		g.Release()
		return nil, err
	}
	return g, err
}

// window is the part of an operand that a launch reaches: all of the buffer if
// a binding can hold it, else the given elements, and the dummy for none.
func (d *device) window(b *buffer, base, elements int) (*buffer, span, error) {
	if elements == 0 {
		return d.dummy, span{0, d.dummy.size}, nil
	}
	if base == 0 && b.size <= d.binding {
		return b, span{0, b.size}, nil
	}
	s := span{4 * uint64(base), roundUp(4*uint64(elements), 16)}
	align := uint64(d.limits.MinStorageBufferOffsetAlignment)
	if s.size > d.binding || s.offset+s.size > b.size || s.offset%align != 0 {
		return nil, s, invalid.Errorf("webgpu: bytes [%d, %d) of a buffer of %d do not make a binding (limit %d bytes, from multiples of %d on)",
			s.offset, s.offset+s.size, b.size, d.binding, align)
	}
	return b, s, nil
}

// Status reads the word that shaders leave, and clears it. A run that is queued between the
// two finds the word of one before it, and counts as seen.
func (p *program) Status(ctx context.Context) (group int, err error) {
	if err := p.dev.state.Ready(ctx); err != nil || p.sizes == 0 {
		return -1, err
	}
	select {
	case p.status <- struct{}{}:
		defer func() { <-p.status }()
	case <-ctx.Done():
		return -1, ctx.Err()
	}
	words := p.images[p.now].words
	var status [1]float32
	if err := words.Read(ctx, encoding.StatusWord, status[:]); err != nil {
		return -1, err
	}
	refused := int(math.Float32bits(status[0]))
	if refused > 0 {
		err = words.Write(ctx, encoding.StatusWord, make([]float32, 1))
	}
	return refused - 1, err
}
