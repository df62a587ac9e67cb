//go:build cgo && linux && (amd64 || arm64) && !nocuda

package clocks

import (
	"embed"

	"github.com/batchgemm/batchgemm/native/products"
)

//go:embed MANIFEST *.zst
var files embed.FS

func init() { images = products.New(files, "MANIFEST") }
