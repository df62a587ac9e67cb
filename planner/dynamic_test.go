package planner

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// takeChunks lets workers take chunks of a table in random order, and returns the tiles of each.
func takeChunks(table []uint32, workers int, rng *rand.Rand) [][]uint32 {
	size, of := table[encoding.DynamicChunk], make([][]uint32, workers)
	take := func(w int, first uint32) (any bool) {
		for i := first; i < min(first+size, table[encoding.DynamicEnd]); i++ {
			of[w] = append(of[w], i)
		}
		return first < table[encoding.DynamicEnd]
	}
	var busy []int
	for w := range workers {
		if take(w, table[encoding.DynamicFirst]-size*uint32(workers-w)) {
			busy = append(busy, w)
		}
	}
	for len(busy) > 0 {
		i := rng.IntN(len(busy))
		n := table[encoding.DynamicNext]
		if table[encoding.DynamicNext]++; n >= table[encoding.DynamicLast] {
			table[encoding.DynamicNext] = 0
		}
		if !take(busy[i], table[encoding.DynamicFirst]+n*size) {
			busy = slices.Delete(busy, i, i+1)
		}
	}
	return of
}

// checkDynamic checks that each dynamic tile is taken once, in whatever order workers come, and that the
// next run finds the same table.
func checkDynamic(t *testing.T, p *Plan, l *encoding.Launch, table []uint32) {
	t.Helper()
	tiles := int(p.Workers[l.First+l.Count] - p.Workers[l.First])
	before := slices.Clone(table[:encoding.DynamicWords])
	require.Zero(t, before[encoding.DynamicNext])
	require.Greater(t, tiles, l.Count*l.Chunk-1)
	for w := range l.Count - 1 {
		require.EqualValues(t, l.Chunk, p.Workers[l.First+w+1]-p.Workers[l.First+w],
			"in the plan the last worker has those that anybody takes")
	}
	for seed := range uint64(2) { // two runs
		of := takeChunks(table[:encoding.DynamicWords], l.Count, rand.New(rand.NewPCG(seed, 0)))
		require.Equal(t, before, table[:encoding.DynamicWords])
		for w := range of {
			require.Equal(t, uint32(w*l.Chunk), of[w][0], "the first chunk is that of the worker's number")
		}
		all := slices.Sorted(slices.Values(slices.Concat(of...)))
		require.Len(t, all, tiles)
		for i := range all {
			require.Equal(t, uint32(i), all[i])
		}
	}
}

// TestDynamic: workers stay. Each has a first tile in the order of data-parallel, and takes others when it
// can.
func TestDynamic(t *testing.T) {
	many := slices.Repeat([]Problem{GEMM(64, 64, 40), GEMM(30, 20, 300)}, 300)
	for name, c := range map[string]struct {
		device   string
		tile     string
		batch    []Problem
		epilogue Epilogue
		chunk    int // 0: none is dynamic
	}{
		"warpgroups": {"h200", "wgmma-64x64", many, Epilogue{}, 1},
		"small tiles": {"h200", "wgmma-64x64", slices.Repeat([]Problem{GEMM(64, 64, 8)}, 40000),
			Epilogue{}, mostChunk},
		"tensor cores":      {"h200", "tensor-32x32", many, Epilogue{}, 1},
		"plain":             {"mi210", "large", many, Epilogue{}, 1},
		"webgpu":            {"h200-webgpu", "large", slices.Repeat(many, 3), Epilogue{}, 1},
		"gated":             {"h200", "wgmma-64x64", many, Epilogue{Gated: true}, 1},
		"a tile for each":   {"h200", "wgmma-64x64", many[:3], Epilogue{}, 0},
		"beyond loop limit": {"lavapipe", "tiny-k4", many, Epilogue{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := mustPack(t, c.batch...)
			for i := range b {
				b[i].B2 = b[i].B
			}
			o := Options{Tile: c.tile, Schedule: ScheduleDynamic, Epilogue: c.epilogue}
			p, err := New(device(t, c.device)).Plan(t.Context(), b, o)
			require.NoError(t, err)
			checkAll(t, p)
			require.Len(t, p.Launches, 1)
			l := &p.Launches[0]
			require.Equal(t, c.chunk, l.Chunk)
			require.Equal(t, c.chunk > 0, l.Dynamic)
			require.Equal(t, string(ScheduleDynamic), l.Schedule)
			o.Schedule = ScheduleDataParallel
			whole, err := New(device(t, c.device)).Plan(t.Context(), b, o)
			require.NoError(t, err)
			if name != "beyond loop limit" { // it is dealt like lpt
				require.Equal(t, whole.Segments, p.Segments)
			}
			if c.chunk > 0 {
				require.Less(t, l.Count, whole.Launches[0].Count)
			}
		})
	}
}

// TestDynamicWorkers: the workers of a dynamic launch are never cut into several launches, because each
// launch would have its own counter.
func TestDynamicWorkers(t *testing.T) {
	d := device(t, "h200")
	d.MaxWorkers = 7
	p, err := New(d).Plan(t.Context(), mustPack(t, GEMM(640, 640, 100)),
		Options{Tile: "wgmma-64x64", Schedule: ScheduleDynamic})
	require.NoError(t, err)
	checkAll(t, p)
	require.Len(t, p.Launches, 1)
	require.Equal(t, 7, p.Launches[0].Count)
}

func aCPU(t testing.TB) *Device {
	d := device(t, "lavapipe")
	d.KernelKind, d.Kernels = encoding.KernelsCPU, nil
	for _, s := range tile.Of(tile.SIMD) {
		d.Kernels = append(d.Kernels, KernelFacts{Tile: s})
	}
	return d
}

// TestDynamicOnCPU: threads already take tiles from a counter.
func TestDynamicOnCPU(t *testing.T) {
	p, err := New(aCPU(t)).Plan(t.Context(), mustPack(t, GEMM(640, 640, 100)),
		Options{Tile: "simd-64x64", Schedule: ScheduleDynamic})
	require.NoError(t, err)
	checkAll(t, p)
	require.Equal(t, 100, p.Launches[0].Count)
	require.False(t, p.Launches[0].Loop)
}

// TestDynamicCost: the planner does not choose it by predicted cost, which does not know uneven units.
func TestDynamicCost(t *testing.T) {
	m := new(model)
	require.NoError(t, m.set(device(t, "h200"), arithmetic{compute: ComputeF32Emulated}, false, only{}))
	for id := range m.tiles {
		if !m.tiles[id].fits {
			continue
		}
		for _, tiles := range []int{1, 100, 1000, 100000} {
			l := load{tiles: tiles, steps: 4 * float64(tiles), longest: 8, whole: float64(tiles),
				work: 4 * float64(tiles)}
			static, _ := m.lptCost(tileID(id), l)
			cost, fixup := m.dynamicCost(tileID(id), l)
			require.Zero(t, fixup)
			require.GreaterOrEqual(t, cost, static)
			if tiles > m.tiles[id].resident {
				require.Greater(t, cost, static)
			}
		}
	}
}

// TestAlignedDynamic: with aligned operands, long launches of uneven tiles are dynamic, except tiles of few
// steps. Other launches have shares.
func TestAlignedDynamic(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 0))
	uneven := func(k, unaligned int) Problem {
		return GEMM(8*(1+rng.IntN(64)), 8*(1+rng.IntN(64))+unaligned, 8*(1+rng.IntN(k/8))+unaligned)
	}
	for _, c := range []struct {
		name     string
		problems int
		problem  func() Problem
		tile     string
		schedule Schedule
	}{
		{"long launch", 256, func() Problem { return uneven(1024, 0) }, "", ScheduleDynamic},
		{"few problems", 24, func() Problem { return uneven(512, 0) }, "", ScheduleLPT},
		{"few steps", 256, func() Problem { return uneven(128, 0) }, "", ScheduleLPT},
		{"rows begin anywhere", 256, func() Problem { return uneven(1024, 1) }, "aligned-128x128",
			ScheduleLPT},
		{"tiles are alike", 64, func() Problem { return GEMM(500, 512, 1024) }, "", ScheduleLPT},
		{"tiles are alike but at edges", 96, func() Problem { return GEMM(312, 512, 1024) }, "", ScheduleLPT},
	} {
		t.Run(c.name, func(t *testing.T) {
			rng = rand.New(rand.NewPCG(21, 0))
			batch := make([]Problem, c.problems)
			for i := range batch {
				batch[i] = c.problem()
			}
			p, err := New(device(t, "h200")).Plan(t.Context(), mustPack(t, batch...),
				Options{TypeA: element.BF16, TypeC: element.BF16, Tile: c.tile})
			require.NoError(t, err)
			for _, l := range p.Launches {
				require.Equal(t, string(c.schedule), l.Schedule, "%s", l)
			}
		})
	}
}
