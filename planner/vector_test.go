package planner

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner/element"
)

// Kernel.Vector promises exactly the alignment that it checks.
func TestVector(t *testing.T) {
	d := withEpilogue(device(t, "webgpu-default"))
	each := func(t *testing.T, test func(t *testing.T, transA, transB, oddA, oddB, oddB2 bool)) {
		for i := range 32 {
			bit := func(n int) bool { return i>>n&1 == 1 }
			t.Run(fmt.Sprintf("%05b", i),
				func(t *testing.T) { test(t, bit(0), bit(1), bit(2), bit(3), bit(4)) })
		}
	}
	matrix := func(odd bool) Matrix { // 64 rows and columns
		if odd {
			return Matrix{Offset: 2, LD: 66}
		}
		return Matrix{Offset: 4, LD: 68}
	}
	t.Run("problem", func(t *testing.T) {
		each(t, func(t *testing.T, transA, transB, oddA, oddB, oddB2 bool) {
			b := Batch{{M: 64, N: 64, K: 64, Alpha: Scale(1), TransA: transA, TransB: transB, A: matrix(oddA),
				B: matrix(oddB), B2: matrix(oddB2), C: Matrix{LD: 64}}}
			for _, gated := range []bool{false, true} {
				p, err := New(d).Plan(t.Context(), b, Options{Epilogue: Epilogue{Gated: gated}})
				require.NoError(t, err)
				require.Equal(t, !oddB && !(transA && oddA) && !(gated && oddB2), p.Launches[0].Vector,
					"gated %v", gated)
			}
		})
	})
	for _, form := range []RaggedForm{EndsOfRows, EndsOfDepth, Records} {
		t.Run(fmt.Sprint(form), func(t *testing.T) {
			each(t, func(t *testing.T, transA, transB, oddA, oddB, oddB2 bool) {
				r := Ragged{Form: form, Groups: 3, M: 64, N: 64, K: 64, TransA: transA, TransB: transB,
					A: matrix(oddA), B: matrix(oddB), B2: matrix(oddB2), C: Matrix{LD: 64},
					StrideB: 68 * 64, StrideC: 64 * 64}
				// Groups start with any row, or any k, of what they share.
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
						got = got || l.Vector
					}
					require.Equal(t, want && !(gated && oddB2), got, "gated %v", gated)
				}
			})
		})
	}
}

// TestAlignedBytes: kernels for 8-bit elements in aligned rows exist only for K-major operands.
func TestAlignedBytes(t *testing.T) {
	d := device(t, "h200")
	o := Options{TypeA: element.Int8, Tile: "aligned-64x64"}
	along := Problem{M: 64, N: 64, K: 64, TransB: true, A: Matrix{LD: 64}, B: Matrix{LD: 64},
		C: Matrix{LD: 64}}
	for name, change := range map[string]func(*Problem){
		"along K": func(*Problem) {}, "A across K": func(p *Problem) { p.TransA = true },
		"B across K":               func(p *Problem) { p.TransB = false },
		"both":                     func(p *Problem) { p.TransA, p.TransB = true, false },
		"rows that begin anywhere": func(p *Problem) { p.A.LD = 72 },
	} {
		t.Run(name, func(t *testing.T) {
			p := along
			change(&p)
			_, err := New(d).Plan(t.Context(), Batch{p}, o)
			groups, missing := New(d).Kernels(o, Transposition{p.TransA, p.TransB}, false)
			if p.TransA || !p.TransB {
				require.ErrorContains(t, missing, "tile aligned-64x64 ")
			} else {
				require.NoError(t, missing)
				require.Len(t, groups, 1)
			}
			if p == along {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, "tile aligned-64x64 64x64x32/256: device h200 has kernels for 8-bit "+
				"elements only in aligned rows and K-major")
			chosen, err := New(d).Plan(t.Context(), Batch{p}, Options{TypeA: element.Int8})
			require.NoError(t, err)
			require.False(t, chosen.Tiles[0].Aligned)
		})
	}
	require.True(t, d.Fits(shape(t, "aligned-64x64"), o))
}
