package reference

import (
	"math"

	"github.com/batchgemm/batchgemm/planner"
)

// Epilogue is what a plan does to C beside alpha and beta, with the contents of its buffers: numbers, and
// the words of Rows. The zero value is no epilogue.
type Epilogue struct {
	planner.Epilogue
	B2, Biases []float32
	biases64   []float64 // in place of Biases, see CheckF64
	Rows       []int32
}

// rowA and rowC return the stored rows of A and C for row i of a problem, or -1.
func (e *Epilogue) rowA(p *planner.Problem, i int) int {
	return e.row(e.GatherRows, p.RowsA, i)
}

func (e *Epilogue) rowC(p *planner.Problem, i int) int {
	return e.row(e.ScatterRows, p.RowsC, i)
}

func (e *Epilogue) row(stored, list, i int) int {
	if stored == 0 {
		return i
	}
	if row := int(e.Rows[list+i]); row >= 0 && row < stored {
		return row
	}
	return -1
}

// number is a result with the error that rounding explains, and the magnitude of the terms of its sum.
type number struct{ want, bound, size float64 }

// own returns the unit of fp32, in which epilogues are computed for all types but F64, or of fp64, and what
// GELU and SiLU may lose at once far below 0, where exp overflows.
func (l *limits) own() (unit, tail float64) {
	if l.double {
		return 0x1p-53, 0x1p-1000
	}
	return unit32, 0x1p-120
}

const unit32 = 0x1p-24

// plus adds a bias.
func (n number) plus(bias float64, l *limits) number {
	n.want += bias
	n.size += math.Abs(bias)
	if unit, _ := l.own(); l.unit > 0 {
		n.bound += 2*unit*n.size + l.tiny
	}
	return n
}

// times returns the product of two numbers with errors.
func (n number) times(m number, l *limits) number {
	product := number{n.want * m.want, math.Abs(n.want)*m.bound + math.Abs(m.want)*n.bound + n.bound*m.bound,
		n.size * m.size}
	if unit, _ := l.own(); l.unit > 0 {
		product.bound += 2*unit*math.Abs(product.want) + l.tiny
	}
	return product
}

// activated returns act(n). Its error is that of n times the largest slope of act. For the functions with an
// exponential there is also a relative error. WGSL asks for 3+2*|z| units in the last place of exp(z), and
// rounding its argument adds as many. An addition, a division and a multiplication follow.
func (n number) activated(by planner.Activation, l *limits) number {
	switch by {
	case planner.ReLU:
		if n.want < 0 {
			n.want = 0
		}
	case planner.SiLU:
		n = n.gated(1, 0, 1.1, l)
	case planner.GELU:
		const linear = 1.5957691216057308 // 2*sqrt(2/pi)
		n = n.gated(linear, 0.044715*linear, 1.13, l)
	}
	return n
}

// gated returns v * sigmoid(linear*v + cubic*v^3). slope is its largest slope.
func (n number) gated(linear, cubic, slope float64, l *limits) number {
	v := n.want
	z := linear * v
	if cubic != 0 { // 0*Inf is NaN
		z += cubic * v * v * v
	}
	n.want = v / (1 + math.Exp(-z))
	if z < -700 { // also -Inf
		n.want = 0
	}
	unit, tail := l.own()
	n.bound = slope*n.bound + tail
	if n.want != 0 && !math.IsInf(n.want, 0) {
		n.bound += 2 * unit * (8 + 4*math.Min(math.Abs(z), 100)) * math.Abs(n.want)
	}
	return n
}

// finish applies an epilogue to an element of row i and column j: first of the product with B, and with
// gated units second of that with B2.
func (e *Epilogue) finish(p *planner.Problem, i, j int, first, second number, l *limits) number {
	if e.Bias {
		first = first.plus(e.bias(p.Bias+j), l)
	}
	first = first.activated(e.Activation, l)
	if e.Gated {
		if e.Bias {
			second = second.plus(e.bias(p.Bias+p.N+j), l)
		}
		first = first.times(second, l)
	}
	if e.Weights {
		weight := e.float(p.Weights + i)
		first = first.times(number{want: weight, size: math.Abs(weight)}, l)
	}
	return first
}

func (e *Epilogue) bias(at int) float64 {
	if e.biases64 != nil {
		return e.biases64[at]
	}
	return float64(e.Biases[at])
}
