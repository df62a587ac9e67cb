package workload

import (
	"fmt"
	"os"
	"regexp"
	"strconv"

	"github.com/batchgemm/batchgemm/planner"
)

// Operands are the three buffers of a batch.
type Operands struct {
	A, B, C []float32
}

// NewOperands allocates zeroed buffers for a batch. It fails when they do not
// fit in the memory that is available: Go ends the process in that case.
func NewOperands(batch planner.Batch) (*Operands, error) {
	lenA, lenB, lenC := batch.Extent()
	need := 4 * (float64(lenA) + float64(lenB) + float64(lenC))
	if have := availableMemory(); need > have {
		return nil, fmt.Errorf("the matrices need %.1f GiB, but only %.1f GiB of memory are available", need/(1<<30), have/(1<<30))
	}
	return &Operands{A: make([]float32, lenA), B: make([]float32, lenB), C: make([]float32, lenC)}, nil
}

var memAvailable = regexp.MustCompile(`(?m)^MemAvailable:\s+([0-9]+) kB$`)

// availableMemory is in bytes. Where Linux' estimate is missing, it is the
// address space that Go can use (48 bits), so that make does not panic.
func availableMemory() float64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 1 << 46
	}
	match := memAvailable.FindSubmatch(text)
	if match == nil {
		return 1 << 46
	}
	kB, err := strconv.ParseFloat(string(match[1]), 64)
	if err != nil {
		return 1 << 46
	}
	return kB * 1024
}
