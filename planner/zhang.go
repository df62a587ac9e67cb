package planner

import (
	"slices"

	"github.com/batchgemm/batchgemm/internal/invalid"
)

// chooseZhang is Algorithm 1 of Zhang et al. 2025. The paper prints its loop condition inverted, so the code
// follows the text: while the parallelism is below the threshold, every tile is demoted one class.
func (p *builder) chooseZhang() error {
	classes := p.zhangTiles()
	if len(classes) == 0 {
		return invalid.Errorf("rule %s: device %s has no tile of Table 3", RuleZhang2025, p.device.Name)
	}
	parallelism := func() float64 {
		eq3, eq4 := p.threadParallelism()
		if p.Options.TLP == 3 {
			return eq3
		}
		return eq4
	}
	threshold := p.Options.Threshold
	if threshold == 0 {
		threshold = p.device.tlpThreshold()
	}
	for i := range p.Batch {
		p.choice[i] = p.initialTile(classes, &p.Batch[i])
	}
	for parallelism() < threshold {
		demoted := false
		for i, id := range p.choice {
			if class := slices.Index(classes, id); class > 0 {
				p.choice[i] = classes[class-1]
				demoted = true
			}
		}
		if !demoted {
			break
		}
	}
	return nil
}

// zhangTiles returns the device's tiles of Table 3, smallest first, as in the tile table.
func (p *builder) zhangTiles() (classes []tileID) {
	for id := range p.model.tiles {
		if t := &p.model.tiles[id]; t.shape.Zhang && t.fits {
			classes = append(classes, tileID(id))
		}
	}
	return classes
}

// tlpThreshold returns the parallelism that the algorithm aims at, in threads. The paper gives no number.
// Two waves on every SIMD of an MI210 hide the latency of its FMA and LDS pipelines. They are a quarter of
// the 32 waves of a compute unit, and the same share is used for other devices.
func (d *Device) tlpThreshold() float64 {
	return float64(d.ComputeUnits*d.WaveSize*d.MaxWaves) / 4
}

// initialTile is Eq 10, which asks for tiles that divide the matrix. For other sizes it is extended: of the
// tiles that fit in C, it takes those with the least padding, and among these the largest.
func (p *builder) initialTile(classes []tileID, q *Problem) tileID {
	best, bestArea := classes[0], -1
	for class := len(classes) - 1; class >= 0; class-- {
		t := p.model.tiles[classes[class]].shape
		if class > 0 && (t.TM > q.M || t.TN > q.N) {
			continue
		}
		rows, cols := grid(t, q)
		if area := rows * t.TM * cols * t.TN; bestArea < 0 || area < bestArea {
			best, bestArea = classes[class], area
		}
	}
	return best
}

// threadParallelism returns the thread-level parallelism of the chosen tiles, in threads. Eq 3 counts the
// threads of all workgroups. Eq 4 counts those of the waves that are active at once: phi turns workgroups
// into waves, and Eq 5-9 bound the waves of a compute unit (Occupancy).
func (p *builder) threadParallelism() (eq3, eq4 float64) {
	var groups [mostKernels]int
	for i := range p.Batch {
		q := &p.Batch[i]
		if q.M == 0 || q.N == 0 {
			continue
		}
		rows, cols := grid(p.model.tiles[p.choice[i]].shape, q)
		groups[p.choice[i]] += rows * cols
	}
	var threads, waves, units float64
	for id, n := range groups {
		if n == 0 {
			continue
		}
		t := &p.model.tiles[id]
		threads += float64(n) * float64(t.shape.Threads)
		waves += float64(n) * float64(ceilDiv(t.shape.Threads, max(p.device.WaveSize, 1)))
		units += float64(n) / float64(t.resident) // devices that these groups fill
	}
	if units > 1 { // more than fits at once
		waves /= units
	}
	return threads, waves * float64(p.device.WaveSize)
}
