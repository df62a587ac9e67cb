package timeline

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/workload"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/devices"
)

func plan(t *testing.T, device, name string, o planner.Options) *planner.Plan {
	t.Helper()
	d, err := devices.Lookup(device)
	require.NoError(t, err)
	w, err := workload.Load(name, nil)
	require.NoError(t, err)
	p, err := planner.New(d).Plan(t.Context(), w.Batch, o)
	require.NoError(t, err)
	return p
}

// cases cover one and many launches, partial tiles, fix-ups, few and many lanes.
var cases = []struct {
	name, device, workload string
	options                planner.Options
}{
	{"one launch", "mi210", "inception-1", planner.Options{Tile: "medium"}},
	{"many tiles", "h200", "zhang-512-1024-256", planner.Options{}},
	{"five tile shapes", "mi210", "zhang-256-256-64", planner.Options{Rule: planner.RuleZhang2025}},
	{"stream-k", "a100", "inception-9", planner.Options{Schedule: planner.ScheduleStreamK, Tile: "large"}},
	{"split-k", "h200", "zhang-128-1024-8", planner.Options{Schedule: planner.ScheduleSplitK}},
	{"split-k with a launch of fix-ups", "mi210", "zhang-128-1024-8",
		planner.Options{Schedule: planner.ScheduleSplitK,
			Epilogue: planner.Epilogue{Activation: planner.ReLU}}},
	{"batched", "mi210", "random:mn=20,k=20,batch=3000", planner.Options{Schedule: planner.ScheduleBatched}},
	{"dynamic", "h200", "zhang-256-256-64", planner.Options{Schedule: planner.ScheduleDynamic}},
	{"two units", "lavapipe", "zhang-256-256-64", planner.Options{}},
	{"custom", "mi210", "inception-1", planner.Options{Tile: "small", Custom: halves}},
}

// halves splits every tile in two, and gives a worker the second half of one tile and the first half of the
// next.
var halves = &planner.CustomSchedule{Name: "halves < & >", Deal: func(w planner.Work) [][]planner.Part {
	workers := make([][]planner.Part, len(w.Tiles))
	for i, t := range w.Tiles {
		half, next := t.Steps/2, (i+1)%len(w.Tiles)
		workers[i] = append(workers[i], planner.Part{Tile: t.Index, From: half, To: t.Steps})
		if half > 0 {
			workers[next] = append(workers[next], planner.Part{Tile: t.Index, To: half})
		}
	}
	return workers
}}

// fixups returns the number of fix-ups that are workers of a launch.
func fixups(p *planner.Plan) (n int) {
	for i := range p.Launches {
		if l := &p.Launches[i]; l.Fixup {
			n += l.Count
		}
	}
	return n
}

func TestTimeline(t *testing.T) {
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			p := plan(t, tc.device, tc.workload, tc.options)
			tl := New(p)
			require.Len(t, tl.Bars, len(p.Segments)+fixups(p))
			require.LessOrEqual(t, len(tl.Lanes), tl.Places)
			const slack = 1e-6
			ends := make([]float64, len(p.Launches)) // of each launch
			for i, b := range tl.Bars {
				require.GreaterOrEqual(t, b.Start, 0.0)
				require.Less(t, b.Start, b.End)
				require.LessOrEqual(t, b.End, tl.Total+slack)
				if i > 0 && tl.Bars[i-1].Lane == b.Lane {
					require.GreaterOrEqual(t, b.Start+slack, tl.Bars[i-1].End, "bars of a lane overlap")
				}
				ends[b.Launch] = max(ends[b.Launch], b.End)
			}
			start := 0.0
			for i, l := range p.Launches {
				start += l.Cost
				require.InDelta(t, start, ends[i], slack, "a launch takes its predicted cost")
			}
			require.InDelta(t, start, tl.Total, slack)
		})
	}
}

// TestOrder: three tiles of unequal length on two places, with a worker each, or as dynamic tiles of two
// workers.
func TestOrder(t *testing.T) {
	batch, err := planner.Pack(planner.GEMM(16, 16, 64), planner.GEMM(16, 16, 32), planner.GEMM(16, 16, 16))
	require.NoError(t, err)
	d, err := devices.Lookup("lavapipe") // two units, one place each
	require.NoError(t, err)
	for schedule, last := range map[planner.Schedule]int{planner.ScheduleDataParallel: 2,
		planner.ScheduleDynamic: 1} {
		p, err := planner.New(d).Plan(t.Context(), batch, planner.Options{Tile: "small", Schedule: schedule})
		require.NoError(t, err)
		tl := New(p)
		require.Equal(t, []Lane{{0, 0}, {1, 0}}, tl.Lanes)
		// One step more for each: 5 on unit 0; 3, then 2 on unit 1.
		require.Len(t, tl.Bars, 3)
		for i, want := range []struct {
			lane, problem, worker int
			start, end            float64
		}{{0, 0, 0, 0, 5}, {1, 1, 1, 0, 3}, {1, 2, last, 3, 5}} {
			b := tl.Bars[i]
			require.Equal(t, want.lane, b.Lane)
			require.Equal(t, want.problem, b.Problem)
			require.Equal(t, want.worker, b.Worker, schedule)
			require.InDelta(t, want.start/5*tl.Total, b.Start, 1e-9)
			require.InDelta(t, want.end/5*tl.Total, b.End, 1e-9)
		}
	}
}

// elements parses a drawing and counts its elements.
func elements(t *testing.T, raw []byte) map[string]int {
	t.Helper()
	count := map[string]int{}
	d := xml.NewDecoder(bytes.NewReader(raw))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return count
		}
		require.NoError(t, err)
		if e, ok := token.(xml.StartElement); ok {
			count[e.Name.Local]++
		}
	}
}

func TestWriteSVG(t *testing.T) {
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			var first, second bytes.Buffer
			p := plan(t, tc.device, tc.workload, tc.options)
			require.NoError(t, New(p).WriteSVG(&first, "a < b & c"))
			require.NoError(t, New(p).WriteSVG(&second, "a < b & c"))
			require.Equal(t, first.String(), second.String(), "deterministic")
			require.Less(t, first.Len(), 2<<20, "size")
			text := first.String()
			require.Contains(t, text, "a &lt; b &amp; c")
			require.Contains(t, text, "s, predicted")
			require.Equal(t, tc.device != "h200", strings.Contains(text, "predicted (a guess)"))

			count := elements(t, first.Bytes())
			require.Equal(t, 1, count["svg"])
			require.LessOrEqual(t, count["title"], len(p.Segments)+fixups(p))
			require.Positive(t, count["title"])
			require.Equal(t, fixups(p) > 0, strings.Contains(text, "fix-up: adds the partial tiles"))
		})
	}
}

// TestWriteSVGCustom: the drawing names a custom schedule, and shows its partials where they were dealt.
func TestWriteSVGCustom(t *testing.T) {
	p := plan(t, "mi210", "inception-1", planner.Options{Tile: "small", Custom: halves})
	tl := New(p)
	partial := 0
	for _, b := range tl.Bars {
		if b.Partial {
			partial++
		}
	}
	require.Equal(t, 2*len(p.Fixups), partial)
	require.Positive(t, partial)
	var b bytes.Buffer
	require.NoError(t, tl.WriteSVG(&b, "inception-1"))
	require.Contains(t, b.String(), "halves &lt; &amp; &gt;")
	require.Contains(t, b.String(), ": K 96 to 192, partial")
}

func TestWriteSVGNotes(t *testing.T) {
	draw := func(device, name string, o planner.Options) string {
		var b bytes.Buffer
		require.NoError(t, New(plan(t, device, name, o)).WriteSVG(&b, name))
		return b.String()
	}
	large := planner.Options{Tile: "large", Schedule: planner.ScheduleDataParallel}
	require.Contains(t, draw("h200", "zhang-512-1024-256", large), " of them are drawn")
	require.NotContains(t, draw("lavapipe", "inception-1", large), " of them are drawn")
	require.Contains(t, draw("lavapipe", "zhang-512-1024-256", planner.Options{Tile: "small"}),
		" bars narrower than a pixel are left out")
	require.Contains(t, draw("mi210", "inception-1", large), "problem 3: 784x16x192, tile large 64x64x16/256")
	require.Contains(t, draw("mi210", "zhang-128-128-16", large), ">tile large 64x64x16/256<")
}

func TestWriteSVGNothingToDo(t *testing.T) {
	d, err := devices.Lookup("mi210")
	require.NoError(t, err)
	for _, problems := range [][]planner.Problem{nil, {planner.GEMM(0, 5, 5)}} {
		batch, err := planner.Pack(problems...)
		require.NoError(t, err)
		p, err := planner.New(d).Plan(t.Context(), batch, planner.Options{})
		require.NoError(t, err)
		var b bytes.Buffer
		require.NoError(t, New(p).WriteSVG(&b, "nothing"))
		require.Equal(t, 1, elements(t, b.Bytes())["svg"])
	}
}

func TestSample(t *testing.T) {
	var lanes []Lane
	for unit := range 50 {
		for place := range 4 {
			lanes = append(lanes, Lane{unit, place})
		}
	}
	picked := (&Timeline{Lanes: lanes}).Sample(maxLanes)
	require.Len(t, picked, maxLanes)
	require.Equal(t, []int{0, 1, 2, 3, 8}, picked[:5], "units 0, 2, ...")
	require.Len(t, (&Timeline{Lanes: lanes[:maxLanes]}).Sample(maxLanes), maxLanes)
	require.Empty(t, (&Timeline{}).Sample(maxLanes))
}

func TestTick(t *testing.T) {
	for total, want := range map[float64]float64{0: 0, 1: 0.1, 12: 1, 13: 2, 50: 5, 257: 50, 1300: 200} {
		require.InDelta(t, want, tick(total), want*1e-9, "%v", total)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWriteSVGFails(t *testing.T) {
	p := plan(t, "mi210", "inception-1", planner.Options{})
	require.EqualError(t, New(p).WriteSVG(fullDisk{}, "x"), "disk full")
}
