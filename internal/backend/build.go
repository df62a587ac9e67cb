package backend

import "github.com/batchgemm/batchgemm/internal/encoding"

// Build is compiled code of the kernels for a GPU.
type Build struct {
	Image func(encoding.Kernel) string // name of the image with a kernel
	Read  func(image string) (code []byte, err error)
}
