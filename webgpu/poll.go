//go:build cgo && !nowebgpu && ((linux && amd64) || darwin || (windows && amd64))

package webgpu

// #include "shim.h"
import "C"

import (
	"context"
	"fmt"
	"time"
)

const (
	// spinTime is how long a wait polls without a pause: submissions of small
	// batches end within it, and a pause costs 50 us or more.
	spinTime  = 100 * time.Microsecond
	maxPause  = 500 * time.Microsecond // then: an eighth of the time waited so far
	pollTurns = 16                     // polls for one turn of the mutex, a few microseconds

	// maxInFlight bounds the queued submissions, and with them the memory of
	// command buffers and staged writes. It is enough to keep a GPU busy.
	//
	// On lavapipe it is 1. There vkQueueSubmit itself does not return until the
	// submission before is done: wgpu has each wait for a semaphore of that one,
	// and lavapipe waits for it in the caller's thread (Mesa 22.3; without the
	// semaphore it returns in 20 us). That cannot be cancelled, and holds the
	// device's mutex; our own wait before it takes as long and is free of both.
	maxInFlight = 32
)

// await returns when the first n submissions are done. It never asks the
// binding to wait: that gives up after 5 s and reports success.
func (d *device) await(ctx context.Context, n uint64) error {
	start := time.Now()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		done, err := d.poll(n)
		if done || err != nil {
			return err
		}
		waited := time.Since(start)
		if waited > d.waitLimit {
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.lose(fmt.Sprintf("queued work did not end within %v", d.waitLimit))
		}
		if waited > spinTime {
			pause(min(waited/8, maxPause))
		}
	}
}

func pause(t time.Duration) { C.gpu_pause(C.uint(t.Microseconds())) }

// poll reports whether the first n submissions are done.
func (d *device) poll(n uint64) (bool, error) {
	if err := d.lock(); err != nil {
		return false, err
	}
	defer d.mu.Unlock()
	err := d.collect(n, pollTurns)
	return uint64(d.gpu.done) >= n, err
}

// collect takes note of finished work, until n submissions are done.
func (d *device) collect(n uint64, turns int) error {
	C.gpu_poll(d.gpu, C.uint64_t(n), C.int(turns))
	if d.gpu.lost != 0 {
		return d.check("wait", nil)
	}
	return nil
}

// lockQueue takes the mutex when there is room for another submission.
func (d *device) lockQueue(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := d.lock(); err != nil {
			return err
		}
		if d.submitted < uint64(d.gpu.done)+d.inFlight {
			return nil
		}
		oldest := uint64(d.gpu.done) + 1
		d.mu.Unlock()
		if err := d.await(ctx, oldest); err != nil {
			return err
		}
	}
}

// Wait returns when everything that was queued before the call is done.
func (d *device) Wait(ctx context.Context) error {
	if err := d.lockQueue(ctx); err != nil {
		return err
	}
	if d.unsent > 0 { // writes go out with a submission only
		d.work.reset()
		if err := d.submit(C.gpu_copy{}); err != nil {
			d.mu.Unlock()
			return err
		}
	}
	last := d.submitted
	d.mu.Unlock()
	return d.await(ctx, last)
}
