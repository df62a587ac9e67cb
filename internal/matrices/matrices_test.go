package matrices

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
)

func TestWrong(t *testing.T) {
	for want, m := range map[string]Dense[float32]{
		"":                            {Rows: 2, Cols: 3, Stride: 4, Data: make([]float32, 7)},
		"is -1 x 3: negative size":    {Rows: -1, Cols: 3, Stride: 3},
		"has stride 2, and rows of 3": {Rows: 1, Cols: 3, Stride: 2, Data: make([]float32, 7)},
		"is 2 x 3 with stride 4: 6 elements are too few": {Rows: 2, Cols: 3, Stride: 4,
			Data: make([]float32, 6)},
		"is 1 x 3 with stride 3: 0 elements are too few": {Rows: 1, Cols: 3, Stride: 3},
	} {
		require.Equal(t, want, m.Wrong())
	}
	require.Empty(t, (&Dense[float32]{Rows: 0, Cols: 3}).Wrong(), "of nothing")
}

// Views of one array stay in place, in any order.
func TestShared(t *testing.T) {
	array := make([]float32, 40)
	view := func(offset, rows, cols, stride int) Dense[float32] {
		return Dense[float32]{rows, cols, stride, array[offset : offset+(rows-1)*stride+cols]}
	}
	o := Lay([]Dense[float32]{view(22, 2, 3, 8), view(4, 3, 2, 8), {Cols: 5}}, false)
	require.True(t, o.Shared)
	require.Equal(t, []planner.Matrix{{Offset: 18, LD: 8}, {LD: 8}, {LD: 5}}, o.Places)
	require.Len(t, o.Data, 29)
	require.Same(t, &array[4], &o.Data[0])
}

// Other matrices are copied, densely, and back to their places.
func TestApart(t *testing.T) {
	a := Dense[float32]{2, 1, 2, []float32{1, 9, 2}}
	b := Dense[float32]{1, 2, 2, []float32{3, 4}}
	all := []Dense[float32]{a, b}
	o := Lay(all, false)
	require.False(t, o.Shared)
	require.Equal(t, []planner.Matrix{{LD: 1}, {Offset: 4, LD: 2}}, o.Places)
	for i := range all {
		o.Load(i, &all[i])
	}
	require.Equal(t, []float32{1, 2, 0, 0, 3, 4, 0, 0}, o.Data)
	o.Data[1] = 7
	o.Store(0, &all[0])
	require.Equal(t, []float32{1, 9, 7}, a.Data)

	array := make([]float32, 10)
	capped := []Dense[float32]{{1, 2, 2, array[0:2:2]}, {1, 2, 2, array[4:6]}}
	require.False(t, Lay(capped, false).Shared, "the first ends the array")
	require.Empty(t, Lay[float32](nil, false).Data)
}

// The last matrix of an array ends with its capacity, and is not copied.
func TestLayToTheEnd(t *testing.T) {
	array := make([]float32, 6)
	o := Lay([]Dense[float32]{{Rows: 1, Cols: 2, Stride: 2, Data: array[:2]},
		{Rows: 2, Cols: 2, Stride: 2, Data: array[2:]}}, false)
	require.True(t, o.Shared)
	require.Len(t, o.Data, 6)
}

// Matrices apart stay where they are, in any order, if a launch reaches all.
func TestLayApart(t *testing.T) {
	all := make([]Dense[float32], 100)
	for i := range all {
		all[i] = Dense[float32]{i % 7, 3, 4, make([]float32, 4*i%7+40)}
	}
	o := Lay(all, true)
	require.True(t, o.Shared)
	for i := range all {
		if m := &all[i]; !m.empty() {
			require.Same(t, &m.Data[0], &o.Data[o.Places[i].Offset])
			require.Equal(t, m.Stride, o.Places[i].LD)
		}
	}
	require.False(t, Lay[float32](nil, true).Shared)
}
