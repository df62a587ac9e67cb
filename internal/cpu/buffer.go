package cpu

import (
	"context"
	"sync/atomic"

	"github.com/batchgemm/batchgemm/internal/hostmem"
)

// buffer is memory of a caller, or a workspace. It is freed when its owner has closed
// it and no run that is queued needs it, or with the device.
type buffer struct {
	device *device
	data   []float32
	users  atomic.Int32 // the owner, and runs that are queued
}

func (d *device) allocate(n int) (*buffer, error) {
	data, err := hostmem.Floats(n)
	if err != nil {
		return nil, err
	}
	b := &buffer{device: d, data: data}
	b.hold()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.live[b] = struct{}{}
	return b, nil
}

func (b *buffer) On() *device { return b.device }

func (b *buffer) Len() int { return len(b.data) }

func (b *buffer) Write(ctx context.Context, offset int, src []float32) error {
	if err := b.device.take(ctx); err != nil {
		return err
	}
	defer b.device.release()
	return move(ctx, b.data[offset:][:len(src)], src)
}

func (b *buffer) Read(ctx context.Context, offset int, dst []float32) error {
	if err := b.device.take(ctx); err != nil {
		return err
	}
	defer b.device.release()
	return move(ctx, dst, b.data[offset:][:len(dst)])
}

// move copies until ctx ends.
func move(ctx context.Context, dst, src []float32) error {
	const piece = 1 << 20 // elements: about a millisecond
	for ; len(src) > piece; dst, src = dst[piece:], src[piece:] {
		copy(dst, src[:piece])
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	copy(dst, src)
	return nil
}

func (b *buffer) Close() error {
	b.drop()
	return nil
}

func (b *buffer) hold() { b.users.Add(1) }

func (b *buffer) drop() {
	if b.users.Add(-1) > 0 {
		return
	}
	b.device.mu.Lock()
	defer b.device.mu.Unlock()
	b.free()
}

// free needs the device's lock.
func (b *buffer) free() {
	if _, ok := b.device.live[b]; ok {
		delete(b.device.live, b)
		hostmem.Free(b.data)
		b.data = nil
	}
}

// freeAll frees what is left when the device is closed and idle.
func (d *device) freeAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for b := range d.live {
		b.free()
	}
}
