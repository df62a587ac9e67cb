package drivertest

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner"
)

// RaggedBatches returns descriptions of all forms, with a transposition.
func RaggedBatches(transA, transB bool) map[planner.RaggedForm]planner.Ragged {
	const groups, n = 7, 70
	shape := func(rows, cols int, trans bool) planner.Matrix {
		if trans {
			cols = rows
		}
		return planner.Matrix{Offset: 5, LD: cols + 3}
	}
	base := planner.Ragged{Groups: groups, N: n, TransA: transA, TransB: transB, Alpha: planner.Scale(-2)}
	rows, depth, records := base, base, base
	rows.Form, rows.M, rows.K, rows.Rest = planner.EndsOfRows, 900, 45, planner.RestZero
	rows.A, rows.B, rows.C = shape(900, 45, transA), shape(45, n, transB), shape(900, n, false)
	rows.StrideB = 80 * 80
	depth.Form, depth.M, depth.K, depth.Beta, depth.Rest = planner.EndsOfDepth, 90, 700, 3, planner.RestNaN
	depth.A, depth.B, depth.C = shape(90, 700, transA), shape(700, n, transB), shape(90, n, false)
	depth.StrideC = 91 * 80
	records = planner.Ragged{Form: planner.Records, Groups: groups, M: 900, N: 300, K: 200, TransA: transA,
		TransB: transB,
		LenA:   100_000, LenB: 300_000, LenC: 150_000}
	return map[planner.RaggedForm]planner.Ragged{rows.Form: rows, depth.Form: depth, records.Form: records}
}

// RaggedSizes returns sizes for one of them, right and wrong ones, by description.
func RaggedSizes(t *testing.T, r *planner.Ragged) map[string][]int32 {
	t.Helper()
	switch r.Form {
	case planner.EndsOfRows:
		return RaggedEnds(int32(r.M))
	case planner.EndsOfDepth:
		return RaggedEnds(int32(r.K))
	}
	return RaggedRecords(t, r)
}

// RaggedEnds returns sizes of 7 groups as ends, up to a bound.
func RaggedEnds(bound int32) map[string][]int32 {
	return map[string][]int32{
		"some":            {0, bound / 9, bound / 9, bound / 8, bound / 2, bound - 1, bound - 1},
		"none":            {0, 0, 0, 0, 0, 0, 0},
		"one has all":     {0, 0, bound, bound, bound, bound, bound},
		"first has all":   {bound, bound, bound, bound, bound, bound, bound},
		"descending":      {9, 50, 40, 60, 70, 80, 90},
		"beyond":          {9, 50, 50, bound, bound, bound + 1, bound + 1},
		"one beyond":      {bound / 9, bound / 8, bound / 7, bound / 6, bound / 3, bound / 2, bound + 1},
		"all beyond":      {bound + 1, bound + 1, bound + 1, bound + 1, bound + 1, bound + 1, bound + 1},
		"counts":          {bound / 3, bound / 6, 0, bound / 4, bound / 8, bound / 9, 0},
		"negative":        {9, -1, 50, 60, 61, 62, 63},
		"negative first":  {-5, 1, 2, 3, 4, 5, 6},
		"least, greatest": {3, math.MaxInt32, math.MinInt32, 5, 6, 7, 8},
	}
}

// RaggedRecords returns records of 7 problems, most of them right, changed as the name says.
func RaggedRecords(t *testing.T, r *planner.Ragged) map[string][]int32 {
	t.Helper()
	scalars := []float64{1, -2, 0, 3}
	problems := make([]planner.Problem, r.Groups)
	for i := range problems {
		problems[i] = planner.Problem{M: 20 * i, N: 300 - 45*i, K: 200 - 20*i*i%200, TransA: r.TransA,
			TransB: r.TransB,
			Alpha:  planner.Scale(scalars[i%4]), Beta: scalars[(i+2)%4]}
	}
	batch, err := planner.Pack(problems...)
	require.NoError(t, err)
	good, err := planner.AppendRecords(nil, batch, planner.Options{})
	require.NoError(t, err)
	_, refused := r.Batch(nil, good, planner.Options{})
	require.Equal(t, -1, refused)
	with := func(group int, word encoding.RecordWord, value int32) []int32 {
		bad := slices.Clone(good)
		bad[group*encoding.RecordWords+int(word)] = value
		return bad
	}
	return map[string][]int32{
		"good":                 good,
		"too many rows":        with(2, encoding.RecordM, 800),
		"rows beyond the sum":  with(6, encoding.RecordM, 900),
		"negative M":           with(4, encoding.RecordM, -1),
		"N":                    with(3, encoding.RecordN, 301),
		"K":                    with(5, encoding.RecordK, math.MinInt32),
		"K, A not read":        with(2, encoding.RecordK, 201),
		"lda":                  with(1, encoding.RecordLDA, 3),
		"ldb beyond all":       with(1, encoding.RecordLDB, -1),
		"ldc near the end":     with(4, encoding.RecordLDC, math.MaxInt32),
		"ldc wraps":            with(1, encoding.RecordLDC, 1<<32/19+1), // 19 of them, to the 20th row
		"off A wraps":          with(5, encoding.RecordOffA, -4),
		"off B":                with(5, encoding.RecordOffB, 299_999),
		"off C beyond all":     with(3, encoding.RecordOffC, math.MinInt32),
		"unread A":             with(2, encoding.RecordOffA, -1),
		"alpha -0, A not read": with(1, encoding.RecordAlpha, math.MinInt32),
		"empty":                make([]int32, len(good)),
	}
}
