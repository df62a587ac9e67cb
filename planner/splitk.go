package planner

import (
	"cmp"
	"math"
	"slices"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
	"github.com/batchgemm/batchgemm/planner/internal/radix"
)

// minPartialSteps is the least number of K steps in a part of a split tile: below
// it, writing and summing the partial tile costs more than the steps do.
const minPartialSteps = 4

// maxGroups bounds the groups of a plan that share the workspace: the tile shapes
// that rules mix (Zhang's five), each with four transpositions.
const maxGroups = 32

// dealSplitK cuts the K ranges of long tiles into equal parts, so that the parts
// of all tiles fill the device once; longest parts first.
func dealSplitK(p *builder, g *group) error {
	part := p.model.splitSteps(g.id, g.load)
	if err := p.room(int64(g.load.tiles) + int64(g.load.steps)/int64(part)); err != nil {
		return err
	}
	length := func(o radix.Key) int { // of the longest part of the problem's tiles
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

// share is where part i of so many steps begins, in 64 bits, which the product may need.
func share(steps, i, parts int) int { return int(int64(steps) * int64(i) / int64(parts)) }

// splitSteps is the number of K steps in a part of dealSplitK: such that parts fill the places on the device,
// but never so few that parts cost more than they save. Parts are longer where their partial tiles would not
// fit in a binding, or where it is predicted to be sooner that whoever stores the last part of a tile sums
// all.
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

// fillingSteps is the steps of parts that fill the places on the device. A part more than there are places
// takes another round. So equal tiles have as many parts each as there is room for, and of others half a part
// each is reckoned for what does not divide. Of the time of parts that fill all places by their steps alone
// Split-K took 0.91 to 0.97 where tiles are equal or of warpgroups (each kernel of tensor cores), 0.90 where
// those of FMA rows are uneven, and 0.91 by WGSL (geometric means; H100).
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

// slotLimit is the number of partial tiles that a group may have, so that those of all
// groups fit in a binding.
func (m *model) slotLimit(id tileID) int {
	return m.device.spanLimit(element.F32) / maxGroups / (m.tiles[id].shape.TM * m.tiles[id].shape.TN)
}

// tripSteps is the number of K steps that a worker may have on a device that
// limits loop iterations. In the worst case every step is a segment of its own,
// with its turn of the segment loop, of the K loop, and TK turns of the loop
// over the last, partial step.
func (d *Device) tripSteps(t *tile.Shape) int {
	if d.MaxTrips == 0 {
		return MaxDim
	}
	return max(d.MaxTrips/(t.TK+3), 1)
}

// slotCounter hands out partial tiles of the workspace.
type slotCounter struct {
	next int32
	size int // elements of a slot
}

// slots continues after the workspace in use.
func (p *builder) slots(g *group) slotCounter {
	size := g.Tile.TM * g.Tile.TN
	return slotCounter{next: int32(ceilDiv(p.Workspace, size)), size: size}
}

// sumParts has the segments from one on summed, where they are parts of a tile and not the whole.
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
