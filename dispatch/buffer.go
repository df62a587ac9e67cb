package dispatch

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Buffer is device memory for elements of one type. A buffer of F32 may also hold 32-bit words. Write, Read
// and ReadAsync copy.
type Buffer struct {
	*object
	device *Device
	driver driver.Buffer // of 32-bit words
	n      int           // elements
	of     element.Type

	wrapped bool   // in the caller's memory, which may continue after it
	slice   *slice // nil: the buffer is not a slice
}

// slice has the fields that only slices need.
type slice struct {
	of     *Buffer // keeps it from being dropped
	closed atomic.Bool
}

// hold is object.hold for a buffer that may be a closed slice.
func (b *Buffer) hold(d *Device) error {
	if b.slice != nil && b.slice.closed.Load() {
		return ErrClosed
	}
	return b.object.hold(d)
}

// enter is object.enter with that hold.
func (b *Buffer) enter() error {
	if err := b.device.acquire(); err != nil {
		return err
	}
	if err := b.hold(b.device); err != nil {
		b.device.release()
		return err
	}
	return nil
}

// NewBuffer allocates n elements of a type, with undefined contents. Types of 4 bits are written in words of
// eight elements, so n is rounded up to a multiple of 8.
func (d *Device) NewBuffer(of element.Type, n int) (*Buffer, error) {
	if !elemtype.Known(of) {
		return nil, invalid.Errorf("buffer of elements of an unknown type %d", uint8(of))
	}
	if n < 0 {
		return nil, invalid.Errorf("buffer of %d elements: negative size", n)
	}
	if n > backend.MaxLen {
		return nil, fmt.Errorf("buffer of %d elements: %w: addresses do not reach so far", n, ErrOutOfMemory)
	}
	if err := d.acquire(); err != nil {
		return nil, err
	}
	defer d.release()
	if elemtype.Bits4(of) {
		n = elemtype.Words(of, n) * of.PerWord()
	}
	made, err := d.driver.Alloc(max(elemtype.Words(of, n), 1))
	if err != nil {
		return nil, err
	}
	b := newBuffer(d, made, n)
	b.of = of
	return b, nil
}

// Len returns the number of elements.
func (b *Buffer) Len() int { return b.n }

// Type returns the type of the elements.
func (b *Buffer) Type() element.Type { return b.of }

// moveWords moves words: elements of F32, groups of eight elements of 4 bits, or pairs of words, which are
// elements of F64.
func (b *Buffer) moveWords(ctx context.Context, what string, offset int, words []float32,
	call func(driver.Buffer, context.Context, int, []float32) error,
) error {
	first, n, err := b.packed(what, offset, len(words))
	if err != nil {
		return err
	}
	return b.move(ctx, what, offset, n, func() error { return call(b.driver, ctx, first, words) })
}

// packed returns the word that starts with an element, and how many elements the words have.
func (b *Buffer) packed(what string, offset, words int) (word, n int, err error) {
	per := b.of.PerWord()
	switch {
	case per == 0:
		return elemtype.Words(b.of, offset), words / elemtype.Words(b.of, 1), nil
	case offset%per != 0:
		return 0, 0, invalid.Errorf("%s: offset %d is no multiple of %d, the elements of a word",
			what, offset, per)
	case words > backend.MaxLen/per:
		return 0, 0, b.within(what, offset, backend.MaxLen)
	}
	return offset / per, per * words, nil
}

// move checks a range of elements, and keeps device and buffer open for the call.
func (b *Buffer) move(ctx context.Context, what string, offset, n int, call func() error) error {
	if err := b.within(what, offset, n); err != nil {
		return err
	}
	if err := b.device.acquire(); err != nil {
		return err
	}
	defer b.device.release()
	if err := b.hold(b.device); err != nil {
		return fmt.Errorf("%s: buffer: %w", what, err)
	}
	defer b.release()
	if n == 0 {
		return ctx.Err()
	}
	return call()
}

// within checks a range of elements.
func (b *Buffer) within(what string, offset, n int) error {
	if offset < 0 || n > b.n-offset {
		return invalid.Errorf("%s: %d elements from %d on, in a buffer of %d", what, n, offset, b.n)
	}
	return nil
}

// Address returns where the buffer starts in device memory, for plans with pointers (planner.Pointers). CUDA
// and HIP only. The address is valid while the buffer is open. The caller must keep it open: runs do not
// hold buffers that they know only by address, and a dropped Buffer is closed.
func (b *Buffer) Address() (uint64, error) {
	if err := b.enter(); err != nil {
		return 0, fmt.Errorf("address: buffer: %w", err)
	}
	defer b.leave()
	at, ok := b.driver.(backend.Addressed)
	if !ok {
		return 0, fmt.Errorf("backend %s has no addresses of buffers", b.device.info.Backend)
	}
	return at.Address()
}

// Close frees the memory, and so ends all slices of it. Close of a slice ends only the slice.
func (b *Buffer) Close() error {
	if b.slice != nil {
		b.slice.closed.Store(true)
		return nil
	}
	return b.close()
}
