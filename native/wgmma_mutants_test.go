package native

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	builds "github.com/batchgemm/batchgemm/native/internal/kernels"
	"github.com/batchgemm/batchgemm/planner/tile"
)

// wgmmaMutants are mistakes in the kernels of warpgroups, each of which must be found.
var wgmmaMutants = []mutant{
	{"a stage is released before its products are done", "wgmma.cuh", "      waitProducts<0>();\n      if constexpr (T::Element::kPer == 1) settle(part);\n      else settle(sum);\n      release(used);\n", "      release(used);\n      waitProducts<0>();\n      settle(part);\n"},
	{"sums are read while products are under way", "wgmma.cuh", "      waitProducts<0>();\n", ""},
	{"products without a fence", "wgmma.cuh", "    fenceProducts();\n", ""},
	{"registers of A change under products", "wgmma.cuh", "      waitProducts<0>();\n", "      x[0][0] += 1.0f;\n      f.split(x);\n      waitProducts<0>();\n"},
	{"a product is left out", "wgmma.cuh", "        product<false>(sum, hi[i], bLo + 2 * i);\n", ""},
	{"the splitter waits for the wrong parity", "wgmma.cuh", "waitPhase(shared + L::kLoaded + 8 * ahead.at, ahead.parity);", "waitPhase(shared + L::kLoaded + 8 * ahead.at, ahead.parity ^ 1);"},
	{"the splitter does not wait for copies", "wgmma.cuh", "      waitPhase(shared + L::kLoaded + 8 * ahead.at, ahead.parity);\n", ""},
	{"the splitter does not wait for a free stage", "wgmma.cuh", "      waitPhase(shared + L::kFree + 8 * stage.at, stage.parity ^ 1);\n", ""},
	{"the loader does not wait for a free place", "wgmma.cuh", "      waitPhase(shared + L::kTaken + 8 * ahead.at, ahead.parity ^ 1);\n", ""},
	{"parities do not change", "wgmma.cuh", "at = 0, parity ^= 1;", "at = 0;"},
	{"a place too few for A along K", "wgmma.cuh", "AlongK<E, T::TM, T::kStages + T::kAhead + 1>", "AlongK<E, T::TM, T::kStages + T::kAhead>"},
	{"a place too few for A across K", "wgmma.cuh", "AcrossK<E, T::TM, T::kStages + T::kAhead, 1>", "AcrossK<E, T::TM, T::kStages + T::kAhead - 1, 1>"},
	{"stores without a fence", "wgmma.cuh", "        fenceStores();\n", ""},
	{"a step is published before all lanes have stored", "wgmma.cuh", "      warpBarrier();\n      if (lane == 0) {\n        arrive(shared + L::kFull", "      if (lane == 0) {\n        arrive(shared + L::kFull"},
	{"columns from 64 on are not split", "wgmma.cuh", "return uniform((cols + 63) / 64);", "return uniform(min((cols + 63) / 64, 1u));"},
	{"no swizzle", "wgmma.cuh", "(to ^ 16 * c)", "(to + 16 * c)"},
	{"no barrier behind the making of phases", "wgmma.cuh", "  barrier();\n", ""},
	{"more registers than there are", "wgmma.cuh", "kBlocks == 2 ? 192", "kBlocks == 2 ? 200"},
	{"an item is published before all lanes have stored", "wgmma_items.cuh", "    warpBarrier();\n", ""},
	{"items follow too fast", "wgmma_items.cuh", "kItemPlaces = 16;", "kItemPlaces = 6;\n#define static_assert(...)"},
	{"a warp's sums are read too early", "wgmma_store.cuh", "    warpBarrier();\n    store(col);", "    store(col);"},
	{"sums are computed once more for no reason", "wgmma_store.cuh", "+ zero[3] == 0.0f", "+ zero[3] != 0.0f"},
	{"alpha in partial sums", "wgmma_store.cuh", "!final ? 1.0f : item.depth", "item.depth"},
	{"a line before the row is read", "wgmma_operand.cuh", "before != 0 || left[i] < depth + kLine", "true"},
	{"rows that do not exist are read", "wgmma.cuh", "further = 4 * (min(r + 8, length - 1) - first);", "further = 4 * 8;"},
	{"a step beyond K is read across K", "wgmma_operand.cuh", "static_cast<int32_t>(k) < left ? 16 : 0", "16"},
	{"rows that do not exist are copied", "wgmma_operand.cuh", "first + 4 * i < length && depth != 0 ?", "depth != 0 ?"},
	{"lines change places in one of two", "wgmma_operand.cuh", "flip[i] = 16 * swap(start, ld, n)", "flip[i] = 0"},
	{"a step lies beyond the ring", "wgmma_operand.cuh", "if (kAround && at >= kRing) at -= kRing;\n          if (kWidth == 4)", "if (kWidth == 4)"},
	{"vectors of rows that are not aligned", "wgmma_operand.cuh", "uniform(widest(start, ld))", "uniform(widest(start, 4 * ld))"},
}

// wgmmaSources are the files of an emulator's kernels; tiles.inc is made.
var wgmmaSources = []string{"epilogue.cuh", "epilogue_items.cuh", "fragment.cuh", "gemm.cuh", "half.cuh", "items.cuh", "tensor.cuh", "wgmma.cuh", "wgmma_epilogue.cuh", "wgmma_half.cuh", "wgmma_items.cuh", "wgmma_operand.cuh", "wgmma_store.cuh",
	"internal/emulator/warpgroup.h", "internal/emulator/warpgroup_kernels.cpp"}

func TestWarpgroupMutants(t *testing.T) {
	compiled(t)
	objects, err := warpgroupRuntime()
	require.NoError(t, err)
	// The tile with two blocks of columns.
	shape, err := tile.ByName("wgmma-128x128")
	require.NoError(t, err)
	var line string
	for l := range strings.Lines(builds.CUDA(tile.Table())) {
		if strings.HasPrefix(l, "BG_WGMMA("+builds.Identifier(shape)+",") {
			line = l
		}
	}
	jobs := wgmmaJobs(t, shape, 18)
	// Each operand along K and across it, and both across, so that items of one slot exist.
	jobs = slices.DeleteFunc(jobs, func(j *emulatorJob) bool { return !j.plan.Batch[0].TransA && j.plan.Batch[0].TransB })

	run := func(t *testing.T, m mutant) error {
		t.Helper()
		source := mutate(t, m, wgmmaSources, map[string]string{"tiles.inc": line})
		e, err := buildWarpgroups(filepath.Join(source, "runner"), source, objects, "-DBG_FLOATS_ALONE")
		require.NoError(t, err)
		return e.run(source, jobs)
	}
	t.Run("none", func(t *testing.T) { require.NoError(t, run(t, mutant{})) })
	for _, m := range wgmmaMutants {
		requireFound(t, m, func(t *testing.T) error { return run(t, m) })
	}
}
