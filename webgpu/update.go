//go:build !nowebgpu && (js || (cgo && ((linux && amd64) || darwin || (windows && amd64))))

package webgpu

import (
	"context"
	"fmt"

	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner"
)

// image is a plan's launches and words; no words without launches.
type image struct {
	launches []launch
	words    *buffer
	// tables of dynamic tiles, which launches write, and so may not read by another binding
	turns   *buffer
	makers  int     // launches before the others, which make items
	records *buffer // from these
	making  bindings
	made    bool // makers were submitted, which the first run does
}

// Update makes the image of the plan beside that of the last, which stays if it fails.
func (p *program) Update(ctx context.Context, plan *planner.Plan) error {
	d := p.dev
	next := 1 - p.now
	m := &p.images[next]
	words, turns := m.words, m.turns
	m.launches, m.makers = m.launches[:0], 0
	p.turns = p.turns[:0]
	for i := range plan.Launches {
		if plan.Ragged != nil && plan.ExtentC == 0 && plan.Launches[i].Ragged == 0 {
			continue // whatever the sizes are, they leave no products; and the dummy cannot be A and C
		}
		l, err := d.prepareLaunch(ctx, plan, i)
		if err != nil {
			return fmt.Errorf("launch %d: %w", i, err)
		}
		if l.Dynamic {
			l.table = span{4 * uint64(len(p.turns)), roundUp(4*encoding.DynamicWords, 16)}
			p.turns = append(p.turns, make([]uint32, encoding.SectionWords)...)
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
	p.plans++
	m.made = m.makers == 0
	if p.workspace != workspace || m.words != words || m.turns != turns {
		p.sets.Clear()
	}
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
	if err := p.putTurns(ctx, m); err != nil {
		return err
	}
	if m.makers == 0 {
		return p.put(ctx, &m.words, plan.Words, p.encoded)
	}
	if err := p.put(ctx, &m.words, plan.Words, p.encoded[:encoding.RaggedHead]); err != nil {
		return err
	}
	if err := p.put(ctx, &m.records, len(plan.Records), plan.Records); err != nil {
		return err
	}
	if err := p.dev.lock(); err != nil {
		return err
	}
	defer p.dev.mu.Unlock()
	return p.rebind(&m.making, m, m.launches[:m.makers], buffers{sizesBuffer: m.records.part()})
}

// putTurns writes the tables of dynamic tiles, each a section of the buffer that has no others.
func (p *program) putTurns(ctx context.Context, m *image) error {
	if len(p.turns) == 0 {
		return nil
	}
	for i := range m.launches {
		if l := &m.launches[i]; l.Dynamic {
			copy(p.turns[l.table.offset/4:], p.encoded[l.Table:][:encoding.DynamicWords])
		}
	}
	return p.put(ctx, &m.turns, len(p.turns), p.turns)
}

// put writes words after what was submitted, to b or to the larger buffer that takes its place.
func (p *program) put(ctx context.Context, b **buffer, n int, words []uint32) error {
	larger, err := p.dev.atLeast(*b, n)
	if err != nil {
		return err
	}
	if old := *b; old != larger {
		*b = larger
		if old != nil {
			old.Close()
		}
	}
	return (*b).Write(ctx, 0, backend.Words(words))
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
