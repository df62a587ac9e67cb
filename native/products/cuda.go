//go:build cgo && linux && (amd64 || arm64) && !nocuda

package products

import "embed"

//go:embed MANIFEST sm_*.zst compute_*.zst
var cuda embed.FS

func init() { CUDA.files = cuda }
