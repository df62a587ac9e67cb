package native

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// panelJobs are plans of a tile of 9.0 for 4-bit B of all scalings, with every epilogue, whole and split
// along K, with several tiles for each worker and with dynamic tiles, for both types of A.
func panelJobs(t *testing.T, shape *tile.Shape) (jobs []*emulatorJob) {
	t.Helper()
	rows, cols := []int{shape.TM + 3, shape.TM - 1, 1, shape.TM / 2, 7}, []int{shape.TN + 20, 3, shape.TN, 40}
	schedules := []planner.Schedule{planner.ScheduleDataParallel, planner.ScheduleLPT,
		planner.ScheduleDynamic, planner.ScheduleSplitK}
	for i, e := range append(reference.Epilogues(slices.Max(rows)), planner.Epilogue{}) {
		for turn, by := range []planner.Scaling{planner.PerGroup64, planner.PerGroup128, planner.PerGroup32,
			planner.PerGroup16} {
			seed := uint32(2*i + turn)
			rng := rand.New(rand.NewPCG(uint64(seed), 9))
			of, schedule := types16[(i+turn)%2], schedules[(i+2*turn)%4]
			depths := []int{3, 0, 1, 5, 2}
			switch {
			case schedule != planner.ScheduleSplitK:
			case by.ColumnRow():
				schedule = planner.ScheduleDataParallel
			default:
				depths = []int{19, 1}
			}
			var b planner.Batch
			for at := range 4 {
				b = append(b, planner.Problem{M: rows[(at+i)%len(rows)], N: cols[(at+turn+i/2)%len(cols)],
					K:     by.UnitK() * depths[(at+i)%len(depths)],
					Alpha: planner.Scale([...]float64{1, -0.5, 0}[rng.IntN(3)])})
				if !e.Gated { // they do not read C
					b[at].Beta = [...]float64{0, 0, -0.5}[rng.IntN(3)]
				}
			}
			b[0].Alpha, b[0].K = planner.Scale(2), by.Group()*slices.Max(depths)
			e.ScaleB = by
			types := elemtype.TypesC(of)
			o := planner.Options{TypeA: of, TypeB: by.TypeB(of), TypeC: types[i%len(types)],
				Tile: shape.Name, Schedule: schedule, Epilogue: e}
			j := newJob(t, deviceFor(t, "h200", schedule), b, o, []int{8, 1, 16, 3}[i%4], rng)
			j.how = [2]uint32{seed % 3, seed}
			j.a = append(j.a, slices.Repeat([]float32{gap}, -len(j.a)&7)...)
			round(of, j.a)
			round(o.TypeC, j.c)
			round(o.TypeC, j.e.Biases)
			spoilUnused(j)
			if j.dynamic() {
				j.workers = i % 3 // 0: as in the plan
			}
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// spoilUnused makes the scales of MXFP4 after the last k NaN.
func spoilUnused(j *emulatorJob) {
	e := &j.plan.Options.Epilogue
	for i := range j.plan.Batch {
		p := &j.plan.Batch[i]
		if e.ScaleB != planner.PerGroup32 || p.K%128 == 0 || p.Alpha == planner.Scale(0) {
			continue
		}
		at, matrices := p.ScaleB, []planner.Matrix{p.B}
		if e.Gated {
			matrices = append(matrices, p.B2)
		}
		for _, m := range matrices {
			at += e.ScaleB.GroupWords(p.K, m.LD)
			for k := range m.LD {
				j.e.Rows[at-1-k] |= -1 << 16
			}
		}
	}
}

func panelTiles() []*tile.Shape {
	return slices.DeleteFunc(tile.Of(tile.WGMMA), func(s *tile.Shape) bool { return !s.Int4Only })
}

// TestPanelsEmulated runs the kernels of 9.0 for 4-bit B.
func TestPanelsEmulated(t *testing.T) {
	compiled(t)
	for _, shape := range panelTiles() {
		t.Run(shape.Name, func(t *testing.T) {
			t.Parallel()
			e, err := int4AsAre()
			require.NoError(t, err)
			require.NoError(t, e.run(t.TempDir(), sample.Jobs(t, sample.Kernels, panelJobs(t, shape))))
		})
	}
}

// TestAllFP4Emulated multiplies all elements of e2m1 by all scales.
func TestAllFP4Emulated(t *testing.T) {
	compiled(t)
	for _, shape := range panelTiles() {
		t.Run(shape.Name, func(t *testing.T) {
			t.Parallel()
			e, err := int4AsAre()
			require.NoError(t, err)
			require.NoError(t, e.run(t.TempDir(), sample.Jobs(t, sample.Kernels, fp4Jobs(t, shape))))
		})
	}
}

func fp4Jobs(t *testing.T, shape *tile.Shape) (jobs []*emulatorJob) {
	t.Helper()
	for i, of := range types16 {
		for _, by := range []planner.Scaling{planner.PerGroup32, planner.PerGroup16} {
			jobs = append(jobs, allFP4(t, shape, of, by, uint64(i)))
		}
	}
	return jobs
}

// allFP4 is a plan with a product of an element of e2m1 and 1 in each element of C.
func allFP4(t *testing.T, shape *tile.Shape, of element.Type, by planner.Scaling,
	seed uint64) *emulatorJob {
	t.Helper()
	const depth = element.Int4Panel
	o := planner.Options{TypeA: of, TypeB: by.TypeB(of), TypeC: element.F32, Tile: shape.Name,
		Epilogue: planner.Epilogue{ScaleB: by}}
	b := planner.Batch{{M: depth, N: 256, K: depth, Alpha: planner.Scale(1)}}
	j := newJob(t, deviceFor(t, "h200", ""), b, o, 8, rand.New(rand.NewPCG(seed, 10)))
	p := &j.plan.Batch[0]
	for i := range depth {
		row := j.a[p.A.Offset+i*p.A.LD:][:depth]
		clear(row)
		row[i] = 1
	}
	words, groups := j.packedB[p.B.Offset/8:], j.e.Rows[p.ScaleB:]
	for i := range p.N * depth / 8 {
		words[i] = []uint32{0x64205310, 0xecae9b88}[i%2] // each element once
	}
	if by.ColumnRow() {
		for i := range p.N {
			groups[i] = int32(math.Float32bits(0.125))
		}
		groups = groups[p.B.LD:]
	}
	clear(words[8*255 : 8*256]) // which are 0 times NaN
	for i := range p.N {
		word := uint32(0)
		for shift := range 4 {
			scale := uint32(i+shift%2*255) % 256 // i, or that before
			if by == planner.PerGroup32 && (scale == 253 || scale == 254) {
				scale = 252 // 4 and 6 times these are too large
			}
			word |= scale << (8 * shift)
		}
		groups[i] = int32(word)
	}
	reference.Widen4(j.b, j.packedB, p, p.B, j.e.Rows[p.ScaleB:], by)
	return j
}

// panelMutants are mistakes in wgmma_int4.cuh, and in the part of int4.cuh that it uses.
var panelMutants = []mutant{
	{"copies of A without a fence", "kernels/wgmma_int4.cuh",
		"      fenceStores();  // copies of A were another's\n", ""},
	{"products do not wait for copies", "kernels/wgmma_int4.cuh",
		"      stages.wait();\n      fenceStores();  //", "      fenceStores();  //"},
	{"a stage is released before its products are done", "kernels/wgmma_int4.cuh",
		"      step(at, memory + at, depth);\n      stages.release(stages.stage.at);\n",
		"      stages.release(stages.stage.at);\n      step(at, memory + at, depth);\n"},
	{"the loader does not wait for a free stage", "kernels/wgmma_int4_load.cuh",
		"      stages.waitFree();\n", ""},
	{"a step arrives before its copies", "kernels/wgmma_int4_load.cuh",
		"vector ? arriveCopied(full) : arrive(full);", "arrive(full);"},
	{"pieces are not expected", "kernels/wgmma_int4_load.cuh", "      expectBytes(full, bytes(left));\n", ""},
	{"words of groups anywhere are copied as pieces", "kernels/wgmma_int4_load.cuh",
		"pieces = placeInLine(groups) == 0 && cols % 4 == 0;", "pieces = true;"},
	{"a panel after the last is copied", "kernels/wgmma_int4_load.cuh", "if (both) copyPiece(stage",
		"copyPiece(stage"},
	{"both panels have the groups of the first", "kernels/wgmma_int4_load.cuh",
		"4 * T::TN, groups + ldb, 4 * cols", "4 * T::TN, groups, 4 * cols"},
	{"a panel that does not exist has any scales", "kernels/wgmma_int4_load.cuh",
		"if (!pieces || (by64 && !both)) copyWords", "if (!pieces) copyWords"},
	{"steps are a panel", "kernels/wgmma_int4_load.cuh", "panel = rowsOn(panel, 16, ldb);",
		"panel = rowsOn(panel, 8, ldb);"},
	{"lanes have the same k's", "kernels/wgmma_int4.cuh",
		"of[i] >> 4 * member, minus", "of[i], minus"},
	{"columns have the zero point of the first", "kernels/wgmma_int4.cuh",
		"minus[h % kSums][r])", "minus[h % kSums][0])"},
	{"panels have the scales of the first", "kernels/wgmma_int4.cuh", "add(sum, part[h], scale[h])",
		"add(sum, part[h], scale[0])"},
	{"rows that do not exist are stored", "kernels/wgmma_int4.cuh",
		"r < 16 && first + r < item.rows(); r += 32 / kLines", "r < 16; r += 32 / kLines"},
	{"lines of C that are not aligned", "epilogue/wgmma_epilogue.cuh",
		"if (count == 8 && placeInLine(to) == 0)", "if (count == 8)"},
	{"columns that do not exist are stored", "kernels/wgmma_int4.cuh", "count = min(item.cols() - col, 8u)",
		"count = 8"},
	{"a warp without columns does not let steps go by", "kernels/wgmma_int4.cuh",
		">= cols) warp.stages.pass(warp.depth);\n    else sum(warp);", "< cols) sum(warp);"},
	{"a lane's columns are stored as one", "kernels/wgmma_int4.cuh", "16 * i + 8 * (e / 2 % 2) + at.group]",
		"16 * i + at.group]"},
	{"pairs of rows have one weight", "epilogue/wgmma_epilogue.cuh", "2 * (threadId() % 4) + i % 2);",
		"2 * (threadId() % 4));"},
	{"a lane's columns have one bias", "epilogue/wgmma_epilogue.cuh", "col = column + 8 * half;",
		"col = column;"},
	{"no swizzle", "kernels/wgmma_int4_load.cuh", "16 * (line % 8 ^ row % 8)", "16 * (line % 8)"},
}

// streamMutants are mistakes in tiles of few rows.
var streamMutants = []mutant{
	{"a stage is released before it is read", "kernels/wgmma_int4.cuh",
		"    multiply(stages.stage.at * T::kStage);\n    stages.release(stages.stage.at);\n",
		"    stages.release(stages.stage.at);\n    multiply(stages.stage.at * T::kStage);\n"},
	{"a warp without columns does not let steps go by", "kernels/wgmma_int4.cuh",
		">= cols) warp.stages.pass(warp.depth);\n    else sum(warp);", "< cols) sum(warp);"},
	{"the second 8 rows are those before", "kernels/wgmma_int4.cuh",
		"else if (warp.rows <= 8) multiplyItem<1>", "else if (warp.rows <= 16) multiplyItem<1>"},
}

// fp4Mutants are mistakes in what is only for weights of e2m1.
var fp4Mutants = []mutant{
	{"signs of e2m1 in another place", "ptx/e2m1.cuh", "12 - 4 * p", "13 - 4 * p"},
	{"signs of others beside the size", "ptx/e2m1.cuh", "0x08080808 << p % 2 * 4", "0x88888888"},
	{"sizes of e2m1 in another place", "ptx/e2m1.cuh", "word << (kPlace", "word << (kPlace + 1"},
	{"scales are twice as large", "ptx/e2m1.cuh", "126 * 0x00800080", "127 * 0x00800080"},
	{"large scales are 2", "ptx/e2m1.cuh", "(max(both, 0x00800080u) - 0x00010001)",
		"0x007f007f"},
	{"NaN is a scale", "ptx/e2m1.cuh", "both == 0x00ff00ff ? 0x7fff7fff : ", ""},
	{"the least scale is 0", "ptx/e2m1.cuh", "byte == 0 ? 0x00400000 : ", ""},
	{"e4m3 without what is left", "ptx/e2m1.cuh", "kRest = 128", "kRest = 1"},
	{"scales of another half", "ptx/e2m1.cuh", "halves >> 16 * (i % 2)", "halves >> 16 * (1 - i % 2)"},
	{"words of NVFP4 are scales of columns", "kernels/int4.cuh", "item.depth != 0 ? 1 : 0", "false ? 1 : 0"},
	{"columns have the scale of the first", "kernels/int4.cuh", "scales[column + 8 * r]", "scales[column]"},
}

// fp4PanelMutants and fp4StreamMutants are those of each kind of tile.
var fp4PanelMutants = []mutant{
	{"a panel that does not exist has scales", "kernels/wgmma_int4.cuh",
		"if (kE8M0 && h == 1 && left <= 64) word[r] = 0;", ""},
	{"panels have the scales of the first", "kernels/wgmma_int4.cuh",
		"groupWord(stage, 0, r) >> 16 * h : groupWord(stage, h, r)",
		"groupWord(stage, 0, r) : groupWord(stage, h, r)"},
	{"a panel that does not exist is summed", "kernels/wgmma_int4.cuh", "h < (left > 64 ? 2 : 1)", "h < 2"},
	{"32 k's have the scale of those before", "kernels/wgmma_int4.cuh", "numberE8M0(byteOf(word[1], q))",
		"numberE8M0(byteOf(word[1], 0))"},
	{"nibbles of another member", "ptx/e2m1.cuh", "member % 2 == 0 ? 16 : 1", "1"},
	{"bytes of another member", "ptx/e2m1.cuh", "member / 2 * 0x1111", "0"},
	{"the rest of a scale is that of the first", "kernels/wgmma_int4.cuh",
		"Of::restOfE8M0(Of::twice(word[i % 2], i / 8))", "Of::restOfE8M0(Of::twice(word[i % 2], 0))"},
}
var fp4StreamMutants = []mutant{
	{"lanes have the scale of the first", "kernels/int4.cuh", "Of::twice(word, 2 * h + member / 2)",
		"Of::twice(word, 2 * h)"},
	{"large scales are small ones", "kernels/int4.cuh", "warpAny((all & 0x80808080) != 0)", "false"},
	{"a panel that does not exist is summed", "kernels/int4.cuh", "if (h == 1 && !both) break;", ""},
	{"the second 32 k's are the first", "kernels/int4.cuh", "16 * (u % 2)", "0"},
}

func TestPanelMutants(t *testing.T) {
	for _, c := range []struct {
		tile    string
		mutants []mutant
	}{
		{"int4-stream-16x128", slices.Concat(streamMutants, fp4StreamMutants)},
		{"int4-wgmma-32x128", slices.Concat(panelMutants, fp4Mutants, fp4PanelMutants)},
	} {
		t.Run(c.tile, func(t *testing.T) {
			testWarpgroupMutants(t, "warpgroup_int4.cpp", c.tile, c.mutants,
				func(s *tile.Shape) []*emulatorJob { return append(panelJobs(t, s), fp4Jobs(t, s)...) })
		})
	}
}
