package cpu

import (
	"io/fs"
	"os"
	"runtime"
	"strconv"

	"github.com/batchgemm/batchgemm/internal/cgroup"
	"github.com/batchgemm/batchgemm/internal/invalid"
)

// ThreadsEnv names the environment variable that fixes how many threads a device has.
const ThreadsEnv = "BATCHGEMM_THREADS"

// mostThreads bounds ThreadsEnv: each has scratch memory of its own. A machine with two
// sockets has 768 at most.
const mostThreads = 1024

// threads is how many threads a device has that is opened now. Unless ThreadsEnv says
// otherwise it is GOMAXPROCS, for which Go counts the processors of the affinity mask,
// and takes no more than a cgroup's quota, rounded up, though 2 at least (package
// runtime, since Go 1.25), of which a quota of one processor or less leaves one.
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

// ofQuota is one of the two threads that Go has at least, if a quota leaves no more, and nobody asked for
// two.
func ofQuota(threads int, root fs.FS) int {
	if threads == 2 && os.Getenv("GOMAXPROCS") == "" && cgroup.Processors(root) <= 1 {
		return 1
	}
	return threads
}
