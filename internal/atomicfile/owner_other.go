//go:build !unix

package atomicfile

import (
	"io/fs"
	"os"
)

// keepOwner does nothing: on this system a file has no owner, or its folder determines it.
func keepOwner(*os.File, fs.FileInfo) {}
