package planner_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// depthWithEpilogue returns gradients of 5 groups with all that an epilogue may have.
func depthWithEpilogue() (planner.Ragged, planner.Epilogue) {
	return planner.Ragged{Form: planner.EndsOfDepth, Groups: 5, M: 10, N: 30, K: 100,
			A: planner.Matrix{Offset: 3, LD: 100}, B: planner.Matrix{LD: 31},
			C: planner.Matrix{LD: 30}, StrideC: 1500, B2: planner.Matrix{Offset: 5, LD: 40}, Bias: 2,
			StrideBias: 61, RowsA: 7, RowsC: 200, Weights: 400},
		planner.Epilogue{Activation: planner.SiLU, Bias: true, Gated: true, GatherRows: 30, ScatterRows: 50,
			Weights: true}
}

// TestRaggedEpilogueDepth: each group of K has its own lists for its rows, and the rows of B2 for its K.
func TestRaggedEpilogueDepth(t *testing.T) {
	r, e := depthWithEpilogue()
	b, refused := r.Batch(nil, []int32{10, 10, 40, 41, 90}, planner.Options{Epilogue: e})
	require.Equal(t, -1, refused)
	require.Equal(t, planner.Problem{M: 10, N: 30, K: 30, A: planner.Matrix{Offset: 3 + 10, LD: 100},
		B: planner.Matrix{Offset: 310, LD: 31},
		C: planner.Matrix{Offset: 3000, LD: 30}, B2: planner.Matrix{Offset: 5 + 10*40, LD: 40},
		Bias: 2 + 2*61, RowsA: 7 + 20, RowsC: 200 + 20, Weights: 400 + 20}, b[2])
	require.Equal(t, [2]int{10, 0}, [2]int{b[1].M, b[1].K}, "what has no K has an epilogue")
	p, err := planner.New(lookup(t, "lavapipe")).PlanRagged(r, planner.Options{Epilogue: e})
	require.NoError(t, err)
	require.Equal(t, [6]int{3 + 29*100 + 100, 99*31 + 30, 4*1500 + 49*30 + 30, 5 + 99*40 + 30, 2 + 4*61 + 60,
		450},
		[6]int{p.ExtentA, p.ExtentB, p.ExtentC, p.ExtentB2, p.ExtentBias, p.ExtentRows})
	require.Equal(t, 5, p.ExtentSizes)

	one := r // one C for all groups
	one.StrideC = 0
	p, err = planner.New(lookup(t, "lavapipe")).PlanRagged(one, planner.Options{Epilogue: e})
	require.NoError(t, err)
	require.Equal(t, 49*30+30, p.ExtentC)
	_, err = planner.New(lookup(t, "lavapipe")).PlanRagged(one,
		planner.Options{Epilogue: planner.Epilogue{Bias: true}})
	require.ErrorContains(t, err, "the C of groups overlap: stride 0, each has 300 elements")

	r.TransA, r.A.LD, r.TransB, r.B.LD, r.B2.LD = true, 10, true, 100, 120
	b, _ = r.Batch(nil, []int32{10, 10, 40, 41, 90}, planner.Options{Epilogue: planner.Epilogue{Gated: true}})
	require.Equal(t, [3]int{3 + 10*10, 10, 5 + 10}, [3]int{b[2].A.Offset, b[2].B.Offset, b[2].B2.Offset})
}

// TestAlignedDepth: plans take tiles for aligned rows only if B2 has aligned rows too.
func TestAlignedDepth(t *testing.T) {
	r := planner.Ragged{Form: planner.EndsOfDepth, Groups: 8, M: 2048, N: 1536, K: 8192, TransA: true,
		A: planner.Matrix{LD: 2048},
		B: planner.Matrix{LD: 1536}, C: planner.Matrix{LD: 1536}, StrideC: 2048 * 1536}
	for ld, aligned := range map[int]bool{1536: true, 1537: false} {
		r.B2.LD = ld
		p, err := planner.New(lookup(t, "h200")).PlanRagged(r, planner.Options{TypeA: element.BF16,
			TypeC: element.BF16, Epilogue: planner.Epilogue{Gated: true}})
		require.NoError(t, err)
		require.Equal(t, aligned, p.Launches[len(p.Launches)-1].Tile.Name == "aligned-128x128", ld)
	}
}

// TestRaggedEpilogueRecords: records hold everything that a problem has, within the lengths.
func TestRaggedEpilogueRecords(t *testing.T) {
	e := planner.Epilogue{Bias: true, Gated: true, GatherRows: 9, ScatterRows: 11, Weights: true}
	q := planner.Problem{M: 4, N: 5, K: 6, A: planner.Matrix{Offset: 1, LD: 7},
		B: planner.Matrix{Offset: 2, LD: 8}, C: planner.Matrix{Offset: 3, LD: 9},
		B2: planner.Matrix{Offset: 4, LD: 10}, Bias: 5, RowsA: 6, RowsC: 16, Weights: 26, Pointers: 27}
	words, err := planner.AppendRecords([]int32{77}, planner.Batch{q}, planner.Options{Epilogue: e})
	require.NoError(t, err)
	require.Equal(t, []int32{77, 4, 5, 6, 7, 8, 9, 1, 2, 3, int32(math.Float32bits(1)), 0, 0, 4, 10, 5, 6, 16,
		26, 27, 0}, words)
	words = words[1:]
	tight := planner.Ragged{Form: planner.Records, Groups: 1, M: 4, N: 5, K: 6, LenA: 1 + 8*7 + 6,
		LenB: 2 + 5*8 + 5, LenC: 3 + 10*9 + 5,
		LenB2: 4 + 5*10 + 5, LenBias: 5 + 10, LenRows: 30}
	b, refused := tight.Batch(nil, words, planner.Options{Epilogue: e})
	require.Equal(t, -1, refused)
	require.Equal(t, planner.Batch{q}, b)
	p, err := planner.New(lookup(t, "mi210")).PlanRagged(tight, planner.Options{Epilogue: e})
	require.NoError(t, err)
	require.Equal(t, encoding.EpilogueRecordWords, p.ExtentSizes)
	require.Equal(t, [6]int{63, 47, 98, 59, 15, 30}, [6]int{p.ExtentA, p.ExtentB, p.ExtentC, p.ExtentB2,
		p.ExtentBias, p.ExtentRows})

	for name, shorter := range map[string]func(r *planner.Ragged){
		"A":    func(r *planner.Ragged) { r.LenA-- },
		"B":    func(r *planner.Ragged) { r.LenB-- },
		"C":    func(r *planner.Ragged) { r.LenC-- },
		"B2":   func(r *planner.Ragged) { r.LenB2-- },
		"bias": func(r *planner.Ragged) { r.LenBias-- },
		"rows": func(r *planner.Ragged) { r.LenRows-- },
	} {
		r := tight
		shorter(&r)
		_, refused := r.Batch(nil, words, planner.Options{Epilogue: e})
		require.Equal(t, 0, refused, name)
	}
	beta := q
	beta.Beta = 1
	words, err = planner.AppendRecords(nil, planner.Batch{beta}, planner.Options{Epilogue: e})
	require.NoError(t, err)
	_, refused = tight.Batch(nil, words, planner.Options{Epilogue: e})
	require.Equal(t, 0, refused, "gated units read no C")

	if far := int64(math.MaxUint32 + 1); int64(int(far)) == far {
		_, err = planner.AppendRecords(nil, planner.Batch{{}, {Bias: int(far)}}, planner.Options{Epilogue: e})
		require.EqualError(t, err, "problem 1: bias offset 4294967296 needs more than 32 bits")
		_, err = planner.AppendRecords(nil, planner.Batch{{B2: planner.Matrix{LD: -1}}},
			planner.Options{Epilogue: e})
		require.EqualError(t, err, "problem 0: ldb2 -1 needs more than 32 bits")
		_, err = planner.AppendRecords(nil, planner.Batch{{Bias: int(far)}}, planner.Options{})
		require.NoError(t, err, "they have none")
	}
}

// TestRecordsByPointers: operands with addresses are in no buffer. What items can express bounds them.
func TestRecordsByPointers(t *testing.T) {
	e := planner.Epilogue{Pointers: planner.Pointers{A: true, B: true, C: true}}
	r := planner.Ragged{Form: planner.Records, Groups: 1, M: 4, N: 5, K: 6, LenA: 1, LenB: 1, LenC: 1,
		LenRows: 20}
	p, err := planner.New(lookup(t, "mi210")).PlanRagged(r, planner.Options{Epilogue: e})
	require.NoError(t, err)
	require.Equal(t, [4]int{0, 0, 0, 20}, [4]int{p.ExtentA, p.ExtentB, p.ExtentC, p.ExtentRows})
	q := planner.Problem{M: 4, N: 5, K: 6, A: planner.Matrix{Offset: 1 << 20, LD: 7},
		B: planner.Matrix{Offset: 1 << 20, LD: 8}, C: planner.Matrix{Offset: 1 << 20, LD: 9}, Pointers: 12}
	words, err := planner.AppendRecords(nil, planner.Batch{q}, planner.Options{Epilogue: e})
	require.NoError(t, err)
	_, refused := r.Batch(nil, words, planner.Options{Epilogue: e})
	require.Equal(t, -1, refused)
	for _, change := range []struct {
		word  encoding.RecordWord
		value int32
	}{{encoding.RecordPointers, 13}, {encoding.RecordOffA, -1}, {encoding.RecordOffB, -20},
		{encoding.RecordOffC, -30}} {
		bad := append([]int32(nil), words...)
		bad[change.word] = change.value
		_, refused = r.Batch(nil, bad, planner.Options{Epilogue: e})
		require.Equal(t, 0, refused, change)
	}
}

// TestRecordsOfB2ByPointers: B2 has an address exactly if B has one.
func TestRecordsOfB2ByPointers(t *testing.T) {
	q := planner.Problem{M: 4, N: 5, K: 6, A: planner.Matrix{LD: 7}, B: planner.Matrix{LD: 8},
		C: planner.Matrix{LD: 9}, B2: planner.Matrix{Offset: 1 << 20, LD: 10}}
	words, err := planner.AppendRecords(nil, planner.Batch{q},
		planner.Options{Epilogue: planner.Epilogue{Gated: true}})
	require.NoError(t, err)
	r := planner.Ragged{Form: planner.Records, Groups: 1, M: 4, N: 5, K: 6, LenA: 100, LenB: 100, LenC: 100,
		LenB2: 100, LenRows: 20}
	for _, byB := range []bool{false, true} {
		_, refused := r.Batch(nil, words,
			planner.Options{Epilogue: planner.Epilogue{Gated: true, Pointers: planner.Pointers{A: !byB,
				B: byB}}})
		require.Equal(t, byB, refused < 0)
	}
}

// TestGatheredNothing: kernels look for missing rows in lists even if K is 0.
func TestGatheredNothing(t *testing.T) {
	q := planner.Problem{M: 4, N: 5, A: planner.Matrix{LD: 0}, B: planner.Matrix{LD: 5},
		C: planner.Matrix{LD: 5}, RowsA: 30}
	p, err := planner.New(lookup(t, "mi210")).Plan(t.Context(), planner.Batch{q},
		planner.Options{Epilogue: planner.Epilogue{GatherRows: 3}})
	require.NoError(t, err)
	require.Equal(t, [2]int{0, 34}, [2]int{p.ExtentA, p.ExtentRows})
}
