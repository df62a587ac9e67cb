package cpu

import (
	"context"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/hostmem"
)

// buffer is a caller's memory, or a workspace. It is freed when its owner has closed it and no queued run
// needs it, or with the device. A slice is a range of another buffer's data.
type buffer struct {
	device *device
	data   []float32
	of     *buffer      // the buffer that it is a slice of; nil: it is no slice
	users  atomic.Int32 // not for slices: the owner, and queued runs
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

// movePiece is how many elements are copied between two looks at the context, which takes about a
// millisecond.
const movePiece = 1 << 20

// move copies until done or until ctx ends.
func move(ctx context.Context, dst, src []float32) error {
	for ; len(src) > movePiece; dst, src = dst[movePiece:], src[movePiece:] {
		copy(dst, src[:movePiece])
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	copy(dst, src)
	return nil
}

// reading is a read that waits in the queue, like a run.
type reading struct {
	from, dst []float32
	done      chan struct{}
	mu        sync.Mutex // held while a piece is copied
	given     bool       // given up: dst does not belong to the read any more
}

// StartRead queues the read, or does it at once if it is short and the device is idle.
func (b *buffer) StartRead(ctx context.Context, offset int, dst []float32) (driver.Reading, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := &reading{from: b.data[offset:][:len(dst)], dst: dst, done: make(chan struct{})}
	b.device.put(len(dst), 1, func(int) entry {
		b.hold()
		return entry{read: r, a: b}
	})
	return r, nil
}

// fill copies until done or given up.
func (r *reading) fill() {
	defer close(r.done)
	for dst, from := r.dst, r.from; len(from) > 0; {
		n := min(len(from), movePiece)
		r.mu.Lock()
		given := r.given
		if !given {
			copy(dst, from[:n])
		}
		r.mu.Unlock()
		if given {
			return
		}
		dst, from = dst[n:], from[n:]
	}
}

func (r *reading) Finish(ctx context.Context) error {
	select {
	case <-r.done:
		return ctx.Err()
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.given = true
	return ctx.Err()
}

func (b *buffer) Close() error {
	b.drop()
	return nil
}

// Slice has the data in place.
func (b *buffer) Slice(offset, n int) driver.Buffer {
	return &buffer{device: b.device, data: b.data[offset:][:n:n], of: b.whole()}
}

// whole returns the buffer that has the memory.
func (b *buffer) whole() *buffer {
	if b.of != nil {
		return b.of
	}
	return b
}

// At implements backend.Borrower. The memory is outside of Go, and the buffer is never freed.
func (d *device) At(address uintptr, n int) driver.Buffer {
	memory := *(*unsafe.Pointer)(unsafe.Pointer(&address))
	return &buffer{device: d, data: unsafe.Slice((*float32)(memory), n)}
}

func (b *buffer) hold() { b.whole().users.Add(1) }

func (b *buffer) drop() {
	whole := b.whole()
	if whole.users.Add(-1) > 0 {
		return
	}
	b.device.mu.Lock()
	defer b.device.mu.Unlock()
	whole.free()
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
