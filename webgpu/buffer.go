//go:build !nowebgpu && (js || (cgo && ((linux && amd64) || darwin || (windows && amd64))))

package webgpu

import (
	"context"
	"math"
	"slices"
	"unsafe"

	"github.com/batchgemm/batchgemm/dispatch/driver"
)

const (
	// pieceBytes is the most that one copy between host and device moves, so that staging memory stays
	// small. A piece takes 0.3 ms over PCIe 4, far more than the 60 us of a submission.
	pieceBytes = 8 << 20

	// writeBytes is the least that a write counts towards the next submission: every write has its own
	// staging buffer until then.
	writeBytes = 64 << 10
)

// buffer is device memory of size bytes, the next multiple of 16 over 4*n.
//
// wgpu fills memory that was never written with zeros on first use. On NVIDIA that fill hits the wrong bytes
// unless it starts at a multiple of 16 (gfx-rs/wgpu#4132). Tracked ranges therefore start and end at
// multiples of 16. A fresh buffer is cleared whole before any use except a write of all of it; later calls
// may use any element.
//
// A slice is a range of another buffer's bytes.
type buffer struct {
	memory
	dev   *device
	n     int
	size  uint64
	of    *buffer // the buffer that it is a slice of; nil: it is no slice
	at    uint64  // bytes of that buffer before it
	fresh bool    // never used, if that matters; protected by dev.mu
}

func (b *buffer) On() *device { return b.dev }

func (b *buffer) Len() int { return b.n }

// whole returns the buffer that has the memory.
func (b *buffer) whole() *buffer {
	if b.of != nil {
		return b.of
	}
	return b
}

// A slice ends with its last line of 16 bytes. The whole buffer has all of that line.
func (b *buffer) Slice(offset, n int) driver.Buffer {
	return &buffer{dev: b.dev, n: n, size: roundUp(4*uint64(n), 16), of: b.whole(),
		at: b.at + 4*uint64(offset), memory: b.memory}
}

func (b *buffer) Write(ctx context.Context, offset int, src []float32) error {
	whole := b.of == nil && offset == 0 && 4*uint64(len(src)) == b.size
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
	if b.whole().fresh && !whole {
		d.work.reset()
		d.work.clear(b)
		if err := d.submit(move{}); err != nil {
			return err
		}
	}
	if err := d.writeMemory(b.memory, b.at+4*uint64(offset), bytesOf(src)); err != nil {
		return err
	}
	d.unsent += max(4*len(src), writeBytes)
	if d.unsent < pieceBytes {
		return nil
	}
	d.work.reset()
	return d.submit(move{})
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
	b.release()
	// Released memory is freed in a poll. A GPU that is lost there is not an error of the buffer.
	_ = d.collect(math.MaxUint64, 1)
	return nil
}

// bytesOf returns the bytes of elements, in the same memory.
func bytesOf(elements []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(elements))), 4*len(elements))
}
