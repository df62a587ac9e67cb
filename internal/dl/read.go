//go:build cgo && linux && (amd64 || arm64)

package dl

// #include "dl.h"
import "C"

import (
	"context"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
)

const (
	// idleLandings is how many landings are kept: page-locking 1 MiB takes 0.4 ms.
	idleLandings = 4
	// leastLanding is the size of the smallest landing in bytes. Sizes are powers of 2, so reads of changing
	// sizes find one.
	leastLanding = 4 << 10
)

// landing is page-locked memory for an asynchronous read.
type landing struct {
	slot
	size int
}

// reading is a read into a landing.
type reading struct {
	dev *device
	to  *landing
	dst []byte
}

// StartRead queues one copy of any length, and takes as much page-locked memory.
func (b *buffer) StartRead(ctx context.Context, offset int, dst []float32) (driver.Reading, error) {
	d := b.dev
	if err := d.state.Ready(ctx); err != nil {
		return nil, err
	}
	host := bytesOf(dst)
	l, err := d.takeLanding(len(host))
	if err != nil {
		return nil, err
	}
	l.used = true
	address := b.memory + 4*C.dl_pointer(offset)
	if err := d.check("read", C.dl_read(d.handle, l.memory, address, C.size_t(len(host)),
		l.done)); err != nil {
		d.giveLanding(l)
		return nil, err
	}
	return &reading{d, l, host}, nil
}

// Finish leaves a landing that the device still writes to later reads, which check whether it does.
func (r *reading) Finish(ctx context.Context) error {
	defer r.dev.giveLanding(r.to)
	if err := r.dev.await(ctx, backend.Forever, r.to.done); err != nil {
		return err
	}
	copy(r.dst, unsafe.Slice((*byte)(r.to.memory), r.to.size))
	return nil
}

// takeLanding returns the smallest sufficient landing that the device has finished with, or makes one.
func (d *device) takeLanding(size int) (*landing, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	best := -1
	for i, l := range d.landings {
		if l.size >= size && (best < 0 || l.size < d.landings[best].size) &&
			C.dl_poll(d.handle, l.done, 1) == 0 {
			best = i
		}
	}
	if best >= 0 {
		l := d.landings[best]
		d.landings = slices.Delete(d.landings, best, best+1)
		return l, nil
	}
	l := &landing{size: max(leastLanding, 1<<bits.Len(uint(size-1)))}
	err := d.check("staging memory", C.dl_host_alloc(d.handle, C.size_t(l.size), &l.memory))
	if err == nil {
		l.done, err = d.newEvent(0)
	}
	if err != nil {
		l.free(d)
		return nil, err
	}
	return l, nil
}

// giveLanding keeps some of the landings that the device has finished with, and all others. A lost device
// frees nothing.
func (d *device) giveLanding(l *landing) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state.Err() == nil && len(d.landings) >= idleLandings && C.dl_poll(d.handle, l.done, 1) == 0 {
		l.free(d)
		return
	}
	d.landings = append(d.landings, l)
}
