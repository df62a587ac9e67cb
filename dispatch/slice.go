package dispatch

import (
	"context"
	"fmt"

	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/invalid"
)

// Slice returns elements [offset, offset+n) as a buffer in the same memory. It copies nothing and takes no
// device memory. A slice can be used like any buffer, with one limit that WebGPU sets: C of a run must be in
// other memory than the operands that the run reads. So weights of many layers can be slices of one buffer,
// and so can results.
//
// offset must be a multiple of 256 bytes: 32 elements of F64, 64 of F32, 128 of 16 bits, 256 of 8, 512 of 4.
// n must be even for 16-bit elements, a multiple of 4 for 8-bit elements and of 8 for 4-bit elements, unless
// the slice ends where the buffer ends.
//
// A slice, also a slice of a slice, is valid until the buffer is closed. Close of a slice ends only the
// slice and frees nothing; it is optional. While a slice is reachable, its buffer is too.
func (b *Buffer) Slice(offset, n int) (*Buffer, error) {
	unit, per := elemtype.PerBytes(b.of, backend.SliceBytes), max(b.of.PerWord(), 1)
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
		object: b.object, device: b.device, driver: b.driver.Slice(elemtype.Words(b.of, offset),
			elemtype.Words(b.of, n)),
		n: n, of: b.of,
		wrapped: b.wrapped && offset+n == b.n, slice: &slice{of: b},
	}, nil
}

// Copy queues a copy of all of src to dst, after the work queued before, and returns without waiting, like
// Run. dst must have the same type and number of elements, in other memory. Use slices to copy parts.
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
