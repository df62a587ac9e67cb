package reference

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// C of 16 bits is right if it is the nearest number, or the next one if the result is between the two.
func TestTypedC(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		name   string
		of     element.Type
		result float32 // of 1 * result
		near   bool    // for CheckIn
		exact  bool
		got    float32
	}{
		{"a number", element.BF16, 3, true, true, 3},
		{"the next number", element.BF16, 3, false, false, 3.015625},
		{"to the nearest", element.BF16, 257, true, true, 256},
		{"to the even one", element.BF16, 259, true, true, 260},
		{"to the odd one", element.BF16, 259, true, false, 258},
		{"away", element.BF16, 257.5, false, false, 260},
		{"not rounded", element.F16, 2049, true, false, 2049},
		{"overflow", element.F16, 65520, true, true, inf},
		{"no overflow", element.F16, 65519, true, true, 65504},
		{"overflow too soon", element.F16, 65000, false, false, inf},
		{"overflow of the other sign", element.F16, -70000, false, false, inf},
		{"subnormal", element.F16, 0x1.8p-24, true, true, 0x1p-23},
		{"subnormal to 0", element.F16, 0x1p-25, true, true, 0},
		{"not to 0", element.F16, 0x1.8p-24, false, false, 0},
		{"as many bits as F32 has", element.F32, 257, true, true, 257},
	} {
		t.Run(c.name, func(t *testing.T) {
			one := planner.Matrix{LD: 1}
			b := planner.Batch{{M: 1, N: 1, K: 1, A: one, B: one, C: one}}
			x, y, before, after := []float32{1}, []float32{c.result}, []float32{0}, []float32{c.got}
			_, err := CheckIn(Arithmetic{TypeC: c.of}, b, x, y, before, after)
			require.Equal(t, c.near, err == nil, err)
			err = CheckRounded(c.of, b, x, y, before, after)
			require.Equal(t, c.exact, err == nil, err)
		})
	}
}
