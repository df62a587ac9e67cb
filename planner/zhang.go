package planner

import "fmt"

// zhangTiles is the number of rows of Table 3; they come first in the table,
// smallest first.
const zhangTiles = 5

// chooseZhang is Algorithm 1 of Zhang et al. 2025. Its loop condition is printed
// inverted; the text is followed: while the parallelism is below the threshold,
// every tile is demoted one class.
func (p *Plan) chooseZhang() error {
	eq := p.Options.TLP
	if eq == 0 {
		eq = TLPEq4
	}
	if eq != TLPEq3 && eq != TLPEq4 {
		return fmt.Errorf("unknown TLP equation %d (known: %d, %d)", eq, TLPEq3, TLPEq4)
	}
	threshold := p.Options.Threshold
	if threshold == 0 {
		threshold = p.Device.tlpThreshold()
	}
	for i := range p.Batch {
		p.Choice[i] = initialTile(&p.Batch[i])
	}
	for p.threadParallelism(eq) < threshold {
		demoted := false
		for i := range p.Choice {
			if p.Choice[i] > 0 {
				p.Choice[i]--
				demoted = true
			}
		}
		if !demoted {
			break
		}
	}
	return nil
}

// tlpThreshold is the parallelism that the algorithm aims at, in threads. The
// paper gives no number. Two waves on every SIMD of an MI210 hide the latency of
// its FMA and LDS pipelines: a quarter of the 32 waves of a compute unit; the
// same share is taken of other devices.
func (d *Device) tlpThreshold() float64 {
	return float64(d.ComputeUnits*d.WaveSize*d.MaxWaves) / 4
}

// initialTile is Eq 10, which asks for tiles that divide the matrix, extended to
// sizes that none divides: of the tiles that fit in C, those with the least
// padding, and of these the largest.
func initialTile(q *Problem) TileID {
	best, bestArea := 0, -1
	for id := zhangTiles - 1; id >= 0; id-- {
		t := &tiles[id]
		if id > 0 && (t.TM > q.M || t.TN > q.N) {
			continue
		}
		rows, cols := t.grid(q)
		if area := rows * t.TM * cols * t.TN; bestArea < 0 || area < bestArea {
			best, bestArea = id, area
		}
	}
	return TileID(best)
}

// threadParallelism is the thread-level parallelism of the chosen tiles, in
// threads. Eq 3 counts the threads of all workgroups. Eq 4 counts those of the
// waves that are active at once: phi turns workgroups into waves, and Eq 5-9
// bound the waves of a compute unit (Occupancy).
func (p *Plan) threadParallelism(eq TLPEquation) float64 {
	var groups [NumTiles]int
	for i := range p.Batch {
		q := &p.Batch[i]
		if q.M == 0 || q.N == 0 {
			continue
		}
		rows, cols := tiles[p.Choice[i]].grid(q)
		groups[p.Choice[i]] += rows * cols
	}
	var threads, waves, units float64
	for id, n := range groups {
		if n == 0 {
			continue
		}
		t := &tiles[id]
		threads += float64(n) * float64(t.Threads)
		waves += float64(n) * float64(ceilDiv(t.Threads, max(p.Device.WaveSize, 1)))
		units += float64(n) / float64(p.scratch.model.tiles[id].resident) // devices that these groups fill
	}
	if eq == TLPEq3 {
		return threads
	}
	if units > 1 { // more than fits at once
		waves /= units
	}
	return waves * float64(p.Device.WaveSize)
}
