package cpu

import (
	"math"

	"github.com/batchgemm/batchgemm/internal/encoding"
)

// activate applies an activation to numbers. Its loops do not branch on signs, which are as good as random:
// such a branch costs 10 ns a number.
func activate(by encoding.Activation, v []float32) {
	switch by {
	case encoding.ReLU:
		for i, x := range v {
			v[i] = max(x, 0)
		}
	case encoding.ReLU2:
		for i, x := range v {
			x = max(x, 0)
			v[i] = x * x
		}
	case encoding.GELUExact:
		for i, x := range v {
			v[i] = exactGELU(x)
		}
	case encoding.SiLU:
		v = afterWhole(v, siluWhole)
		for i, x := range v {
			v[i] = gated(x, x)
		}
	case encoding.GELU:
		v = afterWhole(v, geluWhole)
		for i, x := range v {
			v[i] = gated(x, x*(encoding.GELULinear+encoding.GELUCubic*x*x))
		}
	}
}

// siluWhole and geluWhole activate a multiple of 16 numbers, with the bits of gated; nil: Go does.
var siluWhole, geluWhole func(v *float32, n int)

// afterWhole activates as many numbers as `by` takes, and returns the others.
func afterWhole(v []float32, by func(v *float32, n int)) []float32 {
	n := len(v) &^ 15
	if by == nil || n == 0 {
		return v
	}
	by(&v[0], n)
	return v[n:]
}

// gated returns v*sigmoid(z).
func gated(v, z float32) float32 {
	if z < encoding.SigmoidLeast {
		return 0
	}
	return v / (1 + exp(max(-z, encoding.SigmoidLeast)))
}

// exp returns e^x for x from -87 to 88, with an error of 2+2*|x| units in the last place. It returns NaN for
// NaN, and may return 0 for x down to -88.
func exp(x float32) float32 {
	const whole = 3 << 22 // at this magnitude the last bit of a number is 1
	x *= math.Log2E
	n := x + whole
	x -= n - whole // in [-1/2, 1/2]
	// The series of e^(x*ln 2). The next term is below 2^-27.
	p := 1 + x*(0.6931472+x*(0.2402265+
		x*(0.05550411+x*(0.009618129+x*(0.0013333558+x*(0.0001540353+x*0.000015252734))))))
	return p * math.Float32frombits((math.Float32bits(n)+127)<<23)
}
