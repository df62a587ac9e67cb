package cpu

import (
	"io/fs"
	"os"
	"runtime"
	"strconv"

	"github.com/batchgemm/batchgemm/internal/cgroup"
	"github.com/batchgemm/batchgemm/internal/invalid"
)

// ThreadsEnv is the environment variable that sets the number of threads of a device.
const ThreadsEnv = "BATCHGEMM_THREADS"

// mostThreads bounds ThreadsEnv, because each thread has scratch memory. A machine with two sockets has at
// most 768.
const mostThreads = 1024

// threads returns the number of threads of a device that is opened now. Without ThreadsEnv it is GOMAXPROCS:
// the processors of the affinity mask, but no more than a cgroup's quota, rounded up (package runtime, since
// Go 1.25). Go keeps at least 2; with a quota of one processor or less, threads returns 1.
func threads() (int, error) {
	text := os.Getenv(ThreadsEnv)
	if text == "" {
		return ofQuota(runtime.GOMAXPROCS(0), os.DirFS("/")), nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > mostThreads {
		return 0, invalid.Errorf("%s=%q is no number of threads from 1 to %d", ThreadsEnv, text, mostThreads)
	}
	return n, nil
}

// ofQuota returns 1 if a quota leaves no more than that, and the program did not set GOMAXPROCS to 2.
func ofQuota(threads int, root fs.FS) int {
	if threads == 2 && os.Getenv("GOMAXPROCS") == "" && cgroup.Processors(root) <= 1 {
		return 1
	}
	return threads
}
