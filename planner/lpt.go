package planner

import (
	"math"
	"math/bits"
	"slices"
)

// dealLPT gives the tiles, longest first, to as many workers as the device runs at once. Every tile goes to
// the worker with the least work (Graham's rule). If there are many tiles, only the last rounds follow this
// rule, because finding the worker takes longer than the rest of planning. The rounds before are dealt forth
// and back, and the last rounds even out the difference.
//
// If each worker has one tile, this is dealDataParallel.
func dealLPT(p *builder, g *group) error {
	workers := p.model.lptWorkers(g.id, g.load)
	if g.load.tiles == workers {
		return dealDataParallel(p, g)
	}
	if err := p.ownTiles(g, workers); err != nil {
		return err
	}
	return p.giveTiles(g, workers)
}

// lptRounds is the number of tiles for each worker that dealLPT deals by Graham's rule.
const lptRounds = 8

// ownTiles finds the worker of each tile of the group.
func (p *builder) ownTiles(g *group, workers int) error {
	t := &p.model.tiles[g.id]
	partly := p.model.cuts[t.cut].partly
	d := &p.dealing
	d.begin(workers, max(g.load.tiles/workers-lptRounds, 0)*workers)
	owners := slices.Grow(p.owners[:0], g.load.tiles)
	for _, o := range g.problems {
		q := &p.Batch[o.Index]
		rows, cols := grid(g.Tile, q)
		depth := steps(g.Tile, q) * p.model.products
		whole := t.work(1, depth)
		strip := stripRows(g.Tile, rows, cols)
		most := bandRows(rows, cols, strip)
		for top := 0; top < rows; top += most {
			band := band{top, min(top+most, rows)}
			if err := p.went((band.bottom - band.top) * cols); err != nil {
				return err
			}
			for row, col := range inStrips(band, cols, strip) {
				micros := whole
				if partly && (row == rows-1 || col == cols-1) {
					micros = t.work(g.Tile.Fraction(q.M-row*g.Tile.TM, q.N-col*g.Tile.TN), depth)
				}
				owners = append(owners, d.next(micros))
			}
		}
	}
	p.owners = owners
	return nil
}

// giveTiles appends the tiles, sorted by worker, and closes the workers.
func (p *builder) giveTiles(g *group, workers int) error {
	first, at := len(p.Workers), len(p.Segments)
	p.Workers = slices.Grow(p.Workers, workers)[:first+workers]
	ends := p.Workers[first:]
	clear(ends)
	for _, w := range p.owners {
		ends[w]++
	}
	for w := range ends { // starts of the workers, which placing moves to their ends
		n := ends[w]
		ends[w] = int32(at)
		at += int(n)
	}
	p.Segments = p.Segments[:at]
	i := 0
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
				w := p.owners[i]
				i++
				setWhole(&p.Segments[ends[w]], o.Index, row, col, depth)
				ends[w]++
			}
		}
	}
	return nil
}

// dealing deals tiles to workers.
type dealing struct {
	loads   []float64 // microseconds of each worker
	left    int       // tiles that are dealt forth and back
	at, way int32     // the next worker, and the direction to the one after it
	// heap has the least loaded worker first. A key has the bits of the worker's load, which sort as loads
	// do. The last bits hold the worker's number, so that equal loads have a fixed order and plans are
	// deterministic. The largest number follows the keys.
	heap   []uint64
	number uint64 // the bits of a worker's number
}

func (d *dealing) begin(workers, forthAndBack int) {
	d.loads = slices.Grow(d.loads[:0], workers)[:workers]
	clear(d.loads)
	d.left, d.at, d.way = forthAndBack, 0, 1
	d.number = 1<<bits.Len(uint(workers-1)) - 1
	if d.left == 0 {
		d.order()
	}
}

// next returns the worker for a tile that takes that long.
func (d *dealing) next(micros float64) int32 {
	if d.left == 0 {
		w := int32(d.heap[0] & d.number)
		d.loads[w] += micros
		d.sink(0, d.key(w))
		return w
	}
	w := d.at
	d.loads[w] += micros
	if d.at += d.way; d.at < 0 || int(d.at) == len(d.loads) { // turn back
		d.at, d.way = w, -d.way
	}
	if d.left--; d.left == 0 {
		d.order()
	}
	return w
}

func (d *dealing) key(w int32) uint64 { return math.Float64bits(d.loads[w])&^d.number | uint64(w) }

// order makes the heap.
func (d *dealing) order() {
	d.heap = d.heap[:0]
	for w := range d.loads {
		d.heap = append(d.heap, d.key(int32(w)))
	}
	d.heap = append(d.heap, math.MaxUint64)
	for at := len(d.loads)/2 - 1; at >= 0; at-- {
		d.sink(at, d.heap[at])
	}
}

// sink puts a key into the heap, starting at a place whose own key was removed.
func (d *dealing) sink(at int, key uint64) {
	heap, n := d.heap, len(d.heap)-1
	for {
		child := 2*at + 1
		if child >= n {
			break
		}
		least, right := heap[child], heap[child+1]
		if right < least { // no branch, which would be mispredicted
			child++
		}
		least = min(least, right)
		if least >= key {
			break
		}
		heap[at] = least
		at = child
	}
	heap[at] = key
}

// lptWorkers returns the number of workers of dealLPT. Each has at least one tile, and no more K steps than
// the device's loop limit.
func (m *model) lptWorkers(id tileID, l load) int {
	workers := min(m.tiles[id].resident, l.tiles)
	if m.trips.most > 0 {
		// A worker has one tile a round, at most the longest.
		rounds := max(m.trips.steps(m.tiles[id].shape)/max(l.longest, 1), 1)
		workers = max(workers, ceilDiv(l.tiles, rounds))
	}
	return workers
}
