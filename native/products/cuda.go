//go:build cgo && linux && (amd64 || arm64) && !nocuda

package products

import (
	"embed"

	"github.com/batchgemm/batchgemm/internal/kernelfile"
)

//go:embed sm_*.zst compute_*.zst
var cuda embed.FS

func init() { CUDA = kernelfile.New(cuda) }
