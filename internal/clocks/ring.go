package clocks

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/dl"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/planner"
)

// The variable bg_clocks of native/kernels.cu, little-endian: a ring of records of recordBytes, followed by
// the number of all records ever written, in 32 bits.
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

// clocks are those of each image.
type clocks map[string]*ring

// readClocks reads the clocks of the images with the kernels of a plan.
func readClocks(ctx context.Context, device driver.Device, plan *planner.Plan) (clocks, error) {
	g, ok := device.(dl.Globals)
	if !ok {
		return nil, fmt.Errorf("%w: device %s does not show variables of its kernels",
			hardware.ErrUnavailable,
			device.Info().Name)
	}
	all := clocks{}
	for i := range plan.Launches {
		image := arch.Product(plan.Launches[i].Kernel)
		if all[image] != nil {
			continue
		}
		all[image] = new(ring)
		if err := g.ReadGlobal(ctx, image, symbol, all[image][:]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// since returns the records of that many runs of a plan that ended meanwhile, run by run and launch by
// launch.
func (c clocks) since(before clocks, plan *planner.Plan, times int) (records []record, err error) {
	each := map[string]int{} // groups of a run
	for i := range plan.Launches {
		l := &plan.Launches[i]
		each[arch.Product(l.Kernel)] += groupsOfLaunch(l)
	}
	left := map[string][]record{}
	for image, r := range c {
		if got := int(r.count() - before[image].count()); got != times*each[image] {
			return nil, fmt.Errorf("clocks: %d thread groups of %s ended, there were %d", got, image,
				times*each[image])
		}
		left[image] = r.last(times * each[image])
	}
	for range times {
		for i := range plan.Launches {
			l := &plan.Launches[i]
			image, n := arch.Product(l.Kernel), groupsOfLaunch(l)
			records = append(records, left[image][:n]...)
			left[image] = left[image][n:]
		}
	}
	return records, nil
}

func (r *ring) count() uint32 { return binary.LittleEndian.Uint32(r[ringSize*recordBytes:]) }

// last returns the newest n records, at most ringSize, oldest first.
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
