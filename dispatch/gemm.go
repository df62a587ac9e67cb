package dispatch

import (
	"context"
	"fmt"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/hostmem"
	"github.com/batchgemm/batchgemm/planner"
)

const (
	// maxPrograms is how many batches GEMM remembers.
	maxPrograms = 32
	// maxKept is the largest buffer that GEMM keeps between calls, in elements
	// (32 MiB), for each of A, B and C of a lane.
	maxKept = 8 << 20
	// maxLanes is how many parts of a large batch a device has in work. One thread
	// copies slower than the link to a GPU moves data: 2, 4 and 8 lanes take 101, 73
	// and 66 ms for 1.76 GB to and from an H200.
	maxLanes = 8
)

// GEMM computes the batch on slices of host memory. The result is in c when it
// returns; elements of c between the problems' regions are not written. On an
// error, and when ctx ends, c is as before; what the device has begun goes on
// without the caller. It fails with a *planner.ProblemError when the batch is wrong
// or a slice too short.
//
// A large batch is cut into parts, so that copies of some overlap the work on
// others. Plans and programs are kept for the last 32 batches, so that a batch of
// the same sizes, scalars and offsets costs no planning. Calls on one device take
// turns. For operands that stay on the device, use Plan, Prepare and Run.
func (d *Device) GEMM(ctx context.Context, batch planner.Batch, a, b, c []float32) error {
	if err := d.acquire(); err != nil {
		return err
	}
	defer d.release()
	if err := take(ctx, d.host.turn); err != nil {
		return err
	}
	defer give(d.host.turn)
	return d.gemm.run(ctx, batch, a, b, c)
}

// take waits for a turn, or for the end of ctx.
func take(ctx context.Context, turn chan struct{}) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func give(turn chan struct{}) { <-turn }

// host is a device as GEMM uses it. The holder of turn owns the lanes.
type host struct {
	device driver.Device
	facts  *planner.Device
	turn   chan struct{}
	lanes  [maxLanes]lane
}

func newHost(d driver.Device, facts *planner.Device) *host {
	return &host{device: d, facts: facts, turn: make(chan struct{}, 1)}
}

// lane does one part after another, each from the upload to the results. Lanes
// of a device share nothing, so that one copies while another computes.
type lane struct {
	uploader
	buffers [3]driver.Buffer // A, B, C; nil when not allocated
	runs    [1]driver.Run
}

// session is what GEMM keeps between calls on some devices. It belongs to the
// holder of all their turns.
type session struct {
	hosts   []*host
	entries []*entry // most recently used first
}

// resultMemory holds C as read from the devices, packed. What is not used soon is
// garbage: results are as large as C, but fresh memory costs more than the copy.
var resultMemory = sync.Pool{New: func() any { return new([]float32) }}

// entry is a batch made ready.
type entry struct {
	batch   planner.Batch // a copy
	extents [3]int        // elements that a, b and c need
	parts   [][]*part     // of each device
	results int           // elements of all results
}

// run computes the batch on the session's only device.
func (s *session) run(ctx context.Context, batch planner.Batch, a, b, c []float32) error {
	e, err := s.find(ctx, batch, len(a), len(b), len(c))
	if err != nil {
		return err
	}
	if e == nil {
		parts, err := cut(ctx, batch, everything(batch))
		if err != nil {
			return err
		}
		if e, err = s.remember(ctx, batch, [][]*part{parts}); err != nil {
			return err
		}
	}
	return s.execute(ctx, e, a, b, c)
}

func everything(batch planner.Batch) []int {
	all := make([]int, len(batch))
	for i := range all {
		all[i] = i
	}
	return all
}

// find returns the batch's entry if it is remembered, else nil if the batch and
// the lengths pass Check. Comparing batches ends at the first difference, so that
// no hash is needed.
func (s *session) find(ctx context.Context, batch planner.Batch, lenA, lenB, lenC int) (*entry, error) {
	for i, e := range s.entries {
		if !slices.Equal(e.batch, batch) {
			continue
		}
		if lenA < e.extents[0] || lenB < e.extents[1] || lenC < e.extents[2] {
			return nil, batch.CheckContext(ctx, lenA, lenB, lenC)
		}
		copy(s.entries[1:i+1], s.entries[:i])
		s.entries[0] = e
		return e, nil
	}
	return nil, batch.CheckContext(ctx, lenA, lenB, lenC)
}

// remember makes the parts of a batch ready, and forgets the batch that was not
// used for longest if there are too many.
func (s *session) remember(ctx context.Context, batch planner.Batch, parts [][]*part) (*entry, error) {
	e := &entry{batch: slices.Clone(batch), parts: parts}
	e.extents[0], e.extents[1], e.extents[2] = batch.Extent()
	for i, own := range parts {
		for _, p := range own {
			p.first = e.results
			e.results += p.sizes[2]
			if err := p.prepare(ctx, s.hosts[i]); err != nil {
				_ = e.close() // the first error counts
				return nil, s.name(i, err)
			}
		}
	}
	s.entries = slices.Insert(s.entries, 0, e)
	if len(s.entries) <= maxPrograms {
		return e, nil
	}
	last := s.entries[maxPrograms]
	s.entries = slices.Delete(s.entries, maxPrograms, maxPrograms+1)
	return e, last.close()
}

func (p *part) prepare(ctx context.Context, h *host) error {
	plan, err := planner.New(h.facts, p.batch, planner.Options{})
	if err != nil {
		return err
	}
	p.batch = nil // the plan has it
	p.program, err = h.device.Prepare(ctx, plan)
	return err
}

func (e *entry) close() (err error) {
	for _, own := range e.parts {
		for _, p := range own {
			if p.program == nil {
				continue
			}
			if failed := p.program.Close(); err == nil {
				err = failed
			}
		}
	}
	return err
}

// execute computes the parts, and then, when nothing can fail any more, copies
// the results to c.
func (s *session) execute(ctx context.Context, e *entry, a, b, c []float32) error {
	if err := ctx.Err(); err != nil || e.results == 0 {
		return err
	}
	defer s.trim()
	memory := resultMemory.Get().(*[]float32)
	defer resultMemory.Put(memory)
	if cap(*memory) < e.results {
		n := roomy(e.results)
		if err := hostmem.Check(hostmem.Size(n)); err != nil {
			return fmt.Errorf("memory for the results: %w", err)
		}
		*memory = make([]float32, n)
	}
	results := (*memory)[:e.results]
	if len(e.parts) == 1 && len(e.parts[0]) == 1 { // the short way of a small batch
		h, p := s.hosts[0], e.parts[0][0]
		if err := h.lanes[0].compute(ctx, h.device, p, [3][]float32{a, b, c}, results); err != nil {
			return err
		}
		p.scatter(results, c)
		return nil
	}
	return s.executeParts(ctx, e, a, b, c, results)
}

func (s *session) executeParts(ctx context.Context, e *entry, a, b, c, results []float32) error {
	err := s.each(ctx, e, func(ctx context.Context, h *host, l *lane, p *part) error {
		return l.compute(ctx, h.device, p, [3][]float32{a, b, c}, results)
	})
	if err != nil {
		return err
	}
	return s.each(context.WithoutCancel(ctx), e, func(_ context.Context, _ *host, _ *lane, p *part) error {
		p.scatter(results, c)
		return nil
	})
}

// each does the work for every part, on the lanes of all devices at once. The
// first error ends it.
func (s *session) each(ctx context.Context, e *entry, work func(context.Context, *host, *lane, *part) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		group sync.WaitGroup
		once  sync.Once
		first error
	)
	lanes := max(1, min(maxLanes, runtime.GOMAXPROCS(0)/len(s.hosts)))
	for i, parts := range e.parts {
		next := new(atomic.Int64)
		for l := range min(lanes, len(parts)) {
			group.Go(func() {
				for ctx.Err() == nil {
					n := int(next.Add(1)) - 1
					if n >= len(parts) {
						return
					}
					if err := work(ctx, s.hosts[i], &s.hosts[i].lanes[l], parts[n]); err != nil {
						once.Do(func() { first = s.name(i, err) })
						cancel()
						return
					}
				}
			})
		}
	}
	group.Wait()
	if first != nil {
		return first
	}
	return ctx.Err()
}

// name says which of several devices failed.
func (s *session) name(i int, err error) error {
	if err == nil || len(s.hosts) == 1 {
		return err
	}
	info := s.hosts[i].device.Info()
	return fmt.Errorf("device %d (%s): %w", info.Index, info.Name, err)
}

// compute uploads a part's operands, runs it, and reads its results.
func (l *lane) compute(ctx context.Context, d driver.Device, p *part, from [3][]float32, results []float32) error {
	for i, moves := range p.uploads {
		if err := l.reserve(d, i, p.sizes[i]); err != nil {
			return err
		}
		if err := l.upload(ctx, l.buffers[i], moves, from[i]); err != nil {
			return err
		}
	}
	l.runs[0] = driver.Run{Program: p.program, A: l.buffers[0], B: l.buffers[1], C: l.buffers[2]}
	if err := d.Submit(ctx, l.runs[:]); err != nil {
		return err
	}
	return l.buffers[2].Read(ctx, 0, results[p.first:][:p.sizes[2]])
}

// roomy is the length of memory for n elements that is kept between calls: a power
// of two, unless it is large, so that varying sizes soon need no allocation.
func roomy(n int) int {
	if n = max(n, 1); n > maxKept {
		return n
	}
	return 1 << bits.Len(uint(n-1))
}

// reserve makes buffer i at least n elements long.
func (l *lane) reserve(d driver.Device, i, n int) error {
	if old := l.buffers[i]; old != nil {
		if old.Len() >= n {
			return nil
		}
		l.buffers[i] = nil
		if err := old.Close(); err != nil {
			return err
		}
	}
	b, err := d.Alloc(roomy(n))
	if err != nil {
		return err
	}
	l.buffers[i] = b
	return nil
}

// trim frees what is too large to keep.
func (s *session) trim() {
	for _, h := range s.hosts {
		for l := range h.lanes {
			for i, b := range h.lanes[l].buffers {
				if b != nil && b.Len() > maxKept {
					h.lanes[l].buffers[i] = nil
					_ = b.Close() // a failed device says so on the next call
				}
			}
		}
	}
}
