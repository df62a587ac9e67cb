//go:build !nowebgpu && (js || (cgo && ((linux && amd64) || darwin || (windows && amd64))))

package webgpu

import (
	"context"
	"fmt"

	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner"
)

// image has a plan's launches and words. Without launches there are no words.
type image struct {
	launches []launch
	words    *buffer
	// tables of dynamic tiles; launches write them, so they cannot be in another binding that is read
	turns   *buffer
	makers  int     // number of first launches, which make items
	records *buffer // the makers' input
	making  bindings
	made    bool // the first run has submitted the makers
}

// Update makes the image of the plan beside the last one, which stays if Update fails.
func (p *program) Update(ctx context.Context, plan *planner.Plan) error {
	d := p.dev
	next := 1 - p.now
	m := &p.images[next]
	words, turns := m.words, m.turns
	m.launches, m.makers = m.launches[:0], 0
	p.turns = p.turns[:0]
	d.compileMissing(ctx, plan)
	for i := range plan.Launches {
		if plan.Ragged != nil && plan.ExtentC == 0 && plan.Launches[i].Ragged == 0 {
			continue // no sizes leave products here; and the dummy cannot be both A and C
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
		if l.Ragged > 0 && !plan.Takes().Sizes {
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

// upload writes the words of a plan with launches. For a ragged plan it writes those that the host knows.
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

// putTurns writes the tables of dynamic tiles. Each is a section of a buffer of tables.
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

// put writes words after what was submitted, to b or to a larger buffer that replaces it.
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

// atLeast returns b, or a new buffer if b has fewer than n elements. n may be 0; then nil stays.
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
