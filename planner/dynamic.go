package planner

import (
	"math"

	"github.com/batchgemm/batchgemm/internal/tile"
)

// dealDynamic gives the first tiles, longest first, to as many workers as the device runs at once. When a
// worker has done its tiles, it takes others from a counter (encoding.DynamicNext): the dynamic schedules of
// Osama's abstraction. In the plan, the last worker of the launch holds these tiles. No tile is split, so
// results do not depend on which worker computes a tile.
//
// If compute units take workers from a counter anyway, as threads of a CPU do, each worker has one tile.
func dealDynamic(p *builder, g *group) error {
	workers := min(p.model.tiles[g.id].resident, p.mostWorkers(&g.Kernel))
	switch {
	case g.load.tiles <= workers || p.model.family.counter:
		return dealDataParallel(p, g)
	case !p.model.mayTakeAll(g.id, g.load):
		return dealLPT(p, g)
	}
	first := len(p.Workers)
	if err := dealDataParallel(p, g); err != nil {
		return err
	}
	tiles := p.Workers[first:]
	g.Dynamic, g.chunk = true, p.model.chunk(g.id, g.load, workers)
	for w := range workers - 1 {
		tiles[w] = tiles[(w+1)*g.chunk-1]
	}
	tiles[workers-1] = tiles[len(tiles)-1]
	p.Workers = p.Workers[:first+workers]
	return nil
}

// mayTakeAll reports whether one worker may have all tiles of a load under the device's loop limit. A worker
// of dynamic tiles may take them all.
func (m *model) mayTakeAll(id tileID, l load) bool {
	return m.trips.most == 0 || l.steps <= float64(m.trips.steps(m.tiles[id].shape))
}

// chunk returns how many tiles of a load a worker takes at a time. Small tiles of warpgroups are done sooner
// than their items arrive, so workers take several that last chunkMicros together, as long as each worker
// has many chunks.
func (m *model) chunk(id tileID, l load, workers int) int {
	t := &m.tiles[id]
	if t.shape.Unit != tile.WGMMA {
		return 1
	}
	return t.chunk(l.steps/float64(l.tiles), l.tiles, workers)
}

// chunk is the same for that many tiles with that many steps on average.
func (t *tileModel) chunk(steps float64, tiles, workers int) int {
	n := int(chunkMicros / (steps*t.busy + t.worker))
	return max(min(n, tiles/(manyChunks*workers), mostChunk), 1)
}

const (
	// askMicros is the time from the request of an item until it arrives on an H200 (gradients of 128
	// experts of 1 token in all, 93 tiles a worker: 150 us).
	askMicros   = 1.5
	chunkMicros = 8
	manyChunks  = 16
	mostChunk   = 4
	// lastMicros is the time in which a worker learns that no tile is left. A guess.
	lastMicros = 0.5
	// Tiles of aligned operands take as long as their way through the L2 cache, which predictions do not
	// know. Dynamic tiles are therefore more even than shares by predicted time.
	//
	// Aligned bf16 tiles, H100, geometric means of 161 launches of 117 batches: dynamic is 3 to 7 percent
	// faster for launches above 20 us, equal at 10 to 20 us, and 5 percent slower below. It is also slower
	// if no tile has more than four steps, or if all tiles are equal, because shares keep neighbours at the
	// same rows of A and B: 10 percent for 64 products of 512 x 512 x 1024, 6 for 32 of 256 x 768 x 2048, 12
	// for 128 of 256 x 256 x 256. One product of 3000 x 3000 x 3000, whose edge tiles have half the size, is
	// 5 percent faster.
	alignedUneven     = 0.06
	alignedAlike      = 0.99 // share of the steps if all tiles were as long as the longest
	alignedLastMicros = 0.9
	alignedSteps      = 4
)

// dynamicCost predicts workers with even shares, each of which asks for one chunk after the other. No
// prediction knows what dynamic tiles save if units are not equally fast.
func (m *model) dynamicCost(id tileID, l load) (gemm, fixup float64) {
	if m.family.counter {
		return m.dataParallelCost(id, l)
	}
	gemm, _ = m.lptCost(id, l)
	workers := m.tiles[id].resident
	if l.tiles <= workers || !m.mayTakeAll(id, l) {
		return gemm, 0
	}
	last := lastMicros
	if m.tiles[id].aligned && l.longest > alignedSteps && l.steps < alignedAlike*float64(l.tiles*l.longest) {
		gemm, last = (1-alignedUneven)*gemm, alignedLastMicros
	}
	chunks := math.Ceil(float64(l.tiles) / float64(m.chunk(id, l, workers)*workers))
	return max(gemm, m.device.LaunchMicros+m.tiles[id].fixed+chunks*askMicros) + last, 0
}
