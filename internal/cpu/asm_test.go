package cpu

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/sample"
)

// TestAssemblyIsCurrent: the committed files are what the generator writes.
func TestAssemblyIsCurrent(t *testing.T) {
	sample.CPU.Skip(t, 1)
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(filepath.Join(dir, "asm"), os.DirFS("asm")))
	generate := exec.Command("go", "run", ".", "-out", "../kernels_amd64.s")
	generate.Dir = filepath.Join(dir, "asm")
	generate.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := exec.Command("go", "-C", "asm", "mod", "download").CombinedOutput(); err != nil {
		t.Skipf("modules of the generator: %s", out)
	}
	out, err := generate.CombinedOutput()
	require.NoError(t, err, string(out))
	for _, name := range []string{"kernels_amd64.s", "kernels_amd64.go", "kernels_arm64.s",
		"kernels_arm64.go"} {
		want, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		have, err := os.ReadFile(name)
		require.NoError(t, err)
		require.True(t, string(want) == string(have), "%s: go generate ./internal/cpu", name)
	}
}
