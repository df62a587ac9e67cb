package native

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/drivertest"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// boxBatch are problems whose sides and depths change boxes and steps.
func boxBatch(rng *rand.Rand, problems int) planner.Batch {
	rows, cols := []int{64, 1, 129, 128, 65, 200, 63}, []int{300, 8, 129, 256, 33, 128, 520}
	depths := []int{100, 0, 1, 63, 64, 65, 128, 9, 700}
	b := make(planner.Batch, problems)
	m, n, k := rng.IntN(len(rows)), rng.IntN(len(cols)), rng.IntN(len(depths))
	for i := range b {
		b[i] = planner.Problem{M: rows[(m+i)%len(rows)], N: cols[(n+2*i)%len(cols)],
			K: depths[(k+i)%len(depths)], TransB: true,
			Alpha: planner.Scale([...]float64{1, -0.5, 1, 0}[rng.IntN(4)]),
			Beta:  [...]float64{0, 0, 1, -0.5}[rng.IntN(4)]}
	}
	b[0].Alpha, b[0].K = planner.Scale(2), 700 // have a product
	return b
}

// boxJob has the items of a batch by a tile of boxes, as kernels make them, for some workers that take some
// tiles at a time.
func boxJob(t *testing.T, b planner.Batch, o planner.Options, workers, chunk int, how [2]uint32,
	rng *rand.Rand) *emulatorJob {
	t.Helper()
	o.Tile = "aligned-128x128" // for its operands
	j := halfJob(t, b, o, []int{16, 64, 32, 16}[how[1]%4]/o.TypeA.Bytes(), how, rng)
	round(o.TypeC, j.e.Biases)
	o.Tile = "aligned-128x256"
	d := deviceFor(t, "h200", "")
	require.NoError(t, sm90a.Describe(d))
	r := planner.Ragged{Form: planner.EndsOfRows, Groups: len(b), TransB: true}
	for i := range b {
		r.M, r.N, r.K = r.M+b[i].M, max(r.N, b[i].N), max(r.K, b[i].K)
	}
	ld := (r.K + 15) / 16 * 16
	r.A.LD, r.B.LD, r.C.LD, r.StrideB = ld, ld, r.N, r.N*ld
	plan, err := planner.New(d).PlanRagged(r, o)
	require.NoError(t, err)
	j.words = append(plan.Encode(nil), make([]uint32, plan.Words-encoding.RaggedHead)...)
	dealt := drivertest.DealEpilogue(j.words, b, o.Epilogue)
	dealt.Put(j.words)
	plan.Launches = plan.Launches[1:]
	l, tiles := &plan.Launches[0], dealt.Tiles(0)
	require.True(t, l.Tile.Boxes && l.Dynamic, j)
	l.Count = workers
	copy(j.words[l.Table:], []uint32{0, uint32(tiles), uint32(workers * chunk), uint32(chunk),
		uint32((tiles - 1) / chunk)})
	plan.Workspace = workers * l.Kept()
	plan.Batch, j.plan = b, plan
	return j
}

// boxEpilogues are epilogues for a type of elements, and none.
func boxEpilogues(of element.Type) []planner.Epilogue {
	all := []planner.Epilogue{{}, {}, {}, {Bias: true, Activation: planner.ReLU},
		{Weights: true, ScatterRows: 230}, {Bias: true, Weights: true, Activation: planner.SiLU}}
	if of.Bytes() == 1 {
		row := planner.PerRow
		all = append(all, planner.Epilogue{ScaleA: row, ScaleB: row, Bias: true, ZeroA: of == element.Int8},
			planner.Epilogue{ScaleA: planner.PerTensor, ScaleB: row})
	}
	if of == element.E4M3 {
		all = append(all, boxedBlocks...)
	}
	return all
}

// boxedBlocks have scales of blocks.
var boxedBlocks = []planner.Epilogue{{ScaleA: planner.PerBlock, ScaleB: planner.PerBlock},
	{ScaleA: planner.PerBlock, ScaleB: planner.PerBlock, Bias: true, Weights: true, ScatterRows: 300}}

// boxJobs are for all types of C, with some epilogues.
func boxJobs(t *testing.T, of element.Type, epilogues []planner.Epilogue) (jobs []*emulatorJob) {
	t.Helper()
	for i, e := range epilogues {
		for _, ofC := range elemtype.TypesC(of) {
			seed := uint32(len(jobs)) + uint32(of)
			rng := rand.New(rand.NewPCG(uint64(seed), 21))
			o := planner.Options{TypeA: of, TypeC: ofC, Epilogue: e}
			jobs = append(jobs, boxJob(t, boxBatch(rng, []int{9, 5, 5}[i%3]), o, []int{1, 3, 30}[i%3], 1+i%2,
				[2]uint32{seed % 3, seed}, rng))
		}
	}
	return jobs
}

// plainBoxJobs are plans of problems whose sizes the host knows, by all schedules that keep tiles whole.
func plainBoxJobs(t *testing.T, of element.Type) (jobs []*emulatorJob) {
	t.Helper()
	schedules := []planner.Schedule{planner.ScheduleLPT, planner.ScheduleDynamic,
		planner.ScheduleDataParallel}
	for i, e := range boxEpilogues(of) {
		for n, ofC := range elemtype.TypesC(of) {
			seed := uint32(len(jobs)) + uint32(of)
			rng := rand.New(rand.NewPCG(uint64(seed), 23))
			o := planner.Options{TypeA: of, TypeC: ofC, Epilogue: e, Tile: "aligned-128x256",
				Schedule: schedules[(i+n)%3]}
			j := halfJob(t, boxBatch(rng, []int{5, 9, 2}[i%3]), o, []int{16, 64, 32}[seed%3]/of.Bytes(),
				[2]uint32{seed % 3, seed}, rng)
			round(ofC, j.e.Biases)
			l := &j.plan.Launches[0]
			require.Equal(t, o.Schedule == planner.ScheduleDynamic, l.Dynamic, j)
			require.True(t, len(j.plan.Launches) == 1 && !l.Split, j)
			require.Equal(t, l.Count*encoding.MapWords, j.plan.Workspace, j)
			if l.Dynamic {
				j.workers = n * 3 // 0: as in the plan
			}
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// TestBoxesEmulated runs kernels that copy boxes like TestWarpgroupsEmulated.
func TestBoxesEmulated(t *testing.T) {
	compiled(t)
	for _, of := range narrow {
		t.Run(of.String(), func(t *testing.T) {
			t.Parallel()
			runWarpgroups(t, append(boxJobs(t, of, boxEpilogues(of)), plainBoxJobs(t, of)...))
		})
	}
}

// TestBoxesInOrder: C has the same bits, whichever worker computes a tile.
func TestBoxesInOrder(t *testing.T) {
	compiled(t)
	for of, e := range map[element.Type]planner.Epilogue{element.BF16: {}, element.E4M3: boxedBlocks[0]} {
		var jobs []*emulatorJob
		for _, workers := range []int{1, 3} {
			rng := rand.New(rand.NewPCG(uint64(of), 22))
			o := planner.Options{TypeA: of, TypeC: element.BF16, Epilogue: e}
			how := [2]uint32{uint32(workers) % 3}
			jobs = append(jobs, boxJob(t, boxBatch(rng, 2), o, workers, 1, how, rng))
		}
		require.NoError(t, warpgroups(t).sameBits(t.TempDir(), jobs))
	}
}

// boxMutants are mistakes in wgmma_boxes.cuh.
var boxMutants = []mutant{
	{"a map is used while it is stored", "kernels/wgmma_boxes.cuh",
		"    waitPhase(shared + T::kMapped + 8 * (number % kItemPlaces), number / kItemPlaces & 1);\n", ""},
	{"a map is not acquired", "kernels/wgmma_boxes.cuh", "acquireMap(mapA), acquireMap(mapB);",
		"acquireMap(mapA);"},
	{"maps of too few items", "kernels/wgmma_boxes_store.cuh", "maps + number % kItemPlaces *",
		"maps + number % 2 *"},
	{"maps end later than A", "kernels/wgmma_boxes.cuh", "a, depth, item.rows(), item.lda",
		"a, depth, T::TM, item.lda"},
	{"maps end later than K", "kernels/wgmma_boxes.cuh", "max(item.depth, 1u)", "max(item.depth, 64u)"},
	{"something is read though alpha is 0", "kernels/wgmma_boxes.cuh", "item.depth == 0 ? T::TK : 0", "0"},
	{"all boxes of A are expected", "kernels/wgmma_boxes.cuh", "128 * (kBoxRowsA * boxesA", "128 * (T::TM"},
	{"a box too few", "kernels/wgmma_boxes.cuh", "(item.rows() + kBoxRowsA - 1) / kBoxRowsA",
		"(item.rows() + kBoxRowsA - 2) / kBoxRowsA"},
	{"boxes of B lie one on the other", "kernels/wgmma_boxes.cuh", "to + 128 * kRows * i", "to"},
	{"a stage is filled before it is free", "kernels/wgmma_boxes.cuh",
		"      waitPhase(shared + T::kFree + 8 * stage.at, stage.parity ^ 1);\n", ""},
	{"a stage is released before its products are done", "kernels/wgmma_boxes.cuh",
		"        waitProducts<1>();\n        release(before);",
		"        release(before);\n        waitProducts<1>();"},
	{"the loader is never near the end", "kernels/wgmma_boxes.cuh", "if (step == near)",
		"if (step == near + steps)"},
	{"items are asked for too early", "kernels/wgmma_boxes.cuh",
		"    waitPhase(shared + T::kNear, number & 1);\n", ""},
	{"a lane says for others that they have read the item", "kernels/wgmma_boxes.cuh",
		"    warpBarrier();  // all lanes have read", "    // all lanes have read"},
	{"the second warpgroup has the first rows", "kernels/wgmma_boxes.cuh",
		"lowOf(warpgroup * (64 * 128))", "lowOf(0)"},
}

// boxStoreMutants are mistakes in how tiles are stored by boxes.
var boxStoreMutants = []mutant{
	{"a map of C is not acquired", "kernels/wgmma_boxes.cuh", "acquireMap(mapA + kMapOfC);",
		"acquireMap(mapA);"},
	{"a map of C has A's rows", "kernels/wgmma_boxes.cuh", "c, item.cols(), item.rows(), item.ldc",
		"c, item.cols(), T::TM, item.ldc"},
	{"a tile is stored by another's map", "kernels/wgmma_boxes_store.cuh", "mapOf(maps, number) + kMapOfC",
		"mapOf(maps, number + 1) + kMapOfC"},
	{"columns end within 16 bytes", "kernels/wgmma_boxes_store.cuh", " || item.cols() % 8 != 0", ""},
	{"a slab is written while it is stored", "kernels/wgmma_boxes_store.cuh",
		"    waitBoxesRead<kSlabs - 1>();\n", ""},
	{"a slab is written before all lanes wait", "kernels/wgmma_boxes_store.cuh",
		"    waitBoxesRead<kSlabs - 1>();\n    warpBarrier();\n", "    waitBoxesRead<kSlabs - 1>();\n"},
	{"there is one slab", "kernels/wgmma_boxes_store.cuh", "    slab ^= kSlabBytes;\n", ""},
	{"rows are swizzled otherwise", "kernels/wgmma_boxes_store.cuh", "(j ^ group)", "j"},
	{"a slab is stored without a fence", "kernels/wgmma_boxes_store.cuh", "    fenceStores();\n", ""},
	{"a slab is stored before all lanes have written", "kernels/wgmma_boxes_store.cuh",
		"    fenceStores();\n    warpBarrier();\n", "    fenceStores();\n"},
	{"parts that steps leave are not stored", "kernels/wgmma_boxes.cuh", "    last.storeRest(steps);\n",
		"    last.parts = 0;\n"},
	{"a tile is not stored beside one of fewer rows", "kernels/wgmma_boxes.cuh",
		"      last.storeRest(0);\n      last.forget();", "      last.parts = 0;\n      last.forget();"},
	{"the last tile is not stored", "kernels/wgmma_boxes.cuh", "  last.storeRest(0);\n  last.awaitRead();\n}",
		"}"},
	{"sums are written to slabs that are stored", "kernels/wgmma_boxes_store.cuh",
		"  if (!later) last.awaitRead();\n", ""},
}

// boxByteMutants are mistakes in what is only for elements of 8 bits.
var boxByteMutants = []mutant{
	{"the second half has the first columns", "kernels/wgmma_boxes.cuh", "half * (2 * kHalf * 128 >> 4)",
		"0"},
	{"all sums are those of the first half", "kernels/wgmma_boxes.cuh", "(sum[half * kHalf])", "(sum[0])"},
	{"products go on from those of the half before", "kernels/wgmma_boxes.cuh",
		"productOf<true>(format, part", "productOf<false>(format, part"},
	{"sums of a half are read while its products are under way", "kernels/wgmma_boxes.cuh",
		"          waitProducts<0>();\n          settle(part);\n", ""},
	{"a stage is released before its second half", "kernels/wgmma_boxes.cuh",
		"if (half + 1 == kHalves) release", "if (half == 0) release"},
	{"all columns have the first block's scales", "kernels/wgmma_boxes.cuh", "scale[2 * block + i / 2 % 2]",
		"scale[i / 2 % 2]"},
	{"both rows of a lane have the first one's scales", "kernels/wgmma_boxes.cuh",
		"of(a[j])", "of(a[0])"},
	{"all steps have the scales of the first four", "kernels/wgmma_boxes.cuh",
		"atA[i] += kScaleSteps, atB", "atB"},
	{"the second block's scales follow the first one's", "kernels/wgmma_boxes.cuh", "? i * each : 0",
		"? i : 0"},
	{"rows have scales of a step", "kernels/wgmma_boxes.cuh", "item.rows() - 1) * each", "item.rows() - 1)"},
	{"four steps have the scales of the first", "kernels/wgmma_boxes.cuh", "ofFour(__float_as_uint(x), step)",
		"ofFour(__float_as_uint(x), 0)"},
	{"lanes ask for too few", "kernels/wgmma_boxes.cuh", "left -= min(left, kScaleSteps);",
		"left -= min(left, kScaleSteps + 1);"},
	{"scales of four steps alone", "kernels/wgmma_boxes.cuh", "b[i] = nextB[i];\n    ask();",
		"b[i] = nextB[i];"},
	{"products do not wait for their stage", "kernels/wgmma_boxes.cuh",
		"        wait();\n        const uint32_t a = ofA();\n#pragma unroll\n        for (int half",
		"        const uint32_t a = ofA();\n#pragma unroll\n        for (int half"},
}

func TestBoxMutants(t *testing.T) {
	testWarpgroupMutants(t, "warpgroup_kernels.cpp", "aligned-128x256", boxMutants,
		func(*tile.Shape) []*emulatorJob { return boxJobs(t, element.BF16, boxEpilogues(element.BF16)) })
}

func TestBoxStoreMutants(t *testing.T) {
	testWarpgroupMutants(t, "warpgroup_kernels.cpp", "aligned-128x256", boxStoreMutants,
		func(*tile.Shape) []*emulatorJob { return boxJobs(t, element.BF16, boxEpilogues(element.BF16)) })
}

func TestBoxByteMutants(t *testing.T) {
	testWarpgroupMutants(t, "warpgroup_kernels.cpp", "aligned-128x256", boxByteMutants,
		func(*tile.Shape) []*emulatorJob { return boxJobs(t, element.E4M3, boxedBlocks) })
}
