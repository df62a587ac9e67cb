package dispatch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Lists of matrices: apart, in one array, with strides and empty.
func TestMultiply(t *testing.T) {
	d, err := Open(t.Context(), WithBackend("cpu"))
	require.NoError(t, err)
	defer d.Close()
	array := []float32{1, 2, 9, 3, 4, 9, 5, 6, 9, 1, 1}
	a := []Dense[float32]{
		{Rows: 2, Cols: 2, Stride: 3, Data: array[:5]},
		{Rows: 1, Cols: 2, Data: array[6:8]},
		{Rows: 2, Cols: 0},
		{Rows: 0, Cols: 3},
	}
	b := []Dense[float32]{
		{Rows: 2, Cols: 1, Data: []float32{1, 1}},
		{Rows: 2, Cols: 3, Data: []float32{1, 0, 2, 0, 1, 3}},
		{Rows: 0, Cols: 2},
		{Rows: 3, Cols: 1, Data: make([]float32, 3)},
	}
	c, err := Multiply(t.Context(), d, a, b)
	require.NoError(t, err)
	require.Equal(t, []Dense[float32]{
		{Rows: 2, Cols: 1, Stride: 1, Data: []float32{3, 7}},
		{Rows: 1, Cols: 3, Stride: 3, Data: []float32{5, 6, 28}},
		{Rows: 2, Cols: 2, Stride: 2, Data: make([]float32, 4)},
		{Rows: 0, Cols: 1, Stride: 1},
	}, c)
	c, err = Multiply[float32](t.Context(), d, nil, nil)
	require.NoError(t, err)
	require.Empty(t, c)
}

func TestMultiplyMistakes(t *testing.T) {
	d, err := Open(t.Context(), WithBackend("cpu"))
	require.NoError(t, err)
	defer d.Close()
	one := Dense[float32]{Rows: 1, Cols: 1, Data: []float32{1}}
	for want, lists := range map[string][2][]Dense[float32]{
		"1 matrices to multiply by 0": {{one}, nil},
		"a[0] has 1 columns, b[0] has 2 rows": {{one},
			{{Rows: 2, Cols: 1, Data: make([]float32, 2)}}},
		"b[0] is 1 x 2 with stride 2: 1 elements are too few": {{one}, {{Rows: 1, Cols: 2, Data: one.Data}}},
		"a[0] is -1 x 1: negative size":                       {{{Rows: -1, Cols: 1}}, {one}},
	} {
		_, err := Multiply(t.Context(), d, lists[0], lists[1])
		require.ErrorIs(t, err, ErrInvalid)
		require.EqualError(t, err, want)
	}
}
