package native

import (
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// tensorMutants are mistakes in how kernels of tensor.cuh find scales of blocks.
var tensorMutants = []mutant{
	{"teams begin with the first scales", "tensor.cuh", "from / kScaleBlock, [", "0, ["},
	{"teams begin within a block", "tensor.cuh", "share = shareOf(kScaleBlock)", "share = shareOf(kUnit)"},
	{"rows have scales as they are gathered", "tensor.cuh", "kListed ? list[row] : min(row, rows - 1)", "min(row, rows - 1)"},
	{"scales of rows that do not exist are read", "tensor.cuh", "min(row, rows - 1)", "row"},
	{"scales behind the last block of k's are read", "tensor_half.cuh", "scales.next(scale, depth > T::TK);", "scales.next(scale, true);"},
	{"the last block of k's has the scales before", "tensor_half.cuh", "depth > T::TK);", "depth > 2 * T::TK);"},
	{"rows have the scales of the first half", "tensor_half.cuh", "scale[2 * i + e / 2]", "scale[2 * i]"},
	{"blocks are not summed from zero", "tensor_half.cuh", "    clear(part);\n", "    memcpy(part, sum, sizeof part);\n"},
}

// TestTensorBlocksEmulated runs kernels of tensor.cuh with scales of blocks, as they are and with mistakes.
func TestTensorBlocksEmulated(t *testing.T) {
	compiled(t)
	sources := []string{"epilogue.cuh", "epilogue_items.cuh", "fixup.cuh", "fragment.cuh", "gemm.cuh", "half.cuh", "items.cuh", "tensor.cuh", "tensor_bytes.cuh",
		"tensor_epilogue.cuh", "tensor_half.cuh", "tiles.inc", "turn.cuh", "internal/emulator/tensor.cpp"}
	run := func(t *testing.T, m mutant) error {
		t.Helper()
		source := mutate(t, m, sources, nil)
		program := filepath.Join(source, "tensor")
		require.NoError(t, compile("-O1", "-fsanitize=address", "-pthread", filepath.Join(source, "internal", "emulator", "tensor.cpp"), "-o", program))
		out, err := exec.Command(program).CombinedOutput()
		if err != nil {
			return errors.Join(err, errors.New(string(out)))
		}
		return nil
	}
	t.Run("none", func(t *testing.T) { require.NoError(t, run(t, mutant{})) })
	for _, m := range tensorMutants {
		requireFound(t, m, func(t *testing.T) error { return run(t, m) })
	}
}
