//go:build linux

package soak

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Measured quantities. Those that the system does not report are 0.
const (
	heap        = iota // bytes of Go objects
	resident           // bytes of the process
	gpu                // bytes in use on all GPUs
	descriptors        // open files
	goroutines
	quantities
)

// kinds has the name of each quantity, and by how much it may rise: memory that does not return after a
// burst of work, but does not grow with it either. A leak grows with the number of batches. It is detected
// when it exceeds this limit divided by that number: some bytes of the heap, some hundred bytes of C.
var kinds = [quantities]struct {
	name  string
	unit  int
	slack int
}{
	heap: {"heap", 1 << 10, 2 << 20}, // GEMM keeps plans of the last 32 batches, up to 1 MB
	// Threads that Go keeps, fragments of C's heap, and the compiler in a software driver: one large kernel
	// leaves up to 30 MB of fragments for a while.
	resident:    {"resident", 1 << 10, 32 << 20},
	gpu:         {"GPU", 1 << 20, 32 << 20}, // pools of the drivers, and steps of 2 MiB
	descriptors: {"files", 1, 0},
	goroutines:  {"goroutines", 1, 0},
}

// sample describes the process when only the permanent device is open.
type sample struct {
	batches int64 // done before
	amount  [quantities]int
}

func (s sample) String() string {
	var parts []string
	for q, n := range s.amount {
		k := kinds[q]
		unit := map[int]string{1: "", 1 << 10: " KiB", 1 << 20: " MiB"}[k.unit]
		parts = append(parts, fmt.Sprintf("%s %d%s", k.name, n/k.unit, unit))
	}
	return strings.Join(parts, ", ")
}

// measure first waits a moment for goroutines and threads that are about to end.
func measure(batches int64) (s sample) {
	time.Sleep(20 * time.Millisecond)
	runtime.GC()
	debug.FreeOSMemory() // with another collection: pools are emptied in two
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s.batches = batches
	s.amount = [quantities]int{heap: int(m.HeapAlloc), resident: pages() * os.Getpagesize(), gpu: gpuMemory(),
		descriptors: files(), goroutines: runtime.NumGoroutine()}
	return s
}

func pages() (n int) {
	text, _ := os.ReadFile("/proc/self/statm")
	var total int
	_, _ = fmt.Sscan(string(text), &total, &n) // 0 without such a file
	return n
}

func files() int {
	list, _ := os.ReadDir("/proc/self/fd")
	return len(list)
}

// gpuMemory asks NVIDIA's tool, if it exists. Other processes count too.
func gpuMemory() (sum int) {
	out, _ := exec.Command("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits").Output()
	for _, line := range strings.Fields(string(out)) {
		var n int
		_, _ = fmt.Sscan(line, &n)
		sum += n << 20
	}
	return sum
}

// history is a sample of each round.
type history []sample

// flat compares the least amounts of the second quarter of the rounds with those of the last quarter; the
// first quarter is for warm-up. Least amounts exclude what is temporarily cached, but include every leak.
func (h history) flat() (text string, err error) {
	quarter := len(h) / 4
	first, last := h[quarter:2*quarter], h[len(h)-quarter:]
	before, after := first.least(), last.least()
	batches := last[0].batches - first[0].batches
	text = fmt.Sprintf("%d batches from [%v] to [%v]", batches, before, after)
	for q, k := range kinds {
		if grown := after.amount[q] - before.amount[q]; grown > k.slack {
			err = errors.Join(err, fmt.Errorf("%s grew by %d, %d is allowed: %d for each of %d batches",
				k.name, grown, k.slack, grown/max(int(batches), 1), batches))
		}
	}
	return text, err
}

func (h history) least() (s sample) {
	s = h[0]
	for _, o := range h[1:] {
		for q := range s.amount {
			s.amount[q] = min(s.amount[q], o.amount[q])
		}
	}
	return s
}

// Test of the test: it detects growth with every batch, and ignores variation.
func TestFlat(t *testing.T) {
	for _, c := range []struct {
		name   string
		amount func(round int, s *sample)
		want   string
	}{
		{"flat", func(int, *sample) {}, ""},
		{"warming up", func(round int, s *sample) { s.amount[resident] += min(round, rounds/4) << 23 }, ""},
		{"varying", func(round int, s *sample) { s.amount[heap] += round % 3 << 24 }, ""},
		{"120 bytes of each batch", func(round int, s *sample) { s.amount[heap] += round * 120_000 },
			"heap grew by 2400000, 2097152 is allowed: 120 for each of 20000 batches"},
		{"2 KB of C of each batch", func(round int, s *sample) { s.amount[resident] += round * 2_000_000 },
			"resident grew"},
		{"a file at the end", func(round int, s *sample) { s.amount[descriptors] += round / 30 },
			"files grew by 1, 0 is allowed"},
		{"goroutines", func(round int, s *sample) { s.amount[goroutines] += round }, "goroutines grew by 20"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var h history
			for round := range rounds {
				s := sample{batches: int64(1000 * round), amount: [quantities]int{1 << 20, 1 << 27, 0, 12, 5}}
				c.amount(round, &s)
				h = append(h, s)
			}
			_, err := h.flat()
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
		})
	}
}
