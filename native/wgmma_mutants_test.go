package native

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/internal/tile"
	builds "github.com/batchgemm/batchgemm/native/internal/kernels"
	"github.com/batchgemm/batchgemm/planner/element"
)

// wgmmaMutants are mistakes in the kernels of warpgroups, each of which must be found.
var wgmmaMutants = []mutant{
	{"a stage is released before its products are done", "kernels/wgmma.cuh",
		"      waitProducts<0>();\n      if constexpr (kPromotes) settle(part);\n      else " +
			"settle(sum);\n      release(used);\n",
		"      release(used);\n      waitProducts<0>();\n      settle(part);\n"},
	{"sums are read while products are under way", "kernels/wgmma.cuh", "      waitProducts<0>();\n", ""},
	{"products without a fence", "kernels/wgmma_convert.cuh", "    fenceProducts();\n    if",
		"    if"},
	{"registers of A change under products", "kernels/wgmma.cuh", "      waitProducts<0>();\n",
		"      x[0][0] += 1.0f;\n      then.split(x);\n      waitProducts<0>();\n"},
	{"a warp counts for others", "kernels/wgmma_store.cuh", "countersOf(items, item) + row / 16",
		"countersOf(items, item)"},
	{"a warp sums rows of the next", "kernels/wgmma_store.cuh", "min(tile.rows(), row + 16)", "row + 16"},
	{"a product is left out", "kernels/wgmma_convert.cuh",
		"        product<false>(sum, hi[i], bLo + 2 * i);\n", ""},
	{"the converter waits for the wrong parity", "kernels/wgmma.cuh",
		"waitPhase(shared + L::kLoaded + 8 * ahead.at, ahead.parity);",
		"waitPhase(shared + L::kLoaded + 8 * ahead.at, ahead.parity ^ 1);"},
	{"the converter does not wait for copies", "kernels/wgmma.cuh",
		"      waitPhase(shared + L::kLoaded + 8 * ahead.at, ahead.parity);\n", ""},
	{"the converter does not wait for a free stage", "kernels/wgmma.cuh",
		"      waitPhase(shared + L::kFree + 8 * stage.at, stage.parity ^ 1);\n", ""},
	{"the loader does not wait for a free place", "kernels/wgmma.cuh",
		"      waitPhase(shared + L::kTaken + 8 * ahead.at, ahead.parity ^ 1);\n", ""},
	{"parities do not change", "kernels/wgmma.cuh", "at = 0, parity ^= 1;", "at = 0;"},
	{"a place too few for A along K", "kernels/wgmma.cuh",
		"KMajor<E, T::TM, T::kStages + T::kAhead + 1>", "KMajor<E, T::TM, T::kStages + T::kAhead>"},
	{"a place too few for A across K", "kernels/wgmma.cuh", "MNMajor<E, T::TM, T::kStages + T::kAhead,",
		"MNMajor<E, T::TM, T::kStages + T::kAhead - 1,"},
	{"stores without a fence", "kernels/wgmma.cuh", "        fenceStores();\n", ""},
	{"a step is published before all lanes have stored", "kernels/wgmma.cuh",
		"      warpBarrier();\n      if (lane == 0) {\n        arrive(shared + L::kFull",
		"      if (lane == 0) {\n        arrive(shared + L::kFull"},
	{"columns from 64 on are not split", "kernels/wgmma_convert.cuh", "return uniform((cols + 63) / 64);",
		"return uniform(min((cols + 63) / 64, 1u));"},
	{"no swizzle", "kernels/wgmma_convert.cuh", "(to ^ 16 * c)", "(to + 16 * c)"},
	{"no barrier after the making of phases", "kernels/wgmma.cuh", "  barrier();\n", ""},
	{"more registers than there are", "kernels/wgmma.cuh", "184 : 192)", "184 : 200)"},
	{"an item is published before all lanes have stored", "kernels/wgmma_store.cuh",
		"    warpBarrier();\n    if (lane == 0)", "    if (lane == 0)"},
	{"items follow too fast", "kernels/wgmma_store.cuh", "kItemPlaces = 16;",
		"kItemPlaces = 6;\n#define static_assert(...)"},
	{"a warp's sums are read too early", "kernels/wgmma_store.cuh", "    warpBarrier();\n    if (isAgain)",
		"    if (isAgain)"},
	{"warps with sums that are not finite pass for others", "kernels/wgmma_store.cuh", "+ zero[3] == 0.0f",
		"+ zero[3] != 0.0f"},
	{"sums that are not finite stay", "kernels/wgmma_store.cuh", "if (isAgain)", "if (!isAgain)"},
	{"sums that are finite are computed once more", "kernels/wgmma_store.cuh",
		"!(out[r * kOutPitch + lane] * 0.0f == 0.0f)", "(out[r * kOutPitch + lane] * 0.0f == 0.0f)"},
	{"another row stands for a sum", "kernels/wgmma_store.cuh", "kTransA ? row + r : rowAt(row + r)",
		"kTransA ? row : rowAt(row)"},
	{"a sum is of the lanes' k's but the last's", "kernels/wgmma_store.cuh", "i < min(item.depth, 32u)",
		"i < min(item.depth, 31u)"},
	{"sums of a row are of the first column", "kernels/wgmma_store.cuh",
		"if (ofLane(wrong, c - col) == 0) continue;", "if (ofLane(wrong, 0) == 0) continue;"},
	{"alpha in partial sums", "kernels/wgmma_store.cuh", "item.slot != kFinal ? 1.0f : item.depth",
		"item.depth"},
	{"a line before the row is read", "kernels/wgmma_operand.cuh", "before != 0 || left[i] < depth + kLine",
		"true"},
	{"a lane's second row is its first", "kernels/wgmma_convert.cuh",
		"further = 4 * (min(r + 8, length - 1) - first);", "further = 0;"},
	{"a step beyond K is read across K", "kernels/wgmma_operand.cuh",
		"static_cast<int32_t>(k) < left ? 16 : 0", "16"},
	{"rows that do not exist are copied", "kernels/wgmma_operand.cuh",
		"first + 4 * i < length && depth != 0 ?", "depth != 0 ?"},
	{"rows that do not exist are copied in the middle", "kernels/wgmma_operand.cuh", "at[i], 4 * i, rows)",
		"at[i], 0, rows)"},
	{"a tile lacks no rows in the middle", "kernels/wgmma_operand.cuh", "middle && rows > 4 * (kCopies - 1)",
		"middle"},
	{"lines change places in one of two", "kernels/wgmma_operand.cuh", "flip[i] = 16 * swap(start, ld, n)",
		"flip[i] = 0"},
	{"a step lies beyond the ring", "kernels/wgmma_operand.cuh",
		"if (kAround && at >= kRing) at -= kRing;\n          if (kWidth == 4)", "if (kWidth == 4)"},
	{"vectors of rows that are not aligned", "kernels/wgmma_operand.cuh", "uniform(widest(start, ld))",
		"uniform(widest(start, 4 * ld))"},
}

// swappedMutants are mistakes in wgmma_store.cuh, and in the converter for problems of few rows.
var swappedMutants = []mutant{
	{"offsets keep their places", "kernels/wgmma_store.cuh", "{x.offB, x.offA,", "{x.offA, x.offB,"},
	{"leading dimensions keep their places", "kernels/wgmma_store.cuh", "x.ldb, x.lda,", "x.lda, x.ldb,"},
	{"rows and columns keep their places", "kernels/wgmma_store.cuh", "extentOf(x.cols(), x.rows())",
		"x.extent"},
	{"lanes store what others have not repaired", "kernels/wgmma_store.cuh",
		"    warpBarrier();  // other lanes", "    // other lanes"},
	{"half of a warp's columns are the others", "kernels/wgmma_store.cuh", "rowsOn(to + first, r, ld)",
		"rowsOn(to, r, ld)"},
	{"columns that do not exist are stored", "kernels/wgmma_store.cuh",
		"      if (col + first + across >= item.rows()) break;\n", ""},
	{"rows that do not exist are stored", "kernels/wgmma_store.cuh",
		"r < item.cols() ? rowsOn(to + first, r, ld) : nullptr", "rowsOn(to + first, r, ld)"},
	{"partial tiles as they are multiplied", "kernels/wgmma_store.cuh", "item.ldc : T::TM;",
		"item.ldc : T::TN;"},
	{"a warp counts for others", "kernels/wgmma_store.cuh", "countersOf(items, item) + col / 16",
		"countersOf(items, item)"},
	{"a warp sums columns of others", "kernels/wgmma_store.cuh", "first = col + lane % kAcross * 4;",
		"first = lane % kAcross * 4;"},
	{"operands are transposed as they are", "kernels/wgmma.cuh",
		"wgmmaGemm<T, !kTransB, !kTransA, kPartials>(items, table, B, A,",
		"wgmmaGemm<T, kTransA, kTransB, kPartials>(items, table, B, A,"},
	{"warps split 16 of few columns", "kernels/wgmma_convert.cuh", "(few ? 8 : 16) * warp", "16 * warp"},
	{"all columns are few", "kernels/wgmma_convert.cuh", "return T::kSwapped && uniform(cols) <= 32;",
		"return T::kSwapped;"},
}

// earlyMutants are mistakes in what tiles of many stages do during products.
var earlyMutants = []mutant{
	{"registers of A change under products", "kernels/wgmma.cuh", "step(f, g);", "step(f, f);"},
	{"the step to come is the one before", "kernels/wgmma.cuh", "step(g, f);", "step(f, g);"},
}

// alignedMutants are mistakes in wgmma_aligned.cuh.
var alignedMutants = []mutant{
	{"a stage is released before its products are done", "kernels/wgmma_aligned.cuh",
		"        waitProducts<1>();\n        release(before);\n",
		"        release(before);\n        waitProducts<1>();\n"},
	{"the last stage is released before its products are done", "kernels/wgmma_aligned.cuh",
		"    waitProducts<0>();\n    settle(sum);", "    settle(sum);"},
	{"copies of others without a fence", "kernels/wgmma_aligned.cuh",
		"      fenceStores();  // the copies were others'\n", ""},
	{"products do not wait for copies", "kernels/wgmma_aligned.cuh", "      wait();\n", ""},
	{"the loader does not wait for a free stage", "kernels/wgmma_aligned.cuh",
		"    waitPhase(shared + T::kFree + 8 * stage.at, stage.parity ^ 1);\n", ""},
	{"a step arrives before its copies", "kernels/wgmma_aligned.cuh", "copy, arriveCopied)", "copy, arrive)"},
	{"the last step arrives before its copies", "kernels/wgmma_aligned.cuh",
		"vector ? arriveCopied(full) : arrive(full)", "arrive(full)"},
	{"no swizzle", "kernels/wgmma_aligned.cuh", "16 * (line % 8 ^ row % 8)", "16 * (line % 8)"},
	{"steps across K as along it", "kernels/wgmma_aligned.cuh", "kStepB = kMNMajorB ? 128 : 2", "kStepB = 2"},
	{"a step beyond K is read across K", "kernels/wgmma_aligned.cuh",
		"static_cast<int32_t>(row + i * kApart) < left ? whole : 0", "whole"},
	{"elements after a row are read", "kernels/wgmma_aligned.cuh",
		"bytesInLine<Number>(kMajorK ? left - line : length)",
		"bytesInLine<Number>((kMajorK ? left - line : length) + kLine)"},
	{"rows that do not exist are copied", "kernels/wgmma_aligned.cuh",
		"from(i), kMajorK ? i * kApart : 0, length)", "from(i), 0, length)"},
	{"columns that do not exist are copied", "kernels/wgmma_aligned.cuh",
		"from(i), kMajorK ? i * kApart : 0, length)", "from(i), kMajorK ? i * kApart : -kLength, length)"},
	{"rows that do not exist are copied in the last step", "kernels/wgmma_aligned.cuh",
		"        if ((kMajorK ? i * kApart : 0) >= length) break;\n        copyLine", "        copyLine"},
	{"lines of C that are not aligned", "kernels/wgmma_aligned.cuh", " && item.ldc % 8 == 0", ""},
	{"a line of C beyond the tile", "kernels/wgmma_aligned.cuh", "if (col + 8 <= item.cols())", "if (true)"},
	{"a warp's lines are read too early", "kernels/wgmma_aligned.cuh",
		"    warpBarrier();\n    const uint32_t col = 2 * first", "    const uint32_t col = 2 * first"},
	{"rows that do not exist are stored", "kernels/wgmma_aligned.cuh", "r < item.rows() ? rowAt(r) : kNoRow",
		"rowAt(r)"},
}

// byteMutants are mistakes in wgmma_convert.cuh, and in the types of its C.
var byteMutants = []mutant{
	{"a stage is not summed from zero", "kernels/wgmma_aligned.cuh", "productOf<true>(format, part",
		"productOf<false>(format, part"},
	{"a stage is added while products are under way", "kernels/wgmma_aligned.cuh",
		"    waitProducts<0>();\n    settle(part);\n", "    settle(part);\n"},
	{"a stage is released before its products are done", "kernels/wgmma_aligned.cuh",
		"    waitProducts<0>();\n    settle(part);\n    release(stage.at);\n",
		"    release(stage.at);\n    waitProducts<0>();\n    settle(part);\n"},
	{"whole sums are taken for floats", "kernels/wgmma.cuh", "static_cast<float>(whole[i])",
		"__uint_as_float(static_cast<uint32_t>(whole[i]))"},
	{"C of fp16 is taken for bf16", "element/bits16.cuh",
		"    if ((flags & kItemF16C) != 0) of(Bits16<High>{});\n    else of", "    of"},
}

// warpgroupEpilogueMutants are mistakes in epilogues in registers in kernels of warpgroups, and in dynamic
// tables.
var warpgroupEpilogueMutants = []mutant{
	{"the first row stands for one that is none", "epilogue/wgmma_epilogue.cuh",
		"return none ? 0.0f : alpha * x;", "return none ? x : alpha * x;"},
	{"biases of other columns", "epilogue/wgmma_epilogue.cuh", "x[i / 4 * 2 + i % 2]", "x[i / 4 * 2]"},
	{"the second product finds another lane's first", "epilogue/wgmma_epilogue.cuh",
		"const float4 before = at[i / 4 * kApart];", "const float4 before = at[0];"},
	{"rows have one scale", "epilogue/epilogue.cuh", "if (!has(kRowsA)) return", "return"},
	{"columns have one scale", "epilogue/epilogue.cuh", "(has(kColumnsB) ? scaleWords(flags) * col : 0)",
		"0"},
	{"rows without a row of A have its scale", "epilogue/epilogue.cuh",
		"      if (r >= words.gatherRows) return 1.0f;\n", ""},
	{"rows have the scales of blocks of the first", "epilogue/epilogue.cuh", "rowOf(i) * each + block",
		"rowOf(0) * each + block"},
	{"rows have one scale of blocks", "epilogue/epilogue.cuh", "rowOf(i) * each + block",
		"rowOf(i) + 0 * each + block"},
	{"scales of the block of k's after", "epilogue/epilogue.cuh", "atB = item.scaleBAt + block;",
		"atB = item.scaleBAt + block + 1;"},
	{"the last block of k's has the scales before", "kernels/wgmma.cuh", "scales.add(sum, part, left > 1);",
		"scales.add(sum, part, left > 2);"},
	{"scales after the last block of k's are read", "kernels/wgmma.cuh", "scales.add(sum, part, left > 1);",
		"scales.add(sum, part, true);"},
	{"a lane's rows have one scale of blocks", "epilogue/wgmma_epilogue.cuh", "scale[i / 2 % 2]", "scale[0]"},
	{"scales of rows that do not exist are read", "epilogue/wgmma_epilogue.cuh", "min(first + 8 * i, last)",
		"first + 8 * i + 0 * last"},
	{"scales of blocks though there is no product", "epilogue/wgmma_epilogue.cuh",
		"if (uniform(item.depth) != 0) {", "{"},
	{"weights are added", "epilogue/wgmma_epilogue.cuh", "return weight * x;", "return weight + x;"},
	{"rows are not scattered", "epilogue/wgmma_epilogue.cuh", "if (!e.has(kScatter)) return r;", "return r;"},
	{"rows that are none are stored", "epilogue/wgmma_epilogue.cuh",
		"return row < words.scatterRows ? row : kNoRow;", "return row;"},
	{"workers begin with chunks of others", "kernels/wgmma_store.cuh", "item - workers()",
		"item - workers() + 1"},
	{"the counter does not wrap", "kernels/wgmma_store.cuh", "ofLane<3>(chunk), threadId()",
		"kNoItem, threadId()"},
	{"columns beyond the tile are stored", "kernels/wgmma_store.cuh",
		"    if (col + lane >= item.cols()) return;\n#pragma unroll\n    for (int first = 0; first < 16; " +
			"first += kAtOnce) {\n      if (row",
		"#pragma unroll\n    for (int first = 0; first < 16; first += kAtOnce) {\n      if (row"},
}

// zeroMutants are mistakes in their handling of zero points.
var zeroMutants = []mutant{
	{"sums keep what zero points are worth", "epilogue/wgmma_epilogue.cuh",
		"e.has(kZeros) && item.depth != 0", "false"},
	{"a lane's rows have one zero point", "epilogue/wgmma_epilogue.cuh", "-zero[i / 2 % 2]", "-zero[0]"},
	{"a lane's columns have one sum", "epilogue/wgmma_epilogue.cuh", "first + i / 4 * 8 + i % 2",
		"first + i / 4 * 8"},
	{"rows have one zero point", "epilogue/epilogue.cuh", "(has(kRowsA) ? 2 * r : 0) + 1", "1"},
	{"zero points have no sign", "epilogue/epilogue.cuh", "static_cast<int32_t>(rows[words.scaleAAt",
		"(rows[words.scaleAAt"},
	{"rows without a row of A have its zero point", "epilogue/epilogue.cuh",
		"      if (r >= words.gatherRows) return 0.0f;\n", ""},
	{"scales are one word apart", "kernels/items.cuh", "(flags & kPairs) != 0 ? 2 : 1", "1"},
	{"sums of C that is read keep what zero points are worth", "epilogue/epilogue.cuh",
		"if (kWhole) sum = fmaf(-zeroA, sumB, sum);", ""},
}

func TestWarpgroupMutants(t *testing.T) {
	for _, c := range []struct {
		tile    string
		name    string
		mutants []mutant
		jobs    func(*tile.Shape) []*emulatorJob
	}{
		{"wgmma-128x128", "floats", wgmmaMutants,
			func(s *tile.Shape) []*emulatorJob {
				return append(wgmmaJobs(t, s, 18),
					wgmmaExtremes(t, s)[:6]...)
			}},
		{"wgmma-64x128", "swapped", swappedMutants,
			func(s *tile.Shape) []*emulatorJob {
				return append(wgmmaJobs(t, s, 19),
					wgmmaExtremes(t, s)[:6]...)
			}},
		{"wgmma-64x64-deep", "early", earlyMutants, func(s *tile.Shape) []*emulatorJob {
			return wgmmaJobs(t,
				s, 20)[:16]
		}},
		{"aligned-64x128", "aligned", alignedMutants, func(s *tile.Shape) []*emulatorJob {
			return slices.DeleteFunc(halfJobs(t, s, element.BF16),
				func(j *emulatorJob) bool { return j.dynamic() })
		}},
		{"aligned-64x64", "bytes", byteMutants, func(s *tile.Shape) []*emulatorJob {
			return slices.DeleteFunc(append(halfJobs(t, s, element.E4M3), halfJobs(t, s, element.Int8)...),
				func(j *emulatorJob) bool { return j.dynamic() })
		}},
		{"wgmma-64x64", "epilogue", warpgroupEpilogueMutants, func(s *tile.Shape) []*emulatorJob {
			return slices.DeleteFunc(wgmmaEpilogues(t, s), func(j *emulatorJob) bool {
				return j.plan.Options.TypeA != element.BF16 && j.plan.Options.TypeA != element.E4M3
			})
		}},
		{"wgmma-64x64", "zero points", zeroMutants, func(s *tile.Shape) []*emulatorJob {
			return slices.DeleteFunc(wgmmaEpilogues(t, s),
				func(j *emulatorJob) bool { return !j.plan.Options.Epilogue.ZeroA })
		}},
	} {
		t.Run(c.name+" "+c.tile, func(t *testing.T) {
			testWarpgroupMutants(t, "warpgroup_kernels.cpp", c.tile, c.mutants, c.jobs)
		})
	}
}

func testWarpgroupMutants(t *testing.T, file, name string, mutants []mutant,
	jobsOf func(*tile.Shape) []*emulatorJob) {
	compiled(t)
	objects, err := warpgroupRuntime()
	require.NoError(t, err)
	shape, err := tile.ByName(name)
	require.NoError(t, err)
	// Each operand K-major and MN-major, and both MN-major, so that items of one slot exist.
	jobs := slices.DeleteFunc(jobsOf(shape), func(j *emulatorJob) bool {
		return !j.plan.Batch[0].TransA && j.plan.Batch[0].TransB && !alongK(shape, j.plan.Options.TypeA)
	})

	used := map[string]bool{}
	for _, j := range jobs {
		for _, l := range j.plan.Launches {
			used[sm90a.KernelName(l.Kernel)] = true
		}
	}
	made := map[string]string{}
	for _, part := range builds.Parts {
		made["lists/"+part+".inc"] = builds.CUDA(part, []*tile.Shape{shape},
			func(k encoding.Kernel) bool { return used[sm90a.KernelName(k)] })
	}

	run := func(t *testing.T, m mutant) error {
		t.Helper()
		source := mutate(t, m, made)
		e, err := buildWarpgroups(filepath.Join(source, "runner"), source, file, objects)
		require.NoError(t, err)
		return e.run(source, jobs)
	}
	t.Run("none", func(t *testing.T) {
		sample.Kernels.Part(t, 1)
		require.NoError(t, run(t, mutant{}))
	})
	for _, m := range mutants {
		requireFound(t, m, func(t *testing.T) error { return run(t, m) })
	}
}
