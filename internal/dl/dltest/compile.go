package dltest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/objects"
	"github.com/batchgemm/batchgemm/internal/tile"
)

// CompileCUDA compiles native/cuda/testdata/fakecuda.c to a library: a libcuda that runs on the CPU and
// knows the tile table. flags are for the compiler.
func CompileCUDA(t testing.TB, source, library string, flags ...string) {
	t.Helper()
	var tiles strings.Builder
	for _, tile := range tile.Table() {
		fmt.Fprintf(&tiles, `{"%s", %d, %d},`, strings.ReplaceAll(tile.Name, "-", "_"), tile.TM, tile.TN)
	}
	args := append([]string{"-O3", "-shared", "-fPIC", "-DTILES=" + tiles.String(), "-o", library, source,
		"-lm", "-lpthread"}, flags...)
	require.NoError(t, objects.Compile("cc", args...))
}

// CompileKernels compiles native/internal/emulator with the kernels that make items and, of those of tiles,
// which take long, with what keep says of the lines of lists/hip.inc. It returns flags for the compiler of a
// fake, and takes one that says how much to optimize.
func CompileKernels(t testing.TB, native string, keep func(line string) bool,
	optimize string) (flags []string) {
	t.Helper()
	source := t.TempDir()
	emulator := filepath.Join(source, "internal", "emulator")
	for _, folder := range []string{"internal/emulator", "amd", "element", "epilogue", "kernels", "lists"} {
		require.NoError(t, os.CopyFS(filepath.Join(source, folder), os.DirFS(filepath.Join(native, folder))))
	}
	for _, file := range []string{"dialect.h", "kernels.hip"} {
		text, err := os.ReadFile(filepath.Join(native, file))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(source, file), text, 0o600))
	}
	list := filepath.Join(source, "lists", "hip.inc")
	text, err := os.ReadFile(list)
	require.NoError(t, err)
	var kept strings.Builder
	for line := range strings.Lines(string(text)) {
		if keep(line) {
			kept.WriteString(line)
		}
	}
	require.NoError(t, os.WriteFile(list, []byte(kept.String()), 0o600))
	compiler := "g++"
	if found, err := exec.LookPath("clang++-19"); err == nil {
		compiler = found // takes half as long, without optimization
	}
	for _, name := range []string{"shim", "kernels"} {
		object := filepath.Join(t.TempDir(), name+".o")
		require.NoError(t, objects.Compile(compiler, "-std=c++17", optimize, "-fPIC", "-Wno-unknown-pragmas",
			"-c", filepath.Join(emulator, name+".cpp"), "-o", object))
		flags = append(flags, object)
	}
	return append(flags, "-lstdc++")
}
