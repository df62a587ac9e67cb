package planner

import (
	"math"
	"slices"
)

// Costs predicts how many microseconds each problem adds to a large batch on the device: its share of a full
// device in its best tile shape, without launch and latency. It stores the costs in dst, which it grows if
// needed, and returns it. The batch must have passed Check. If the device does not pass Check, costs are
// infinite.
func (p *Planner) Costs(b Batch, dst []float64) []float64 {
	builder := p.take()
	defer p.give(builder)
	m := &builder.model
	err := m.set(p.device, arithmetic{compute: ComputeF32Emulated}, false, only{})
	units := float64(p.device.ComputeUnits)
	dst = slices.Grow(dst[:0], len(b))[:len(b)]
	for i := range b {
		dst[i] = 0
		if q := &b[i]; err != nil {
			dst[i] = math.Inf(1)
		} else if q.writes() {
			dst[i] = m.work(q) / units
		}
	}
	return dst
}

// work returns how long a problem keeps a saturated compute unit busy in its best tile shape.
func (m *model) work(q *Problem) float64 {
	best := math.Inf(1)
	for id := range m.tiles {
		if t := &m.tiles[id]; t.fits {
			best = min(best, t.work(wholeTiles(t.shape, q.M, q.N), steps(t.shape, q)))
		}
	}
	return best
}
