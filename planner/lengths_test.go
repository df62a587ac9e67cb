package planner_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner"
)

// TestCheckEpilogues: a problem in operands that are just long enough, and with each one a little shorter.
func TestCheckEpilogues(t *testing.T) {
	e := planner.Epilogue{Bias: true, Gated: true, GatherRows: 9, ScatterRows: 11, Weights: true}
	q := planner.Problem{M: 4, N: 5, K: 6, A: planner.Matrix{Offset: 1, LD: 7},
		B: planner.Matrix{Offset: 2, LD: 8}, C: planner.Matrix{Offset: 3, LD: 9},
		B2: planner.Matrix{Offset: 4, LD: 10}, Bias: 5, RowsA: 6, RowsC: 16, Weights: 26}
	b := planner.Batch{{}, q}
	have := planner.Lengths{A: 1 + 8*7 + 6, B: 2 + 5*8 + 5, C: 3 + 10*9 + 5, B2: 4 + 5*10 + 5, Bias: 5 + 10,
		Rows: 30}
	require.Equal(t, have, b.Lengths(e))
	require.NoError(t, b.Check(t.Context(), e, have))
	for want, change := range map[string]func(q *planner.Problem, l *planner.Lengths){
		"problem 1: A needs elements [1, 63) of a buffer of 62": func(_ *planner.Problem,
			l *planner.Lengths) {
			l.A--
		},
		"problem 1: B needs elements [2, 47) of a buffer of 46": func(_ *planner.Problem,
			l *planner.Lengths) {
			l.B--
		},
		"problem 1: C needs elements [3, 98) of a buffer of 97": func(_ *planner.Problem,
			l *planner.Lengths) {
			l.C--
		},
		"problem 1: B2 needs elements [4, 59) of a buffer of 58": func(_ *planner.Problem,
			l *planner.Lengths) {
			l.B2--
		},
		"problem 1: bias needs elements [5, 15) of a buffer of 14": func(_ *planner.Problem,
			l *planner.Lengths) {
			l.Bias--
		},
		"problem 1: weights need words [26, 30) of a buffer of 29": func(_ *planner.Problem,
			l *planner.Lengths) {
			l.Rows--
		},
		"problem 1: rows of A need words [27, 31) of a buffer of 30": func(q *planner.Problem,
			_ *planner.Lengths) {
			q.RowsA = 27
		},
		"problem 1: rows of C need words [27, 31) of a buffer of 30": func(q *planner.Problem,
			_ *planner.Lengths) {
			q.RowsC = 27
		},
		"problem 1: rows of A offset -1 is negative": func(q *planner.Problem,
			_ *planner.Lengths) {
			q.RowsA = -1
		},
		"problem 1: beta 1 is not 0, but gated units do not read C": func(q *planner.Problem,
			_ *planner.Lengths) {
			q.Beta = 1
		},
		"problem 1: ldb2 4 < row length 5": func(q *planner.Problem,
			_ *planner.Lengths) {
			q.B2.LD = 4
		},
	} {
		q, l := q, have
		change(&q, &l)
		err := planner.Batch{{}, q}.Check(t.Context(), e, l)
		require.EqualError(t, err, want)
		var wrong *planner.ProblemError
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, 1, wrong.Index)
	}
	nothing := q
	nothing.N = 0
	require.NoError(t, planner.Batch{nothing}.Check(t.Context(), e, planner.Lengths{}),
		"nothing is read")
	require.Equal(t, planner.Lengths{}, planner.Batch{nothing}.Lengths(e))

	one := planner.Problem{M: 1, N: 1, K: 1, A: planner.Matrix{LD: 1}, B: planner.Matrix{LD: 1},
		C: planner.Matrix{LD: 1}}
	have = planner.Lengths{A: 1, B: 1, C: 1, Rows: 1}
	require.ErrorContains(t, planner.Batch{one, one}.Check(t.Context(),
		planner.Epilogue{Activation: planner.ReLU}, have), "problem 1: C overlaps C of problem 0")
	require.NoError(t, planner.Batch{one, one}.Check(t.Context(), planner.Epilogue{ScatterRows: 1},
		have), "lists say where C is")
}

// TestLengthsAlone: each field of an epilogue has its own operand, and needs no other.
func TestLengthsAlone(t *testing.T) {
	q := planner.Problem{M: 4, N: 5, A: planner.Matrix{LD: 6}, B: planner.Matrix{LD: 5},
		C: planner.Matrix{LD: 5}, Bias: 10, RowsA: 20, RowsC: 30, Weights: 40, Pointers: 50}
	for _, c := range []struct {
		e    planner.Epilogue
		want planner.Lengths
	}{
		{planner.Epilogue{Activation: planner.ReLU}, planner.Lengths{C: 20}},
		{planner.Epilogue{Bias: true}, planner.Lengths{C: 20, Bias: 15}},
		{planner.Epilogue{GatherRows: 9}, planner.Lengths{C: 20, Rows: 24}},
		{planner.Epilogue{ScatterRows: 9}, planner.Lengths{C: 45, Rows: 34}},
		{planner.Epilogue{Weights: true}, planner.Lengths{C: 20, Rows: 44}},
		{planner.Epilogue{Pointers: planner.Pointers{A: true}},
			planner.Lengths{C: 20, Rows: 50 + encoding.PointerWords}},
	} {
		require.Equal(t, c.want, planner.Batch{q}.Lengths(c.e), c.e)
	}
}

// TestWrites: an epilogue changes C = 1*C.
func TestWrites(t *testing.T) {
	for _, c := range []struct {
		q         planner.Problem
		bare, any bool
	}{
		{planner.Problem{M: 1, N: 1, K: 1}, true, true},
		{planner.Problem{M: 1, N: 1, Beta: 1}, false, true},
		{planner.Problem{M: 1, N: 1, K: 1, Alpha: planner.Scale(0), Beta: 1}, false, true},
		{planner.Problem{M: 1, N: 1}, true, true},
		{planner.Problem{M: 1, K: 1}, false, false},
		{planner.Problem{N: 1, K: 1}, false, false},
	} {
		require.Equal(t, c.bare, (&planner.Epilogue{}).Writes(&c.q))
		require.Equal(t, c.any, (&planner.Epilogue{Activation: planner.ReLU}).Writes(&c.q))
	}
}
