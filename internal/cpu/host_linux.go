package cpu

import (
	"os"
	"runtime"
	"strings"
	"syscall"
)

// memory is the size of the physical memory in bytes. Go ends the process when
// the system refuses memory, so allocations beyond it are refused before.
func memory() int64 {
	var s syscall.Sysinfo_t
	if err := syscall.Sysinfo(&s); err != nil {
		return maxMemory
	}
	return int64(s.Totalram) * int64(s.Unit)
}

// processor is the name of the processor.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
