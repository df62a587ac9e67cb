//go:build !unix

package atomicfile

import (
	"io/fs"
	"os"
)

// keepOwner does nothing: a file has no owner here, or one that its folder gives it.
func keepOwner(*os.File, fs.FileInfo) {}
