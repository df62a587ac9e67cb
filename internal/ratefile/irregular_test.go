//go:build unix

package ratefile

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/ownrates"
)

// TestIrregular: only regular files are read. Reading others might never end.
func TestIrregular(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"device": func(path string) error { return os.Symlink("/dev/zero", path) },
		"folder": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv(DirEnv, dir)
			path := filepath.Join(dir, "rates-cuda-NVIDIA-H200-1.json")
			require.NoError(t, make(path))
			got, err := Load(h200(t))
			require.EqualError(t, err, path+": not a regular file")
			require.False(t, ownrates.Has(&got))
		})
	}
}
