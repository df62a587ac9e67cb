package hostgemm

import (
	"sync"
	"time"

	"github.com/batchgemm/batchgemm/internal/hostmem"
)

// keepFor is how long unused memory of results is kept at least; at most it is twice that. Fresh memory
// costs more than the copy, and memory outside of Go returns to the system at once.
const keepFor = time.Second

// staging is memory that results are read into, before they are copied to C.
type staging struct {
	mu   sync.Mutex
	idle [][]float32
	used bool        // since the timer was set
	drop *time.Timer // nil: nothing is idle
}

// staged is the staging memory of the process.
var staged staging

// take returns n elements or more.
func (s *staging) take(n int) ([]float32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.find(n); i >= 0 {
		last := len(s.idle) - 1
		found := s.idle[i]
		s.idle[i], s.idle[last] = s.idle[last], nil
		s.idle = s.idle[:last]
		return found, nil
	}
	return hostmem.Floats(roomy(n))
}

// find returns the index of the smallest idle piece with n elements, or -1.
func (s *staging) find(n int) int {
	best := -1
	for i, piece := range s.idle {
		if len(piece) >= n && (best < 0 || len(piece) < len(s.idle[best])) {
			best = i
		}
	}
	return best
}

// more returns how many elements take will allocate.
func (s *staging) more(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.find(n) >= 0 {
		return 0
	}
	return roomy(n)
}

func (s *staging) give(piece []float32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle, s.used = append(s.idle, piece), true
	if s.drop == nil {
		s.drop = time.AfterFunc(keepFor, s.free)
	}
}

// free frees what was not used for a while.
func (s *staging) free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used {
		s.used = false
		s.drop.Reset(keepFor)
		return
	}
	for _, piece := range s.idle {
		hostmem.Free(piece)
	}
	s.idle, s.drop = nil, nil
}
