package planner

import (
	"cmp"
	"math"
	"slices"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner/element"
	"github.com/batchgemm/batchgemm/planner/internal/radix"
)

// minPartialSteps is the least number of K steps in a partial: with fewer, writing and summing the partial
// costs more than the steps.
const minPartialSteps = 4

// maxGroups bounds the groups of a plan, which share the workspace: five tile shapes (Zhang's rule mixes
// most), with four transpositions each, and some reserve.
const maxGroups = 32

// dealSplitK splits the K ranges of long tiles into equal partials, so that those of all tiles fill the
// device once. Longest partials come first.
func dealSplitK(p *builder, g *group) error {
	part := p.model.splitSteps(g.id, g.load)
	if err := p.room(int64(g.load.tiles) + int64(g.load.steps)/int64(part)); err != nil {
		return err
	}
	length := func(o radix.Key) int { // of the longest partial of the problem's tiles
		steps := steps(g.Tile, &p.Batch[o.Index])
		return ceilDiv(steps, ceilDiv(steps, part))
	}
	slices.SortFunc(g.problems, func(x, y radix.Key) int {
		return cmp.Or(cmp.Compare(length(y), length(x)), cmp.Compare(x.Index, y.Index))
	})
	slots := p.slots(g)
	err := p.forTiles(g, func(s encoding.Segment, steps int) {
		parts, depth, first := ceilDiv(steps, part), int(s.K1), len(p.Segments)
		for i := range parts {
			s.K0 = int32(share(steps, i, parts) * g.Tile.TK)
			s.K1 = int32(min(share(steps, i+1, parts)*g.Tile.TK, depth))
			p.Segments = append(p.Segments, s)
			p.endWorker()
		}
		p.sumParts(first, &slots)
	})
	p.Workspace = max(p.Workspace, slots.end())
	return err
}

// share returns the step where partial i begins. It computes in 64 bits, which the product may need.
func share(steps, i, parts int) int { return int(int64(steps) * int64(i) / int64(parts)) }

// splitSteps returns the number of K steps of a partial in dealSplitK. Partials fill the places on the
// device, but are never so short that they cost more than they save. They are longer if the partials would
// not fit in a binding, or if it is predicted to be faster that the worker of the last partial sums all.
func (m *model) splitSteps(id tileID, l load) int {
	part := max(m.fillingSteps(id, l), minPartialSteps)
	limit := int64(m.slotLimit(id))
	for part < l.longest && int64(l.steps)/int64(part)+int64(l.tiles) > limit {
		part *= 2
	}
	if few := ceilDiv(l.longest, encoding.MaxPartials); m.parts && part < few {
		all, sums := m.splitCost(id, l, part)
		fewer, sumsOfFewer := m.splitCost(id, l, few)
		if fewer+sumsOfFewer < all+sums {
			return few
		}
	}
	return part
}

// fillingSteps returns the steps of partials that fill the places on the device. One partial more than there
// are places takes another round. So equal tiles have as many partials each as there is room for. For other
// tiles, half a partial each is added for the remainder. Compared with partials that fill all places by
// their steps alone, Split-K took 0.91 to 0.97 of the time for equal tiles or warpgroups (each tensor core
// kernel), 0.90 for uneven tiles of FMA rows, and 0.91 by WGSL (geometric means; H100).
func (m *model) fillingSteps(id tileID, l load) int {
	places := m.tiles[id].resident
	switch {
	case l.equal():
		return ceilDiv(l.longest, max(places/l.tiles, 1))
	case l.tiles >= places:
		return l.longest
	}
	return int(min(math.Ceil(l.steps/(float64(places)-float64(l.tiles)/2)), float64(l.longest)))
}

// slotLimit returns how many partials a group may have, so that those of all groups fit in a binding.
func (m *model) slotLimit(id tileID) int {
	return m.device.spanLimit(element.F32) / maxGroups / elemtype.Words(m.sumsOf,
		m.tiles[id].shape.TM*m.tiles[id].shape.TN)
}

// slotCounter assigns slots of the workspace to partials.
type slotCounter struct {
	next int32
	size int // words of a slot
}

// slots returns a counter that continues after the slots in use.
func (p *builder) slots(g *group) slotCounter {
	size := g.SlotWords()
	return slotCounter{next: int32(ceilDiv(p.Workspace, size)), size: size}
}

// sumParts adds a fix-up for the segments from first on, if they are partials and not a whole tile.
func (p *builder) sumParts(first int, slots *slotCounter) {
	parts := p.Segments[first:]
	if len(parts) == 1 {
		return
	}
	s := &parts[0]
	p.Fixups = append(p.Fixups, encoding.Fixup{Problem: s.Problem, Row: s.Row, Col: s.Col, Slot: slots.next,
		Count: int32(len(parts))})
	for i := range parts {
		parts[i].Slot = slots.take()
	}
}

func (c *slotCounter) take() int32 { c.next++; return c.next - 1 }

func (c *slotCounter) end() int { return int(c.next) * c.size }
