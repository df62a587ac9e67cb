package timeline

import (
	"cmp"
	"slices"

	"github.com/batchgemm/batchgemm/planner"
)

// Group is a thread group of a launch as it ran on a device.
type Group struct {
	Launch     int     // index into Plan.Launches
	Worker     int     // as in Bar
	Unit       int     // compute unit, by the device's numbers
	Start, End float64 // microseconds since the first group started
}

// Measured returns the timeline of a measured run of a plan. It has one bar for each group, without problem
// and tile. The places of a unit are numbered as they fill.
func Measured(p *planner.Plan, groups []Group) *Timeline {
	t := &Timeline{Plan: p}
	sorted := slices.SortedFunc(slices.Values(groups), func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.Unit, b.Unit), cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
	})
	var ends []float64 // of the unit's places, numbered from the lane first on
	first := 0
	for i, g := range sorted {
		if i > 0 && sorted[i-1].Unit != g.Unit {
			first, ends = len(t.Lanes), ends[:0]
		}
		place := slices.IndexFunc(ends, func(end float64) bool { return end <= g.Start })
		if place < 0 {
			place = len(ends)
			ends = append(ends, 0)
			t.Lanes = append(t.Lanes, Lane{g.Unit, place})
		}
		ends[place] = g.End
		t.Bars = append(t.Bars, Bar{Lane: first + place, Start: g.Start, End: g.End,
			Launch: g.Launch, Worker: g.Worker, Fixup: p.Launches[g.Launch].Fixup})
		t.Total = max(t.Total, g.End)
	}
	slices.SortStableFunc(t.Bars, func(a, b Bar) int {
		return cmp.Or(cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.Start, b.Start))
	})
	t.Places = len(t.Lanes)
	return t
}
