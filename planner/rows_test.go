package planner

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each list starts where its method says, after the earlier lists.
func TestRows(t *testing.T) {
	bits := func(x float32) int32 { return int32(math.Float32bits(x)) }
	var r Rows
	require.Equal(t, 0, r.Indices([]int32{5, -1}))
	require.Equal(t, 2, r.Numbers([]float32{0.5}))
	at, err := r.Pairs([]float32{2, 3}, []int32{-4, 7})
	require.NoError(t, err)
	require.Equal(t, 3, at)
	require.Equal(t, 7, r.Groups([]uint32{1 << 31}))
	require.Equal(t, Rows{5, -1, bits(0.5), bits(2), -4, bits(3), 7, math.MinInt32}, r)

	_, err = r.Pairs([]float32{1}, nil)
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorContains(t, err, "1 scales, but 0 words beside them")
	require.Len(t, r, 8)
}
