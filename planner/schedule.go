package planner

import (
	"cmp"
	"iter"
	"math"
	"math/bits"
	"slices"

	"github.com/batchgemm/batchgemm/planner/element"
	"github.com/batchgemm/batchgemm/planner/encoding"
	"github.com/batchgemm/batchgemm/planner/internal/radix"
	"github.com/batchgemm/batchgemm/planner/tile"
)

// minPartSteps is the least number of K steps in a part of a split tile: below
// it, writing and summing the partial tile costs more than the steps do.
const minPartSteps = 4

// maxGroups bounds the groups of a plan that share the workspace: the tile shapes
// that rules mix (Zhang's five), each with four transpositions.
const maxGroups = 32

// steps is the number of K steps of a problem's tiles, at least 1: a tile that
// only scales C needs its worker too.
func steps(t *tile.Shape, q *Problem) int { return max(ceilShift(q.depth(), shift(t.TK)), 1) }

// grid is the number of tile rows and columns of a problem.
func grid(t *tile.Shape, q *Problem) (rows, cols int) {
	return ceilShift(q.M, shift(t.TM)), ceilShift(q.N, shift(t.TN))
}

// count is the number of a problem's tiles and of K steps of each.
func count(t *tile.Shape, q *Problem) (n, depth int) {
	rows, cols := grid(t, q)
	return rows * cols, steps(t, q)
}

// Fraction is what the tile at a place of a problem takes, relative to a whole tile:
// see tile.Shape.HalfRows.
func Fraction(t *tile.Shape, q *Problem, row, col int32) float64 {
	return fraction(t, q.M-int(row)*t.TM, t.TM, t.HalfRows) * fraction(t, q.N-int(col)*t.TN, t.TN, t.HalfCols)
}

// wholeTiles is the sum of Fraction over the tiles of a problem with m rows and n columns,
// of which only the last row and column may not be whole.
func wholeTiles(t *tile.Shape, m, n int) float64 {
	rows, cols := ceilShift(m, shift(t.TM)), ceilShift(n, shift(t.TN))
	return (float64(rows-1) + fraction(t, m-(rows-1)*t.TM, t.TM, t.HalfRows)) * (float64(cols-1) + fraction(t, n-(cols-1)*t.TN, t.TN, t.HalfCols))
}

// fraction is Fraction in one direction, in which n elements are left of the problem.
// Kernels of a CPU compute no more of a tile than there is.
func fraction(t *tile.Shape, n, size int, half float64) float64 {
	if t.Unit == tile.SIMD {
		return min(float64(n)/float64(size), 1)
	}
	if half > 0 && 2*n <= size {
		return half
	}
	return 1
}

// shift is the logarithm of a tile's size, which is a power of two: shifts take
// a twentieth of the time of divisions, which planning would else spend half of
// its time on.
func shift(size int) uint8 { return uint8(bits.TrailingZeros(uint(size))) }

// ceilShift is n / 2^by, rounded up.
func ceilShift(n int, by uint8) int { return (n + 1<<(by&31) - 1) >> (by & 31) }

// forTiles calls f for every tile of the group in the order of its problems,
// which is longest K first unless a schedule sorts them. steps are those of all products.
func (p *builder) forTiles(g *group, f func(s encoding.Segment, steps int)) error {
	for _, o := range g.problems {
		q := &p.Batch[o.Index]
		rows, cols := grid(g.Tile, q)
		depth := steps(g.Tile, q) * p.model.products
		s := encoding.Segment{Problem: o.Index, K1: int32(q.depth()), Slot: encoding.NoSlot}
		for row := range rows {
			for col := range cols {
				if err := p.went(1); err != nil {
					return err
				}
				s.Row, s.Col = int32(row), int32(col)
				f(s, depth)
			}
		}
	}
	return nil
}

// setWhole makes a segment of a whole tile. It sets one field after the other, because a
// copy would wait for what was just written.
func setWhole(s *encoding.Segment, problem int32, row, col int, depth int32) {
	s.Problem, s.Row, s.Col, s.K0, s.K1 = problem, int32(row), int32(col), 0, depth
	s.Slot, s.Accumulate = encoding.NoSlot, false
}

// stripRows is the rows of a strip, see inStrips.
const stripRows = 4

// band is rows [top, bottom) of a grid.
type band struct{ top, bottom int }

// bandRows is the rows of bands of about pace tiles, which end between strips: all rows of most grids.
func bandRows(rows, cols int) int {
	if rows*cols <= pace {
		return rows
	}
	return max(pace/cols/stripRows, 1) * stripRows
}

// inStrips goes through a grid row by row, or, where it has many columns of large tiles, through some rows at a time, column by column: tiles that
// run at once then read fewer columns of B, and those of neighbouring units the same ones, which the L2 cache gives to both at once.
// H100, by wide tiles in bf16: products of 4096 x 4096 x 4096 are 7 percent sooner than row by row, of 2048 x 2048 x 2048 12, of 128 x 4096 x 4096 14;
// strips of 2 or 8 rows are as good, of 16 not. Not on a CPU, which reads a row's A for tile after tile from its own caches.
func inStrips(t *tile.Shape, b band, cols int) iter.Seq2[int, int] {
	const manyCols, largeTile = 8, 64
	strip := 1
	if cols > manyCols && t.TN >= largeTile && t.Unit != tile.SIMD {
		strip = stripRows
	}
	return func(yield func(row, col int) bool) {
		for top := b.top; top < b.bottom; top += strip {
			bottom := min(top+strip, b.bottom)
			for col := range cols {
				for row := top; row < bottom; row++ {
					if !yield(row, col) {
						return
					}
				}
			}
		}
	}
}

// dealDataParallel gives every worker one tile. It is forTiles written out, but for strips,
// because most tiles of most batches are dealt here.
//
// Where all run at once, compute units have long tiles and short ones: see evenUnits.
func dealDataParallel(p *builder, g *group) error {
	at, n := len(p.Segments), g.load.tiles
	p.Segments = p.Segments[:at+n]
	for _, o := range g.problems {
		q := &p.Batch[o.Index]
		rows, cols := grid(g.Tile, q)
		depth := int32(q.depth())
		most := bandRows(rows, cols)
		for top := 0; top < rows; top += most {
			band := band{top, min(top+most, rows)}
			if err := p.went((band.bottom - band.top) * cols); err != nil {
				return err
			}
			for row, col := range inStrips(g.Tile, band, cols) {
				setWhole(&p.Segments[at], o.Index, row, col, depth)
				at++
			}
		}
	}
	if n <= p.model.tiles[g.id].resident {
		p.evenUnits(p.Segments[at-n:])
	}
	first := len(p.Workers)
	p.Workers = slices.Grow(p.Workers, n)[:first+n]
	for i := range n {
		p.Workers[first+i] = int32(len(p.Segments) - n + i + 1)
	}
	return nil
}

// evenUnits turns every other round of tiles around, which are longest first. Worker w is on compute unit w modulo their number, and
// shares it with those of other rounds; forwards all, the first unit would have the longest tile of each round. On an H100 that is
// sooner by 4 percent for 15 bf16 batches by warpgroup tiles of which two run on a unit, and by 3.5 percent for 11 fp32 ones by tiles of
// which more do (geometric means; 19 and 12 percent at most).
func (p *builder) evenUnits(tiles []encoding.Segment) {
	units := p.device.ComputeUnits
	for first := units; first < len(tiles); first += 2 * units {
		slices.Reverse(tiles[first:min(first+units, len(tiles))])
	}
}

// dealBatched gives a worker consecutive tiles until it has its share of K
// steps: fewer, fuller workers for many tiny tiles (the batching of Li et al.
// 2019).
func dealBatched(p *builder, g *group) error {
	share := p.model.batchSteps(g.id, g.load)
	var held int64
	err := p.forTiles(g, func(s encoding.Segment, steps int) {
		if held > 0 && held+int64(steps) > share {
			p.endWorker()
			held = 0
		}
		p.Segments = append(p.Segments, s)
		held += int64(steps)
	})
	p.endWorker()
	return err
}

// batchSteps is the share of a worker under dealBatched: as many steps as the
// longest tile has, or as leave two workers for every place on the device.
func (m *model) batchSteps(id tileID, l load) int64 {
	d := m.device
	share := max(int64(l.longest), ceilDiv(int64(l.steps), int64(2*m.tiles[id].resident)))
	if d.MaxTrips > 0 {
		share = min(share, int64(d.tripSteps(m.tiles[id].shape)))
	}
	return share
}

// maxCluster is the largest cluster that pays: on an H200, clusters of 8 took longer
// than those of 4 for each of 20 batches, because few fit beside each other. Of clusters of four an H100 with room for 264 thread
// groups runs 62 at once, since one lies within a part of the GPU whose units are no multiple of four; with 63 to 66 a launch takes
// 1.2 to 1.5 times as long as predicted.
const (
	maxCluster  = 4
	clustersFit = 0.94
)

// clusterSize is the size of the clusters that computes a load soonest: none for
// tiles without kernels for clusters. All clusters run at once, since those that
// had to wait would make two rounds of what takes one.
func (m *model) clusterSize(id tileID, l load) (size int) {
	size = 1
	if !m.tiles[id].clusters {
		return size
	}
	best, room := math.Inf(1), float64(m.tiles[id].resident)
	for c := 2; c <= maxCluster; c *= 2 {
		if c > 2 {
			room *= clustersFit
		}
		if float64(l.tiles*c) > room {
			break
		}
		if micros := m.clusters(id, l, c); micros < best {
			size, best = c, micros
		}
	}
	return size
}

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
			s.K0, s.K1 = int32(share(steps, i, parts)*g.Tile.TK), int32(min(share(steps, i+1, parts)*g.Tile.TK, depth))
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

// splitSteps is the number of K steps in a part of dealSplitK: such that parts fill
// the places on the device, but never so few that parts cost more than they
// save. Parts are longer where their partial tiles would not fit in a binding, or where it is predicted to be sooner that whoever
// stores the last part of a tile sums all.
func (m *model) splitSteps(id tileID, l load) int {
	part := max(m.fillingSteps(id, l), minPartSteps)
	for limit := int64(m.slotLimit(id)); part < l.longest && int64(l.steps)/int64(part)+int64(l.tiles) > limit; {
		part *= 2
	}
	if few := ceilDiv(l.longest, encoding.MaxParts); m.parts && part < few {
		all, sums := m.splitCost(id, l, part)
		fewer, sumsOfFewer := m.splitCost(id, l, few)
		if fewer+sumsOfFewer < all+sums {
			return few
		}
	}
	return part
}

// fillingSteps is the steps of parts that fill the places on the device. A part more than there are places takes another round. So equal
// tiles have as many parts each as there is room for, and of others half a part each is reckoned for what does not divide. Of the time of parts
// that fill all places by their steps alone Split-K took 0.91 to 0.97 where tiles are equal or of warpgroups (each kernel of tensor cores), 0.90 where
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

// slots continues behind the workspace in use.
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
	p.Fixups = append(p.Fixups, encoding.Fixup{Problem: s.Problem, Row: s.Row, Col: s.Col, Slot: slots.next, Count: int32(len(parts))})
	for i := range parts {
		parts[i].Slot = slots.take()
	}
}

func (c *slotCounter) take() int32 { c.next++; return c.next - 1 }

func (c *slotCounter) end() int { return int(c.next) * c.size }
