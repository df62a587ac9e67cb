//go:build cgo && linux && (amd64 || arm64) && !nocuda

package clocks

import (
	"embed"

	"github.com/batchgemm/batchgemm/internal/kernelfile"
)

//go:embed *.zst
var files embed.FS

func init() { images = kernelfile.New(files) }
