package dltest

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner/tile"
)

// CompileCUDA compiles native/cuda/testdata/fakecuda.c, a libcuda that runs on the
// CPU and knows the tile table, to a library. flags are for the compiler.
func CompileCUDA(t testing.TB, source, library string, flags ...string) {
	t.Helper()
	var tiles strings.Builder
	for _, tile := range tile.Table() {
		fmt.Fprintf(&tiles, `{"%s", %d, %d},`, strings.ReplaceAll(tile.Name, "-", "_"), tile.TM, tile.TN)
	}
	args := append([]string{"-O1", "-shared", "-fPIC", "-DTILES=" + tiles.String(), "-o", library, source, "-lm", "-lpthread"}, flags...)
	out, err := exec.Command("cc", args...).CombinedOutput()
	require.NoError(t, err, string(out))
}
