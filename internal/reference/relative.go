package reference

import (
	"math"

	"github.com/batchgemm/batchgemm/planner"
)

// Relative returns the largest and the mean error of the elements of C, relative to |alpha|*sum|a|*|b| +
// |beta*C|. Error bounds in fp32 are multiples of that. An error relative to C itself would have no bound if
// terms cancel. The arguments are those of Check, which must have succeeded. Elements without terms, and
// those that overflow float32, do not count.
func Relative(b planner.Batch, x, y, before, after []float32) (largest, mean float64) {
	parts := split(b, &planner.Epilogue{})
	single(parts)
	found := make([]tally, len(parts))
	each(parts, func(i int) { found[i] = relative(&parts[i].Problem, x, y, before, after) })
	var all tally
	for _, t := range found {
		all.largest, all.sum, all.count = max(all.largest, t.largest), all.sum+t.sum, all.count+t.count
	}
	return all.largest, all.sum / float64(max(all.count, 1))
}

// tally sums up errors.
type tally struct {
	largest, sum float64
	count        int
}

func relative(p *planner.Problem, x, y, before, after []float32) (t tally) {
	sum, size := make([]float64, p.N), make([]float64, p.N)
	for i := range p.M {
		products(p, i, x, y, sum, size)
		for j := range p.N {
			at := p.C.Offset + i*p.C.LD + j
			want, terms := sum[j], size[j]
			if p.Beta != 0 {
				scaled := p.Beta * float64(before[at])
				want, terms = want+scaled, terms+math.Abs(scaled)
			}
			if !(terms > 0 && terms <= math.MaxFloat32) {
				continue
			}
			e := math.Abs(float64(after[at])-want) / terms
			t.largest, t.sum, t.count = max(t.largest, e), t.sum+e, t.count+1
		}
	}
	return t
}
