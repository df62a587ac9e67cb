package hostmem

import (
	"os"
	"syscall"
	"unsafe"
)

// Untouched returns how many bytes of a slice are in pages that do not exist yet and are allocated when
// written. It stops when it has found most bytes.
func Untouched(s []float32, most int64) (bytes int64) {
	page := uintptr(os.Getpagesize())
	at := uintptr(unsafe.Pointer(unsafe.SliceData(s)))
	end := at + uintptr(len(s))*4
	var there [4096]byte // whether pages exist
	for at = at / page * page; at < end && bytes < most; at += uintptr(len(there)) * page {
		pages := min((end-at+page-1)/page, uintptr(len(there)))
		if _, _, failed := syscall.Syscall(syscall.SYS_MINCORE, at, pages*page,
			uintptr(unsafe.Pointer(&there))); failed != 0 {
			continue // then nothing is known
		}
		for _, is := range there[:pages] {
			if is&1 == 0 {
				bytes += int64(page)
			}
		}
	}
	return min(bytes, most)
}
