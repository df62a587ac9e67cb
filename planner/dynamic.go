package planner

import (
	"math"

	"github.com/batchgemm/batchgemm/internal/tile"
)

// dealDynamic gives each of as many workers as the device runs at once its first tiles, longest first.
// Workers take the others from a counter when they can do more (encoding.DynamicNext): the dynamic schedules
// of Osama's abstraction. In the plan the last worker has these. No tile is cut, so that results do not
// depend on who computes which.
//
// Where units take workers from a counter anyway, as threads of a CPU do, a worker has one tile.
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

// mayTakeAll reports whether one worker may have all tiles of a load, as one may that takes dynamic tiles,
// under the device's loop limit.
func (m *model) mayTakeAll(id tileID, l load) bool {
	return m.device.MaxTrips == 0 || l.steps <= float64(m.device.tripSteps(m.tiles[id].shape))
}

// chunk is how many tiles of a load a worker takes at a time: of small ones of warpgroups, whose items would
// be asked for later than they could be done, some that take chunkMicros together, as long as each worker has
// many chunks.
func (m *model) chunk(id tileID, l load, workers int) int {
	t := &m.tiles[id]
	if t.shape.Unit != tile.WGMMA {
		return 1
	}
	return t.chunk(l.steps/float64(l.tiles), l.tiles, workers)
}

// chunk is the same of so many tiles of that many steps on average.
func (t *tileModel) chunk(steps float64, tiles, workers int) int {
	n := int(chunkMicros / (steps*t.busy + t.worker))
	return max(min(n, tiles/(manyChunks*workers), mostChunk), 1)
}

const (
	// askMicros after it was asked for comes an item, on an H200 (gradients of 128 experts of 1 token in all,
	// 93 tiles a worker: 150 us).
	askMicros   = 1.5
	chunkMicros = 8
	manyChunks  = 16
	mostChunk   = 4
	// lastMicros is what a worker takes to learn that there is no more. A guess.
	lastMicros = 0.5
	// Of operands whose rows begin with 16 bytes tiles take as long as these take through the L2 cache, which
	// predictions do not tell: dynamic tiles are more even than shares by predicted times. Of aligned tiles
	// in bf16 on an H100 they are 3 to 7 percent sooner where a launch takes more than 20 us, as long at 10
	// to 20, and 5 percent later below (geometric means of 161 launches of 117 batches), and later too where
	// no tile has more than four steps, or where all are alike, since shares keep neighbours at the same rows
	// of A and B: 64 products of 512 x 512 x 1024 take 10 percent longer so, 32 of 256 x 768 x 2048 6, 128 of
	// 256 x 256 x 256 12. One of 3000 x 3000 x 3000, with tiles of half the size at its edges, takes 5
	// percent less.
	alignedUneven     = 0.06
	alignedAlike      = 0.99 // of the steps that there would be if all tiles were as the longest
	alignedLastMicros = 0.9
	alignedSteps      = 4
)

// dynamicCost is that of workers that have even shares, each of which asks for its chunks one after the
// other. What it saves where units are not equally fast, no prediction knows.
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
