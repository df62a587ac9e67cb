//go:build cgo && linux && (amd64 || arm64) && !nohip

package products

import "embed"

//go:embed HIP-MANIFEST gfx*.zst
var hip embed.FS

func init() { HIP.files = hip }
