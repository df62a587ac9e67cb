package planner

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/sample"
)

// oneTileAWorker deals like data-parallel.
var oneTileAWorker = &CustomSchedule{Name: "one-tile", Deal: func(w Work) (workers [][]Part) {
	for _, t := range w.Tiles {
		workers = append(workers, []Part{{Tile: t.Index, To: t.Steps}})
	}
	return workers
}}

// scattered cuts tiles anywhere and deals the parts to random workers.
func scattered(rng *rand.Rand) *CustomSchedule {
	return &CustomSchedule{Name: "scattered", Deal: func(w Work) [][]Part {
		var parts []Part
		for _, t := range w.Tiles {
			for from := 0; from < t.Steps; {
				to := from + 1 + rng.IntN(t.Steps-from)
				parts = append(parts, Part{t.Index, from, to})
				from = to
			}
		}
		rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		workers := make([][]Part, 1+rng.IntN(2*len(parts)))
		for _, part := range parts {
			i := rng.IntN(len(workers))
			workers[i] = append(workers[i], part)
		}
		return workers
	}}
}

// TestCustomSchedule: whatever a schedule deals, the resulting plan obeys the rules of all plans, its
// encoding agrees, and it keeps the device's limits.
func TestCustomSchedule(t *testing.T) {
	batches := map[string]Batch{
		"none":       {},
		"no product": randomBatch(t, rand.New(rand.NewPCG(1, 1)), 5, 0, 1),
		"mixed":      randomBatch(t, rand.New(rand.NewPCG(1, 2)), 40, 0, 300),
		"long K":     mustPack(t, GEMM(64, 64, 4096), GEMM(33, 17, 2049), GEMM(9, 9, 0)),
	}
	tight := *device(t, "lavapipe")
	tight.MaxTrips, tight.MaxWorkers = 300, 5
	for name, b := range batches {
		for _, d := range []*Device{device(t, "h200"), device(t, "mi210"), &tight} {
			for _, tile := range []string{"", "small", "large"} {
				for seed := range uint64(5) {
					t.Run(fmt.Sprintf("%s/%s/%s/%d", name, d.Name, tile, seed), func(t *testing.T) {
						sample.Planner.Skip(t, 2)
						o := Options{Tile: tile, Custom: scattered(rand.New(rand.NewPCG(seed, 3)))}
						p, err := New(d).Plan(t.Context(), b, o)
						require.NoError(t, err)
						words := checkAll(t, p)
						checkSumsInOrder(t, p)
						for _, l := range p.Launches {
							require.Equal(t, !windowed(p), l.Schedule == "scattered", l.Schedule)
						}
						o.Custom = scattered(rand.New(rand.NewPCG(seed, 3)))
						again, err := New(d).Plan(t.Context(), b, o)
						require.NoError(t, err)
						require.Equal(t, words, again.Encode(nil), "deterministic")
					})
				}
			}
		}
	}
}

// checkSumsInOrder checks that the slots of a split tile are in the order of its K ranges.
func checkSumsInOrder(t *testing.T, p *Plan) {
	t.Helper()
	type place struct{ problem, slot int32 } // slots of other tile shapes have other sizes
	parts := map[place]encoding.Segment{}
	for _, s := range p.Segments {
		parts[place{s.Problem, s.Slot}] = s
	}
	for _, f := range p.Fixups {
		end := int32(0)
		for i := range f.Count {
			s := parts[place{f.Problem, f.Slot + i}]
			require.Equal(t, end, s.K0)
			end = s.K1
		}
	}
}

// TestCustomAsBuiltIn: a schedule that deals like data-parallel makes the same plan, at the same predicted
// cost.
func TestCustomAsBuiltIn(t *testing.T) {
	b := randomBatch(t, rand.New(rand.NewPCG(2, 2)), 30, 1, 200)
	for _, name := range []string{"mi210", "h200", "lavapipe"} {
		want, err := New(device(t, name)).Plan(t.Context(), b, Options{Schedule: ScheduleDataParallel})
		require.NoError(t, err)
		got, err := New(device(t, name)).Plan(t.Context(), b, Options{Custom: oneTileAWorker})
		require.NoError(t, err)
		require.Equal(t, want.Encode(nil), got.Encode(nil))
		require.Equal(t, want.Cost, got.Cost)
		require.Equal(t, "one-tile", got.Explain().Schedule)
	}
}

// TestCustomCost: long workers and partials cost as much as with stream-k.
func TestCustomCost(t *testing.T) {
	b := mustPack(t, slices.Repeat([]Problem{GEMM(16, 16, 4000)}, 8)...)
	options := Options{Tile: "small"}
	cost := func(deal func(Work) [][]Part) float64 {
		options.Custom = &CustomSchedule{Name: "x", Deal: deal}
		p, err := New(device(t, "mi210")).Plan(t.Context(), b, options)
		require.NoError(t, err)
		return p.Cost
	}
	whole := cost(oneTileAWorker.Deal)
	require.Greater(t, cost(func(w Work) [][]Part {
		return [][]Part{slices.Concat(oneTileAWorker.Deal(w)...)}
	}), 4*whole, "one worker does all")
	require.Less(t, cost(func(w Work) (workers [][]Part) {
		for _, tile := range w.Tiles {
			half := tile.Steps / 2
			workers = append(workers, []Part{{tile.Index, 0, half}}, []Part{{tile.Index, half, tile.Steps}})
		}
		return workers
	}), whole, "long tiles in halves")
}

// TestCustomWork checks what a schedule sees.
func TestCustomWork(t *testing.T) {
	b := mustPack(t, GEMM(20, 40, 30), GEMM(16, 16, 100), GEMM(5, 5, 0),
		Problem{M: 5, N: 5, K: 9, TransA: true})
	b[2].Beta = 2
	d := device(t, "lavapipe")
	var seen []Work
	o := Options{Tile: "small", Custom: &CustomSchedule{Name: "looks", Deal: func(w Work) [][]Part {
		seen = append(seen, Work{w.Shape, w.Places, slices.Clone(w.Tiles)})
		parts := oneTileAWorker.Deal(w)
		clear(w.Tiles) // belongs to the schedule
		return parts
	}}}
	p, err := New(d).Plan(t.Context(), b, o)
	require.NoError(t, err)
	checkPlan(t, p)
	require.Len(t, seen, 2, "one call for each kernel")
	require.Equal(t, "small", seen[0].Shape.Name) // 16 x 16 x 16
	require.Equal(t, 2, seen[0].Places)
	want := [][4]int{{1, 0, 0, 7}, {0, 0, 0, 2}, {0, 0, 1, 2}, {0, 0, 2, 2}, {0, 1, 0, 2}, {0, 1, 1, 2},
		{0, 1, 2, 2}, {2, 0, 0, 1}}
	require.Len(t, seen[0].Tiles, len(want))
	for i, w := range want {
		tile := seen[0].Tiles[i]
		require.Equal(t, WorkTile{Index: i, Problem: w[0], Row: w[1], Col: w[2], Steps: w[3],
			Micros: tile.Micros}, tile)
		require.Positive(t, tile.Micros)
		require.Equal(t, [2]int{i, w[3]}, [2]int{tile.Index, tile.Steps})
	}
	require.InDelta(t, seen[0].Tiles[1].Micros, seen[0].Tiles[2].Micros, 0)
	require.Greater(t, seen[0].Tiles[0].Micros, seen[0].Tiles[1].Micros)
	require.Equal(t, 3, seen[1].Tiles[0].Problem)
}

// TestCustomErrors: the error for a wrong deal says where it is wrong.
func TestCustomErrors(t *testing.T) {
	// Two problems: tiles 0 and 1 of 4 steps (problem 1), tile 2 of 2 steps (problem 0).
	b := mustPack(t, GEMM(16, 16, 30), GEMM(16, 32, 64))
	whole := []Part{{0, 0, 4}, {1, 0, 4}, {2, 0, 2}}
	for _, c := range []struct {
		name string
		deal [][]Part
		want string
	}{
		{"nothing", nil, "schedule x: problem 1, tile (0, 0): no worker has K steps [0, 4)"},
		{"empty workers", make([][]Part, 3),
			"schedule x: problem 1, tile (0, 0): no worker has K steps [0, 4)"},
		{"tile left out", [][]Part{{{0, 0, 4}}, {{2, 0, 2}}},
			"schedule x: problem 1, tile (0, 1): no worker has K steps [0, 4)"},
		{"begin left out", [][]Part{whole[:2], {{2, 1, 2}}},
			"schedule x: problem 0, tile (0, 0): no worker has K steps [0, 1)"},
		{"middle left out", [][]Part{whole[1:], {{0, 0, 1}, {0, 3, 4}}},
			"schedule x: problem 1, tile (0, 0): no worker has K steps [1, 3)"},
		{"end left out", [][]Part{whole[:2], {{2, 0, 1}}},
			"schedule x: problem 0, tile (0, 0): no worker has K steps [1, 2)"},
		{"twice", [][]Part{whole, whole[1:2]},
			"schedule x: problem 1, tile (0, 1): K steps [0, 4) are dealt twice"},
		{"overlap", [][]Part{whole[1:], {{0, 0, 3}, {0, 2, 4}}},
			"schedule x: problem 1, tile (0, 0): K steps [2, 3) are dealt twice"},
		{"empty part", [][]Part{whole, {{1, 2, 2}}},
			"schedule x: problem 1, tile (0, 1): worker 1 has K steps [2, 2) of 4"},
		{"backwards", [][]Part{{{1, 3, 1}}},
			"schedule x: problem 1, tile (0, 1): worker 0 has K steps [3, 1) of 4"},
		{"too far", [][]Part{{{2, 0, 3}}},
			"schedule x: problem 0, tile (0, 0): worker 0 has K steps [0, 3) of 2"},
		{"before 0", [][]Part{{{0, -1, 4}}},
			"schedule x: problem 1, tile (0, 0): worker 0 has K steps [-1, 4) of 4"},
		{"extreme steps", [][]Part{{{0, math.MinInt, math.MaxInt}}},
			"schedule x: problem 1, tile (0, 0): worker 0 has K steps"},
		{"no such tile", [][]Part{nil, {{3, 0, 1}}},
			"schedule x: worker 1 has a part of tile 3 of 3"},
		{"tile below 0", [][]Part{{{-1, 0, 1}}},
			"schedule x: worker 0 has a part of tile -1 of 3"},
		{"more parts than a plan holds", slices.Repeat([][]Part{make([]Part, 1<<20)}, 100),
			"schedule x: the batch has too many tiles: more than "},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{Tile: "small", Custom: &CustomSchedule{Name: "x",
				Deal: func(Work) [][]Part { return c.deal }}}
			_, err := New(device(t, "mi210")).Plan(t.Context(), b, o)
			require.ErrorContains(t, err, c.want)
		})
	}
	deal := oneTileAWorker.Deal
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"no function", Options{Custom: &CustomSchedule{Name: "x"}}, "custom schedule x: Deal is nil"},
		{"no name", Options{Custom: &CustomSchedule{Deal: deal}},
			`custom schedule: the name "" is empty, or is one of the planner's`},
		{"name of another", Options{Custom: &CustomSchedule{"lpt", deal}},
			`custom schedule: the name "lpt" is empty, or is one of the planner's`},
		{"two", Options{Schedule: ScheduleLPT, Custom: &CustomSchedule{"x", deal}},
			"custom schedule x: the options also have schedule lpt"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := New(device(t, "mi210")).Plan(t.Context(), b, c.o)
			require.EqualError(t, err, c.want)
		})
	}
}

// TestCustomWorkspace: partials beyond what the device can bind are an error.
func TestCustomWorkspace(t *testing.T) {
	d := *device(t, "webgpu-default")
	d.MaxBinding = 1 << 20 // 262144 elements: 64 tiles of 64 x 64
	steps := func(w Work) (workers [][]Part) {
		for _, tile := range w.Tiles {
			for k := range tile.Steps {
				workers = append(workers, []Part{{tile.Index, k, k + 1}})
			}
		}
		return workers
	}
	o := Options{Tile: "large", Custom: &CustomSchedule{"steps", steps}}
	p, err := New(&d).Plan(t.Context(), mustPack(t, GEMM(64, 64, 64*16)), o)
	require.NoError(t, err)
	checkPlan(t, p)
	require.Equal(t, 1<<18, p.Workspace)
	_, err = New(&d).Plan(t.Context(), mustPack(t, GEMM(64, 64, 16*16), GEMM(64, 64, 60*16)), o)
	require.EqualError(t, err, "schedule steps: problem 0, tile (0, 0): its 16 parts are too many: "+
		"webgpu-default can bind 64 partial tiles")
}

// TestCustomInOptions: options with a custom schedule can be compared, and their JSON leaves it out.
func TestCustomInOptions(t *testing.T) {
	o := Options{Tile: "small", Custom: oneTileAWorker}
	require.True(t, o == Options{Tile: "small", Custom: oneTileAWorker})
	require.False(t, o == Options{Tile: "small", Custom: &CustomSchedule{}})
	raw, err := json.Marshal(o)
	require.NoError(t, err)
	require.JSONEq(t, `{"tile": "small"}`, string(raw))
}

// TestCustomHostile: with any one wrong number in a deal there is an error, or a plan that obeys the rules.
func TestCustomHostile(t *testing.T) {
	b := mustPack(t, GEMM(40, 30, 90), GEMM(16, 17, 1), GEMM(5, 60, 200))
	refused := 0
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 5))
		honest := scattered(rng)
		numbers := []int{-1, 0, 1, 2, 5, math.MaxInt32, math.MaxInt, math.MinInt}
		o := Options{Tile: "small", Custom: &CustomSchedule{Name: "hostile", Deal: func(w Work) [][]Part {
			workers := honest.Deal(w)
			for {
				i := rng.IntN(len(workers))
				if len(workers[i]) == 0 {
					continue
				}
				part := &workers[i][rng.IntN(len(workers[i]))]
				*[]*int{&part.Tile, &part.From, &part.To}[rng.IntN(3)] = numbers[rng.IntN(len(numbers))]
				return workers
			}
		}}}
		p, err := New(device(t, "lavapipe")).Plan(t.Context(), b, o)
		if err != nil {
			require.ErrorContains(t, err, "schedule hostile: ")
			refused++
			continue
		}
		checkPlan(t, p)
	}
	require.Greater(t, refused, 100)
	require.Less(t, refused, 500)
}

// windowed reports whether the planner deals the batch itself.
func windowed(p *Plan) bool {
	for i, s := range p.Tiles {
		if p.Device.MaxTrips > 0 && p.Batch[i].K > p.Options.tripLimit(p.Device).depth(s) {
			return true
		}
	}
	return !p.reachable(p.ExtentA, p.ExtentB, p.ExtentC)
}
