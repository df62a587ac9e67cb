package dispatch

import (
	"context"
	"fmt"

	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/invalid"
)

// Slice returns elements [offset, offset+n) as a buffer of their own, in the same memory: nothing is
// copied, and it costs no memory of the device. It serves wherever a buffer does, but for one
// thing: C of a run is of other memory than what the run reads, as WebGPU wants it. So weights of many
// layers can be slices of one buffer, and so can results.
//
// offset is a multiple of 256 bytes: 64 elements of F32, 128 of 16 bits, 256 of 8, 512 of 4. n is even where
// elements have 16 bits, a multiple of 4 where they have 8, and of 8 where they have 4, unless the slice
// ends where the buffer does.
//
// The memory is the buffer's: a slice is good until the buffer is closed, and a slice of a slice
// too. Close of a slice ends the slice alone, frees nothing, and need not be called. While a slice is
// reachable the collector does not find its buffer.
func (b *Buffer) Slice(offset, n int) (*Buffer, error) {
	unit, per := backend.SliceBytes/4*b.of.PerWord(), b.of.PerWord()
	switch {
	case n < 0:
		return nil, invalid.Errorf("slice: n is %d: negative size", n)
	case offset < 0 || n > b.n-offset:
		return nil, invalid.Errorf("slice: %d elements from %d on, in a buffer of %d", n, offset, b.n)
	case offset%unit != 0:
		return nil, invalid.Errorf("slice: offset %d is not a multiple of %d elements (%d bytes)", offset,
			unit, backend.SliceBytes)
	case n%per != 0 && offset+n < b.n:
		return nil, invalid.Errorf("slice: n is %d: no multiple of %d, and the slice ends before the "+
			"buffer does", n, per)
	}
	if err := b.enter(); err != nil {
		return nil, fmt.Errorf("slice: buffer: %w", err)
	}
	defer b.leave()
	return &Buffer{
		object: b.object, device: b.device, driver: b.driver.Slice(wordsOf(b.of, offset), wordsOf(b.of, n)),
		n: n, of: b.of,
		wrapped: b.wrapped && offset+n == b.n, slice: &slice{of: b},
	}, nil
}

// Copy queues a copy of src, whole, to dst, which has as many elements of the same type, and
// returns without waiting, as Run does: it is done after what was queued before. Parts are copied
// as slices. dst and src are of different memory.
func (d *Device) Copy(ctx context.Context, dst, src *Buffer) error {
	switch {
	case dst == nil:
		return invalid.Errorf("copy: dst is nil")
	case src == nil:
		return invalid.Errorf("copy: src is nil")
	case dst.of != src.of:
		return invalid.Errorf("copy: dst has elements of %s, src of %s", dst.of, src.of)
	case dst.n != src.n:
		return invalid.Errorf("copy: dst has %d elements, src has %d", dst.n, src.n)
	case dst.object == src.object:
		return invalid.Errorf("copy: dst and src are of one buffer")
	}
	if err := d.acquire(); err != nil {
		return err
	}
	defer d.release()
	if err := dst.hold(d); err != nil {
		return fmt.Errorf("copy: dst: %w", err)
	}
	defer dst.release()
	if err := src.hold(d); err != nil {
		return fmt.Errorf("copy: src: %w", err)
	}
	defer src.release()
	if src.n == 0 {
		return ctx.Err()
	}
	return d.driver.Copy(ctx, dst.driver, src.driver, src.of.Size(src.n))
}
