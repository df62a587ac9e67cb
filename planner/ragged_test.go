package planner_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// experts returns ragged rows of 5 groups.
func experts() planner.Ragged {
	return planner.Ragged{Form: planner.EndsOfRows, Groups: 5, M: 100, N: 30, K: 20,
		A: planner.Matrix{Offset: 3, LD: 20}, B: planner.Matrix{LD: 31}, C: planner.Matrix{LD: 30},
		StrideB: 700}
}

func TestRaggedCheck(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*planner.Ragged)
		want   string
	}{
		{"right", func(*planner.Ragged) {}, ""},
		{"one B for all", func(r *planner.Ragged) { r.StrideB = 0 }, ""},
		{"no rows", func(r *planner.Ragged) { r.M = 0 }, ""},
		{"no form", func(r *planner.Ragged) { r.Form = 0 }, "unknown form 0 of the sizes"},
		{"another form", func(r *planner.Ragged) { r.Form = 4 }, "unknown form 4 of the sizes"},
		{"no groups", func(r *planner.Ragged) { r.Groups = 0 }, "0 groups are not in [1, 4096]"},
		{"too many groups", func(r *planner.Ragged) { r.Groups = planner.MaxGroups + 1 },
			"4097 groups are not in [1, 4096]"},
		{"negative", func(r *planner.Ragged) { r.N = -1 }, "N -1 is not in [0, 2147483647]"},
		{"negative mean", func(r *planner.Ragged) { r.Mean.K = -1 }, "mean K -1 is not in"},
		{"short rows of A", func(r *planner.Ragged) { r.A.LD = 19 }, "lda 19 < row length 20"},
		{"short rows of A, transposed", func(r *planner.Ragged) { r.TransA = true },
			"lda 20 < row length 100"},
		{"short rows of B", func(r *planner.Ragged) { r.B.LD = 29 }, "ldb 29 < row length 30"},
		{"B beyond 32 bits", func(r *planner.Ragged) { r.Groups, r.StrideB = 4096, 1<<29-1 },
			"B of the last group does not fit"},
		{"rest of records", func(r *planner.Ragged) { r.Form, r.Rest = planner.Records, planner.RestZero },
			"Rest needs the form EndsOfRows or EndsOfDepth"},
		{"unknown rest", func(r *planner.Ragged) { r.Rest = 3 }, "unknown rest 3"},
		{"overlapping C", func(r *planner.Ragged) {
			r.Form, r.StrideC, r.A.LD = planner.EndsOfDepth, 2999,
				100
		}, "the C of groups overlap: stride 2999, each has 3000 elements"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := experts()
			c.change(&r)
			_, err := planner.New(lookup(t, "h200")).PlanRagged(r, planner.Options{})
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, planner.ErrInvalid)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestRaggedBatch(t *testing.T) {
	r := experts()
	r.Rest = planner.RestZero
	b, refused := r.Batch(nil, []int32{10, 10, 40, 41, 90}, planner.Options{})
	require.Equal(t, -1, refused)
	require.Len(t, b, 6)
	require.Equal(t, planner.Problem{M: 30, N: 30, K: 20, A: planner.Matrix{Offset: 3 + 10*20, LD: 20},
		B: planner.Matrix{Offset: 1400, LD: 31}, C: planner.Matrix{Offset: 300, LD: 30}}, b[2])
	require.Equal(t, [3]int{10, 30, 0}, [3]int{b[5].M, b[5].N, b[5].K}, "rows that are filled")
	require.Equal(t, [2]float64{}, [2]float64{b[5].Alpha.Value(), b[5].Beta})
	require.Equal(t, 90*30, b[5].C.Offset)
	for name, c := range map[string]struct {
		ends    []int32
		refused int
		rest    int // first row that is filled
	}{
		"descending": {[]int32{10, 9, 40, 41, 90}, 1, 10},
		"negative":   {[]int32{-1, 9, 40, 41, 90}, 0, 0},
		"beyond":     {[]int32{1, 9, 40, 41, 101}, 4, 41},
		"all":        {[]int32{100, 100, 100, 100, 100}, -1, 100},
	} {
		t.Run(name, func(t *testing.T) {
			b, refused := r.Batch(b, c.ends, planner.Options{})
			require.Equal(t, c.refused, refused)
			for i := range r.Groups {
				require.True(t, refused < 0 || i < refused || b[i].M == 0, "nothing is computed after")
			}
			require.Equal(t, [2]int{100 - c.rest, c.rest * 30}, [2]int{b[r.Groups].M, b[r.Groups].C.Offset})
		})
	}
	r.Form, r.TransA, r.A.LD, r.StrideC = planner.EndsOfDepth, true, 100, 3000
	b, _ = r.Batch(nil, []int32{5, 5, 7, 20, 20}, planner.Options{})
	require.Equal(t, planner.Problem{M: 100, N: 30, K: 13, TransA: true, A: planner.Matrix{Offset: 3 + 7*100,
		LD: 100}, B: planner.Matrix{Offset: 7 * 31, LD: 31}, C: planner.Matrix{Offset: 9000, LD: 30}}, b[3])
}

// TestRaggedRefused: refused groups of depth fill their own C if Rest asks for it.
func TestRaggedRefused(t *testing.T) {
	r := experts()
	r.Form, r.TransA, r.A.LD, r.StrideC, r.Beta = planner.EndsOfDepth, true, 100, 3000, 1
	ends := []int32{5, 5, 4, 20, 20}
	b, refused := r.Batch(nil, ends, planner.Options{})
	require.Equal(t, 2, refused)
	require.Zero(t, b[3].M, "kept")
	r.Rest = planner.RestNaN
	b, refused = r.Batch(nil, ends, planner.Options{})
	require.Equal(t, 2, refused)
	require.Len(t, b, r.Groups)
	require.EqualValues(t, 1, b[1].Beta)
	for g := 2; g < r.Groups; g++ {
		require.Equal(t, [4]int{100, 30, 0, g * 3000}, [4]int{b[g].M, b[g].N, b[g].K, b[g].C.Offset})
		require.True(t, b[g].Beta != b[g].Beta && b[g].Alpha.Value() == 0)
	}
}

// TestRaggedWithin: a run with an extent uses nothing beyond it.
func TestRaggedWithin(t *testing.T) {
	rows, depth := experts(), experts()
	rows.Rest, depth.Form, depth.K = planner.RestZero, planner.EndsOfDepth, 20
	for _, c := range []struct {
		r       planner.Ragged
		extent  int
		ends    []int32
		refused int
	}{
		{rows, 0, []int32{1, 2, 3, 4, 100}, -1},
		{rows, 100, []int32{1, 2, 3, 4, 100}, -1},
		{rows, 99, []int32{1, 2, 3, 4, 100}, 4},
		{rows, 3, []int32{1, 2, 3, 4, 100}, 3},
		{depth, 20, []int32{1, 2, 3, 4, 20}, -1},
		{depth, 19, []int32{1, 2, 3, 4, 20}, 4},
	} {
		there := c.r.Within(c.extent)
		b, refused := there.Batch(nil, c.ends, planner.Options{})
		require.Equal(t, c.refused, refused, c)
		for i := range b {
			if c.r.Form == planner.EndsOfRows && b[i].M > 0 {
				require.LessOrEqual(t, b[i].C.Offset/30+b[i].M, there.M)
			}
		}
	}
}

// TestRaggedEpilogue: lists by row have the rows of all groups. Lists by column belong to a group.
func TestRaggedEpilogue(t *testing.T) {
	r := experts()
	r.B2, r.Bias, r.StrideBias, r.RowsA, r.RowsC, r.Weights = planner.Matrix{Offset: 5, LD: 40}, 2, 61, 7,
		200, 400
	e := planner.Epilogue{Activation: planner.SiLU, Bias: true, Gated: true, GatherRows: 30, ScatterRows: 50,
		Weights: true}
	b, refused := r.Batch(nil, []int32{10, 10, 40, 41, 90}, planner.Options{Epilogue: e})
	require.Equal(t, -1, refused)
	require.Equal(t, planner.Problem{M: 30, N: 30, K: 20, A: r.A, B: planner.Matrix{Offset: 1400, LD: 31},
		C:  r.C,
		B2: planner.Matrix{Offset: 1405, LD: 40}, Bias: 2 + 2*61, RowsA: 17, RowsC: 210, Weights: 410}, b[2])
	b, _ = r.Batch(nil, []int32{10, 10, 40, 41, 90},
		planner.Options{Epilogue: planner.Epilogue{Weights: true}})
	require.Equal(t, [3]int{r.A.Offset + 10*20, 10 * 30, 410}, [3]int{b[2].A.Offset, b[2].C.Offset,
		b[2].Weights})

	d := lookup(t, "lavapipe")
	p, err := planner.New(d).PlanRagged(r, planner.Options{Epilogue: e, Tile: "medium"})
	require.NoError(t, err)
	require.Equal(t, [6]int{3 + 29*20 + 20, 4*700 + 19*31 + 30, 49*30 + 30, 5 + 4*700 + 19*40 + 30,
		2 + 4*61 + 60, 500},
		[6]int{p.ExtentA, p.ExtentB, p.ExtentC, p.ExtentB2, p.ExtentBias, p.ExtentRows})
	plain, err := planner.New(d).PlanRagged(r, planner.Options{Tile: "medium"})
	require.NoError(t, err)
	items := func(p *planner.Plan) int {
		return int(p.Encode(nil)[encoding.BoundStarts]) - p.Launches[2].Items
	}
	tiles := items(plain) / encoding.ItemWords
	tiles -= encoding.SectionWords / encoding.ItemWords // the section's end may be empty
	require.GreaterOrEqual(t, items(p), 2*tiles*encoding.EpilogueItemWords, "two items a tile")
	require.LessOrEqual(t, encoding.EpilogueBoundWords, encoding.StatusWord,
		"the bounds fit in front of what is refused")

	for name, c := range map[string]struct {
		edit func(r *planner.Ragged)
		want string
	}{
		"rest": {func(r *planner.Ragged) { r.Rest = planner.RestNaN },
			"Rest cannot be combined with an epilogue"},
		"beta":   {func(r *planner.Ragged) { r.Beta = 1 }, "beta 1 is not 0"},
		"transA": {func(r *planner.Ragged) { r.TransA, r.A.LD = true, 100 }, "transA is set"},
		"gather of records": {func(r *planner.Ragged) { r.Form, r.TransA = planner.Records, true },
			"transA is set, but GatherRows needs an A that is not transposed"},
		"length of rows": {func(r *planner.Ragged) { r.Form, r.LenRows = planner.Records, -1 },
			"length of rows -1 is not in"},
		"length of B2": {func(r *planner.Ragged) { r.Form, r.LenB2 = planner.Records, -1 },
			"length of B2 -1 is not in"},
		"length of bias": {func(r *planner.Ragged) { r.Form, r.LenBias = planner.Records, -1 },
			"length of biases -1 is not in"},
		"lists of depth": {func(r *planner.Ragged) {
			r.Form, r.Groups, r.M = planner.EndsOfDepth, 4096,
				1<<21
		},
			"the rows of A of the last group do not fit"},
		"ldb2":   {func(r *planner.Ragged) { r.B2.LD = 3 }, "ldb2 3 < row length 30"},
		"lists":  {func(r *planner.Ragged) { r.RowsC = -1 }, "rows of C offset -1 is negative"},
		"stride": {func(r *planner.Ragged) { r.StrideBias = -1 }, "stride of biases -1 is not in"},
		"far": {func(r *planner.Ragged) { r.Groups, r.StrideBias = 4096, 1<<29-1 },
			"the bias of the last group does not fit"},
	} {
		t.Run(name, func(t *testing.T) {
			r := r
			c.edit(&r)
			_, err := planner.New(d).PlanRagged(r, planner.Options{Epilogue: e})
			require.ErrorIs(t, err, planner.ErrInvalid)
			require.ErrorContains(t, err, "ragged batch: ")
			require.ErrorContains(t, err, c.want)
		})
	}
	native := lookup(t, "mi210")
	plan, err := planner.New(native).PlanRagged(r, planner.Options{Epilogue: planner.Epilogue{Gated: true}})
	require.NoError(t, err)
	last := &plan.Launches[len(plan.Launches)-1]
	require.GreaterOrEqual(t, plan.Workspace, last.Count*last.Tile.TM*last.Tile.TN,
		"workers keep the first of two products")
}

// TestRaggedChoice: the kernels of a plan of experts (bf16, 128 groups of N 1536 and K 2048) on an H200, by
// number of rows.
func TestRaggedChoice(t *testing.T) {
	rows := planner.Ragged{Form: planner.EndsOfRows, Groups: 128, N: 1536, K: 2048,
		A: planner.Matrix{LD: 2048}, B: planner.Matrix{LD: 1536}, C: planner.Matrix{LD: 1536},
		StrideB: 1536 * 2048}
	depth := planner.Ragged{Form: planner.EndsOfDepth, Groups: 128, M: 2048, N: 1536, TransA: true,
		A: planner.Matrix{LD: 2048}, B: planner.Matrix{LD: 1536}, C: planner.Matrix{LD: 1536},
		StrideC: 2048 * 1536}
	fp32 := planner.Ragged{Form: planner.EndsOfRows, Groups: 8, N: 512, K: 256, A: planner.Matrix{LD: 256},
		B: planner.Matrix{LD: 512}, C: planner.Matrix{LD: 512}, StrideB: 512 * 256}
	odd, untransposed := depth, depth
	odd.B.LD++
	untransposed.TransA, untransposed.A.LD = false, 1<<17
	along := rows // K
	along.TransB, along.B.LD = true, 2048
	for _, c := range []struct {
		name  string
		of    element.Type
		r     planner.Ragged
		rows  int // of all groups
		tiles []string
		chunk uint32 // of the first
		mixed bool   // some groups may take the second
	}{
		{"few rows", element.BF16, rows, 2048, []string{"aligned-64x128"}, 1, false},
		{"boxes", element.BF16, along, 128 * 256, []string{"aligned-128x256", "aligned-64x128"}, 1, false},
		{"boxes of bytes", element.E4M3, along, 128 * 256, []string{"aligned-128x256", "aligned-64x128"}, 1,
			false},
		{"few rows of bytes", element.E4M3, along, 128 * 64, []string{"aligned-128x128", "aligned-64x128"},
			1, false},
		{"half tiles", element.BF16, rows, 8192, []string{"aligned-128x128", "aligned-64x128"}, 1, false},
		{"quarters of tiles", element.F32, fp32, 8192, []string{"wgmma-128x128", "wgmma-64x64-deep"}, 1,
			true},
		{"shallow", element.BF16, depth, 512, []string{"aligned-128x128"}, 4, false},
		{"deep", element.BF16, depth, 128 * 1000, []string{"aligned-128x128"}, 1, false},
		{"odd rows", element.BF16, odd, 8192, []string{"wgmma-128x128"}, 2, false},
		{"groups begin anywhere", element.BF16, untransposed, 8192, []string{"wgmma-128x128"}, 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.r.Form == planner.EndsOfRows {
				c.r.M = c.rows
			} else {
				c.r.K = c.rows
			}
			p, err := planner.New(lookup(t, "h200")).PlanRagged(c.r,
				planner.Options{TypeA: c.of, TypeC: elemtype.TypesC(c.of)[0]})
			require.NoError(t, err)
			var tiles []string
			for _, l := range p.Launches {
				if l.Ragged == 0 {
					tiles = append(tiles, l.Tile.Name)
				}
			}
			require.Equal(t, c.tiles, tiles)
			first := p.Encode(nil)[encoding.BoundTile:]
			require.Equal(t, c.chunk, first[encoding.KernelChunk])
			if len(tiles) > 1 {
				second := first[encoding.KernelWords:]
				require.Equal(t, c.mixed,
					!math.IsInf(float64(math.Float32frombits(second[encoding.KernelStep])), 1))
			}
		})
	}
}

// A plan has launches that make items and then those that multiply. Its bounds fit in the head.
func TestPlanRagged(t *testing.T) {
	for _, name := range []string{"h200", "h200-webgpu", "mi210", "lavapipe"} {
		t.Run(name, func(t *testing.T) {
			d := lookup(t, name)
			r := experts()
			p, err := planner.New(d).PlanRagged(r, planner.Options{})
			require.NoError(t, err)
			require.True(t, p.Takes().Sizes)
			require.Equal(t, [3]int{3 + 100*20, 4*700 + 19*31 + 30, 100 * 30},
				[3]int{p.ExtentA, p.ExtentB, p.ExtentC})
			encoded := p.Encode(nil)
			require.Len(t, encoded, encoding.RaggedHead)
			require.Zero(t, encoded[encoding.StatusWord])
			makers := 1
			if d.KernelKind != encoding.KernelsNative {
				makers = 2
			}
			end := encoding.RaggedHead
			for i, l := range p.Launches {
				require.Equal(t, i < makers, l.Ragged > 0)
				if l.Ragged == 0 {
					require.True(t, l.Loop && l.Count > 0 && l.Table >= end && l.Items > l.Table+l.Count &&
						l.Items < p.Words, "%+v", l)
					end = l.Table + l.Count + 1
				}
			}
			_, err = json.Marshal(p)
			require.ErrorIs(t, err, planner.ErrInvalid)
			_, err = planner.New(d).PlanRagged(r, planner.Options{Schedule: planner.ScheduleLPT})
			require.ErrorContains(t, err, "needs sizes that the host knows")
			forced, err := planner.New(d).PlanRagged(r, planner.Options{Tile: "medium"})
			require.NoError(t, err)
			require.Equal(t, "medium", forced.Launches[makers].Tile.Name)
			require.Len(t, forced.Launches, makers+1)
			r.Form, r.LenA = planner.Records, 1<<29-1
			if _, err = planner.New(d).PlanRagged(r, planner.Options{}); d.MaxBinding > 0 &&
				d.MaxBinding/4 < r.LenA {
				require.ErrorContains(t, err, "an operand has more elements than")
			}
		})
	}
}

func TestAppendRecords(t *testing.T) {
	if far := int64(math.MaxUint32 + 1); int64(int(far)) == far {
		_, err := planner.AppendRecords(nil, planner.Batch{{}, {C: planner.Matrix{Offset: int(far)}}},
			planner.Options{})
		require.ErrorContains(t, err, "problem 1: C offset 4294967296 needs more than 32 bits")
	}
	q := planner.Problem{M: 1, N: 2, K: 3, Beta: -1, A: planner.Matrix{Offset: 5, LD: 4}}
	words, err := planner.AppendRecords([]int32{7}, planner.Batch{q}, planner.Options{})
	require.NoError(t, err)
	require.Equal(t, []int32{7, 1, 2, 3, 4, 0, 0, 5, 0, 0, int32(math.Float32bits(1)),
		math.MinInt32 + 0x3f800000, 0}, words)
}

// There is room for the tiles of all valid sizes, and no worker exceeds the device's loop limit.
func TestRaggedRoom(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for _, name := range []string{"h200", "lavapipe"} {
		d := lookup(t, name)
		if d.MaxTrips > 0 {
			d.MaxTrips = 200
		}
		for range 300 {
			r := experts()
			r.Groups, r.M, r.Rest = 1+rng.IntN(6), rng.IntN(4000), planner.Rest(rng.IntN(2))
			p, err := planner.New(d).PlanRagged(r, planner.Options{Tile: "medium"})
			require.NoError(t, err)
			l := p.Launches[len(p.Launches)-1]
			room := (p.Words - l.Items) / encoding.ItemWords
			ends := make([]int32, r.Groups)
			for i := range ends {
				ends[i] = int32(rng.IntN(r.M + 1))
			}
			slices.Sort(ends)
			b, refused := r.Batch(nil, ends, planner.Options{})
			require.Equal(t, -1, refused)
			tiles := 0
			for i := range b {
				tiles += (b[i].M + 31) / 32
			}
			require.LessOrEqual(t, tiles, room-scratch(p), "%+v %v", r, ends)
			if d.MaxTrips > 0 {
				steps := (tiles + l.Count - 1) / l.Count * ((r.K + 15) / 16)
				require.LessOrEqual(t, steps*(32+4+16+8+8), d.MaxTrips, "each an item of its own")
			}
		}
	}
}

// scratch returns the items for which the sections after them have room.
func scratch(p *planner.Plan) int {
	encoded := p.Encode(nil)
	if starts := int(encoded[encoding.BoundStarts]); starts > 0 {
		return (p.Words - starts) / encoding.ItemWords
	}
	return 0
}
