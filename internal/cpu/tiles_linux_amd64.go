package cpu

import (
	"sync"
	"syscall"
)

// mayUseTiles asks the system for the registers of AMX, once for the process. It refuses if a thread has no
// room for them on the stack of its signals.
var mayUseTiles = sync.OnceValue(func() bool {
	const (
		request = 0x1023 // ARCH_REQ_XCOMP_PERM
		data    = 18     // XTILEDATA
	)
	_, _, err := syscall.RawSyscall(syscall.SYS_ARCH_PRCTL, request, data, 0)
	return err == 0
})
