package reference

import (
	"runtime"
	"sync"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner"
)

// partWork is how many multiply-adds are checked at once, some 50 ms on one core, so that a single large
// problem keeps all cores busy.
const partWork = 1 << 25

// part is some rows of a problem, as a separate problem.
type part struct {
	planner.Problem
	whole *planner.Problem
	index int // of the whole problem in its batch
	first int // row in the whole problem
}

// split cuts the problems of a batch by rows, in order. It leaves out problems without elements of C: their
// operands are not read, and may have no memory.
func split(b planner.Batch, e *planner.Epilogue) []part {
	parts := make([]part, 0, len(b))
	for i := range b {
		p := &b[i]
		if p.N == 0 {
			continue
		}
		depth := 1
		if p.Reads() {
			depth = p.K
		}
		if e.Gated {
			depth *= 2
		}
		step := max(1, int(partWork/(float64(p.N)*float64(depth))))
		for first := 0; first < p.M; first += step {
			q := *p
			q.M = min(step, p.M-first)
			q.RowsA, q.RowsC, q.Weights = q.RowsA+first, q.RowsC+first, q.Weights+first
			switch {
			case e.GatherRows > 0:
			case e.ScaleA == planner.PerRow:
				q.ScaleA += first * e.ScalesA(&planner.Problem{M: 1})
			case e.ScaleA == planner.PerBlock:
				q.ScaleA += first * encoding.Blocks(q.K)
			}
			if e.ScatterRows == 0 {
				q.C.Offset += first * q.C.LD
			}
			switch {
			case e.GatherRows > 0:
			case q.TransA:
				q.A.Offset += first
			default:
				q.A.Offset += first * q.A.LD
			}
			parts = append(parts, part{q, p, i, first})
		}
	}
	return parts
}

// single rounds alpha and beta to fp32, in which other elements than F64 are scaled.
func single(parts []part) {
	for i := range parts {
		p := &parts[i].Problem
		p.Alpha, p.Beta = planner.Scale(float64(float32(p.Alpha.Value()))), float64(float32(p.Beta))
	}
}

// each calls do for every part, on all cores.
func each(parts []part, do func(i int)) {
	var group sync.WaitGroup
	tokens := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range parts {
		tokens <- struct{}{}
		group.Go(func() {
			do(i)
			<-tokens
		})
	}
	group.Wait()
}

// in converts a mismatch of the part to one of the whole problem.
func (p *part) in(m *Mismatch) *Mismatch {
	m.Problem, m.Row, m.problem = p.index, m.Row+p.first, *p.whole
	return m
}
