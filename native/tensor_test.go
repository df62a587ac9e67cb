package native

import (
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/sample"
)

// tensorMutants are mistakes in how kernels of tensor.cuh find scales of blocks.
var tensorMutants = []mutant{
	{"teams begin with the first scales", "kernels/tensor.cuh", "from / kScaleBlock, [", "0, ["},
	{"teams begin within a block", "kernels/tensor.cuh", "share = shareOf(kScaleBlock)",
		"share = shareOf(kUnit)"},
	{"rows have scales as they are gathered", "kernels/tensor.cuh",
		"kListed ? list[row] : min(row, rows - 1)", "min(row, rows - 1)"},
	{"scales of rows that do not exist are read", "kernels/tensor.cuh", "min(row, rows - 1)", "row"},
	{"scales after the last block of k's are read", "kernels/tensor_bits16.cuh",
		"scales.next(scale, depth > T::TK);", "scales.next(scale, true);"},
	{"the last block of k's has the scales before", "kernels/tensor_bits16.cuh", "depth > T::TK);",
		"depth > 2 * T::TK);"},
	{"rows have the scales of the first half", "kernels/tensor_bits16.cuh", "scale[2 * i + e / 2]",
		"scale[2 * i]"},
	{"blocks are not summed from zero", "kernels/tensor_bits16.cuh", "    clear(part);\n",
		"    memcpy(part, sum, sizeof part);\n"},
}

// int4CUDAMutants are mistakes in int4.cuh.
var int4CUDAMutants = []mutant{
	{"both panels have the groups of the first", "kernels/int4.cuh",
		"groups + stage + h * second + 4 * column", "groups + stage + 4 * column"},
	{"groups of 128 change with each panel", "kernels/int4.cuh", "second = log == 6 ? 4 * T::TN : 0",
		"second = 4 * T::TN"},
	{"all steps have the first groups", "kernels/int4.cuh", "rowsOn(groups, k >> shift, ldb), 4",
		"rowsOn(groups, 0, ldb), 4"},
	{"words of groups after the last are read", "kernels/int4.cuh", "if (threadId() < cols) {",
		"if (threadId() < T::TN) {"},
	{"a panel after the last is read", "kernels/int4.cuh", "h == 0 || both ? 16 : 0", "16"},
	{"columns that the tile lacks are read", "kernels/int4.cuh", "if (column + i * kApart < cols) copyLine",
		"copyLine"},
	{"rows are not gathered", "kernels/int4.cuh", "rows[i] = rowAt(row + i * kApart)",
		"rows[i] = row + i * kApart"},
	{"a row is left out", "kernels/int4.cuh", "static_cast<int32_t>(count - row)",
		"static_cast<int32_t>(count - 1 - row)"},
	{"k's after the last are read", "kernels/int4.cuh", "8 * line < left", "8 * line <= left"},
	{"a step is copied where another is read", "kernels/int4.cuh", "in = in == kLast ? 0 : in + T::kStage;",
		"in = in == kLast ? kLast : in + T::kStage;"},
	{"a warp leaves out its second columns", "kernels/int4.cuh", "const int column = 16 * i + 8 * r;",
		"const int column = 16 * i;"},
	{"rows of the last 8 are those before", "kernels/int4.cuh", "if (rows > 8 * n)", "if (rows > 8 * n + 8)"},
	{"sums of the first group have no scale of their own", "kernels/int4.cuh", "group[i][e / 2] & ~15u",
		"group[i][0] & ~15u"},
}

// testThreads runs a program of internal/emulator, with the unchanged text and with mistakes.
func testThreads(t *testing.T, name string, mutants []mutant) {
	compiled(t)
	run := func(t *testing.T, m mutant) error {
		t.Helper()
		source := mutate(t, m, nil)
		program := filepath.Join(source, name)
		require.NoError(t, compile("-O0", "-fsanitize=address", "-pthread",
			filepath.Join(source, "internal", "emulator", name+".cpp"), "-o", program))
		out, err := exec.Command(program).CombinedOutput()
		if err != nil {
			return errors.Join(err, errors.New(string(out)))
		}
		return nil
	}
	t.Run("none", func(t *testing.T) {
		sample.Kernels.Part(t, 1)
		require.NoError(t, run(t, mutant{}))
	})
	for _, m := range mutants {
		requireFound(t, m, func(t *testing.T) error { return run(t, m) })
	}
}

// TestTensorBlocksEmulated runs kernels of tensor.cuh with scales of blocks.
func TestTensorBlocksEmulated(t *testing.T) {
	testThreads(t, "tensor", tensorMutants)
}

// TestInt4CUDAEmulated runs kernels of int4.cuh.
func TestInt4CUDAEmulated(t *testing.T) {
	testThreads(t, "int4", int4CUDAMutants)
}
