package drivertest

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner"
)

// RaggedEpilogues returns epilogues that together have all parts. If A is transposed, none gathers.
func RaggedEpilogues(transA, pointers bool) []planner.Epilogue {
	all := []planner.Epilogue{
		{Activation: planner.ReLU},
		{Bias: true, Weights: true},
		{GatherRows: 37, ScatterRows: 150},
		{Gated: true, Activation: planner.SiLU},
		{Gated: true, Bias: true, GatherRows: 60, ScatterRows: 130, Weights: true},
	}
	if pointers {
		all = append(all, planner.Epilogue{Pointers: planner.Pointers{A: true, C: true}},
			planner.Epilogue{Gated: true, Bias: true, Pointers: planner.Pointers{B: true, Aligned: true}})
	}
	for i := range all {
		if transA {
			all[i].GatherRows = 0
		}
	}
	return all
}

// ScaledEpilogues returns epilogues with all kinds of scales except those of blocks and groups, for elements
// of Int8. Some have zero points. If A is transposed, none gathers.
func ScaledEpilogues(transA bool) []planner.Epilogue {
	row, tensor := planner.PerRow, planner.PerTensor
	all := []planner.Epilogue{
		{ScaleA: row, ScaleB: row},
		{ScaleA: tensor, ScaleB: tensor, Bias: true, Gated: true},
		{ScaleA: row, ScaleB: row, Gated: true, Bias: true, GatherRows: 60, ScatterRows: 130, Weights: true},
		{ScaleA: row, ScaleB: tensor, GatherRows: 60},
		{ScaleB: row, Gated: true},
		{ScaleA: row, ScaleB: row, ZeroA: true},
		{ScaleA: row, ScaleB: row, ZeroA: true, Gated: true, GatherRows: 60, ScatterRows: 130, Weights: true},
		{ScaleA: tensor, ScaleB: row, ZeroA: true, Gated: true, GatherRows: 60},
	}
	for i := range all {
		if transA {
			all[i].GatherRows = 0
		}
	}
	return all
}

// RaggedWithEpilogue returns one of RaggedBatches with the operands of an epilogue. If B or C is by
// pointers, all groups have one offset.
func RaggedWithEpilogue(r planner.Ragged, e planner.Epilogue) planner.Ragged {
	r.Rest = planner.RestKept
	if e.Gated {
		r.Beta = 0
	}
	r.B2 = planner.Matrix{Offset: r.B.Offset + 3, LD: r.B.LD + 1}
	r.Bias, r.StrideBias, r.RowsA, r.RowsC, r.Weights, r.Pointers = 3, 2*r.N+1, 11, 7001, 14_003, 21_000
	r.ScaleA, r.ScaleB = 50_000, 60_000
	if r.Form == planner.Records {
		r.LenB2, r.LenBias, r.LenRows = r.LenB, 3000, 2000
		r.B2, r.Bias, r.StrideBias, r.RowsA, r.RowsC, r.Weights, r.Pointers = planner.Matrix{},
			0, 0, 0, 0, 0, 0
	}
	if e.Pointers.B {
		r.StrideB = 0
	}
	if e.Pointers.C {
		r.StrideC = 0
	}
	return r
}

// EpilogueSizes is RaggedSizes with an epilogue.
func EpilogueSizes(t *testing.T, r *planner.Ragged, e planner.Epilogue) map[string][]int32 {
	t.Helper()
	if r.Form != planner.Records || e == (planner.Epilogue{}) {
		return RaggedSizes(t, r)
	}
	return epilogueRecords(t, r, e)
}

// epilogueRecords returns records of 7 problems, most of them right, changed as the name says: to what just
// fits, and to a little more.
func epilogueRecords(t *testing.T, r *planner.Ragged, e planner.Epilogue) map[string][]int32 {
	t.Helper()
	batch := recordBatch(t, r, e)
	good, err := planner.AppendRecords(nil, batch, planner.Options{Epilogue: e})
	require.NoError(t, err)
	_, refused := r.Batch(nil, good, planner.Options{Epilogue: e})
	require.Equal(t, -1, refused)
	sets := map[string][]int32{"good": good, "empty": make([]int32, len(good))}
	with := func(name string, group int, word encoding.RecordWord, value int) {
		bad := slices.Clone(good)
		if each := len(good) / len(batch); int(word) < each {
			bad[group*each+int(word)] = int32(uint32(value))
			sets[name] = bad
		}
	}
	const g = 5 // with products, after other groups
	q := &batch[g]
	rowsA, colsA := q.ShapeA()
	rowsB, colsB := q.ShapeB()
	edge := func(name string, word encoding.RecordWord, last int) {
		with(name+" at the end", g, word, last)
		with(name+" beyond", g, word, last+1)
		with(name+" wraps", g, word, -1)
	}
	edge("A", encoding.RecordOffA, r.LenA-end(q.A, storedRows(rowsA, e.GatherRows), colsA))
	edge("B", encoding.RecordOffB, r.LenB-end(q.B, rowsB, colsB))
	edge("B2", encoding.RecordOffB2, r.LenB2-end(q.B2, rowsB, colsB))
	edge("C", encoding.RecordOffC, r.LenC-end(q.C, storedRows(q.M, e.ScatterRows), q.N))
	edge("bias", encoding.RecordBias, r.LenBias-q.N)
	edge("both biases", encoding.RecordBias, r.LenBias-2*q.N)
	edge("rows of A", encoding.RecordRowsA, r.LenRows-q.M)
	edge("rows of C", encoding.RecordRowsC, r.LenRows-q.M)
	edge("weights", encoding.RecordWeights, r.LenRows-q.M)
	edge("scales of A", encoding.RecordScaleA, r.LenRows-e.ScalesA(q))
	edge("scales of B", encoding.RecordScaleB, r.LenRows-e.ScalesB(q))
	edge("pointers", encoding.RecordPointers, r.LenRows-encoding.PointerWords)
	with("ldb2", g, encoding.RecordLDB2, colsB-1)
	with("ldb2 beyond all", g, encoding.RecordLDB2, -1)
	with("too many rows", 3, encoding.RecordM, 800)
	with("beta", 5, encoding.RecordBeta, int(math.Float32bits(1)))
	with("beta -0", 5, encoding.RecordBeta, math.MinInt32)
	with("beta NaN", 1, encoding.RecordBeta, 0x7fc00000)
	with("unread A", 2, encoding.RecordOffA, -1)
	with("unread B2", 2, encoding.RecordOffB2, -1)
	with("alpha -0", 1, encoding.RecordAlpha, math.MinInt32)
	return sets
}

// storedRows returns the rows of a matrix: those listed, if there are lists, otherwise its own.
func storedRows(rows, listed int) int {
	if listed > 0 {
		return listed
	}
	return rows
}

// end returns the end of a matrix that starts at the start of a buffer.
func end(m planner.Matrix, rows, cols int) int { return (rows-1)*m.LD + cols }

// recordBatch returns 7 problems. The first has no elements, and two have no products.
func recordBatch(t *testing.T, r *planner.Ragged, e planner.Epilogue) planner.Batch {
	t.Helper()
	scalars := []float64{1, -2, 0, 3}
	problems := make([]planner.Problem, r.Groups)
	for i := range problems {
		problems[i] = planner.Problem{M: 20 * i, N: 300 - 45*i, K: 200 - 20*i*i%200, TransA: r.TransA,
			TransB: r.TransB, Alpha: planner.Scale(scalars[i%4])}
		if !e.Gated {
			problems[i].Beta = scalars[(i+2)%4]
		}
	}
	batch, err := planner.Pack(problems...)
	require.NoError(t, err)
	rows, biases := 3, 5
	for i := range batch {
		p := &batch[i]
		p.B2 = planner.Matrix{Offset: p.B.Offset + 4*(i%3), LD: p.B.LD + i%2}
		p.Bias, p.RowsA, p.RowsC, p.Weights, p.Pointers = biases, rows, rows+p.M, rows+2*p.M, 8*i+i%2
		p.ScaleA, p.ScaleB = 7+i, 9+2*i
		rows, biases = rows+3*p.M+1, biases+2*p.N
	}
	return batch
}
