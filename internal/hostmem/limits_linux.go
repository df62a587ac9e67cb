package hostmem

import (
	"bytes"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/metrics"
	"strconv"
	"strings"
)

const (
	// spare is left of the memory of the machine or container: page tables, and
	// what Go keeps about the heap.
	spare = 16 * mib
	// spareSpace is left of the address space, of which Go takes 64 MiB at a time
	// and each thread of C its stack of 8 MiB.
	spareSpace = 128 * mib
)

func limits(from home) []limit {
	if from == mapped {
		return read(os.DirFS("/"), 0)
	}
	return read(os.DirFS("/"), idle())
}

// idle is how many bytes of Go's heap hold nothing. They are part of the address
// space of the process for good. An allocation finds place in them if they are
// one piece, as is likely because large pieces are mapped elsewhere.
func idle() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() + samples[1].Value.Uint64())
}

// read finds the limits in the file system root, whose heap has idle bytes. What
// is missing there does not limit.
func read(root fs.FS, idle int64) []limit {
	var found []limit
	add := func(name string, left int64, space bool) { found = append(found, limit{name, left, space}) }
	if kB, ok := number(root, "proc/meminfo", "MemAvailable:"); ok {
		add("the machine's memory", kB<<10-spare, false)
	}
	for _, r := range []struct{ name, line, used string }{
		{"RLIMIT_AS", "Max address space", "VmSize:"},
		{"RLIMIT_DATA", "Max data size", "VmData:"},
	} {
		most, limited := number(root, "proc/self/limits", r.line)
		kB, ok := number(root, "proc/self/status", r.used)
		if limited && ok {
			add(r.name, max(most-kB<<10-spareSpace, idle), true)
		}
	}
	for _, h := range hierarchies(root) {
		for dir := h.dir; ; dir = path.Dir(dir) { // limits of parents hold too
			if left, ok := h.left(root, dir); ok {
				add(h.limit+" of cgroup /"+strings.TrimPrefix(dir[len(h.mount):], "/"), left-spare, false)
			}
			if dir == h.mount {
				break
			}
		}
	}
	return found
}

// number reads the first number behind a word that begins a line, or behind
// nothing.
func number(root fs.FS, file, word string) (int64, bool) {
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(text) {
		rest, ok := strings.CutPrefix(string(line), word)
		if !ok {
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			return 0, false
		}
		n, err := strconv.ParseInt(fields[0], 10, 64) // fails on "max" and "unlimited"
		return n, err == nil && n < math.MaxInt64>>10
	}
	return 0, false
}
