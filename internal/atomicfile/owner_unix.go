//go:build unix

package atomicfile

import (
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives a file the owner and group of an old one, or only the group, as far as the user may.
func keepOwner(f *os.File, old fs.FileInfo) {
	if was, ok := old.Sys().(*syscall.Stat_t); ok {
		if f.Chown(int(was.Uid), int(was.Gid)) != nil {
			_ = f.Chown(-1, int(was.Gid))
		}
	}
}
