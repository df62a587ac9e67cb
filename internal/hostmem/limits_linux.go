package hostmem

import (
	"io/fs"
	"os"
	"runtime/metrics"

	"github.com/batchgemm/batchgemm/internal/cgroup"
)

const (
	// spare is left free of the memory of the machine or container, for page tables and Go's data about the
	// heap.
	spare = 16 * mib
	// spareSpace is left free of the address space, because Go takes 64 MiB at a time and each thread of C
	// takes a stack of 8 MiB.
	spareSpace = 128 * mib
)

func limits(from home) []limit {
	if from == mapped {
		return read(os.DirFS("/"), 0)
	}
	return read(os.DirFS("/"), idle())
}

// idle returns how many bytes of Go's heap hold nothing. They stay in the address space of the process. An
// allocation fits into them if they are contiguous, which is likely because large pieces are mapped
// elsewhere.
func idle() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() + samples[1].Value.Uint64())
}

// read returns the limits in the file system root, whose heap has idle bytes. A missing file is no limit.
func read(root fs.FS, idle int64) []limit {
	var found []limit
	add := func(name string, left int64, space bool) { found = append(found, limit{name, left, space}) }
	if kB, ok := cgroup.Number(root, "proc/meminfo", "MemAvailable:"); ok {
		add("the machine's memory", kB<<10-spare, false)
	}
	for _, r := range []struct{ name, line, used string }{
		{"RLIMIT_AS", "Max address space", "VmSize:"},
		{"RLIMIT_DATA", "Max data size", "VmData:"},
	} {
		most, limited := cgroup.Number(root, "proc/self/limits", r.line)
		kB, ok := cgroup.Number(root, "proc/self/status", r.used)
		if limited && ok {
			add(r.name, max(most-kB<<10-spareSpace, idle), true)
		}
	}
	for _, g := range cgroup.Of(root, "memory") {
		c := &countedV1
		if g.Unified {
			c = &countedV2
		}
		for dir := range g.Up() {
			if left, ok := c.left(root, dir); ok {
				add(c.limit+" of cgroup "+g.Name(dir), left-spare, false)
			}
		}
	}
	return found
}
