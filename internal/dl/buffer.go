//go:build cgo && linux && (amd64 || arm64)

package dl

// #include "dl.h"
import "C"

import (
	"context"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
)

// buffer is device memory.
type buffer struct {
	dev    *device
	n      int
	memory C.dl_pointer
	owned  bool // not wrapped
}

func (d *device) addBuffer(memory C.dl_pointer, n int, owned bool) *buffer {
	b := &buffer{dev: d, n: n, memory: memory, owned: owned}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.buffers[b] = struct{}{}
	return b
}

func (b *buffer) On() *device { return b.dev }

func (b *buffer) Len() int { return b.n }

// Address implements backend.Addressed.
func (b *buffer) Address() (uint64, error) { return uint64(b.memory), b.dev.state.Err() }

func (b *buffer) Write(ctx context.Context, offset int, src []float32) error {
	return b.move(ctx, offset, src, toDevice)
}

func (b *buffer) Read(ctx context.Context, offset int, dst []float32) error {
	return b.move(ctx, offset, dst, toHost)
}

func (b *buffer) move(ctx context.Context, offset int, data []float32, to direction) error {
	if err := b.dev.state.Ready(ctx); err != nil {
		return err
	}
	return transfer{b.dev, b.memory + 4*C.dl_pointer(offset), bytesOf(data), to}.run(ctx)
}

// Slice returns the memory from an address on.
func (b *buffer) Slice(offset, n int) driver.Buffer {
	return &buffer{dev: b.dev, n: n, memory: b.memory + 4*C.dl_pointer(offset)}
}

// At implements backend.Borrower.
func (d *device) At(address uintptr, n int) driver.Buffer {
	return &buffer{dev: d, n: n, memory: C.dl_pointer(address)}
}

// Copy implements driver.Device. It copies exactly that many bytes.
func (d *device) Copy(ctx context.Context, dst, src driver.Buffer, bytes int) error {
	to, from, err := backend.Pair[*buffer](d, dst, src)
	if err != nil {
		return err
	}
	if err := d.state.Ready(ctx); err != nil {
		return err
	}
	return d.check("copy", C.dl_copy(d.handle, to.memory, from.memory, C.size_t(bytes)))
}

// Close frees the memory once queued work that may use it is done: the driver waits for that.
func (b *buffer) Close() error {
	d := b.dev
	if d.state.Err() != nil {
		return nil // abandoned with its device
	}
	d.mu.Lock()
	delete(d.buffers, b)
	d.mu.Unlock()
	return d.check("close buffer", b.free())
}

func (b *buffer) free() C.dl_result {
	if !b.owned {
		return 0
	}
	return C.dl_free(b.dev.handle, b.memory)
}

// wrapAlign is the alignment of buffers in bytes. Plans need it for vector loads.
const wrapAlign = backend.BorrowAlign

// Wrap makes a buffer of n float32 in this GPU's memory. Other code allocated the memory and frees it. Wrap
// implements backend.Wrapper.
func (d *device) Wrap(ptr uintptr, n int) (driver.Buffer, error) {
	if err := d.state.Err(); err != nil {
		return nil, err
	}
	if ptr%wrapAlign != 0 {
		return nil, d.invalid("wrap %#x: the address must be a multiple of %d bytes; "+
			"wrap the memory from an earlier element on, and use offsets", ptr, wrapAlign)
	}
	var ordinal C.int
	var start C.dl_pointer
	var size C.size_t
	switch result := C.dl_extent(d.handle, C.dl_pointer(ptr), &ordinal, &start, &size); {
	case result == C.DL_INVALID_VALUE:
		return nil, d.invalid("wrap %#x: %s does not know this memory", ptr, d.library.vendor.API)
	case result != 0:
		return nil, d.check("wrap", result)
	case int(ordinal) != d.gpu.ordinal:
		return nil, d.invalid("wrap %#x: the memory is on GPU %d, the device is GPU %d", ptr, ordinal,
			d.gpu.ordinal)
	}
	left := uint64(size) - uint64(C.dl_pointer(ptr)-start)
	if uint64(n) > left/4 {
		return nil, d.invalid("wrap %#x: %d elements, the allocation has %d from there on", ptr, n, left/4)
	}
	return d.addBuffer(C.dl_pointer(ptr), n, false), nil
}

// OnStream opens the same GPU again with the caller's stream, for all work of the new device. Closing the
// device leaves the stream open. It implements backend.Wrapper.
func (d *device) OnStream(stream uintptr) (driver.Device, error) {
	if err := d.state.Err(); err != nil {
		return nil, err
	}
	var result C.dl_result
	made, err := newDevice(d.library, d.gpu, false, func(handle *C.dl_device) C.dl_result {
		result = C.dl_open_on(handle, d.handle, C.uintptr_t(stream))
		return result
	})
	const must = "the stream must be one of %s: %w"
	switch {
	case err == nil:
		return made, nil
	case result == C.DL_INVALID_VALUE:
		return nil, d.invalid(must, d.library.vendor.Owner, err)
	}
	return nil, d.errorf(must, d.library.vendor.Owner, err)
}
