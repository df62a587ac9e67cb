package fakedriver

import (
	"context"
	"sync/atomic"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
)

type buffer struct {
	inner  driver.Buffer
	device *Device
	use    *use // shared with slices
	sliced bool
}

// sameMemory reports whether two buffers share memory: they are one buffer, or one or both are slices of it.
func sameMemory(a, b driver.Buffer) bool {
	return a != nil && b != nil && a.(*buffer).use == b.(*buffer).use
}

func (b *buffer) Slice(offset, n int) driver.Buffer {
	if offset%(backend.SliceBytes/4) != 0 || offset < 0 || n < 0 || n > b.Len() || offset > b.Len()-n {
		b.use.broken("Slice of %d elements from %d on, in a buffer of %d", n, offset, b.Len())
	}
	return &buffer{inner: b.inner.Slice(offset, n), device: b.device, use: b.use, sliced: true}
}

// reading keeps buffer and device in use until it is finished.
type reading struct {
	inner driver.Reading
	on    *buffer
	end   func()
	once  atomic.Bool
}

func (b *buffer) StartRead(ctx context.Context, offset int, dst []float32) (driver.Reading, error) {
	end := b.transfer("StartRead", offset, len(dst))
	err := b.device.call(b.device.OnStartRead)
	if err == nil {
		var inner driver.Reading
		if inner, err = b.inner.StartRead(ctx, offset, dst); err == nil {
			return &reading{inner: inner, on: b, end: end}, nil
		}
	}
	end()
	return nil, err
}

func (r *reading) Finish(ctx context.Context) error {
	if r.once.Swap(true) {
		r.on.use.broken("Finish twice")
	}
	defer r.end()
	if err := r.inner.Finish(ctx); err != nil {
		return err
	}
	return r.on.device.call(r.on.device.OnFinish)
}

func (b *buffer) Len() int { return b.inner.Len() }

func (b *buffer) Write(ctx context.Context, offset int, src []float32) error {
	defer b.transfer("Write", offset, len(src))()
	if err := b.device.call(b.device.OnWrite); err != nil {
		return err
	}
	b.device.Writes.Add(1)
	b.device.Written.Add(int64(len(src)))
	return b.inner.Write(ctx, offset, src)
}

func (b *buffer) Read(ctx context.Context, offset int, dst []float32) error {
	defer b.transfer("Read", offset, len(dst))()
	if err := b.device.call(nil); err != nil {
		return err
	}
	if err := b.inner.Read(ctx, offset, dst); err != nil {
		return err
	}
	return b.device.call(b.device.OnRead)
}

func (b *buffer) transfer(what string, offset, n int) (end func()) {
	if offset < 0 || n < 1 || n > b.Len() || offset > b.Len()-n {
		b.use.broken("%s of %d elements from %d on, in a buffer of %d", what, n, offset, b.Len())
	}
	device, own := b.device.use.begin(), b.use.begin()
	return func() { own(); device() }
}

func (b *buffer) Close() error {
	defer b.device.use.begin()()
	if b.sliced {
		b.use.broken("Close of a slice")
	}
	b.use.close()
	b.device.Buffers.Add(-1)
	b.device.Allocated.Add(-int64(b.Len()))
	return b.inner.Close()
}
