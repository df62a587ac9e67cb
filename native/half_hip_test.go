package native

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/internal/tile"
	builds "github.com/batchgemm/batchgemm/native/internal/kernels"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// TestInstructionsOf runs kernels with matrix instructions of one architecture: the bf16 instruction of
// gfx908, whose lanes give one word instead of two, and those of gfx942: for int8, whose lanes give two
// instead of one, and for e4m3.
func TestInstructionsOf(t *testing.T) {
	compiled(t)
	for _, test := range []struct {
		arch, tile string
		of         element.Type
	}{
		{"gfx908", "small-k8", element.BF16}, // with K groups
		{"gfx908", "large", element.BF16},    // with several blocks for each wave
		{"gfx942", "medium-k2", element.Int8},
		{"gfx942", "medium-k2", element.E4M3},
		{"gfx942", "large-8x8", element.E4M3},
	} {
		t.Run(fmt.Sprintf("%s/%s/%s", test.arch, test.tile, test.of), func(t *testing.T) {
			sample.Kernels.Part(t, 2)
			shape, err := tile.ByName(test.tile)
			require.NoError(t, err)
			e, source := buildMutant(t, mutant{}, plain.of(test.arch), madeOf(shape))
			jobs := withKernels(tileJobs(t, shape, test.of,
				[]int{3 * shape.TM, 5, shape.TM - 1, shape.TM + 3},
				[]int{shape.TN - 2, 2 * shape.TN, shape.TN + 5}), 2)
			switch test.of {
			case element.Int8:
				jobs = append(jobs, wholeJobs(t, shape)...)
			case element.E4M3:
				jobs = append(jobs, nativeE4M3(t, shape)...)
			}
			require.NoError(t, e.run(source, sample.Jobs(t, sample.Kernels, jobs)))
			if test.of == element.E4M3 {
				requireSmallBlocks(t, e, shape)
			}
		})
	}
}

// of returns a sanitizer for kernels with the instructions of an architecture.
func (s sanitizer) of(arch string) sanitizer {
	if arch != "" {
		s.kernels = append([]string{"-D__" + arch + "__"}, s.kernels...)
	}
	return s
}

// nativeE4M3 are for matrix cores with native e4m3: all numbers and their products, epilogues, and scales of
// blocks.
func nativeE4M3(t *testing.T, shape *tile.Shape) (jobs []*emulatorJob) {
	t.Helper()
	jobs = slices.Concat(bytesJobs(t, shape, element.E4M3), productJobs(t, shape), fmaBlocks(t, shape),
		fmaEpilogues(t, shape, []int{shape.TM + 3, 5}, []int{shape.TN + 5}, element.E4M3))
	jobs = withKernels(jobs, 2)
	return slices.DeleteFunc(jobs, func(j *emulatorJob) bool { return !j.matrix })
}

// requireSmallBlocks: a scale of blocks with the last bit of fp32 is exact times 1, although products are
// sums of quarters.
func requireSmallBlocks(t *testing.T, e emulator, shape *tile.Shape) {
	t.Helper()
	const small = 0x1p-126 + 0x1p-149
	o := planner.Options{TypeA: element.E4M3, TypeC: element.F32,
		Epilogue: planner.Epilogue{ScaleA: planner.PerBlock, ScaleB: planner.PerBlock}}
	j := newFMAJob(t, planner.Batch{{M: 1, N: 1, K: 1}}, shape, o, false, false, rand.New(rand.NewPCG(1, 2)))
	j.matrix = true
	p := &j.plan.Batch[0]
	j.a[p.A.Offset], j.b[p.B.Offset] = 1, 1
	j.e.Rows[p.ScaleA], j.e.Rows[p.ScaleB] = int32(math.Float32bits(small)), int32(math.Float32bits(1))
	c, err := e.allC(t.TempDir(), []*emulatorJob{j})
	require.NoError(t, err)
	require.Equal(t, float32(small), math.Float32frombits(binary.NativeEndian.Uint32(c[4*p.C.Offset:])))
}

// productJobs multiply all pairs of numbers of e4m3.
func productJobs(t *testing.T, shape *tile.Shape) (jobs []*emulatorJob) {
	t.Helper()
	for transposition := range 4 {
		b := reference.OfAllProducts(transposition/2 == 1, transposition%2 == 1)
		o := planner.Options{TypeA: element.E4M3, TypeC: element.F32}
		j := newFMAJob(t, b, shape, o, transposition%2 == 1, false, rand.New(rand.NewPCG(1, 2)))
		j.exact = true
		reference.AllProducts(o.TypeA, j.plan.Batch, j.a, j.b)
		jobs = append(jobs, j)
	}
	return jobs
}

// wholeJobs are for matrix cores, with sums of int8 that fp32 cannot represent.
func wholeJobs(t *testing.T, shape *tile.Shape) (jobs []*emulatorJob) {
	t.Helper()
	for transposition := range 4 {
		b := reference.OfWholeSums(transposition/2 == 1, transposition%2 == 1)
		j := newFMAJob(t, b, shape, planner.Options{TypeA: element.Int8}, false, false,
			rand.New(rand.NewPCG(1, 2)))
		j.exact, j.matrix = true, true
		reference.WholeSums(j.plan.Batch, j.a, j.b)
		jobs = append(jobs, j)
	}
	return jobs
}

// TestWholeSums: sums of int8 on matrix cores are exact.
func TestWholeSums(t *testing.T) {
	testTiles(t, plain, func(t *testing.T, tile *tile.Shape) []*emulatorJob {
		if !builds.HasBytes(tile) || !builds.HasMatrix(tile) {
			return nil
		}
		return wholeJobs(t, tile)
	})
}

// bytesJobs multiply all numbers of an 8-bit type by 1, those of A and those of B.
func bytesJobs(t *testing.T, shape *tile.Shape, of element.Type) (jobs []*emulatorJob) {
	t.Helper()
	for transposition := range 4 {
		b := reference.OfAllNumbers(transposition/2 == 1, transposition%2 == 1)
		j := newFMAJob(t, b, shape, planner.Options{TypeA: of}, false, false, rand.New(rand.NewPCG(1, 2)))
		j.exact = true
		reference.AllNumbers(of, j.plan.Batch, j.a, j.b)
		jobs = append(jobs, j)
	}
	return jobs
}

// TestBytesEmulated: all 8-bit numbers are converted correctly.
func TestBytesEmulated(t *testing.T) {
	testTiles(t, plain, func(t *testing.T, tile *tile.Shape) (jobs []*emulatorJob) {
		for _, of := range byteTypes {
			if builds.HasBytes(tile) {
				jobs = append(jobs, withKernels(bytesJobs(t, tile, of), 0)...)
			}
		}
		return jobs
	})
}

// fmaBlocks are blockJobs of a tile.
func fmaBlocks(t *testing.T, shape *tile.Shape) []*emulatorJob {
	t.Helper()
	return blockJobs([]int{shape.TM + 3, shape.TM - 1, 1}, []int{shape.TN + 5, 3},
		func(b planner.Batch, o planner.Options, wide bool, rng *rand.Rand) *emulatorJob {
			return newFMAJob(t, b, shape, o, wide, false, rng)
		})
}

// TestBlocksEmulated runs kernels of HIP with scales of blocks.
func TestBlocksEmulated(t *testing.T) {
	for _, s := range []sanitizer{plain, address, thread} {
		t.Run(s.name, func(t *testing.T) {
			testTiles(t, s, func(t *testing.T, tile *tile.Shape) []*emulatorJob {
				if !builds.HasBytes(tile) {
					return nil
				}
				return withKernels(fmaBlocks(t, tile), 0, 2)
			})
		})
	}
}

// bytesMutants are mistakes in code only for 8-bit elements.
var bytesMutants = []inSanitizer{
	{mutant{"NaN is a number", "element/bits16.cuh", "times256) | 0x7fff * isNaN",
		"times256) | 0 * isNaN"}, plain},
	{mutant{"numbers have no sign", "element/bits16.cuh", "HalfPair, (apart & 0x00800080) << 8 | ",
		"HalfPair, "}, plain},
	{mutant{"the exponent stays too small", "element/bits16.cuh", "times256 = {256, 256}",
		"times256 = {128, 128}"}, plain},
	{mutant{"negative numbers are positive", "element/bits16.cuh", "(apart ^ 0x00800080)", "apart"},
		plain},
	{mutant{"two numbers of a word are the same", "amd/bits16_hip.cuh", "(loaded >> (16 * i + 8) & 0xff)",
		"(loaded >> (16 * i) & 0xff)"}, plain},
	{mutant{"both words of a load are the same", "amd/bits16_hip.cuh", "(loaded >> (16 * i) & 0xff)",
		"(loaded & 0xff)"}, plain},
	{mutant{"columns of a row are the same", "amd/bits16_hip.cuh", "(row[1] >> (8 * i) & 0xff)",
		"(row[1] & 0xff)"}, plain},
	{mutant{"bytes after the last word are left out", "amd/bits16_hip.cuh", "left % kPer != 0) {",
		"false) {"}, plain},
	{mutant{"the last of three bytes is left out", "amd/bits16_hip.cuh", "i < kPer - 1; ++i",
		"i < kPer - 2; ++i"}, plain},
	{mutant{"more bytes than there are", "amd/bits16_hip.cuh", "if (i < few) word", "word"}, address},
}

// wholeMutants are mistakes in code for int8 on matrix cores.
var wholeMutants = []inSanitizer{
	{mutant{"bytes of rows change places", "amd/bits16_hip.cuh", "<< (8 * r)", "<< (8 * (r ^ 1))"}, plain},
	{mutant{"columns of four rows are the same", "amd/bits16_hip.cuh", "(row[r] >> (8 * i) & 0xff)",
		"(row[r] & 0xff)"}, plain},
	{mutant{"last columns are read as four", "amd/bits16_hip.cuh", "if (n == 2 || columns == n)",
		"if (true)"}, address},
	{mutant{"last columns are written over", "amd/bits16_hip.cuh", "if (n > 2 && columns != n) return;", ""},
		plain},
	{mutant{"a row after the last is read", "amd/bits16_hip.cuh", "+ r < left ?", "+ r < left + 1 ?"},
		address},
	{mutant{"bytes after the last k count", "amd/mfma.cuh", "first + e < left", "first < left"},
		plain},
	{mutant{"sums are taken for fp32", "amd/mfma.cuh", "static_cast<float>(c[i][j][r])",
		"__builtin_bit_cast(float, c[i][j][r])"}, plain},
}

// blocksMutants are mistakes in code for scales of blocks.
var blocksMutants = []inSanitizer{
	{mutant{"rows have the scales of the first", "amd/steps_hip.cuh", "rowOf(threadId()) * scaleBlocks",
		"rowOf(0) * scaleBlocks"}, plain},
	{mutant{"rows have one scale", "amd/steps_hip.cuh", "* scaleBlocks(depth) + k", "+ k"}, plain},
	{mutant{"A has the scales of the first block", "amd/steps_hip.cuh",
		"scaleBlocks(depth) + k / kScaleBlock", "scaleBlocks(depth)"}, plain},
	{mutant{"B has the scale of the first block", "amd/steps_hip.cuh", "at.scaleBAt + k / kScaleBlock",
		"at.scaleBAt"}, plain},
	{mutant{"scales land in the first stage", "amd/steps_hip.cuh", "scales[pending + threadId()]",
		"scales[threadId()]"}, thread},
	{mutant{"scales land after the barrier", "kernels/gemm.cuh",
		"        scales.land(shared + kOperandFloats);\n        barrier();",
		"        barrier();\n        scales.land(shared + kOperandFloats);"}, thread},
	{mutant{"scales of rows that do not exist", "kernels/gemm.cuh", "min(r, rows - 1); }, stage",
		"r; }, stage"}, address},
	{mutant{"rows of a thread have one scale", "amd/steps_hip.cuh", "return scale[i] * x;",
		"return scale[0] * x;"}, plain},
	{mutant{"rows of a lane have one scale", "amd/mfma.cuh", "return rows.x[r];", "return rows.x[0];"},
		plain},
	{mutant{"blocks of a wave have the scales of the first", "amd/mfma.cuh",
		"scales + this->row + i * kBlock", "scales + this->row"}, plain},
	{mutant{"steps are not summed from zero", "amd/mfma.cuh", "Block part = {};",
		"Block part = this->c[i][j];"}, plain},
	{mutant{"a product of a step is left out", "amd/mfma.cuh",
		"for (int p = 0; p < kProducts; ++p) part", "for (int p = 1; p < kProducts; ++p) part"}, plain},
	{mutant{"k's after the last count", "amd/mfma.cuh", "return maskOf(i * kBlockK, left);",
		"return 0xffffffff;"}, plain},
}

func TestBytesMutants(t *testing.T) {
	shape, jobs := ofBytes(t, "tiny-k4", byteTypes)
	testMutantsOf(t, []*tile.Shape{shape}, jobs, bytesMutants)
}

func TestWholeMutants(t *testing.T) {
	shape, jobs := ofBytes(t, "medium-k2", wholeTypes)
	testMutantsOf(t, []*tile.Shape{shape}, jobs, wholeMutants)
}

func TestBlocksMutants(t *testing.T) {
	shape, err := tile.ByName("medium-k2")
	require.NoError(t, err)
	testMutantsOf(t, []*tile.Shape{shape}, withKernels(fmaBlocks(t, shape), 2), blocksMutants)
}

// nativeMutants are mistakes in gfx942's code for e4m3.
var nativeMutants = []inSanitizer{
	{mutant{"matrix cores take bits as they are", "amd/bits16_hip.cuh", "return Format::native(four);",
		"return four;"}, plain},
	{mutant{"-0 is NaN", "element/bits16.cuh", "lerp(four, 0x7f7f7f7f, 0)", "lerp(four, 0x80808080, 0)"},
		plain},
	{mutant{"-0 is NaN in the last byte", "element/bits16.cuh", "lerp(four, 0x7f7f7f7f, 0)",
		"lerp(four, 0x807f7f7f, 0)"}, plain},
	{mutant{"the least number below zero is 0", "element/bits16.cuh", "lerp(four, 0x7f7f7f7f, 0)",
		"lerp(four, 0x7e7e7e7e, 0)"}, plain},
	{mutant{"numbers have no sign for matrix cores", "element/bits16.cuh",
		"(signs & 0x80808080) | sizes", "(signs & 0) | sizes"}, plain},
	{mutant{"more than the sign", "element/bits16.cuh", "(signs & 0x80808080)", "(signs & 0xc0808080)"},
		plain},
	{mutant{"NaN is a number for matrix cores", "element/bits16.cuh", "next >> 7)", "0)"}, plain},
	{mutant{"NaN is told of another byte", "element/bits16.cuh", "next >> 7)", "next >> 15)"}, plain},
	{mutant{"448 is NaN", "element/bits16.cuh", "four & 0x7f7f7f7f, next = size + 0x01010101",
		"four & 0x7f7f7f7f, next = size + 0x02020202"}, plain},
	{mutant{"signs of bytes reach others", "element/bits16.cuh", "size = four & 0x7f7f7f7f",
		"size = four & 0x7f7fff7f"}, plain},
	{mutant{"sums stay quarters", "amd/mfma.cuh", "times = E4M3::kNativeParts;", "times = 1.0f;"},
		plain},
	{mutant{"sums of steps become four times what they are", "amd/mfma.cuh", "    times = 1.0f;\n",
		""}, plain},
	{mutant{"sums of steps stay quarters", "amd/steps_hip.cuh", " * kTimes;", ";"}, plain},
	{mutant{"the factors change places", "amd/mfma.cuh",
		"__builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(a, b, sum",
		"__builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(b, a, sum"}, plain},
	{mutant{"bytes of A change places", "amd/bits16_hip.cuh", "<< (8 * r)", "<< (8 * (3 - r))"}, plain},
	{mutant{"steps of e4m3 are not summed from zero", "amd/mfma.cuh", "Block part = {};",
		"Block part = this->c[i][j];"}, plain},
	{mutant{"bytes after the last k count in e4m3", "amd/mfma.cuh", "first + e < left",
		"first < left"}, plain},
}

// TestNativeMutants: large-8x8 has several blocks for each wave in both directions.
func TestNativeMutants(t *testing.T) {
	shape, err := tile.ByName("large-8x8")
	require.NoError(t, err)
	testMutantsIn(t, "gfx942", []*tile.Shape{shape}, nativeE4M3(t, shape), nativeMutants)
}

// ofBytes returns a tile, and jobs with all numbers of 8-bit types and with others.
func ofBytes(t *testing.T, name string, types []element.Type) (shape *tile.Shape, jobs []*emulatorJob) {
	t.Helper()
	shape, err := tile.ByName(name)
	require.NoError(t, err)
	for _, of := range types {
		jobs = append(jobs, withKernels(bytesJobs(t, shape, of), 2)...)
		jobs = append(jobs, withKernels(tileJobs(t, shape, of, []int{3 * shape.TM, 5, shape.TM + 3},
			[]int{shape.TN - 2, 2*shape.TN + 1}), 2)...)
	}
	return shape, jobs
}

func testMutantsOf(t *testing.T, shapes []*tile.Shape, jobs []*emulatorJob, mutants []inSanitizer) {
	t.Helper()
	testMutantsIn(t, "", shapes, jobs, mutants)
}

// testMutantsIn is testMutantsOf with the instructions of an architecture.
func testMutantsIn(t *testing.T, arch string, shapes []*tile.Shape, jobs []*emulatorJob,
	mutants []inSanitizer) {
	t.Helper()
	compiled(t)
	testMutants(t, mutants, func(t *testing.T, m mutant, in sanitizer) error {
		t.Helper()
		e, source := buildMutant(t, m, in.of(arch), madeOf(shapes...))
		return e.run(source, jobs)
	}, plain)
}
