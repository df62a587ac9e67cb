package cuda

import (
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/native"
)

// Build is code of the kernels for a GPU.
type Build struct {
	Image func(encoding.Kernel) string // the name of the image that has a kernel
	Read  func(image string) (code []byte, err error)
}

// Builds gives that for an architecture.
type Builds func(native.Arch) Build
