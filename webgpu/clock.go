//go:build cgo && !nowebgpu && ((linux && amd64) || darwin || (windows && amd64))

package webgpu

import (
	"encoding/binary"

	"github.com/rajveermalviya/go-webgpu/wgpu"
)

// clock holds the two timestamps of Time.
type clock struct {
	queries  *wgpu.QuerySet
	resolved memory
	staging  *staging
}

const timestampBytes = 2 * wgpu.QuerySize

func (d *device) takeClock() (*clock, error) {
	if d.clock != nil {
		return d.clock, nil
	}
	c := new(clock)
	var err error
	c.queries, err = d.handle.CreateQuerySet(&wgpu.QuerySetDescriptor{Type: wgpu.QueryType_Timestamp, Count: 2})
	err = d.check("timestamps", err)
	if err == nil {
		c.resolved, err = d.newBuffer("timestamps", timestampBytes, wgpu.BufferUsage_QueryResolve|wgpu.BufferUsage_CopySrc)
	}
	if err == nil {
		c.staging, err = d.newStaging(timestampBytes)
	}
	if err != nil {
		c.free()
		return nil, err
	}
	d.clock = c
	return c, nil
}

func (c *clock) move() move {
	return move{source: c.resolved, destination: c.staging.memory, size: timestampBytes, read: true, clock: c}
}

func (c *clock) free() {
	if c == nil {
		return
	}
	if c.queries != nil {
		c.queries.Release()
	}
	c.resolved.release()
	if c.staging != nil {
		c.staging.release()
	}
}

// ticks returns the difference of the timestamps of the last Time, 0 when there
// are none that make sense.
func (d *device) ticks() (uint64, error) {
	if err := d.lock(); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	if d.clock == nil {
		return 0, nil
	}
	var data [timestampBytes]byte
	err := d.readMapped(d.clock.staging, 0, data[:])
	first, last := binary.NativeEndian.Uint64(data[:]), binary.NativeEndian.Uint64(data[8:])
	if err != nil || last <= first {
		return 0, err
	}
	return last - first, nil
}
