package clocks

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/dl"
)

// The variable bg_clocks of native/kernels.cu, little-endian: a ring of records of
// recordBytes, and behind it the number of all records ever written, in 32 bits.
const (
	symbol      = "bg_clocks"
	ringSize    = 1 << 16
	recordBytes = 32
)

// record is what one thread group noted.
type record struct {
	start, end  uint64 // cycles of its multiprocessor's own clock
	nanoseconds uint64 // of the clock that all share, at the end
	unit, group uint32 // multiprocessor; index of the group in the first extent of the grid
}

type ring [ringSize*recordBytes + 4]byte

func (r *ring) read(ctx context.Context, device driver.Device) error {
	g, ok := device.(dl.Globals)
	if !ok {
		return fmt.Errorf("%w: device %s does not show variables of its kernels", driver.ErrUnavailable, device.Info().Name)
	}
	return g.ReadGlobal(ctx, image, symbol, r[:])
}

func (r *ring) count() uint32 { return binary.LittleEndian.Uint32(r[ringSize*recordBytes:]) }

// last returns the newest n records, at most ringSize, the oldest first.
func (r *ring) last(n int) []record {
	records := make([]record, n)
	for i := range records {
		at := (r.count() - uint32(n) + uint32(i)) % ringSize
		b := r[at*recordBytes:][:recordBytes]
		records[i] = record{
			start:       binary.LittleEndian.Uint64(b),
			end:         binary.LittleEndian.Uint64(b[8:]),
			nanoseconds: binary.LittleEndian.Uint64(b[16:]),
			unit:        binary.LittleEndian.Uint32(b[24:]),
			group:       binary.LittleEndian.Uint32(b[28:]),
		}
	}
	return records
}
