package planner

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/occupancy"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

func groupsOf(e Epilogue) Options {
	return Options{TypeA: element.BF16, TypeB: e.ScaleB.TypeB(element.Int4), TypeC: element.BF16, Epilogue: e}
}

// int4Device returns a device that supports B of 4 bits.
func int4Device(t *testing.T) *Device {
	d := clone(device(t, "lavapipe"))
	d.Types = append(d.Types, elemtype.Types4()...)
	return d
}

// TestGoldenGroups shows every change of plans for B of 4 bits: where their scales lie, and where tiles may
// be cut.
func TestGoldenGroups(t *testing.T) {
	for _, by := range []Scaling{PerGroup128, PerGroup32, PerGroup16} {
		o := groupsOf(Epilogue{ScaleB: by})
		var b Batch
		var end [3]int
		words := 0
		for i, m := range []int{1, 9, 70} {
			q := Problem{M: m, N: 66, K: by.UnitK() * (1 + 40*i), ScaleB: words,
				A: Matrix{LD: 128 + 5120*i}, B: Matrix{LD: 72}, C: Matrix{LD: 66}}
			q.A.Offset, q.B.Offset, q.C.Offset = end[0], end[1], end[2]
			end[0], end[1], end[2] = end[0]+m*q.A.LD, end[1]+roundUp(q.K*q.B.LD, 32), end[2]+m*q.C.LD
			words += by.GroupWords(q.K, q.B.LD)
			b = append(b, q)
		}
		golden(t, "groups-"+o.TypeB.String(), int4Device(t), b, o)
		o.Schedule = ScheduleStreamK
		if by != PerGroup16 { // whose tiles are not cut
			golden(t, "groups-"+o.TypeB.String()+"-stream", int4Device(t), b, o)
		}
	}
}

func TestGroupMistakes(t *testing.T) {
	good := Problem{M: 2, N: 3, K: 256, A: Matrix{0, 257}, B: Matrix{32, 16}, C: Matrix{0, 3},
		B2: Matrix{0, 8}}
	by := Epilogue{ScaleB: PerGroup128}
	gated := Epilogue{ScaleB: PerGroup128, Gated: true}
	mx, nv := Epilogue{ScaleB: PerGroup32}, Epilogue{ScaleB: PerGroup16}
	for _, c := range []struct {
		name string
		o    Options
		edit func(*Problem)
		want string // "" when nothing is wrong
	}{
		{"good", groupsOf(by), func(p *Problem) {}, ""},
		{"gated", groupsOf(gated), func(p *Problem) {}, ""},
		{"no rows", groupsOf(by), func(p *Problem) { p.M, p.TransB, p.K, p.B.LD = 0, true, 1, 3 }, ""},
		{"groups of 64", groupsOf(Epilogue{ScaleB: PerGroup64}), func(p *Problem) { p.K = 64 }, ""},
		{"K", groupsOf(by), func(p *Problem) { p.K = 192 },
			"problem 0: K 192 is no multiple of the group of 128 that share a scale of B"},
		{"ldb", groupsOf(by), func(p *Problem) { p.B.LD = 12 },
			"problem 0: ldb 12 is no multiple of 8, as int4 needs"},
		{"ldb2", groupsOf(gated), func(p *Problem) { p.B2.LD = 12 },
			"problem 0: ldb2 12 is no multiple of 8, as int4 needs"},
		{"B", groupsOf(by), func(p *Problem) { p.B.Offset = 40 },
			"problem 0: B offset 40 is no multiple of 32, 16 bytes of int4"},
		{"transA", groupsOf(by), func(p *Problem) { p.TransA = true },
			"problem 0: transA is set, but with B of int4 A cannot be transposed"},
		{"transB", groupsOf(by), func(p *Problem) { p.TransB, p.B.LD = true, 256 },
			"problem 0: transB is set, but B of int4 cannot be transposed"},
		{"A of int4", Options{TypeA: element.Int4}, func(*Problem) {},
			"elements of A cannot be int4: only B may, with scales of groups"},
		{"no groups", groupsOf(Epilogue{}), func(*Problem) {},
			"B of int4 needs scales of groups: group-64 or group-128"},
		{"B of bf16", Options{TypeA: element.BF16, Epilogue: by}, func(*Problem) {},
			`scales "group-128" are for B of int4, not bf16`},
		{"A of f32", Options{Epilogue: by}, func(*Problem) {},
			"scales of groups are for A of bf16 or f16, not f32"},
		{"scales of A", groupsOf(Epilogue{ScaleA: PerRow, ScaleB: PerGroup64}), func(*Problem) {},
			"A cannot have scales if those of B are of groups"},
		{"groups of A", groupsOf(Epilogue{ScaleA: PerGroup64}), func(*Problem) {},
			`unknown scaling "group-64" (known: tensor, row, of both block, and of B group-64, group-128, ` +
				"group-32, group-16)"},
		{"mxfp4", groupsOf(mx), func(p *Problem) { p.K = 192 }, ""},
		{"nvfp4", groupsOf(nv), func(p *Problem) { p.K = 192 }, ""},
		{"K of mxfp4", groupsOf(mx), func(p *Problem) { p.K = 32 },
			"problem 0: K 32 is no multiple of 64, as B of mxfp4 needs"},
		{"ldb of nvfp4", groupsOf(nv), func(p *Problem) { p.B.LD = 12 },
			"problem 0: ldb 12 is no multiple of 8, as nvfp4 needs"},
		{"transB of mxfp4", groupsOf(mx), func(p *Problem) { p.TransB, p.B.LD = true, 256 },
			"problem 0: transB is set, but B of mxfp4 cannot be transposed"},
		{"mxfp4 without groups", Options{TypeA: element.F16, TypeB: element.MXFP4, TypeC: element.F16},
			func(*Problem) {}, "B of mxfp4 needs scales of groups: group-32"},
		{"nvfp4 without groups", Options{TypeA: element.F16, TypeB: element.NVFP4, TypeC: element.F16},
			func(*Problem) {}, "B of nvfp4 needs scales of groups: group-16"},
		{"groups of another type", Options{TypeA: element.F16, TypeB: element.NVFP4, TypeC: element.F16,
			Epilogue: mx}, func(*Problem) {}, `scales "group-32" are for B of mxfp4, not nvfp4`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := good
			c.edit(&p)
			if p.A.LD < p.M { // transposed
				p.A.LD = p.M
			}
			_, err := New(int4Device(t)).Plan(t.Context(), Batch{p}, c.o)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, c.want)
			require.ErrorIs(t, err, ErrInvalid)
		})
	}
	lacks := device(t, "mi300x")
	lacks.Types = slices.DeleteFunc(slices.Clone(lacks.Types),
		func(of element.Type) bool { return of == element.Int4 })
	_, err := New(lacks).Plan(t.Context(), Batch{good}, groupsOf(by))
	require.EqualError(t, err, "device mi300x has no kernels for B of int4")
	require.ErrorIs(t, err, ErrInvalid)
	_, err = New(device(t, "mi300x")).Plan(t.Context(), Batch{good}, groupsOf(mx))
	require.EqualError(t, err, "device mi300x has no kernels for B of mxfp4")
	_, err = New(device(t, "mi300x")).Plan(t.Context(), Batch{good}, groupsOf(nv))
	require.EqualError(t, err, "device mi300x has no kernels for B of nvfp4")
	for _, k := range []int{64, 192, 256} { // the last word of MXFP4 may be half used
		p := Problem{N: 5, K: k, B: Matrix{LD: 8}, B2: Matrix{LD: 16}}
		require.Equal(t, (k+127)/128*24, (&Epilogue{ScaleB: PerGroup32, Gated: true}).ScalesB(&p))
		require.Equal(t, (k/64+1)*8, nv.ScalesB(&p))
	}
	require.EqualError(t, Batch{good}.Check(t.Context(), by,
		Lengths{A: 1000, B: 5000, C: 6, Rows: 31}),
		"problem 0: scales of B need words [0, 32) of a buffer of 31")
}

// Columns of a tile's B are a panel's depth apart, columns of its scales one word. Those of B2 follow all of
// B.
func TestGroupItems(t *testing.T) {
	p := Problem{M: 20, N: 40, K: 256, A: Matrix{0, 256}, B: Matrix{0, 48}, C: Matrix{0, 40},
		B2: Matrix{0, 40}, ScaleB: 100}
	o := groupsOf(Epilogue{ScaleB: PerGroup128, Gated: true})
	o.Tile = "small"
	plan, err := New(int4Device(t)).Plan(t.Context(), Batch{p}, o)
	require.NoError(t, err)
	require.Equal(t, 100+2*48+2*40, plan.ExtentRows)
	words, l := plan.Encode(nil), &plan.Launches[0]
	require.Equal(t, element.Int4, l.TypeB())
	require.False(t, l.Vector)
	n := l.ItemWords()
	for i := range plan.Segments {
		col := int(plan.Segments[i].Col) * l.Tile.TN
		first := words[l.Items+2*i*n:]
		require.Equal(t, uint32(100+col), first[encoding.ScaleBAt])
		require.Equal(t, uint32(64*col), first[encoding.OffB])
		require.Equal(t, uint32(100+2*48+col), first[n+int(encoding.ScaleBAt)])
		require.Equal(t, uint32(64*col), first[n+int(encoding.OffB)])
		require.Equal(t, uint32(256), first[encoding.Depth])
	}
	o.Schedule = ScheduleStreamK
	cut, err := New(int4Device(t)).Plan(t.Context(), Batch{p}, o)
	require.NoError(t, err)
	require.Equal(t, len(plan.Segments), len(cut.Segments))
}

// CUDA has tile shapes only for B of Int4.
func TestGroupTiles(t *testing.T) {
	for _, name := range []string{"a100", "h200"} {
		d := device(t, name)
		o := groupsOf(Epilogue{ScaleB: PerGroup128})
		plan, err := New(d).Plan(t.Context(), mustPack(t, GEMM(3, 64, 256), GEMM(70, 264, 512),
			GEMM(1000, 2000, 128)), o)
		require.NoError(t, err, name)
		for _, s := range plan.Tiles {
			require.True(t, s.Int4Only, "%s: %s", name, s)
		}
		for i := range d.Kernels {
			s := d.Kernels[i].Tile
			require.Equal(t, s.Int4Only, d.Fits(s, o), s)
			require.False(t, s.Int4Only && d.Fits(s, groupsOf(Epilogue{Bias: true})), s)
		}
		_, err = New(d).Plan(t.Context(), mustPack(t, GEMM(3, 64, 256)), Options{Tile: "int4-16x128"})
		require.ErrorIs(t, err, ErrInvalid)
	}
}

// HIP uses the tile shapes with epilogues for B of Int4, as for 16-bit B.
func TestGroupTilesOfHIP(t *testing.T) {
	o := groupsOf(Epilogue{ScaleB: PerGroup128})
	for _, name := range []string{"mi100", "mi210", "mi300x"} {
		d := device(t, name)
		for i := range d.Kernels {
			k := &d.Kernels[i]
			require.Equal(t, k.Tile.Epilogues && k.Tile.Unit == tile.FMA, d.Fits(k.Tile, o), "%s: %s", name,
				k.Tile)
			require.Equal(t, d.rate(k, arithmetic{bits: 16}), d.rate(k, arithmetic{bits: 4}), "%s: %s", name,
				k.Tile)
		}
		plan, err := New(d).Plan(t.Context(), mustPack(t, GEMM(3, 64, 256), GEMM(70, 264, 512),
			GEMM(1000, 2000, 128)), o)
		require.NoError(t, err, name)
		for _, s := range plan.Tiles {
			require.True(t, s.Epilogues, "%s: %s", name, s)
		}
	}
}

// On an H200 the experts' tokens decide the tile shape for B of Int4: the one that took least time there
// (docs/bytes.md).
func TestGroupChoice(t *testing.T) {
	o := groupsOf(Epilogue{ScaleB: PerGroup128})
	for _, c := range []struct {
		tokens int
		tile   string
	}{{1, "int4-stream-16x128"}, {16, "int4-stream-16x128"}, {64, "int4-stream-16x128"},
		{256, "int4-wgmma-32x128"}, {1024, "int4-wgmma-128x128"}, {4096, "int4-wgmma-128x128"}} {
		plan, err := New(device(t, "h200")).PlanRagged(Ragged{Form: EndsOfRows, Groups: 128, M: 8 * c.tokens,
			N: 1536, K: 2048, A: Matrix{LD: 2048},
			B: Matrix{LD: 1536}, C: Matrix{LD: 1536}, StrideB: 1536 * 2048}, o)
		require.NoError(t, err)
		first := slices.IndexFunc(plan.Launches, func(l encoding.Launch) bool { return l.Ragged == 0 })
		require.Equal(t, c.tile, plan.Launches[first].Tile.Name, "%d tokens", c.tokens)
	}
}

// A tile is split along K between groups, and each partial starts with the word of its first group. If a K
// step is not a whole number of groups, tiles stay whole with every schedule.
func TestGroupsAreCut(t *testing.T) {
	d := device(t, "h200")
	q := Problem{M: 5, N: 300, K: 4096, A: Matrix{LD: 4096}, B: Matrix{LD: 304}, C: Matrix{LD: 300},
		ScaleB: 7}
	for _, c := range []struct {
		tile     string
		by       Scaling
		schedule Schedule
	}{{"", PerGroup128, ""}, {"int4-stream-16x128", PerGroup128, ScheduleSplitK},
		{"int4-wgmma-32x128", PerGroup64, ScheduleStreamK}} {
		o := groupsOf(Epilogue{ScaleB: c.by})
		o.Tile, o.Schedule = c.tile, c.schedule
		plan, err := New(d).Plan(t.Context(), Batch{q}, o)
		require.NoError(t, err)
		l := &plan.Launches[0]
		require.True(t, l.Split, "%s", l)
		require.NotEmpty(t, plan.Fixups)
		require.Equal(t, encoding.Epilogue{}, plan.Launches[1].Epilogue, "products have had their scales")
		words := plan.Encode(nil)
		for i, s := range plan.Segments {
			item := words[l.Items:][i*l.ItemWords():]
			require.EqualValues(t, 7+int(s.K0)/c.by.Group()*304+int(s.Col)*128, item[encoding.ScaleBAt],
				"%+v", s)
		}
	}
	web := int4Device(t)
	web.ComputeUnits = 1024
	for _, c := range []struct {
		tile string
		by   Scaling
		cut  bool
	}{{"small", PerGroup64, false}, {"small-k8", PerGroup64, true}, {"small-k8", PerGroup128, false}} {
		o := groupsOf(Epilogue{ScaleB: c.by})
		o.Tile, o.Schedule = c.tile, ScheduleSplitK
		plan, err := New(web).Plan(t.Context(), Batch{q}, o)
		require.NoError(t, err)
		require.Equal(t, c.cut, len(plan.Fixups) > 0, "%s, %s", c.tile, c.by)
	}
}

// TestFewRowsOnCPU: B of 4 bits with few rows takes tiles of few rows, where the CPU has kernels for them.
func TestFewRowsOnCPU(t *testing.T) {
	d := &Device{Name: "cpu", Occupancy: occupancy.Limits, ComputeUnits: 2, WaveSize: 1, TFLOPS: 0.4,
		PeakGuessed: true, LaunchMicros: 5, MaxWaves: 1024, MaxGroups: 1, Shared: 256 << 10, MaxThreads: 1024,
		GroupShared: 256 << 10, KernelKind: encoding.KernelsCPU, Types: elemtype.Types4(), Epilogues: true}
	d.Types = append(d.Types, element.BF16)
	for _, s := range tile.Of(tile.SIMD) {
		d.Kernels = append(d.Kernels, KernelFacts{Tile: s})
	}
	for _, c := range []struct {
		rows int
		by   Scaling
		few  bool
	}{{1, PerGroup32, true}, {16, PerGroup16, true}, {8, PerGroup64, true}, {200, PerGroup32, false}} {
		m := Matrix{LD: 4096}
		q := Problem{M: c.rows, N: 4096, K: 4096, A: m, B: m, C: m}
		plan, err := New(d).Plan(t.Context(), Batch{q}, groupsOf(Epilogue{ScaleB: c.by}))
		require.NoError(t, err)
		require.Equal(t, c.few, plan.Launches[0].Tile.TM <= 16, "%d rows: %s", c.rows, plan.Launches[0].Tile)
	}
}

// A launch that cannot reach all of B has windows of whole columns.
func TestGroupWindows(t *testing.T) {
	d := int4Device(t)
	d.MaxBinding = 32 << 10
	p := Problem{M: 1, N: 4096, K: 128, A: Matrix{0, 128}, B: Matrix{0, 4096}, C: Matrix{0, 4096}}
	plan, err := New(d).Plan(t.Context(), Batch{p}, groupsOf(Epilogue{ScaleB: PerGroup64}))
	require.ErrorContains(t, err, "is too large")
	require.Nil(t, plan)
	p.K, p.A.LD = 64, 64
	plan, err = New(d).Plan(t.Context(), Batch{p}, groupsOf(Epilogue{ScaleB: PerGroup64}))
	require.NoError(t, err)
	require.Greater(t, len(plan.Launches), 1)
	for _, l := range plan.Launches {
		require.LessOrEqual(t, element.Int4.Size(l.SpanB), d.MaxBinding)
	}
}

func TestRaggedGroups(t *testing.T) {
	r := Ragged{Form: EndsOfRows, Groups: 3, M: 10, N: 5, K: 256, A: Matrix{LD: 256}, B: Matrix{LD: 8},
		C: Matrix{LD: 5}, StrideB: 2048, ScaleB: 7}
	by := Epilogue{ScaleB: PerGroup64}
	b, refused := r.Batch(nil, []int32{2, 2, 5}, Options{Epilogue: by})
	require.Equal(t, -1, refused)
	require.Equal(t, []int{7, 39, 71}, []int{b[0].ScaleB, b[1].ScaleB, b[2].ScaleB})
	planner := New(int4Device(t))
	for _, c := range []struct {
		edit func(*Ragged)
		want string
	}{
		{func(*Ragged) {}, ""},
		{func(r *Ragged) { r.StrideB = 2050 },
			"ragged batch: stride of B 2050 is no multiple of 32, 16 bytes of int4"},
		{func(r *Ragged) { r.K = 250 }, "ragged batch: problem 0: K 250 is no multiple of the group of 64 " +
			"that share a scale of B"},
		{func(r *Ragged) { r.Form = EndsOfDepth },
			"ragged batch: scales of groups need records, or a K that the host knows"},
		{func(r *Ragged) { r.Form, r.TransB = Records, true },
			"ragged batch: with B of int4, neither A nor B may be transposed"},
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
	records := Ragged{Form: Records, Groups: 1, M: 10, N: 5, K: 256, LenA: 5000, LenB: 5000, LenC: 100,
		LenRows: 50}
	for _, c := range []struct {
		k, ldb, offset int
		fits           bool
	}{{128, 8, 32, true}, {96, 8, 32, false}, {128, 12, 32, false}, {128, 8, 8, false},
		{128, 32, 32, false}} {
		q := Batch{{M: 2, N: 5, K: c.k, A: Matrix{LD: 256}, B: Matrix{c.offset, c.ldb}, C: Matrix{LD: 5}}}
		words, err := AppendRecords(nil, q, Options{Epilogue: by})
		require.NoError(t, err)
		_, refused := records.Batch(nil, words, Options{Epilogue: by})
		require.Equal(t, c.fits, refused < 0, c)
	}
}

// TestExplainGroups: text and JSON name the type of B.
func TestExplainGroups(t *testing.T) {
	for _, tc := range []struct {
		name string
		o    Options
		b    element.Type
		text string
	}{
		{"groups", groupsOf(Epilogue{ScaleB: PerGroup64}), element.Int4,
			"elements        bf16, B of int4, C of bf16\n"},
		{"none", Options{TypeA: element.BF16, TypeC: element.BF16}, element.F32,
			"elements        bf16, C of bf16\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := Batch{{M: 2, N: 3, K: 64, A: Matrix{0, 64}, B: Matrix{32, 16}, C: Matrix{0, 3}}}
			p, err := New(int4Device(t)).Plan(t.Context(), b, tc.o)
			require.NoError(t, err)
			require.Equal(t, tc.b, p.Explain().TypeB)
			var text bytes.Buffer
			require.NoError(t, p.WriteText(&text))
			require.Contains(t, text.String(), tc.text)
		})
	}
}
