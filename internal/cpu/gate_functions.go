package cpu

import (
	"math"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner/element"
)

// apply activates numbers of gate.
func (g *gates) apply(v []float32) {
	if g.Gate.Activation != encoding.SwiGLUClamped {
		activate(g.Gate.Activation, v)
		return
	}
	for i, x := range v {
		x = min(x, g.Gate.Limit)
		v[i] = gated(x, g.Gate.Alpha*x)
	}
}

// factors makes of numbers of up what multiplies those of gate, and finds the derivatives; nil: not asked
// for.
func (g *gates) factors(up, slope []float32) {
	for i := range slope {
		slope[i] = 1
	}
	if g.Gate.Activation != encoding.SwiGLUClamped {
		return
	}
	limit := g.Gate.Limit
	for i, x := range up {
		up[i] = max(-limit, min(x, limit)) + 1
		if slope != nil && (x > limit || x < -limit) {
			slope[i] = 0
		}
	}
}

// slopes are the derivatives of an activation.
func (g *gates) slopes(slope, v []float32) {
	alpha, limit := g.Gate.Alpha, g.Gate.Limit
	for i, x := range v {
		switch g.Gate.Activation {
		case encoding.ReLU:
			slope[i] = 0
			if !(x <= 0) {
				slope[i] = 1
			}
		case encoding.ReLU2:
			slope[i] = 2 * max(x, 0)
		case encoding.GELUExact:
			slope[i] = slopeOfExact(x)
		case encoding.SwiGLUClamped:
			if slope[i] = 0; !(x > limit) {
				slope[i] = slopeOfGated(x, alpha*x, alpha)
			}
		case encoding.SiLU:
			slope[i] = slopeOfGated(x, x, 1)
		case encoding.GELU:
			slope[i] = slopeOfGated(x, x*(encoding.GELULinear+encoding.GELUCubic*x*x),
				encoding.GELULinear+3*encoding.GELUCubic*x*x)
		default:
			slope[i] = 1
		}
	}
}

// slopeOfGated is the derivative of v*sigmoid(z), where dz is that of z. 1 - sigmoid(z) is not computed as
// such: large v would multiply its error.
func slopeOfGated(v, z, dz float32) float32 {
	switch {
	case z <= encoding.SigmoidLeast:
		return 0
	case z >= -encoding.SigmoidLeast:
		return 1
	}
	e := exp(-z)
	s := 1 / (1 + e)
	return s + v*dz*s*(e*s)
}

// exactGELU returns v*phi(v), where phi is half of erfc(-v/sqrt(2)).
func exactGELU(v float32) float32 {
	if v <= -encoding.ErfMost {
		return 0
	}
	phi, _ := normal(v)
	return v * phi
}

func slopeOfExact(v float32) float32 {
	if v >= encoding.ErfMost {
		return 1
	}
	phi, bell := normal(v)
	if v <= -encoding.ErfMost {
		return 0
	}
	return phi + v*bell*float32(1/math.Sqrt2/math.SqrtPi)
}

// normal returns phi(v) and e^(-v^2/2). Beyond ErfMost v counts as that.
func normal(v float32) (phi, bell float32) {
	a, x := &encoding.ErfA, min(max(v, -v), encoding.ErfMost)
	t := 1 / (1 + encoding.ErfP/math.Sqrt2*x)
	bell = exp(max(-x*x/2, -87))
	tail := t * (a[0] + t*(a[1]+t*(a[2]+t*(a[3]+t*a[4])))) * bell / 2
	if v < 0 {
		return tail, bell
	}
	return 1 - tail, bell
}

// quantize rounds h of a row to 8 bits, and writes its scales. It computes h twice.
func (g *gates) quantize(row int) {
	const block = encoding.Block
	each := max(g.Hidden, 1)
	if g.Gate.Scale == encoding.PerBlock {
		each = block
	}
	scales := g.sizes[g.Gate.Scales+row*g.ScaleWords():][:g.ScaleWords()]
	for i := range scales {
		largest, end := uint32(0), min((i+1)*each, g.Hidden)
		g.pieces(row, i*each, end, func(_ int, h []float32) {
			for _, x := range h {
				largest = max(largest, math.Float32bits(x)&^(1<<31))
			}
		})
		scale, inverse := scaleOf(g.launch.TypeC, largest)
		scales[i] = int32(math.Float32bits(scale))
		g.pieces(row, i*each, end, func(col int, h []float32) {
			for i := range h {
				if h[i] *= inverse; inverse == 0 {
					h[i] = 0 // of NaN and infinity too
				}
			}
			element.Narrow(g.launch.TypeC, g.bitsC.from(row*g.Hidden + col).bytes[:len(h)], h)
		})
	}
}

// pieces calls use for the columns of h of a row from one to another.
func (g *gates) pieces(row, from, end int, use func(col int, h []float32)) {
	for col := from; col < end; col += gatePiece {
		use(col, g.activated(row, col, min(gatePiece, end-col)))
	}
}

// scaleOf returns the scale of numbers of which the largest has these bits, and what multiplies them; 0: not
// all are finite.
func scaleOf(of element.Type, largest uint32) (scale, inverse float32) {
	const infinite = 0x7f800000
	if largest >= infinite {
		return math.Float32frombits(0x7fc00000), 0
	}
	most := encoding.QuantizedMost(of)
	amax := max(math.Float32frombits(largest), encoding.QuantizedLeast)
	return amax * (1 / most), most / amax
}
