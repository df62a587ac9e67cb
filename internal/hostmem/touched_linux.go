package hostmem

import (
	"os"
	"syscall"
	"unsafe"
)

// Untouched is how many bytes of pages a slice has that are not there yet, and will be taken when they are
// written. It looks no further than that it finds most.
func Untouched(s []float32, most int64) (bytes int64) {
	page := uintptr(os.Getpagesize())
	at := uintptr(unsafe.Pointer(unsafe.SliceData(s)))
	end := at + uintptr(len(s))*4
	var there [4096]byte // whether pages are
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
