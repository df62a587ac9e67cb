package clocks

import "errors"

// clock combines the clocks of all multiprocessors.
type clock struct {
	rate  float64 // cycles per nanosecond
	units map[uint32]*unitClock
}

// unitClock relates the cycles of a multiprocessor to the shared clock.
type unitClock struct {
	cycles uint64  // of its first record; others are counted from it
	origin float64 // nanoseconds of the shared clock at that record
}

// micros converts cycles to a time of the shared clock, from some moment on.
func (c *clock) micros(r *record, cycles uint64) float64 {
	u := c.units[r.unit]
	return (u.origin + float64(int64(cycles-u.cycles))/c.rate) / 1e3
}

// compare computes the clock from records of many moments, in the order in which they were written. The
// shared clock may stand still for a microsecond: it lags behind the true time by 0 to a tick, half a tick
// on average, which is the same for all units. The mean of n moments has an error of about tick / sqrt(12
// n), 18 ns for 257 moments and a microsecond. If the clock rate changes meanwhile, the mean still holds in
// the middle of the records.
func compare(records []record) (*clock, error) {
	type moments struct {
		last               *record
		n, cycles, elapsed float64 // sums, from the first record of the unit and of all
	}
	c := &clock{units: map[uint32]*unitClock{}}
	seen := map[uint32]*moments{}
	start := records[0].nanoseconds
	since := func(r *record) float64 { return float64(int64(r.nanoseconds - start)) }
	var cycles, elapsed float64 // of all units, from their first record to their last
	for i := range records {
		r := &records[i]
		m := seen[r.unit]
		if m == nil {
			m = &moments{last: r}
			seen[r.unit], c.units[r.unit] = m, &unitClock{cycles: r.end}
		}
		cycles += float64(int64(r.end - m.last.end))
		elapsed += since(r) - since(m.last)
		m.last = r
		m.n++
		m.cycles += float64(int64(r.end - c.units[r.unit].cycles))
		m.elapsed += since(r)
	}
	if cycles <= 0 || elapsed <= 0 {
		return nil, errors.New("clocks: the runs were too short to compare the clocks of the GPU")
	}
	c.rate = cycles / elapsed
	for unit, m := range seen {
		c.units[unit].origin = (m.elapsed - m.cycles/c.rate) / m.n
	}
	return c, nil
}
