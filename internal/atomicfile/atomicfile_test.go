package atomicfile

import (
	"bytes"
	"io"
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

// write replaces the content of a file.
func write(t *testing.T, path, text string) {
	t.Helper()
	f, err := Create(path)
	require.NoError(t, err)
	_, err = io.WriteString(f, text)
	require.NoError(t, err)
	require.NoError(t, f.Commit())
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

func TestCommit(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	f, err := Create(path)
	require.NoError(t, err)
	_, err = io.WriteString(f, "new")
	require.NoError(t, err)
	require.Equal(t, "old", read(t, path), "before Commit")

	require.NoError(t, f.Commit())
	require.NoError(t, f.Close())
	require.ErrorIs(t, f.Commit(), os.ErrClosed)
	require.Equal(t, "new", read(t, path))
	require.Equal(t, []string{"out"}, names(t, dir))
}

func TestCloseDiscards(t *testing.T) {
	dir := t.TempDir()
	f, err := Create(filepath.Join(dir, "out"))
	require.NoError(t, err)
	_, err = io.WriteString(f, "half")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, f.Close())
	require.Empty(t, names(t, dir))
}

func TestDiscard(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		f, err := Create(filepath.Join(dir, name))
		require.NoError(t, err)
		defer f.Close()
	}
	write(t, filepath.Join(dir, "c"), "done")
	require.Len(t, names(t, dir), 3)
	Discard()
	require.Equal(t, []string{"c"}, names(t, dir))
}

func TestStream(t *testing.T) {
	var to bytes.Buffer
	f := Stream(&to)
	_, err := io.WriteString(f, "text")
	require.NoError(t, err)
	require.Equal(t, "text", to.String(), "before Commit")
	require.NoError(t, f.Commit())
	require.NoError(t, f.Close())
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
	require.EqualError(t, err, dir+": is a directory")

	locked := filepath.Join(dir, "locked")
	require.NoError(t, os.WriteFile(locked, []byte("old"), 0o400))
	_, err = Create(locked)
	require.EqualError(t, err, locked+": permission denied")
	require.ErrorIs(t, err, os.ErrPermission)
	require.Equal(t, []string{"locked"}, names(t, dir))
}
