package cuda

import "github.com/batchgemm/batchgemm/internal/encoding"

// Build is code of the kernels for a GPU.
type Build struct {
	Image func(encoding.Kernel) string // the name of the image that has a kernel
	Read  func(image string) (code []byte, err error)
}
