//go:build cgo && !nowebgpu && ((linux && amd64) || darwin || (windows && amd64))

package webgpu

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/rajveermalviya/go-webgpu/wgpu"
)

const (
	// pieceBytes is the most that one copy between host and device moves, so that
	// staging memory stays small. A piece takes 0.3 ms over PCIe 4, well above the
	// 60 us that a submission costs.
	pieceBytes = 8 << 20

	// writeBytes is what a write counts at least towards the next submission:
	// however short, it has a staging buffer of its own until then.
	writeBytes = 64 << 10

	// idleStaging readback buffers are kept: two for each of two readers.
	idleStaging = 4
)

// buffer is device memory of size bytes, the next multiple of 16 over 4*n.
//
// wgpu fills memory that was never written with zeros when it is first used,
// and on NVIDIA that fill hits the wrong bytes unless it starts at a multiple of
// 16 (gfx-rs/wgpu#4132). Tracked ranges therefore start and end at multiples of
// 16: a fresh buffer is cleared as a whole before anything but a write of all
// of it, and later calls may use any element.
type buffer struct {
	dev    *device
	n      int
	size   uint64
	fresh  bool // never used; belongs to dev.mu
	handle *wgpu.Buffer
	ref    C.handle
}

func (b *buffer) On() *device { return b.dev }

func (b *buffer) Len() int { return b.n }

func (b *buffer) Write(ctx context.Context, offset int, src []float32) error {
	whole := offset == 0 && 4*uint64(len(src)) == b.size
	for piece := range slices.Chunk(src, pieceBytes/4) {
		if err := b.writePiece(ctx, offset, piece, whole); err != nil {
			return err
		}
		offset += len(piece)
	}
	if whole {
		b.dev.mu.Lock()
		b.fresh = false
		b.dev.mu.Unlock()
	}
	return nil
}

func (b *buffer) writePiece(ctx context.Context, offset int, src []float32, whole bool) error {
	d := b.dev
	if err := d.lockQueue(ctx); err != nil {
		return err
	}
	defer d.mu.Unlock()
	if b.fresh && !whole {
		d.work.reset()
		d.work.clear(b)
		if err := d.submit(C.gpu_copy{}); err != nil {
			return err
		}
	}
	err := d.queue.WriteBuffer(b.handle, 4*uint64(offset), wgpu.ToBytes(src))
	if err = d.check("write", err); err != nil {
		return err
	}
	d.unsent += max(4*len(src), writeBytes)
	if d.unsent < pieceBytes {
		return nil
	}
	d.work.reset()
	return d.submit(C.gpu_copy{})
}

func (b *buffer) Read(ctx context.Context, offset int, dst []float32) error {
	// One piece is copied on the device while the one before is copied out.
	var ahead *readback
	for len(dst) > 0 || ahead != nil {
		var next *readback
		var err error
		if len(dst) > 0 {
			n := min(len(dst), pieceBytes/4-offset%4)
			next, err = b.startRead(ctx, offset, dst[:n])
			offset, dst = offset+n, dst[n:]
		}
		if ahead != nil {
			err = errors.Join(ahead.finish(ctx), err)
		}
		if err != nil {
			if next != nil {
				next.abandon()
			}
			return err
		}
		ahead = next
	}
	return nil
}

// readback is a copy to a staging buffer that was queued.
type readback struct {
	dev     *device
	staging *staging
	after   uint64 // the submission that it is part of
	skip    int    // bytes of staging before dst's first element
	dst     []float32
}

// staging is a buffer of pieceBytes that the host can read. It can be reused as
// soon as its reader is done or has given up: the queue keeps copies in order.
type staging struct {
	handle *wgpu.Buffer
	ref    C.handle
	busy   bool
}

// startRead queues the copy of one piece.
func (b *buffer) startRead(ctx context.Context, offset int, dst []float32) (*readback, error) {
	d := b.dev
	if err := d.lockQueue(ctx); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	s, err := d.takeStaging()
	if err != nil {
		return nil, err
	}
	// Whole groups of 16 bytes, as everywhere.
	start := 4 * uint64(offset) / 16 * 16
	end := roundUp(4*uint64(offset+len(dst)), 16)
	d.work.reset()
	d.work.clear(b)
	err = d.submit(C.gpu_copy{
		source: b.ref, destination: s.ref,
		offset: C.uint64_t(start), size: C.uint64_t(end - start),
	})
	if err != nil {
		return nil, err
	}
	s.busy = true
	return &readback{dev: d, staging: s, after: d.submitted, skip: 4*offset - int(start), dst: dst}, nil
}

// finish waits for the copy and takes the data.
func (r *readback) finish(ctx context.Context) error {
	if err := r.dev.await(ctx, r.after); err != nil {
		r.abandon()
		return err
	}
	if err := r.dev.lock(); err != nil {
		return err
	}
	defer r.dev.mu.Unlock()
	defer r.dev.giveStaging(r.staging)
	size := roundUp(uint64(r.skip+4*len(r.dst)), 16)
	return r.dev.readMapped(r.staging, size, func(data []byte) {
		copy(wgpu.ToBytes(r.dst), data[r.skip:])
	})
}

func (r *readback) abandon() {
	if r.dev.lock() == nil {
		defer r.dev.mu.Unlock()
		r.dev.giveStaging(r.staging)
	}
}

// readMapped shows take the first size bytes of a staging buffer that no queued
// work uses.
func (d *device) readMapped(s *staging, size uint64, take func(data []byte)) error {
	switch status := C.gpu_map(d.gpu, s.ref, C.size_t(size)); {
	case status < 0:
		return d.lose("read")
	case status > 0:
		return d.check("read", nil)
	}
	take(s.handle.GetMappedRange(0, uint(size)))
	return d.check("read", s.handle.Unmap())
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
	b, err := d.newBuffer("read", size, wgpu.BufferUsage_MapRead|wgpu.BufferUsage_CopyDst)
	if err != nil {
		return nil, err
	}
	return &staging{handle: b, ref: ref(b)}, nil
}

func (d *device) giveStaging(s *staging) {
	s.busy = false
	if len(d.staging) > idleStaging {
		d.staging = slices.DeleteFunc(d.staging, func(o *staging) bool { return o == s })
		s.handle.Release()
	}
}

// Close frees the memory once queued work that uses it is done.
func (b *buffer) Close() error {
	d := b.dev
	if d.lock() != nil {
		return nil // abandoned with its device
	}
	defer d.mu.Unlock()
	for p := range d.programs {
		p.forget(b)
	}
	delete(d.buffers, b)
	b.handle.Release()
	// Released memory is freed in a poll. A GPU that is lost there is no error of a
	// buffer that is gone.
	_ = d.collect(math.MaxUint64, 1)
	return nil
}
