package atomicfile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	list := []string{}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestCommit(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	f, err := Create(path)
	require.NoError(t, err)
	_, err = f.WriteString("new")
	require.NoError(t, err)
	old, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "old", string(old), "before Commit")

	require.NoError(t, f.Commit())
	require.NoError(t, f.Close())
	require.ErrorIs(t, f.Commit(), os.ErrClosed)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "new", string(got))
	require.Equal(t, []string{"out"}, names(t, dir))
}

func TestCloseDiscards(t *testing.T) {
	dir := t.TempDir()
	f, err := Create(filepath.Join(dir, "out"))
	require.NoError(t, err)
	_, err = f.WriteString("half")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, f.Close())
	require.Empty(t, names(t, dir))
}

func TestCommitFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	f, err := Create(path)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(path, 0o700)) // takes the name meanwhile
	require.ErrorContains(t, f.Commit(), path+": ")
	require.Equal(t, []string{"out"}, names(t, dir))
}

func TestCreateErrors(t *testing.T) {
	dir := t.TempDir()
	_, err := Create(filepath.Join(dir, "no", "out"))
	require.EqualError(t, err, filepath.Join(dir, "no", "out")+": no such file or directory")
	_, err = Create(dir)
	require.EqualError(t, err, dir+": not a regular file")
	_, err = Create(os.DevNull)
	require.EqualError(t, err, os.DevNull+": not a regular file")
}
