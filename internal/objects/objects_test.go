package objects

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCompile: an equal text is compiled once, wherever it is. Another header or argument makes another file.
func TestCompile(t *testing.T) {
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip(err)
	}
	root := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("go.mod", "module x")
	write("a/x.c", "#include \"x.h\"\nint x(void) { return X; }\n")
	write("b/x.c", "#include \"x.h\" // here\nint x(void) { return X; }\n")
	write("a/x.h", "#define X 1\n")
	write("b/x.h", "#define X 1\n")
	t.Chdir(root)
	made := func(folder string, args ...string) string {
		to := filepath.Join(t.TempDir(), "x.o")
		require.NoError(t, Compile("cc", append(args, "-c", filepath.Join(folder, "x.c"), "-o", to)...))
		kept, err := os.Readlink(to)
		require.NoError(t, err)
		require.FileExists(t, kept)
		return kept
	}
	first := made("a")
	require.Equal(t, first, made("b"))
	require.NotEqual(t, first, made("a", "-DY"))
	write("b/x.h", "#define X 2\n")
	require.NotEqual(t, first, made("b"))
	old := time.Now().Add(-2 * unused)
	require.NoError(t, os.Chtimes(first, old, old))
	made("a")
	made("b", "-DW")
	require.FileExists(t, first, "it was taken again")
	require.NoError(t, os.Chtimes(first, old, old))
	made("b", "-DZ")
	require.NoFileExists(t, first)
	write("b/x.c", "mistake")
	require.ErrorContains(t, Compile("cc", "-c", "b/x.c", "-o", "x.o"), "mistake")
}
