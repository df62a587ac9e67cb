package planner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner/element"
	"github.com/batchgemm/batchgemm/planner/encoding"
)

func groupsOf(e Epilogue) Options {
	return Options{Type: element.BF16, TypeC: element.BF16, Epilogue: e}
}

// int4Device is one that takes B of Int4.
func int4Device(t *testing.T) *Device {
	d := clone(device(t, "lavapipe"))
	d.Types = append(d.Types, element.Int4)
	return d
}

func TestGroupMistakes(t *testing.T) {
	good := Problem{M: 2, N: 3, K: 256, TransB: true, A: Matrix{0, 257}, B: Matrix{32, 384}, C: Matrix{0, 3}, B2: Matrix{0, 256}}
	by := Epilogue{ScaleB: PerGroup128}
	gated := Epilogue{ScaleB: PerGroup128, Gated: true}
	for _, c := range []struct {
		name string
		o    Options
		edit func(*Problem)
		want string // "" when nothing is wrong
	}{
		{"good", groupsOf(by), func(p *Problem) {}, ""},
		{"gated", groupsOf(gated), func(p *Problem) {}, ""},
		{"no rows", groupsOf(by), func(p *Problem) { p.M, p.TransB, p.K, p.B.LD = 0, false, 1, 3 }, ""},
		{"groups of 64", groupsOf(Epilogue{ScaleB: PerGroup64}), func(p *Problem) { p.K, p.B.LD = 64, 64 }, ""},
		{"K", groupsOf(by), func(p *Problem) { p.K = 192 }, "problem 0: K 192 is no multiple of the group of 128 that share a scale of B"},
		{"ldb", groupsOf(by), func(p *Problem) { p.B.LD = 320 }, "problem 0: ldb 320 is no multiple of the group of 128 that share a scale of B"},
		{"ldb2", groupsOf(gated), func(p *Problem) { p.B2.LD = 320 }, "problem 0: ldb2 320 is no multiple of the group of 128 that share a scale of B"},
		{"B", groupsOf(by), func(p *Problem) { p.B.Offset = 40 }, "problem 0: B offset 40 is no multiple of 32, 16 bytes of int4"},
		{"transA", groupsOf(by), func(p *Problem) { p.TransA = true }, "problem 0: transA is set, but where B is of int4 A lies along K"},
		{"transB", groupsOf(by), func(p *Problem) { p.TransB = false }, "problem 0: transB is not set, but B of int4 lies along K"},
		{"A of int4", Options{Type: element.Int4}, func(*Problem) {}, "elements of A cannot be int4: B alone may, with scales of groups"},
		{"A of f32", Options{Epilogue: by}, func(*Problem) {}, "scales of groups are for A of bf16 or f16, not f32"},
		{"scales of A", groupsOf(Epilogue{ScaleA: PerRow, ScaleB: PerGroup64}), func(*Problem) {}, "A has no scales where those of B are of groups"},
		{"groups of A", groupsOf(Epilogue{ScaleA: PerGroup64}), func(*Problem) {}, `unknown scaling "group-64" (known: tensor, row, and of B group-64, group-128)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := good
			c.edit(&p)
			if p.A.LD < p.M { // transposed
				p.A.LD = p.M
			}
			_, err := New(int4Device(t)).Plan(Batch{p}, c.o)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, c.want)
			require.ErrorIs(t, err, ErrInvalid)
		})
	}
	_, err := New(device(t, "mi300x")).Plan(Batch{good}, groupsOf(by))
	require.EqualError(t, err, "device mi300x has no kernels for B of int4")
	require.EqualError(t, Batch{good}.CheckOperands(t.Context(), by, Lengths{A: 1000, B: 2000, C: 6, Rows: 8}),
		"problem 0: scales of B need words [0, 9) of a buffer of 8")
}

// The scales of a tile's first column are where its B begins, in terms of groups, and those of B2 behind all of B.
func TestGroupItems(t *testing.T) {
	p := Problem{M: 20, N: 40, K: 256, TransB: true, A: Matrix{0, 256}, B: Matrix{0, 384}, C: Matrix{0, 40}, B2: Matrix{0, 512}, ScaleB: 100}
	o := groupsOf(Epilogue{ScaleB: PerGroup128, Gated: true})
	o.Tile = "small"
	plan, err := New(int4Device(t)).Plan(Batch{p}, o)
	require.NoError(t, err)
	require.Equal(t, 100+40*3+40*4, plan.ExtentRows)
	words, l := plan.Encode(nil), &plan.Launches[0]
	require.Equal(t, element.Int4, l.TypeB())
	n := l.ItemWords()
	for i := range plan.Segments {
		col := int(plan.Segments[i].Col) * l.Tile.TN
		first := words[l.Items+2*i*n:]
		require.Equal(t, uint32(100+col*3), first[encoding.ScaleBAt])
		require.Equal(t, uint32(col*384), first[encoding.OffB])
		require.Equal(t, uint32(100+40*3+col*4), first[n+int(encoding.ScaleBAt)])
		require.Equal(t, uint32(256), first[encoding.Depth])
	}
	o.Schedule = ScheduleStreamK
	cut, err := New(int4Device(t)).Plan(Batch{p}, o)
	require.NoError(t, err)
	require.Equal(t, len(plan.Segments), len(cut.Segments))
}

func TestRaggedGroups(t *testing.T) {
	r := Ragged{Form: EndsOfRows, Groups: 3, M: 10, N: 5, K: 256, TransB: true, A: Matrix{LD: 256}, B: Matrix{LD: 256}, C: Matrix{LD: 5}, StrideB: 1280, ScaleB: 7}
	by := Epilogue{ScaleB: PerGroup64}
	b, refused := r.Batch(nil, []int32{2, 2, 5}, by)
	require.Equal(t, -1, refused)
	require.Equal(t, []int{7, 27, 47}, []int{b[0].ScaleB, b[1].ScaleB, b[2].ScaleB})
	planner := New(int4Device(t))
	for _, c := range []struct {
		edit func(*Ragged)
		want string
	}{
		{func(*Ragged) {}, ""},
		{func(r *Ragged) { r.StrideB = 1290 }, "ragged batch: stride of B 1290 is no multiple of 32, 16 bytes of int4"},
		{func(r *Ragged) { r.K = 250 }, "ragged batch: problem 0: K 250 is no multiple of the group of 64 that share a scale of B"},
		{func(r *Ragged) { r.Form = EndsOfDepth }, "ragged batch: scales of groups need a K that the host knows, or records"},
		{func(r *Ragged) { r.Form, r.TransB = Records, false }, "ragged batch: where B is of int4 A and B lie along K: transA is not set, and transB is"},
	} {
		bad := r
		c.edit(&bad)
		_, err := planner.PlanRagged(bad, groupsOf(by))
		if c.want == "" {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, c.want)
	}
	records := Ragged{Form: Records, Groups: 1, M: 10, N: 5, K: 256, TransB: true, LenA: 5000, LenB: 5000, LenC: 100, LenRows: 50}
	for _, c := range []struct {
		k, ldb, offset int
		fits           bool
	}{{128, 256, 32, true}, {96, 256, 32, false}, {128, 224, 32, false}, {128, 256, 8, false}} {
		q := Batch{{M: 2, N: 5, K: c.k, TransB: true, A: Matrix{LD: 256}, B: Matrix{c.offset, c.ldb}, C: Matrix{LD: 5}}}
		words, err := AppendScaledRecords(nil, q)
		require.NoError(t, err)
		_, refused := records.Batch(nil, words, by)
		require.Equal(t, c.fits, refused < 0, c)
	}
}
