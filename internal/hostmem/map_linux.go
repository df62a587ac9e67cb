package hostmem

import (
	"fmt"
	"syscall"
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/hardware"
)

// allocate maps n float32.
func allocate(n int) ([]float32, error) {
	memory, err := syscall.Mmap(-1, 0, 4*n, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("%w: mmap: %w", hardware.ErrOutOfMemory, err)
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&memory[0])), n), nil
}

func free(s []float32) {
	// It only fails for memory that is not one of our mappings.
	_ = syscall.Munmap(unsafe.Slice((*byte)(unsafe.Pointer(&s[0])), 4*len(s)))
}
