package planner

import (
	"iter"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
	"github.com/batchgemm/batchgemm/planner/internal/radix"
)

// group is the work of one kernel: the problems that share a tile shape and transposition, longest K first.
type group struct {
	encoding.Kernel
	id       tileID
	problems []radix.Key
	aligned  bool // of a Raw tile: rows of A and B begin at multiples of 16 bytes
	load     load
	chunk    int // with Dynamic: tiles that a worker takes at a time
}

// needsWindows reports whether one launch cannot reach all operands, or cannot loop over all of K.
func (p *builder) needsWindows() bool {
	if !p.reachable(p.ExtentA, max(p.ExtentB, p.ExtentB2), p.ExtentC) {
		return true
	}
	if p.Device.MaxTrips == 0 {
		return false
	}
	for i := range p.Batch {
		if p.Batch[i].K > p.model.trips.depth(p.model.tiles[p.choice[i]].shape) {
			return true
		}
	}
	return false
}

// sort puts the problems with work in launch order.
//
// On a CPU, many problems keep their order, except the longest: they follow each other in memory, and the
// CPU prefetches (1.5 times as fast for 4096 problems of 8 to 32). The work is even all the same.
func (p *builder) sort() {
	order := p.sorter.Reserve(len(p.Batch))[:0]
	inOrder := p.model.family.counter && len(p.Batch) >= manyProblems*p.device.ComputeUnits
	for i := range p.Batch {
		q := &p.Batch[i]
		if !p.Options.Epilogue.Writes(q) {
			continue
		}
		depth := q.depth()
		if inOrder {
			depth = depth / longDepth * longDepth
		}
		kernel := int64(p.choice[i])<<2 | q.transposition()
		order = append(order, radix.Key{By: kernel<<32 | int64(MaxDim-depth), Index: int32(i)})
	}
	p.order = p.sorter.Sort(order)
}

const (
	// manyProblems for each compute unit keep the work even in any order, except for long problems.
	manyProblems = 32
	longDepth    = 2048
)

// transposition distinguishes the kernels of one tile shape: bit 1 for A, bit 0 for B.
func (p *Problem) transposition() (bits int64) {
	if p.TransA {
		bits |= 2
	}
	if p.TransB {
		bits |= 1
	}
	return bits
}

// deal turns the problems with work into launches, group by group.
func (p *builder) deal() error {
	p.sort()
	order := p.order
	windowed := p.needsWindows()
	for first := 0; first < len(order); {
		kernel := order[first].By >> 32
		last := first + 1
		for last < len(order) && order[last].By>>32 == kernel {
			last++
		}
		g := &p.group
		*g = p.groupOf(tileID(kernel>>2), kernel&2 != 0, kernel&1 != 0, order[first:last])
		if err := p.room(int64(g.load.tiles)); err != nil {
			return err
		}
		if err := p.dealGroup(g, windowed); err != nil {
			return err
		}
		first = last
	}
	return nil
}

func (p *builder) groupOf(id tileID, transA, transB bool, problems []radix.Key) group {
	o := &p.Options
	t := &p.model.tiles[id]
	g := group{Kernel: encoding.Kernel{Tile: t.shape, TransA: transA, TransB: transB, TypeA: o.TypeA,
		TypeC: o.TypeC, Vector: true, Epilogue: o.Epilogue.kernel()}, id: id,
		problems: problems, aligned: t.shape.Raw}
	cut := &p.model.cuts[t.cut]
	g.TF32 = p.model.tf32(g.Tile)
	for i := range problems {
		q := &p.Batch[problems[i].Index]
		g.Vector = g.Vector && o.vectorTile(q)
		g.aligned = g.aligned && q.aligned(o.vector())
		g.load.add(cut, q.sizes(), p.model.products, 1, p.model.roundSize())
	}
	return g
}

// room makes room for n more segments, or fails if the plan cannot take them.
func (p *builder) room(n int64) error {
	has := int64(len(p.Segments))
	if n > maxSegments-has {
		return invalid.Errorf("the batch has too many tiles: more than %d", maxSegments)
	}
	if has+n <= int64(cap(p.Segments)) {
		return nil
	}
	if err := p.ask((has+n)*bytesOfSegment, "tiles", has+n); err != nil {
		return err
	}
	p.Segments = slices.Grow(p.Segments, int(n))
	return nil
}

// maxSegments bounds a plan whose problems are so large that its arrays would not fit in memory: 64 Mi
// segments take 2.5 GB, and 3 GB encoded. They cover 1 TB of C in tiles of 64 x 64. On 32-bit targets it is
// 4 Mi.
const maxSegments = 1 << (18 + bits.UintSize/8)

// bytesOfSegment is the memory of a segment, the end of its worker, and the owner of its tile.
const bytesOfSegment = int64(unsafe.Sizeof(encoding.Segment{}) + 2*unsafe.Sizeof(int32(0)))

func (p *builder) dealGroup(g *group, windowed bool) error {
	switch c := p.Options.Custom; {
	case windowed:
		return p.dealWindows(g)
	case c != nil:
		return p.dealCustom(g, c)
	}
	m := &p.model
	s, _ := m.predict(g.id, p.schedule, g.load)
	if s.cluster != nil {
		if size := s.cluster(m, g.id, g.load); size > 1 {
			g.Cluster = uint8(size)
		}
	}
	worker, fixup := len(p.Workers)-1, len(p.Fixups)
	if err := s.deal(p, g); err != nil {
		return err
	}
	gemm, sum := s.cost(m, g.id, g.load)
	p.launchGroup(g, s.name, gemm, sum, worker, fixup)
	return nil
}

// dealDataParallel gives every worker one tile. It is forTiles written out, except for strips, because most
// tiles of most batches are dealt here.
//
// If all workers run at once, evenUnits mixes long and short tiles on each compute unit.
func dealDataParallel(p *builder, g *group) error {
	at, n := len(p.Segments), g.load.tiles
	p.Segments = p.Segments[:at+n]
	for _, o := range g.problems {
		q := &p.Batch[o.Index]
		rows, cols := grid(g.Tile, q)
		depth := int32(q.depth())
		strip := stripRows(g.Tile, rows, cols)
		most := bandRows(rows, cols, strip)
		for top := 0; top < rows; top += most {
			band := band{top, min(top+most, rows)}
			if err := p.went((band.bottom - band.top) * cols); err != nil {
				return err
			}
			for row, col := range inStrips(band, cols, strip) {
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

// evenUnits reverses every other round of tiles, which are sorted longest first. Worker w runs on compute
// unit w modulo their number, with workers of other rounds. Without the reversal, the first unit would have
// the longest tile of each round. On an H100 this saves 4 percent for 15 bf16 batches by warpgroup tiles
// that run two on a unit, and 3.5 percent for 11 fp32 batches by tiles that run more (geometric means; at
// most 19 and 12 percent).
func (p *builder) evenUnits(tiles []encoding.Segment) {
	units := p.device.ComputeUnits
	for first := units; first < len(tiles); first += 2 * units {
		slices.Reverse(tiles[first:min(first+units, len(tiles))])
	}
}

// grid returns the number of tile rows and columns of a problem.
func grid(t *tile.Shape, q *Problem) (rows, cols int) {
	return ceilShift(q.M, shift(t.TM)), ceilShift(q.N, shift(t.TN))
}

// forTiles calls f for every tile of the group in the order of its problems: longest K first, unless a
// schedule sorts them. steps counts the K steps of all products.
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

// setWhole makes a segment of a whole tile. It sets one field after the other, because a copy would wait for
// the stores.
func setWhole(s *encoding.Segment, problem int32, row, col int, depth int32) {
	s.Problem, s.Row, s.Col, s.K0, s.K1 = problem, int32(row), int32(col), 0, depth
	s.Slot, s.Accumulate = encoding.NoSlot, false
}

// stripRows returns how many rows of a grid of tiles are dealt together, column by column.
//
// A grid with many columns of large tiles is dealt in strips of a few rows: tiles that run at once then read
// fewer columns of B, and neighbouring units read the same columns, which the L2 cache serves to both at
// once.
// Strips save 7 percent for 4096 x 4096 x 4096, 12 for 2048 x 2048 x 2048 and 14 for 128 x 4096 x 4096
// (H100, bf16, aligned tiles). Strips of 2 or 8 rows are as good, strips of 16 are not. CPUs copy columns of
// B once for the rows of a strip: those of 8 save 10 percent for 1024 x 1024 x 1024.
//
// Many thousands of rows are dealt to warpgroups in panels, as the device deals groups: see Ragged::tileOf in
// native/kernels/ragged.cuh.
func stripRows(t *tile.Shape, rows, cols int) int {
	const manyCols, largeTile, strip, stripCPU, panel = 8, 64, 4, 8, 2048
	switch {
	case t.Unit == tile.SIMD:
		return stripCPU
	case cols <= manyCols || t.TN < largeTile:
		return 1
	case t.Unit == tile.WGMMA && rows*t.TM > 2*panel:
		return panel / t.TM
	}
	return strip
}

// band is a range of grid rows [top, bottom).
type band struct{ top, bottom int }

// bandRows returns the rows of bands with about pace tiles. Bands end between strips. Most grids are one
// band.
func bandRows(rows, cols, strip int) int {
	if rows*cols <= pace {
		return rows
	}
	return max(pace/cols/strip, 1) * strip
}

// inStrips walks a band of a grid in strips of so many rows, column by column.
func inStrips(b band, cols, strip int) iter.Seq2[int, int] {
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

// launchGroup makes the launches of a group: its workers from the given one on, and the sums of partials
// from the given fix-up on, unless workers sum them.
func (p *builder) launchGroup(g *group, s Schedule, gemm, sum float64, worker, fixup int) {
	tiles, parts := len(p.Fixups)-fixup, p.mostPartials(fixup)
	split := tiles > 0
	if g.Partials = split && p.sumsPartials(worker, parts); g.Partials {
		p.launch(g, s, gemm+sum, worker, split)
		l := &p.Launches[len(p.Launches)-1]
		l.FirstFixup, l.Finishes = fixup, tiles
		return
	}
	p.launch(g, s, gemm, worker, split)
	if split {
		k := encoding.Kernel{Tile: g.Tile, TypeC: g.TypeC, Fixup: true, Epilogue: g.Epilogue.OfFixup()}
		l := encoding.Launch{Kernel: k, Schedule: string(s), MostPartials: parts, Cost: sum}
		p.cutLaunches(l, fixup, len(p.Fixups))
	}
}

// sumsPartials reports whether workers sum partials themselves. Then one launch must hold all partials of
// each tile, at most that many.
func (p *builder) sumsPartials(worker, parts int) bool {
	return p.model.finishes(float64(parts)) && len(p.Workers)-1-worker <= p.mostWorkers(&encoding.Kernel{})
}

// finishes reports whether the worker that stores the last partial of a tile sums them, rather than a launch
// after it. It does if it can and a tile has few partials: that was as fast or up to 5 us faster in 54 of 55
// batches (H200).
func (m *model) finishes(parts float64) bool { return m.parts && parts <= encoding.MaxPartials }

// mostPartials returns the largest number of partials of a tile, among the fix-ups from the given one on.
func (p *builder) mostPartials(fixup int) int {
	most := int32(0)
	for i := range p.Fixups[fixup:] {
		most = max(most, p.Fixups[fixup+i].Count)
	}
	return int(most)
}

// endWorker closes the segment list of the current worker.
func (p *builder) endWorker() { p.Workers = append(p.Workers, int32(len(p.Segments))) }

// launch makes launches of the workers from first on. Every partial has a fix-up, so split is true if the
// dealer made any.
func (p *builder) launch(g *group, s Schedule, cost float64, first int, split bool) {
	k := g.Kernel
	workers := len(p.Workers) - 1 - first
	k.Loop = len(p.Segments)-int(p.Workers[first]) > workers || k.Epilogue.Gated
	k.Split = split
	k.Boxes = g.aligned && hasBoxes(k) && workers <= p.model.tiles[g.id].resident // each has maps
	if p.model.tiles[g.id].few {
		k = general(k, p.model.cutsAt)
		p.Workspace = max(p.Workspace, bound(&k))
	}
	l := encoding.Launch{Kernel: k, Schedule: string(s), Chunk: g.chunk, Cost: cost}
	p.cutLaunches(l, first, first+workers)
}

// kept returns the workspace of a worker, in elements: for the first product of a gated tile, or for maps.
func (d *Device) kept(k *encoding.Kernel) int {
	if !d.family().keeps {
		return 0
	}
	return k.Kept()
}

// mostWorkers returns how many workers a launch of a kernel may have.
func (p *builder) mostWorkers(k *encoding.Kernel) int {
	most := maxSegments
	if p.Device.MaxWorkers > 0 {
		most = p.Device.MaxWorkers
	}
	if kept := p.Device.kept(k); kept > 0 {
		most = min(most, p.Device.spanLimit(element.F32)/kept)
	}
	return most
}

// cutLaunches makes launches of the workers, or the fix-ups, [first, last). A launch has at most as many as
// the device's largest grid dimension, so grids need no second dimension and have no empty workgroups.
func (p *builder) cutLaunches(l encoding.Launch, first, last int) {
	limit, kept := p.mostWorkers(&l.Kernel), p.Device.kept(&l.Kernel)
	p.Cost += l.Cost
	l.SpanA, l.SpanB, l.SpanC = p.ExtentA, p.ExtentB, p.ExtentC
	l.SpanB2, l.SpanBias, l.SpanRows = p.ExtentB2, p.ExtentBias, p.ExtentRows
	for total := last - first; first < last; first += l.Count {
		l.First, l.Count = first, min(limit, last-first)
		p.Workspace = max(p.Workspace, l.Count*kept)
		part := l
		part.Cost = l.Cost * float64(l.Count) / float64(total)
		p.Launches = append(p.Launches, part)
	}
}
