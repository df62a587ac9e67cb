package cpu

import (
	"math"

	"github.com/batchgemm/batchgemm/internal/encoding"
)

// activate replaces numbers by what an activation makes of them. Loops have no branch that depends on signs,
// which are as good as random: one costs 10 ns a number.
func activate(by encoding.Activation, v []float32) {
	switch by {
	case encoding.ReLU:
		for i, x := range v {
			v[i] = max(x, 0)
		}
	case encoding.SiLU:
		for i, x := range v {
			v[i] = gated(x, x)
		}
	case encoding.GELU:
		for i, x := range v {
			v[i] = gated(x, x*(encoding.GELULinear+encoding.GELUCubic*x*x))
		}
	}
}

// gated is v*sigmoid(z).
func gated(v, z float32) float32 {
	if z < encoding.SigmoidLeast {
		return 0
	}
	return v / (1 + exp(max(-z, encoding.SigmoidLeast)))
}

// exp is e^x for x from -87 to 88, with an error of 2+2*|x| units in the last place, and NaN of NaN. Down
// to -88 it may be 0.
func exp(x float32) float32 {
	const whole = 3 << 22 // in numbers from here on the last bit is 1
	x *= math.Log2E
	n := x + whole
	x -= n - whole // in [-1/2, 1/2]
	// The series of e^(x*ln 2), whose next term is below 2^-27.
	p := 1 + x*(0.6931472+x*(0.2402265+
		x*(0.05550411+x*(0.009618129+x*(0.0013333558+x*(0.0001540353+x*0.000015252734))))))
	return p * math.Float32frombits((math.Float32bits(n)+127)<<23)
}
