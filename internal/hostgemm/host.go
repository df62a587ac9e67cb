// Package hostgemm computes batches on operands in host memory, over the interface of
// backends. It packs operands, uploads them, runs the batch and copies the results
// back; a large batch it cuts into parts, which overlap, and shares among devices.
//
// Whoever calls it keeps the devices open meanwhile, and closes them, which frees what
// is allocated here.
package hostgemm

import (
	"context"
	"math/bits"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

const (
	// maxKept is the largest buffer that GEMM keeps between calls, in elements
	// (32 MiB), for each of A, B and C of a lane.
	maxKept = 8 << 20
	// maxLanes is how many parts of a large batch a device has in work. One thread
	// copies slower than the link to a GPU moves data: 2, 4 and 8 lanes take 101, 73
	// and 66 ms for 1.76 GB to and from an H200.
	maxLanes = 8
)

// Host is a device that computes on host memory. It is safe for concurrent use.
type Host struct {
	device  driver.Device
	planner *planner.Planner
	turn    turn
	// Of the holder of turn:
	lanes   [maxLanes]lane
	session session // of this device alone
}

// New makes a host of an open device, for which the planner plans.
func New(d driver.Device, p *planner.Planner) *Host {
	h := &Host{device: d, planner: p, turn: newTurn()}
	h.session.hosts = []*Host{h}
	return h
}

// GEMM computes a batch. The result is in c when it returns; on an error c is as
// before. Calls take turns.
func (h *Host) GEMM(ctx context.Context, batch planner.Batch, o planner.Options, a, b, c []float32) error {
	if o.Type != element.F32 || o.TypeC != element.F32 {
		return invalid.Errorf("operands on the host are of %s, not %s and %s: use dispatch.GEMMOf, or Plan, Prepare and Run", element.F32, o.Type, o.TypeC)
	}
	if err := CheckEpilogue(&o); err != nil {
		return err
	}
	if err := h.turn.take(ctx); err != nil {
		return err
	}
	defer h.turn.give()
	return h.session.run(ctx, &task{batch, o, [3][]float32{a, b, c}})
}

// CheckEpilogue fails for options with an epilogue.
func CheckEpilogue(o *planner.Options) error {
	if o.Epilogue != (planner.Epilogue{}) {
		return invalid.Errorf("operands on the host have no epilogue: use Plan, Prepare and Run")
	}
	return nil
}

// turn is held by one call at a time.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take waits for the turn, or for the end of ctx.
func (t turn) take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) give() { <-t }

// lane does one part after another, each from the upload to the results. Lanes
// of a device share nothing, so that one copies while another computes.
type lane struct {
	uploader
	buffers [3]driver.Buffer // A, B, C; nil when not allocated
	runs    [1]driver.Run
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

// reserve makes buffer i at least n elements long. So many are in a slice already, or
// a few for each problem are, so that addresses reach them.
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
func (h *Host) trim() {
	for l := range h.lanes {
		for i, b := range h.lanes[l].buffers {
			if b != nil && b.Len() > maxKept {
				h.lanes[l].buffers[i] = nil
				_ = b.Close() // a failed device says so on the next call
			}
		}
	}
}
