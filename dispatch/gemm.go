package dispatch

import (
	"context"
	"math/bits"
	"slices"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/planner"
)

const (
	// maxPrograms is how many batches GEMM remembers.
	maxPrograms = 32
	// maxKept is the largest buffer that GEMM keeps between calls, in elements
	// (64 MiB), for each of A, B and C.
	maxKept = 16 << 20
)

// GEMM computes the batch on slices of host memory. The result is in c when it
// returns; elements of c between the problems' regions are not written. On an
// error, and when ctx ends, c is as before. It fails with a
// *planner.ProblemError when the batch is wrong or a slice too short.
//
// Plans and programs are kept for the last 32 batches, so that a batch of the
// same sizes, scalars and offsets costs no planning. Calls on one device take
// turns. For operands that stay on the device, use Plan, Prepare and Run.
func (d *Device) GEMM(ctx context.Context, batch planner.Batch, a, b, c []float32) error {
	if err := d.acquire(); err != nil {
		return err
	}
	defer d.release()
	s := &d.gemm
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.turn }()
	return s.run(ctx, batch, a, b, c)
}

// session is what GEMM keeps between calls. The holder of turn owns the rest.
type session struct {
	device  driver.Device
	turn    chan struct{}
	entries []*entry         // most recently used first
	buffers [3]driver.Buffer // A, B, C; nil when not allocated
	runs    [1]driver.Run
	result  []float32 // C as read from the device
}

// entry is a batch made ready.
type entry struct {
	plan    *planner.Plan
	program driver.Program
	readsC  bool // some problem has beta != 0
}

func newSession(d driver.Device) session {
	return session{device: d, turn: make(chan struct{}, 1)}
}

func (s *session) run(ctx context.Context, batch planner.Batch, a, b, c []float32) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e, err := s.entry(ctx, batch, len(a), len(b), len(c))
	if err != nil {
		return err
	}
	p := e.plan
	if len(p.Launches) == 0 {
		return nil
	}
	defer s.trim()
	uploads := [3][]float32{a[:p.ExtentA], b[:p.ExtentB], c[:p.ExtentC]}
	for i, src := range uploads {
		if err := s.reserve(i, len(src)); err != nil {
			return err
		}
		if len(src) == 0 || i == 2 && !e.readsC {
			continue
		}
		if err := s.buffers[i].Write(ctx, 0, src); err != nil {
			return err
		}
	}
	s.runs[0] = driver.Run{Program: e.program, A: s.buffers[0], B: s.buffers[1], C: s.buffers[2]}
	if err := s.device.Submit(ctx, s.runs[:]); err != nil {
		return err
	}
	s.result = slices.Grow(s.result[:0], p.ExtentC)[:p.ExtentC]
	if err := s.buffers[2].Read(ctx, 0, s.result); err != nil {
		return err
	}
	scatter(p.Batch, s.result, c)
	return nil
}

// scatter copies the C regions of the problems.
func scatter(b planner.Batch, from, to []float32) {
	for i := range b {
		p := &b[i]
		if p.N == 0 {
			continue
		}
		for row := range p.M {
			at := p.C.Offset + row*p.C.LD
			copy(to[at:at+p.N], from[at:at+p.N])
		}
	}
}

// entry finds the batch among those remembered, or makes it ready. Comparing
// batches ends at the first difference, so that no hash is needed.
func (s *session) entry(ctx context.Context, batch planner.Batch, lenA, lenB, lenC int) (*entry, error) {
	for i, e := range s.entries {
		if !slices.Equal(e.plan.Batch, batch) {
			continue
		}
		if lenA < e.plan.ExtentA || lenB < e.plan.ExtentB || lenC < e.plan.ExtentC {
			return nil, batch.Check(lenA, lenB, lenC)
		}
		copy(s.entries[1:i+1], s.entries[:i])
		s.entries[0] = e
		return e, nil
	}
	if err := batch.Check(lenA, lenB, lenC); err != nil {
		return nil, err
	}
	info := s.device.Info()
	plan, err := planner.New(&info.Planner, batch, planner.Options{})
	if err != nil {
		return nil, err
	}
	program, err := s.device.Prepare(ctx, plan)
	if err != nil {
		return nil, err
	}
	e := &entry{plan: plan, program: program, readsC: slices.ContainsFunc(batch, func(p planner.Problem) bool { return p.Beta != 0 })}
	s.entries = slices.Insert(s.entries, 0, e)
	if len(s.entries) > maxPrograms {
		last := s.entries[maxPrograms]
		s.entries = slices.Delete(s.entries, maxPrograms, maxPrograms+1)
		return e, last.program.Close()
	}
	return e, nil
}

// reserve makes buffer i at least n elements long. Small buffers grow to powers
// of two, so that varying sizes soon need no allocation.
func (s *session) reserve(i, n int) error {
	n = max(n, 1)
	if old := s.buffers[i]; old != nil {
		if old.Len() >= n {
			return nil
		}
		s.buffers[i] = nil
		if err := old.Close(); err != nil {
			return err
		}
	}
	if n <= maxKept {
		n = 1 << bits.Len(uint(n-1))
	}
	b, err := s.device.Alloc(n)
	if err != nil {
		return err
	}
	s.buffers[i] = b
	return nil
}

// trim frees what is too large to keep.
func (s *session) trim() {
	for i, b := range s.buffers {
		if b != nil && b.Len() > maxKept {
			s.buffers[i] = nil
			_ = b.Close() // a failed device says so on the next call
		}
	}
	if cap(s.result) > maxKept {
		s.result = nil
	}
}
