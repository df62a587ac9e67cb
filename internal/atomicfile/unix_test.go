//go:build unix

package atomicfile

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	require.NoError(t, err)
	return info.Mode()
}

// TestMode: a new file gets what the umask leaves, an old one keeps its own.
func TestMode(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o027))
	dir := t.TempDir()
	path := filepath.Join(dir, "new")
	write(t, path, "x")
	require.Equal(t, os.FileMode(0o640), mode(t, path))
	for _, old := range []os.FileMode{0o600, 0o666, 0o755, 0o200} {
		path := filepath.Join(dir, old.String())
		require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
		require.NoError(t, os.Chmod(path, old))
		write(t, path, "x")
		require.Equal(t, old, mode(t, path))
	}
}

// TestOwner: root keeps the owner of an old file, others its group.
func TestOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may give files away")
	}
	path := filepath.Join(t.TempDir(), "out")
	require.NoError(t, os.WriteFile(path, nil, 0o640))
	require.NoError(t, os.Chown(path, 1234, 2345))
	write(t, path, "x")
	info, err := os.Stat(path)
	require.NoError(t, err)
	is := info.Sys().(*syscall.Stat_t)
	require.Equal(t, [2]uint32{1234, 2345}, [2]uint32{is.Uid, is.Gid})
	require.Equal(t, os.FileMode(0o640), info.Mode())
}

// TestLinks: the target of a link is written, and the link stays.
func TestLinks(t *testing.T) {
	for _, tc := range []struct{ name, link string }{
		{"relative", "../data/target"},
		{"twice", "second"},
		{"through a folder", "far/../target"}, // far is a link to data/deep
		{"not there yet", "../data/new"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := t.TempDir()
			at := func(name string) string { return filepath.Join(root, name) }
			for _, dir := range []string{"data", "data/deep", "links"} {
				require.NoError(t, os.Mkdir(at(dir), 0o700))
			}
			require.NoError(t, os.WriteFile(at("data/target"), []byte("old"), 0o600))
			require.NoError(t, os.Symlink(at("data/target"), at("links/second")))
			require.NoError(t, os.Symlink(at("data/deep"), at("links/far")))
			require.NoError(t, os.Symlink(tc.link, at("links/out")))
			write(t, at("links/out"), "new")
			require.Equal(t, "new", read(t, at("links/out")))
			require.Equal(t, os.ModeSymlink, mode(t, at("links/out")).Type())
			link, err := os.Readlink(at("links/out"))
			require.NoError(t, err)
			require.Equal(t, tc.link, link)
			require.Equal(t, []string{"far", "out", "second"}, names(t, at("links")))
			if tc.name != "not there yet" {
				require.Equal(t, "new", read(t, at("data/target")))
			}
		})
	}
	dir := t.TempDir()
	loop := filepath.Join(dir, "loop")
	require.NoError(t, os.Symlink(loop, loop))
	_, err := Create(loop)
	require.EqualError(t, err, loop+": too many levels of symbolic links")
}

// TestNotRegular: pipes and devices are written directly, and stay.
func TestNotRegular(t *testing.T) {
	write(t, os.DevNull, "x")
	require.Equal(t, os.ModeDevice|os.ModeCharDevice, mode(t, os.DevNull).Type())

	dir := t.TempDir()
	path := filepath.Join(dir, "fifo")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	got := make(chan string, 1)
	go func() {
		text, err := os.ReadFile(path)
		if err != nil {
			text = []byte(err.Error())
		}
		got <- string(text)
	}()
	f, err := Create(path)
	require.NoError(t, err)
	_, err = io.WriteString(f, "text")
	require.NoError(t, err)
	require.NoError(t, f.Commit())
	require.Equal(t, "text", <-got)
	require.Equal(t, []string{"fifo"}, names(t, dir))
}
