package dispatch_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// TestPackedOnHost: B of 4 bits in host memory gives what float64 gives, also where the operands must be
// copied because one shares memory with C.
func TestPackedOnHost(t *testing.T) {
	device, err := dispatch.Open(t.Context(), dispatch.WithBackend("cpu"))
	require.NoError(t, err)
	defer device.Close()
	for _, by := range []planner.Scaling{planner.PerGroup64, planner.PerGroup128, planner.PerGroup32,
		planner.PerGroup16} {
		for _, copied := range []bool{false, true} {
			t.Run(fmt.Sprint(by, copied), func(t *testing.T) {
				e := planner.Epilogue{ScaleB: by, Gated: true, Bias: true, GatherRows: 9}
				o := planner.Options{TypeB: by.TypeB(element.BF16), Epilogue: e}
				rng := rand.New(rand.NewPCG(1, 0))
				x := reference.Operands{Unit: 1, Rand: rng,
					Values: func(s []float32) { reference.Integers(rng, s, 4) }}
				b := planner.Batch{{M: 5, N: 7, K: 2 * by.UnitK()}, {M: 40, N: 130, K: 3 * by.UnitK()},
					{M: 1, N: 3}}
				for i := range b {
					b[i].Alpha = planner.Scale(0.5)
					x.Add(&b[i], &e)
				}
				words := make([]uint32, (max(len(x.B), len(x.E.B2))+7)/8) // whole rows of the last panel
				packed, packed2 := slices.Clone(words), slices.Clone(words)
				copy(packed, x.PackedB)
				copy(packed2, x.PackedB2)
				a := make([]element.BFloat16, len(x.A))
				for i, v := range x.A {
					a[i] = element.Nearest[element.BFloat16](v)
				}
				memory := slices.Concat(x.C, x.E.Biases)
				after, bias := memory[:len(x.C):len(x.C)], memory[len(x.C):]
				if copied {
					b[0].Bias = b[0].C.Offset // old elements of C
					bias = memory
					for i := 1; i < len(b); i++ {
						b[i].Bias += len(x.C)
					}
				}
				before := slices.Clone(memory)
				slicesOf := dispatch.Slices[element.BFloat16, float32]{A: a, C: after, Packed: packed,
					Packed2: packed2, Bias: bias, Rows: x.E.Rows}
				require.NoError(t, dispatch.GEMM(t.Context(), device, b, o, slicesOf))
				x.E.Epilogue = e
				if x.E.Biases = before[len(x.C):]; copied {
					x.E.Biases = before
				}
				_, err := reference.CheckIn(reference.Arithmetic{Epilogue: x.E,
					FlushesSubnormals: true}, b, x.A, x.B, before[:len(x.C)], after)
				require.NoError(t, err)
				if copied {
					return
				}
				again := slicesOf
				again.Packed = packed[:len(packed)/2]
				require.ErrorContains(t, dispatch.GEMM(t.Context(), device, b, o, again), "problem 1: B")
				again.B = a
				require.EqualError(t, dispatch.GEMM(t.Context(), device, b, o, again), fmt.Sprintf("the "+
					"options have TypeB %s, whose words are Packed and Packed2, not B and B2", o.TypeB))
				again.B, o.TypeB = nil, element.F32
				require.EqualError(t, dispatch.GEMM(t.Context(), device, b, o, again),
					"Packed and Packed2 are for a TypeB of 4 bits, not f32")
			})
		}
	}
}
