//go:build cgo && linux && (amd64 || arm64) && !nohip

package products

import (
	"embed"

	"github.com/batchgemm/batchgemm/internal/kernelfile"
)

//go:embed gfx*.zst
var hip embed.FS

func init() { HIP = kernelfile.New(hip) }
