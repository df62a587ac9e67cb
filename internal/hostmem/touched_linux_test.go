package hostmem

import (
	"os"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestUntouched(t *testing.T) {
	const pages = 10_000
	page := os.Getpagesize()
	memory, err := syscall.Mmap(-1, 0, pages*page, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_PRIVATE|syscall.MAP_ANON)
	require.NoError(t, err)
	defer func() { require.NoError(t, syscall.Munmap(memory)) }()
	require.NoError(t, syscall.Madvise(memory, syscall.MADV_NOHUGEPAGE))
	s := unsafe.Slice((*float32)(unsafe.Pointer(&memory[0])), pages*page/4)
	require.EqualValues(t, pages*page, Untouched(s, 1<<40))
	require.EqualValues(t, 12345, Untouched(s, 12345))
	for _, i := range []int{0, 7, 4095, 4096, pages - 1} {
		s[i*page/4+5] = 1
	}
	require.EqualValues(t, (pages-5)*page, Untouched(s, 1<<40))
	require.EqualValues(t, 3*page, Untouched(s[page/4-1:4*page/4-1], 1<<40),
		"from the last element of the first page to the fourth page")
	require.Zero(t, Untouched(nil, 1<<40))
	require.Zero(t, Untouched(make([]float32, 0), 1<<40))
}
