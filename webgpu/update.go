//go:build cgo && !nowebgpu && ((linux && amd64) || darwin || (windows && amd64))

package webgpu

// #include "shim.h"
import "C"

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/encoding"
)

// image is a plan's launches and words; no words without launches.
type image struct {
	launches []launch
	words    *buffer
	makers   int     // launches that only Update does, in front of the others: they make items
	records  *buffer // from these
	made     made    // what they were bound to last
}

// made are bindings of launches that make items, which updates have in common.
type made struct {
	bindings
	words, records *buffer
	kernels        [2]*pipeline
}

// Update makes the image of the plan beside that of the last, which stays if it fails.
// Writes come behind what was submitted.
func (p *program) Update(ctx context.Context, plan *planner.Plan) error {
	d := p.dev
	next := 1 - p.now
	m := &p.images[next]
	m.launches, m.makers = m.launches[:0], 0
	for i := range plan.Launches {
		if plan.Ragged != nil && plan.ExtentC == 0 && plan.Launches[i].Ragged == 0 {
			continue // whatever the sizes are, they leave no products; and the dummy cannot be A and C
		}
		l, err := d.prepareLaunch(ctx, plan, i)
		if err != nil {
			return fmt.Errorf("launch %d: %w", i, err)
		}
		m.launches = append(m.launches, l)
		if l.Ragged > 0 && !plan.TakesSizes() {
			m.makers++
		}
	}
	workspace, err := d.atLeast(p.workspace, plan.Workspace)
	if err != nil {
		return err
	}
	if err := p.upload(ctx, m, plan); err != nil {
		if workspace != p.workspace {
			workspace.Close()
		}
		return err
	}
	if err := d.lock(); err != nil {
		return err
	}
	p.now = next
	p.sets.Clear()
	d.mu.Unlock()
	if old := p.workspace; old != workspace {
		p.workspace = workspace
		if old != nil {
			old.Close()
		}
	}
	return nil
}

// upload writes the words of a plan with launches, of a ragged one those that the host knows.
func (p *program) upload(ctx context.Context, m *image, plan *planner.Plan) error {
	if len(m.launches) == 0 {
		return ctx.Err()
	}
	p.encoded = plan.Encode(p.encoded)
	words, err := p.dev.atLeast(m.words, plan.Words)
	if err != nil {
		return err
	}
	if m.words != nil && m.words != words {
		m.words.Close()
	}
	m.words = words
	if m.makers == 0 {
		return m.words.Write(ctx, 0, floats(p.encoded))
	}
	if err := m.words.Write(ctx, 0, floats(p.encoded[:encoding.RaggedHead])); err != nil {
		return err
	}
	return p.makeItems(ctx, m, plan.Records)
}

// makeItems writes records, from which the device makes the image's items.
func (p *program) makeItems(ctx context.Context, m *image, words []uint32) error {
	d := p.dev
	records, err := d.atLeast(m.records, len(words))
	if err != nil {
		return err
	}
	if m.records != nil && m.records != records {
		m.records.Close()
	}
	m.records = records
	if err := records.Write(ctx, 0, floats(words)); err != nil {
		return err
	}
	if err := d.lockQueue(ctx); err != nil {
		return err
	}
	defer d.mu.Unlock()
	if err := p.bindMakers(m); err != nil {
		return err
	}
	d.work.reset()
	d.work.list = append(d.work.list, m.made.list...)
	return d.submit(C.gpu_copy{})
}

// bindMakers binds what makes items, unless it is as it was.
func (p *program) bindMakers(m *image) error {
	now := made{words: m.words, records: m.records}
	makers := m.launches[:m.makers]
	for i := range makers {
		now.kernels[i] = makers[i].pipeline
	}
	if old := &m.made; old.words != now.words || old.records != now.records || old.kernels != now.kernels {
		s, err := p.bindAll(m, makers, operands{3: m.records})
		if err != nil {
			return err
		}
		old.free()
		now.bindings = s
		m.made = now
	}
	for i := range makers {
		m.made.list[i].count = C.uint32_t(makers[i].Count)
	}
	return nil
}

// floats are words as a buffer takes them. The bits go through unchanged: nothing computes
// with them on the way.
func floats(words []uint32) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(words))), len(words))
}

// atLeast returns b, or a new buffer if b has less than n elements; nil needs none.
func (d *device) atLeast(b *buffer, n int) (*buffer, error) {
	if n == 0 || b != nil && b.n >= n {
		return b, nil
	}
	made, err := d.Alloc(n)
	if err != nil {
		return nil, err
	}
	return made.(*buffer), nil
}
