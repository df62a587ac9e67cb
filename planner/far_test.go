//go:build !386 && !arm && !mips && !mipsle

package planner

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Offsets in these tests exceed 32 bits.

// far returns a problem whose operands lie beyond 2^33 elements, with rows ld apart.
func far(ld int, trans bool) Problem {
	m := Matrix{Offset: 1<<33 + 4, LD: ld}
	return Problem{M: 100, N: 90, K: 80, TransA: trans, TransB: trans, A: m, B: m, C: m}
}

// Every tile and transposition can be planned with leading dimensions up to 2^28, wherever the matrices lie,
// on devices limited only by offsets. Above that there is an error, not a wrong offset.
func TestFarOperands(t *testing.T) {
	for _, name := range []string{"h200", "mi210"} {
		for _, trans := range []bool{false, true} {
			for _, ld := range []int{100, 1 << 20, 1 << 26, 1 << 28} {
				p, err := New(device(t, name)).Plan(t.Context(), Batch{far(ld, trans)}, Options{})
				require.NoError(t, err, "%s, ld %d", name, ld)
				checkPlan(t, p)
				checkWords(t, p, p.Encode(nil))
				require.Greater(t, p.Launches[0].BaseA, math.MaxUint32)
			}
			_, err := New(device(t, name)).Plan(t.Context(), Batch{far(MaxDim, trans)}, Options{})
			require.ErrorContains(t, err,
				"problem 0: lda or ldb is too large: one tile tiny-k4 reaches more than the 4294967295 "+
					"elements")
		}
	}
	q := far(MaxDim, false)
	q.A.LD, q.B.LD = 100, 100
	_, err := New(device(t, "h200")).Plan(t.Context(), Batch{q}, Options{})
	require.ErrorContains(t, err, "problem 0: ldc 2147483647 is too large")
	q.Alpha = Scale(0)
	q.A.LD, q.B.LD, q.C.LD = MaxDim, MaxDim, 1<<28
	p, err := New(device(t, "h200")).Plan(t.Context(), Batch{q}, Options{})
	require.NoError(t, err, "A and B are not read")
	checkPlan(t, p)
}

// One window holds all of a short K, for every tile.
func TestShortKInOneWindow(t *testing.T) {
	q := far(1<<28, true)
	q.M, q.N, q.K = 16, 16, 16
	// steps of 64
	p, err := New(device(t, "h200")).Plan(t.Context(), Batch{q}, Options{Tile: "small-k8"})
	require.NoError(t, err)
	checkPlan(t, p)
	require.Len(t, p.Segments, 1)
}

// C has too many rows to look at each, up to the limit of elements.
func TestCheckFarRows(t *testing.T) {
	const ld = 1<<30 + 1
	placed := func(offset, m, n, ld int) Problem {
		return Problem{M: m, N: n, B: Matrix{LD: n}, C: Matrix{offset, ld}}
	}
	long := placed(0, MaxDim, 3, ld)
	for _, c := range []struct {
		name  string
		other Problem
		bad   bool
	}{
		{"beside it", placed(3, MaxDim, ld-3, ld), false},
		{"its last element", placed((MaxDim-1)*ld+2, 1, 1, 1), true},
		{"after its last element", placed((MaxDim-1)*ld+3, MaxDim, 1, 7), false},
		{"its column after it", placed((MaxDim-1)*ld+3, 3, 1, ld), false},
		{"between its rows", placed(ld+3, 1, ld-3, ld), false},
		{"as far as its next row", placed(ld+3, 1, ld-2, ld), true},
		{"of another leading dimension", placed(ld+3, MaxDim/2, 5, ld-1), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, far := range []int{0, maxElements - (MaxDim+20)*ld} {
				x, y := long, c.other
				x.C.Offset += far
				y.C.Offset += far
				err := Batch{x, y}.Check(t.Context(), Epilogue{}, Lengths{C: math.MaxInt})
				require.Equal(t, c.bad, err != nil, "%v", err)
			}
		})
	}
}

// A record has 32 bits for an offset. If an operand lies further, the host makes the items.
func TestRenewFar(t *testing.T) {
	d := device(t, "h200")
	var p Plan
	require.NoError(t, New(d).Renew(t.Context(), &p, Batch{far(200, false)}, Options{}))
	require.Nil(t, p.Ragged)
	require.Len(t, p.Batch, 1)
}
