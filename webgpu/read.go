//go:build !nowebgpu && (js || (cgo && ((linux && amd64) || darwin || (windows && amd64))))

package webgpu

import (
	"context"
	"slices"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
)

// idleStaging is how many readback buffers are kept: two for each of two readers.
const idleStaging = 4

func (b *buffer) Read(ctx context.Context, offset int, dst []float32) error {
	// The device copies one piece while the host copies out the piece before it.
	var ahead *readback
	for len(dst) > 0 || ahead != nil {
		var next *readback
		if len(dst) > 0 {
			// Wait for room first, so that a long read stages at most two pieces.
			if err := b.dev.lockQueue(ctx); err != nil {
				ahead.abandon()
				return err
			}
			next, offset, dst = b.startPiece(offset, dst)
			b.dev.mu.Unlock()
		}
		if ahead != nil {
			if err := ahead.finish(ctx); err != nil {
				next.abandon()
				return err
			}
		}
		ahead = next
	}
	return nil
}

// reading is all pieces of an asynchronous read.
type reading []*readback

// StartRead stages everything, because later work may write the buffer. If the queue is full, the copies
// wait, before all later work.
func (b *buffer) StartRead(ctx context.Context, offset int, dst []float32) (driver.Reading, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d := b.dev
	if err := d.lock(); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	all := make(reading, 0, 1)
	for len(dst) > 0 {
		var piece *readback
		piece, offset, dst = b.startPiece(offset, dst)
		all = append(all, piece)
	}
	return all, nil
}

func (all reading) Finish(ctx context.Context) error {
	for i, r := range all {
		if err := r.finish(ctx); err != nil {
			for _, left := range all[i+1:] {
				left.abandon()
			}
			return err
		}
	}
	return nil
}

// readback is a copy to a staging buffer. dev.mu protects its fields from staging on.
type readback struct {
	dev  *device
	from *buffer
	at   uint64 // bytes of from's memory before dst's first element
	dst  []float32

	staging *staging
	after   uint64 // submission that it is part of; 0: none yet
	err     error  // why it will never be submitted
}

// staging is a buffer of pieceBytes that the host can read. It can be reused once its reader is done or has
// given up, because the queue keeps copies in order.
type staging struct {
	memory
	busy bool
}

// startPiece queues the copy of one piece, and returns the rest. The caller holds mu.
func (b *buffer) startPiece(offset int, dst []float32) (piece *readback, next int, left []float32) {
	n := min(len(dst), pieceBytes/4-offset%4)
	r := &readback{dev: b.dev, from: b, at: b.at + 4*uint64(offset), dst: dst[:n]}
	b.dev.waiting = append(b.dev.waiting, r)
	b.dev.proceed()
	return r, offset + n, dst[n:]
}

// proceed submits waiting copies while there is room. The caller holds mu.
func (d *device) proceed() {
	for len(d.waiting) > 0 && d.room() {
		r := d.waiting[0]
		d.waiting = slices.Delete(d.waiting, 0, 1)
		r.err = r.submit()
	}
}

// room reports whether another submission may be queued.
func (d *device) room() bool { return d.submitted < d.finished()+d.inFlight }

// span returns the range to copy: whole lines of 16 bytes, as always.
func (r *readback) span() span {
	start := r.at / 16 * 16
	return span{start, roundUp(r.at+4*uint64(len(r.dst)), 16) - start}
}

func (r *readback) submit() (err error) {
	d := r.dev
	if r.staging, err = d.takeStaging(); err != nil {
		return err
	}
	s := r.span()
	d.work.reset()
	d.work.clear(r.from)
	err = d.submit(move{source: r.from.memory, destination: r.staging.memory, offset: s.offset,
		size: s.size, read: true})
	if err != nil {
		return err
	}
	r.staging.busy = true
	r.after = d.submitted
	return nil
}

// finish waits for the copy and takes the data.
func (r *readback) finish(ctx context.Context) error {
	if err := r.dev.awaitThat(ctx, r.poll); err != nil {
		r.abandon()
		return err
	}
	if err := r.dev.lock(); err != nil {
		return err
	}
	defer r.dev.mu.Unlock()
	defer r.dev.giveStaging(r.staging)
	return r.dev.readMapped(r.staging, r.at-r.span().offset, bytesOf(r.dst))
}

// poll reports whether the copy is done.
func (r *readback) poll() (bool, error) {
	d := r.dev
	if err := d.lock(); err != nil {
		return false, err
	}
	defer d.mu.Unlock()
	wanted := r.after
	if wanted == 0 {
		wanted = d.submitted // this makes room
	}
	if err := d.collect(wanted, backend.PollTurns); err != nil {
		return false, err
	}
	d.proceed()
	return r.after > 0 && d.finished() >= r.after, r.err
}

// abandon gives up a pending copy, whose data is not needed.
func (r *readback) abandon() {
	if r == nil || r.dev.lock() != nil {
		return
	}
	defer r.dev.mu.Unlock()
	if r.after > 0 {
		r.dev.giveStaging(r.staging)
	}
	r.dev.waiting = slices.DeleteFunc(r.dev.waiting, func(o *readback) bool { return o == r })
}

func (d *device) takeStaging() (*staging, error) {
	for _, s := range d.staging {
		if !s.busy {
			return s, nil
		}
	}
	s, err := d.newStaging(pieceBytes)
	if err == nil {
		d.staging = append(d.staging, s)
	}
	return s, err
}

func (d *device) newStaging(size uint64) (*staging, error) {
	b, err := d.newBuffer("read", size, usageRead)
	if err != nil {
		return nil, err
	}
	return &staging{memory: b}, nil
}

func (d *device) giveStaging(s *staging) {
	s.unmap()
	s.busy = false
	if len(d.staging) > idleStaging {
		d.staging = slices.DeleteFunc(d.staging, func(o *staging) bool { return o == s })
		s.release()
	}
}
