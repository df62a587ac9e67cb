package planner

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Kernel.Wide promises what is aligned, and no more is asked of operands.
func TestWide(t *testing.T) {
	d := withEpilogue(device(t, "webgpu-default"))
	each := func(t *testing.T, test func(t *testing.T, transA, transB, oddA, oddB, oddB2 bool)) {
		for i := range 32 {
			bit := func(n int) bool { return i>>n&1 == 1 }
			t.Run(fmt.Sprintf("%05b", i), func(t *testing.T) { test(t, bit(0), bit(1), bit(2), bit(3), bit(4)) })
		}
	}
	matrix := func(odd bool) Matrix { // of 64 rows and columns
		if odd {
			return Matrix{Offset: 2, LD: 66}
		}
		return Matrix{Offset: 4, LD: 68}
	}
	t.Run("problem", func(t *testing.T) {
		each(t, func(t *testing.T, transA, transB, oddA, oddB, oddB2 bool) {
			b := Batch{{M: 64, N: 64, K: 64, Alpha: Scale(1), TransA: transA, TransB: transB, A: matrix(oddA), B: matrix(oddB), B2: matrix(oddB2), C: Matrix{LD: 64}}}
			for _, gated := range []bool{false, true} {
				p, err := New(d).Plan(t.Context(), b, Options{Epilogue: Epilogue{Gated: gated}})
				require.NoError(t, err)
				require.Equal(t, !oddB && !(transA && oddA) && !(gated && oddB2), p.Launches[0].Wide, "gated %v", gated)
			}
		})
	})
	for _, form := range []RaggedForm{EndsOfRows, EndsOfDepth, Records} {
		t.Run(fmt.Sprint(form), func(t *testing.T) {
			each(t, func(t *testing.T, transA, transB, oddA, oddB, oddB2 bool) {
				r := Ragged{Form: form, Groups: 3, M: 64, N: 64, K: 64, TransA: transA, TransB: transB, A: matrix(oddA), B: matrix(oddB), B2: matrix(oddB2), C: Matrix{LD: 64},
					StrideB: 68 * 64, StrideC: 64 * 64}
				// Groups begin with any row, or any k, of what they share.
				want := !oddB && !(transA && oddA)
				switch form {
				case EndsOfRows:
					want = want && !transA
				case EndsOfDepth:
					want = want && !transB
				default:
					want = false
				}
				for _, gated := range []bool{false, true} {
					p, err := New(d).PlanRagged(r, Options{Epilogue: Epilogue{Gated: gated}})
					require.NoError(t, err)
					got := false
					for _, l := range p.Launches {
						got = got || l.Wide
					}
					require.Equal(t, want && !(gated && oddB2), got, "gated %v", gated)
				}
			})
		})
	}
}
