//go:build !nowebgpu && (js || (cgo && ((linux && amd64) || darwin || (windows && amd64))))

package webgpu

import (
	"context"
	"errors"

	"github.com/batchgemm/batchgemm/internal/backend"
)

// maxInFlight bounds the queued submissions, and so the memory of command buffers and staged writes. It is
// enough to keep a GPU busy.
//
// On lavapipe it is 1. There vkQueueSubmit does not return until the previous submission is done: wgpu makes
// each wait for a semaphore of the previous one, and lavapipe waits in the caller's thread (Mesa 22.3;
// without the semaphore it returns in 20 us). That wait cannot be cancelled and holds the device's mutex.
// Our own wait before the call takes as long without these problems.
const maxInFlight = 32

// await returns when the first n submissions are done.
func (d *device) await(ctx context.Context, n uint64) error {
	return d.awaitThat(ctx, func() (bool, error) { return d.poll(n) })
}

// awaitThat asks until the work is done.
func (d *device) awaitThat(ctx context.Context, ask func() (done bool, err error)) error {
	err := d.watch(ctx, d.waitLimit, ask)
	if errors.Is(err, backend.ErrUnfinished) {
		return d.state.Lose(&d.info, err)
	}
	return err
}

// poll reports whether the first n submissions are done.
func (d *device) poll(n uint64) (bool, error) {
	if err := d.lock(); err != nil {
		return false, err
	}
	defer d.mu.Unlock()
	err := d.collect(n, backend.PollTurns)
	return d.finished() >= n, err
}

// lockQueue locks the device when there is room for another submission, after the copies that wait for room.
func (d *device) lockQueue(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := d.lock(); err != nil {
			return err
		}
		if d.proceed(); len(d.waiting) == 0 && d.room() {
			return nil
		}
		oldest := d.finished() + 1
		d.mu.Unlock()
		if err := d.await(ctx, oldest); err != nil {
			return err
		}
	}
}

// Wait returns when all work that was queued before the call is done.
func (d *device) Wait(ctx context.Context) error {
	if err := d.lockQueue(ctx); err != nil {
		return err
	}
	if d.unsent > 0 { // writes only go out with a submission
		d.work.reset()
		if err := d.submit(move{}); err != nil {
			d.mu.Unlock()
			return err
		}
	}
	last := d.submitted
	d.mu.Unlock()
	return d.await(ctx, last)
}
