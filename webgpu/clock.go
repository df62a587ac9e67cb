//go:build !nowebgpu && (js || (cgo && ((linux && amd64) || darwin || (windows && amd64))))

package webgpu

import "encoding/binary"

// clock holds the two timestamps of Time.
type clock struct {
	queries  queries
	resolved memory
	staging  *staging
}

const timestampBytes = 2 * 8

func (d *device) takeClock() (*clock, error) {
	if d.clock != nil {
		d.clock.staging.unmap() // of the last Time
		return d.clock, nil
	}
	c := new(clock)
	var err error
	c.queries, err = d.makeQueries()
	if err == nil {
		c.resolved, err = d.newBuffer("timestamps", timestampBytes, usageResolve)
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
	c.queries.release()
	c.resolved.release()
	if c.staging != nil {
		c.staging.release()
	}
}

// ticks returns the difference of the timestamps of the last Time. It is 0 if there are none, or none that
// make sense: browsers round them to 0.1 ms.
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
