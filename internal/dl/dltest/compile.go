package dltest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	args := append([]string{"-O3", "-shared", "-fPIC", "-DTILES=" + tiles.String(), "-o", library, source, "-lm", "-lpthread"}, flags...)
	compile(t, "cc", args...)
}

// CompileKernels compiles native/internal/emulator without kernels of tiles, which take long, and
// returns flags for CompileCUDA with which the library has the kernels that make items.
func CompileKernels(t testing.TB, native string) (flags []string) {
	t.Helper()
	source := t.TempDir()
	emulator := filepath.Join(source, "internal", "emulator")
	require.NoError(t, os.CopyFS(emulator, os.DirFS(filepath.Join(native, "internal", "emulator"))))
	for _, pattern := range []string{"*.h", "*.cuh", "kernels.hip"} {
		files, err := filepath.Glob(filepath.Join(native, pattern))
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(source, filepath.Base(file)), text, 0o600))
		}
	}
	lists := filepath.Join(source, "lists")
	require.NoError(t, os.CopyFS(lists, os.DirFS(filepath.Join(native, "lists"))))
	require.NoError(t, os.WriteFile(filepath.Join(lists, "hip.inc"), nil, 0o600))
	for _, name := range []string{"shim", "kernels"} {
		object := filepath.Join(t.TempDir(), name+".o")
		compile(t, "g++", "-std=c++17", "-O1", "-fPIC", "-Wno-unknown-pragmas", "-c", filepath.Join(emulator, name+".cpp"), "-o", object)
		flags = append(flags, object)
	}
	return append(flags, "-lstdc++")
}

func compile(t testing.TB, compiler string, args ...string) {
	t.Helper()
	out, err := exec.Command(compiler, args...).CombinedOutput()
	require.NoError(t, err, string(out))
}
