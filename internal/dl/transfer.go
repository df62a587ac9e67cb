//go:build cgo && linux && (amd64 || arm64)

package dl

// #include "dl.h"
import "C"

import (
	"context"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/backend"
)

const (
	// slotBytes is the most that one copy moves. The copy takes 20 us over PCIe 5, the copy between
	// page-locked and other memory 90 us of one core, and a call 4 us.
	slotBytes = 1 << 20
	// movers is how many cores copy at once: 4 move 60 GB/s, slightly more than PCIe 5 (measured; one moves
	// 11 GB/s).
	movers = 4
	// slotCount is two slots for each mover, so that it can fill one while the device takes another. Slots
	// are allocated on first use: page-locking 1 MiB takes 0.4 ms.
	slotCount = 2 * movers
)

// slot is page-locked memory for copies. done is reached when the device has finished with it.
type slot struct {
	memory unsafe.Pointer
	done   C.dl_event
	used   bool // done is recorded
}

func (s *slot) bytes(n int) []byte { return unsafe.Slice((*byte)(s.memory), n) }

// ready makes the slot available to the host.
func (s *slot) ready(ctx context.Context, d *device) (err error) {
	if s.memory == nil {
		if err := d.check("staging memory", C.dl_host_alloc(d.handle, slotBytes, &s.memory)); err != nil {
			return err
		}
	}
	if s.done == nil {
		s.done, err = d.newEvent(0)
		return err
	}
	if s.used {
		return d.await(ctx, backend.Forever, s.done)
	}
	return nil
}

func (s *slot) free(d *device) {
	if s.done != nil {
		C.dl_event_free(d.handle, s.done)
	}
	if s.memory != nil {
		C.dl_host_free(d.handle, s.memory)
	}
}

type direction bool

const (
	toDevice direction = false
	toHost   direction = true
)

// transfer copies between host and device memory, after all queued work. A transfer to the device returns
// when the host's memory has been read, one to the host when it has been written.
type transfer struct {
	dev     *device
	address C.dl_pointer
	host    []byte
	direction
}

func (t transfer) run(ctx context.Context) error {
	if len(t.host) <= slotBytes {
		return t.piece(ctx, 0, len(t.host))
	}
	return t.pieces(ctx)
}

// pieces shares the pieces of a long transfer among movers. Copies on the device overlap those of the
// movers. The order of the pieces does not matter.
func (t transfer) pieces(ctx context.Context) error {
	var next atomic.Int64
	var group sync.WaitGroup
	var failed sync.Once
	var first error
	for range movers {
		group.Go(func() {
			for {
				end := int(next.Add(slotBytes))
				start := end - slotBytes
				if start >= len(t.host) {
					return
				}
				if err := t.piece(ctx, start, min(end, len(t.host))); err != nil {
					failed.Do(func() { first = err })
					next.Store(int64(len(t.host)))
					return
				}
			}
		})
	}
	group.Wait()
	return first
}

// piece moves bytes [start, end), at most slotBytes.
func (t transfer) piece(ctx context.Context, start, end int) error {
	d, host := t.dev, t.host[start:end]
	if t.direction == toDevice && len(host) <= d.library.vendor.Stages {
		return d.check("write", C.dl_write(d.handle, t.address+C.dl_pointer(start),
			unsafe.Pointer(unsafe.SliceData(host)), C.size_t(len(host)), nil))
	}
	var s *slot
	select {
	case s = <-d.slots:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { d.slots <- s }()
	if err := s.ready(ctx, d); err != nil {
		return err
	}
	address, size := t.address+C.dl_pointer(start), C.size_t(len(host))
	if t.direction == toDevice {
		copy(s.bytes(len(host)), host)
		s.used = true
		return d.check("write", C.dl_write(d.handle, address, s.memory, size, s.done))
	}
	s.used = true
	if err := d.check("read", C.dl_read(d.handle, s.memory, address, size, s.done)); err != nil {
		return err
	}
	if err := d.await(ctx, backend.Forever, s.done); err != nil {
		return err
	}
	copy(host, s.bytes(len(host)))
	return nil
}

// bytesOf shows a slice as bytes.
func bytesOf[T float32 | uint32](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), 4*len(s))
}
