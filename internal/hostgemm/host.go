// Package hostgemm computes batches on operands in host memory, over the interface of backends. A device in
// the host computes where they lie. For others it packs operands, uploads them, runs the batch and copies
// the results back. It cuts a large batch into parts, which overlap, and shares them among devices.
//
// The caller keeps the devices open meanwhile, and closes them, which frees what is allocated here.
package hostgemm

import (
	"context"
	"math/bits"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/planner"
)

const (
	// maxKept is the largest buffer that GEMM keeps between calls, in elements
	// (32 MiB), for each operand of a lane.
	maxKept = 8 << 20
	// maxLanes is how many parts of a large batch a device works on at once. One thread copies slower than
	// the link to a GPU: 2, 4 and 8 lanes take 101, 73 and 66 ms for 1.76 GB to and from an H200.
	maxLanes = 8
)

// Host is a device that computes on host memory. It is safe for concurrent use.
type Host struct {
	device  driver.Device
	planner *planner.Planner
	turn    turn
	// For the holder of turn:
	lanes   [maxLanes]lane
	session session // for this device only
}

// New makes a host from an open device and its planner.
func New(d driver.Device, p *planner.Planner) *Host {
	h := &Host{device: d, planner: p, turn: newTurn()}
	h.session.hosts = []*Host{h}
	return h
}

// GEMM computes a batch. The result is in C when it returns. On an error C is unchanged, unless ctx ends
// while a device in the host computes. Calls run one after the other.
func (h *Host) GEMM(ctx context.Context, batch planner.Batch, o planner.Options, x Operands) error {
	t, err := newTask(batch, o, x)
	if err != nil {
		return err
	}
	if err := h.turn.take(ctx); err != nil {
		return err
	}
	defer h.turn.give()
	return h.session.run(ctx, &t)
}

// turn is held by one call at a time.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take waits for the turn, or until ctx ends.
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

// lane does one part after another, each from the upload to the results. Lanes of a device share nothing, so
// one copies while another computes.
type lane struct {
	uploader
	buffers [operands]driver.Buffer // nil when not allocated
	runs    [1]driver.Run
}

// compute uploads a part's operands, runs it, and reads its results.
func (l *lane) compute(ctx context.Context, d driver.Device, p *part, t *task, results []float32) error {
	if err := l.submit(ctx, d, p, t); err != nil {
		return err
	}
	return l.buffers[operandC].Read(ctx, 0, results[p.first:][:p.sizes[operandC]])
}

// used returns which operands of a task a device has.
func (t *task) used() [operands]bool {
	e := &t.options.Epilogue
	return [operands]bool{operandA: true, operandB: true, operandC: true, operandB2: e.Gated,
		operandBias: e.Bias, operandRows: e.Weights}
}

// submit uploads a part's operands and queues its run.
func (l *lane) submit(ctx context.Context, d driver.Device, p *part, t *task) error {
	from, used := t.all(), t.used()
	var on [operands]driver.Buffer
	for i, moves := range p.uploads {
		if !used[i] {
			continue
		}
		if err := l.reserve(d, i, p.sizes[i]); err != nil {
			return err
		}
		if err := l.upload(ctx, l.buffers[i], moves, from[i], t.Rows); err != nil {
			return err
		}
		on[i] = l.buffers[i]
	}
	l.runs[0] = driver.Run{Program: p.program, A: on[operandA], B: on[operandB], C: on[operandC],
		B2: on[operandB2], Bias: on[operandBias], Rows: on[operandRows]}
	return d.Submit(ctx, l.runs[:])
}

// roomy returns the length of memory for n elements that is kept between calls: a power of two, unless it is
// large, so that varying sizes soon need no allocation.
func roomy(n int) int {
	if n = max(n, 1); n > maxKept {
		return n
	}
	return 1 << bits.Len(uint(n-1))
}

// reserve makes buffer i at least n elements long. n is bounded, because a slice has that many elements, or
// each problem has a few, which addresses reach.
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

// trim frees buffers that are too large to keep.
func (h *Host) trim() {
	for l := range h.lanes {
		for i, b := range h.lanes[l].buffers {
			if b != nil && b.Len() > maxKept {
				h.lanes[l].buffers[i] = nil
				_ = b.Close() // a failed device reports itself on the next call
			}
		}
	}
}
