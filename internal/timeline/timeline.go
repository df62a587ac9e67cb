// Package timeline predicts when the parts of a plan run, and draws it.
package timeline

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner"
)

// Bar is what one worker does in a period of time.
type Bar struct {
	Lane       int     // index into Timeline.Lanes
	Start, End float64 // microseconds
	Launch     int
	Worker     int // of the plan, or index of the fix-up
	Problem    int
	Row, Col   int  // tile coordinates
	K0, K1     int  // K range; for a fix-up 0 and the number of partials
	Partial    bool // stores a partial
	Fixup      bool
}

// Lane is a place for one workgroup on a compute unit.
type Lane struct{ Unit, Place int }

// Timeline is the predicted run of a plan.
type Timeline struct {
	Plan   *planner.Plan
	Lanes  []Lane // those with work, by unit
	Places int    // of the device, for the launch with the most
	Bars   []Bar  // by lane, then by time
	Total  float64
}

// New predicts which workgroup runs where and when. Launches follow each other and take their predicted
// cost. Within a launch, workers start in order at the first free place, like on hardware, and time is
// divided by K steps. Every segment counts one more step for its first load and its store, and fewer if the
// kernel skips what lies beyond the edge.
func New(p *planner.Plan) *Timeline {
	t := &Timeline{Plan: p}
	for i := range p.Launches {
		t.addLaunch(i)
		t.Total += p.Launches[i].Cost
	}
	t.nameLanes()
	return t
}

// units returns the number of compute units to draw.
func units(d *planner.Device) int { return max(d.ComputeUnits, 1) }

// addLaunch appends the bars of one launch. Until nameLanes, Lane is the number of the place in the order in
// which hardware fills the device: units first.
func (t *Timeline) addLaunch(index int) {
	p, l := t.Plan, &t.Plan.Launches[index]
	groups := max(p.Device.Resident(l.Tile.Threads, p.Device.Kernel(l.Tile).Resources).Groups, 1)
	places := newPlaces(min(groups*units(p.Device), l.Count))
	t.Places = max(t.Places, groups*units(p.Device))

	first, end := len(t.Bars), 0.0
	for i := range shares(p, l) {
		at := &places[0] // the first free one
		w := l.First + i
		if l.Dynamic { // workers stay there
			w = l.First + at.lane
		}
		for _, b := range work(p, l, i) {
			b.Lane, b.Launch, b.Worker = at.lane, index, w
			b.Start, b.End = at.free, at.free+b.End
			at.free = b.End
			t.Bars = append(t.Bars, b)
		}
		end = max(end, at.free)
		heap.Fix(&places, 0)
	}
	for i := first; i < len(t.Bars); i++ {
		b := &t.Bars[i]
		b.Start = t.Total + b.Start/end*l.Cost
		b.End = t.Total + b.End/end*l.Cost
	}
}

// shares returns how many shares of the work of a launch start one after the other. A share is that of a
// worker, or with dynamic tiles a chunk.
func shares(p *planner.Plan, l *encoding.Launch) int {
	if l.Dynamic {
		return (l.ItemCount(p.Workers)/l.Epilogue.Products() + l.Chunk - 1) / l.Chunk
	}
	return l.Count
}

// work lists the bars of a share; End is the length in K steps of whole tiles.
func work(p *planner.Plan, l *encoding.Launch, i int) []Bar {
	w := l.First + i
	if l.Fixup {
		f := &p.Fixups[w]
		return []Bar{{Problem: int(f.Problem), Row: int(f.Row), Col: int(f.Col), K1: int(f.Count),
			Fixup: true, End: float64(f.Count)}}
	}
	var segments []encoding.Segment
	if l.Dynamic {
		all := p.Segments[p.Workers[l.First]:p.Workers[l.First+l.Count]]
		segments = all[i*l.Chunk : min((i+1)*l.Chunk, len(all))]
	} else {
		segments = p.Segments[p.Workers[w]:p.Workers[w+1]]
	}
	bars := make([]Bar, len(segments))
	for i, s := range segments {
		steps, q := (int(s.K1-s.K0)+l.Tile.TK-1)/l.Tile.TK, &p.Batch[s.Problem]
		bars[i] = Bar{
			Problem: int(s.Problem), Row: int(s.Row), Col: int(s.Col), K0: int(s.K0), K1: int(s.K1),
			Partial: s.Slot != encoding.NoSlot, End: float64(steps+1) *
				l.Tile.Fraction(q.M-int(s.Row)*l.Tile.TM, q.N-int(s.Col)*l.Tile.TN),
		}
	}
	return bars
}

// nameLanes keeps the places with work and sorts them by unit.
func (t *Timeline) nameLanes() {
	n := units(t.Plan.Device)
	used := map[Lane]int{}
	for i := range t.Bars {
		used[Lane{t.Bars[i].Lane % n, t.Bars[i].Lane / n}] = 0
	}
	for lane := range used {
		t.Lanes = append(t.Lanes, lane)
	}
	slices.SortFunc(t.Lanes, func(a, b Lane) int {
		return cmp.Or(cmp.Compare(a.Unit, b.Unit), cmp.Compare(a.Place, b.Place))
	})
	for i, lane := range t.Lanes {
		used[lane] = i
	}
	for i := range t.Bars {
		b := &t.Bars[i]
		b.Lane = used[Lane{b.Lane % n, b.Lane / n}]
	}
	slices.SortStableFunc(t.Bars, func(a, b Bar) int {
		return cmp.Or(cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.Start, b.Start))
	})
}

// place is where one workgroup runs at a time; free is when the last one ends.
type place struct {
	lane int
	free float64
}

// places is a heap: the place that is free first, by number if several are.
type places []place

func newPlaces(n int) places {
	p := make(places, n)
	for i := range p {
		p[i].lane = i
	}
	return p
}

func (p places) Len() int { return len(p) }
func (p places) Less(i, j int) bool {
	return p[i].free < p[j].free || p[i].free == p[j].free && p[i].lane < p[j].lane
}
func (p places) Swap(i, j int) { p[i], p[j] = p[j], p[i] }
func (p *places) Push(any)     { panic("places do not grow") }
func (p *places) Pop() any     { panic("places do not shrink") }
