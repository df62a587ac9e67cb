package planner

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner/element"
)

var update = flag.Bool("update", false, "rewrite the golden plans")

func TestEncode(t *testing.T) {
	b := mustPack(t,
		Problem{M: 70, N: 9, K: 20, Alpha: Scale(2), Beta: -0.5},
		Problem{M: 3, N: 5, K: 0, Alpha: Scale(math.NaN()), Beta: 3},
		Problem{M: 8, N: 8, K: 8, TransA: true},
	)
	p, err := New(device(t, "h200-webgpu")).Plan(t.Context(), b,
		Options{Tile: "large", Schedule: ScheduleDataParallel})
	require.NoError(t, err)
	w := p.Encode(nil)
	require.Len(t, w, p.Words)
	require.Len(t, p.Launches, 2, "the transposed problem has a launch of its own")
	require.Zero(t, p.Launches[0].Items)
	require.Equal(t, encoding.SectionWords, p.Launches[1].Items)

	items := w[p.Launches[0].Items:]
	f := math.Float32bits
	require.Equal(t, []uint32{0, 0, 0, 20, 20, 9, 9, 64 | 9<<16, f(2), f(-0.5), encoding.Final, 0},
		items[:encoding.ItemWords])
	require.Equal(t, []uint32{64 * 20, 0, 64 * 9, 20, 20, 9, 9, 6 | 9<<16, f(2), f(-0.5), encoding.Final, 0},
		items[encoding.ItemWords:2*encoding.ItemWords])
	require.Equal(t, []uint32{1400, 180, 632, 0, 0, 5, 5, 3 | 5<<16, 0, f(3), encoding.Final, 0},
		items[2*encoding.ItemWords:3*encoding.ItemWords],
		"without a product alpha has no part")
	require.Zero(t, testing.AllocsPerRun(10, func() { w = p.Encode(w) }))
}

// TestEncodeOverwrites: encoding overwrites everything that the memory held.
func TestEncodeOverwrites(t *testing.T) {
	b := append(randomBatch(t, rand.New(rand.NewPCG(3, 3)), 40, 16, 700), Problem{})
	for _, s := range Schedules() {
		p, err := New(device(t, "h200")).Plan(t.Context(), b, Options{Schedule: s})
		require.NoError(t, err)
		dirty := make([]uint32, p.Words)
		for i := range dirty {
			dirty[i] = 0xdeadbeef
		}
		require.Equal(t, p.Encode(nil), p.Encode(dirty), s)
	}
}

func TestEncodeSplit(t *testing.T) {
	b := mustPack(t, GEMM(16, 16, 1000))
	p, err := New(device(t, "h200-webgpu")).Plan(t.Context(), b,
		Options{Tile: "small", Schedule: ScheduleStreamK})
	require.NoError(t, err)
	w := p.Encode(nil)
	l, fix := p.Launches[0], p.Launches[1]
	require.True(t, l.Split && fix.Fixup)
	depth := uint32(0)
	for j := range l.Count {
		item := w[l.Items+j*encoding.ItemWords:]
		require.Equal(t, uint32(j), item[10], "slots in the order of K")
		require.Equal(t, depth, item[0], "A advances along K")
		require.Equal(t, depth*16, item[1], "B advances by rows")
		depth += item[3]
	}
	require.Equal(t, uint32(1000), depth)
	require.Equal(t, []uint32{0, 16, 16 | 16<<16, 0, math.Float32bits(1), 0, uint32(l.Count), 0},
		w[fix.Items:fix.Items+encoding.FixupWords])
}

// TestEncodeParts: partials of a tile share its fix-up, after the items, and a word that counts them.
func TestEncodeParts(t *testing.T) {
	b := mustPack(t, GEMM(16, 16, 112), GEMM(16, 20, 112))
	p, err := New(device(t, "h200")).Plan(t.Context(), b, Options{Tile: "small", Schedule: ScheduleSplitK})
	require.NoError(t, err)
	require.Len(t, p.Launches, 1)
	l := p.Launches[0]
	require.True(t, l.Split && l.Partials)
	require.Equal(t, 3, l.Finishes)
	w := p.Encode(nil)
	parts := l.Count / 3
	require.Equal(t, 3*parts, l.Count)
	for j := range l.Count {
		item := w[l.Items+j*encoding.ItemWords:]
		require.Equal(t, uint32(encoding.ItemPartial), item[encoding.Flags]&encoding.ItemPartial)
		require.Equal(t, uint32(j), item[encoding.Slot])
		require.Equal(t, l.Sums+j/parts*encoding.FixupWords, l.Items+4*int(item[encoding.PartialFixup]))
		require.Equal(t, l.Sums+3*encoding.FixupWords+j/parts, l.Items+int(item[encoding.PartialStored]))
	}
	require.Equal(t, []uint32{
		0, 16, 16 | 16<<16, 0, math.Float32bits(1), 0, uint32(parts), 0,
		256, 20, 16 | 16<<16, uint32(parts), math.Float32bits(1), 0, uint32(parts), 0,
		272, 20, 16 | 4<<16, uint32(2 * parts), math.Float32bits(1), 0, uint32(parts), 0,
		0, 0, 0,
	}, w[l.Sums:l.Sums+3*(encoding.FixupWords+1)])

	m := model{parts: true}
	require.True(t, m.finishes(encoding.MaxPartials))
	require.False(t, m.finishes(encoding.MaxPartials+1))

	long := mustPack(t, GEMM(16, 16, 1000))
	few := *device(t, "h200") // partials of a tile are never in different launches
	few.MaxWorkers = l.Count - 1
	for name, c := range map[string]struct {
		device *Device
		batch  Batch
		o      Options
	}{
		"two launches":   {device: &few, batch: b},
		"too many parts": {batch: mustPack(t, GEMM(16, 16, 4000))},
		"tf32":           {batch: b, o: Options{Compute: ComputeTF32}},
		"halves": {batch: long, o: Options{TypeA: element.BF16, TypeC: element.F32,
			Tile: "tensor-32x32"}},
		"an epilogue": {batch: long, o: Options{Epilogue: Epilogue{Activation: ReLU},
			Tile: "tensor-32x32"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.Schedule, c.o.Tile = ScheduleSplitK, cmp.Or(c.o.Tile, "small")
			p, err := New(cmp.Or(c.device, device(t, "h200"))).Plan(t.Context(), c.batch, c.o)
			require.NoError(t, err)
			last := p.Launches[len(p.Launches)-1]
			require.True(t, last.Fixup)
			for _, l := range p.Launches {
				require.False(t, l.Partials)
				require.Zero(t, l.Finishes)
			}
		})
	}
}

// TestMostParts: in a launch that sums partials itself, no tile has more than MaxPartials, wherever it is
// among the others.
func TestMostParts(t *testing.T) {
	for name, c := range map[string]struct {
		parts []int // of each tile
		sums  bool
	}{
		"as many as can be": {[]int{2, encoding.MaxPartials, 2}, true},
		"too many first":    {[]int{encoding.MaxPartials + 1, 2, 2}, false},
		"too many last":     {[]int{2, 2, encoding.MaxPartials + 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			cuts := &CustomSchedule{Name: "cuts", Deal: func(w Work) (workers [][]Part) {
				for _, tile := range w.Tiles {
					last := c.parts[tile.Index] - 1
					for from := range last {
						workers = append(workers, []Part{{tile.Index, from, from + 1}})
					}
					workers = append(workers, []Part{{tile.Index, last, tile.Steps}})
				}
				return workers
			}}
			p, err := New(device(t, "h200")).Plan(t.Context(), mustPack(t, GEMM(16, 3*16, 400)),
				Options{Tile: "small", Custom: cuts})
			require.NoError(t, err)
			require.Equal(t, c.sums, p.Launches[0].Partials)
			require.Equal(t, !c.sums, p.Launches[len(p.Launches)-1].Fixup)
		})
	}
}

func TestEncodeLoop(t *testing.T) {
	b := mustPack(t, GEMM(8, 8, 64), GEMM(8, 8, 64), GEMM(8, 8, 64))
	d := *device(t, "h200-webgpu")
	d.ComputeUnits, d.MaxGroups = 1, 1
	p, err := New(&d).Plan(t.Context(), b, Options{Tile: "small", Schedule: ScheduleStreamK})
	require.NoError(t, err)
	require.True(t, p.Launches[0].Loop)
	w := p.Encode(nil)
	l := p.Launches[0]
	require.Equal(t, []uint32{0, 3}, w[l.Table:l.Table+2])
	require.Zero(t, l.Table%encoding.SectionWords+l.Items%encoding.SectionWords)
}

func TestReplanReusesMemory(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	big, small := randomBatch(t, rng, 300, 0, 200), randomBatch(t, rng, 20, 0, 200)
	d := device(t, "h200-webgpu")
	for _, s := range append(Schedules(), "") {
		maker, p := New(d), new(Plan)
		require.NoError(t, maker.Replan(t.Context(), p, big, Options{Schedule: s}))
		require.Zero(t, testing.AllocsPerRun(5, func() {
			if maker.Replan(t.Context(), p, small, Options{Schedule: s}) != nil ||
				maker.Replan(t.Context(), p, big, Options{Schedule: s}) != nil {
				t.Error("planning failed")
			}
		}), "schedule %q", s)
		fresh, err := New(d).Plan(t.Context(), big, Options{Schedule: s})
		require.NoError(t, err)
		require.Equal(t, fresh.Encode(nil), p.Encode(nil), "a rebuilt plan equals a fresh one")
	}
}

func TestBuildErrors(t *testing.T) {
	d := device(t, "webgpu-default")
	good := mustPack(t, GEMM(4, 4, 4))
	long := Batch{{M: 8, N: 4, K: 4, A: Matrix{LD: 20 << 20}, B: Matrix{LD: 4}, C: Matrix{LD: 4}}}
	tall := Batch{{M: 8, N: 4, K: 4, A: Matrix{LD: 4}, B: Matrix{LD: 4}, C: Matrix{LD: 20 << 20}}}
	for _, c := range []struct {
		name string
		b    Batch
		o    Options
		want string
	}{
		{"bad batch", Batch{{M: -1}}, Options{}, "problem 0: M -1 is negative"},
		{"unknown tile", good, Options{Tile: "xl"}, `unknown tile "xl"`},
		{"unknown rule", good, Options{Rule: "best"}, `unknown rule "best" (known: cost, zhang2025)`},
		{"unknown schedule", good, Options{Schedule: "random"},
			`unknown schedule "random" (known: data-parallel, batched, `},
		{"rows longer than a binding", long, Options{},
			"problem 0: lda or ldb is too large: one tile tiny-k4 reaches more than the 33554432 elements " +
				"that webgpu-default can bind"},
		{"rows of C longer than a binding", tall, Options{}, "problem 0: ldc 20971520 is too large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := New(d).Plan(t.Context(), c.b, c.o)
			require.ErrorContains(t, err, c.want)
			require.ErrorIs(t, err, ErrInvalid)
		})
	}
}

// TestGoldenPlans shows every change of plans.
func TestGoldenPlans(t *testing.T) {
	inception := mustPack(t, GEMM(49, 160, 192), GEMM(49, 128, 192), GEMM(49, 256, 192), GEMM(49, 160, 192),
		GEMM(49, 32, 192))
	random := randomBatch(t, rand.New(rand.NewPCG(9, 9)), 24, 0, 150)
	longK := mustPack(t, GEMM(64, 64, 8192), GEMM(48, 80, 4000))
	for _, c := range []struct {
		name, device string
		b            Batch
		o            Options
	}{
		{"inception8-h200", "h200-webgpu", inception, Options{}},
		{"inception8-mi210-zhang", "mi210", inception, Options{Rule: RuleZhang2025}},
		{"inception8-default", "webgpu-default", inception, Options{}},
		{"random-h200", "h200-webgpu", random, Options{}},
		{"random-lavapipe", "lavapipe", random, Options{}},
		{"longk-split", "h200-webgpu", longK, Options{Schedule: ScheduleSplitK}},
		{"longk-stream", "h200-webgpu", longK, Options{Schedule: ScheduleStreamK}},
		{"longk-auto", "h200-webgpu", longK, Options{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			golden(t, c.name, device(t, c.device), c.b, c.o)
		})
	}
}

// golden compares a plan with a file.
func golden(t *testing.T, name string, d *Device, b Batch, o Options) {
	t.Helper()
	p, err := New(d).Plan(t.Context(), b, o)
	require.NoError(t, err)
	var got bytes.Buffer
	require.NoError(t, p.WriteText(&got))
	fmt.Fprintln(&got, "\nsegments (problem row,col k slot) by worker")
	for w := range len(p.Workers) - 1 {
		fmt.Fprintf(&got, "%d:", w)
		for _, s := range p.Segments[p.Workers[w]:p.Workers[w+1]] {
			fmt.Fprintf(&got, " (%d %d,%d %d-%d %d)", s.Problem, s.Row, s.Col, s.K0, s.K1, s.Slot)
		}
		fmt.Fprintln(&got)
	}
	file := filepath.Join("testdata", name+".txt")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, got.Bytes(), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String(), "run go test ./planner -update and read the difference")
}

func TestExplainJSON(t *testing.T) {
	p, err := New(device(t, "mi210")).Plan(t.Context(), mustPack(t, GEMM(70, 70, 33), GEMM(0, 4, 4)),
		Options{Tile: "large"})
	require.NoError(t, err)
	text, err := json.Marshal(p.Explain())
	require.NoError(t, err)
	var e Explanation
	require.NoError(t, json.Unmarshal(text, &e))
	require.Equal(t, p.Explain(), e)
	q := &e.Problems[0]
	require.Equal(t, [4]int{0, 70, 70, 33}, [4]int{q.Index, q.M, q.N, q.K})
	require.Equal(t, [2]string{"nn", "large"}, [2]string{q.Trans, q.Tile})
	require.Equal(t, [5]int{4, 16, 4, 33, 33}, [5]int{q.Tiles, q.Waves, q.Segments, q.MinK, q.MaxK})
	require.Equal(t, 1-4900./16384, q.Padding)
	require.Zero(t, e.Problems[1].Tiles)
}
