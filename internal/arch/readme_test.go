package arch

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadme builds the program of README.md, and runs it on the CPU.
func TestReadme(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	programs := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(text, -1)
	require.Len(t, programs, 1)
	file := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(file, programs[0][1], 0o600))
	cmd := exec.Command("go", "run", "-tags", "nocuda,nohip,nowebgpu", file)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "BATCHGEMM_BACKEND=cpu")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "[3 7] [42 48 54]\n", string(out))
}
