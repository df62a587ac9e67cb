package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/internal/timeline"
	"github.com/batchgemm/batchgemm/internal/workload"
	"github.com/batchgemm/batchgemm/planner"
)

// maxLanes is how many lanes of a timeline are drawn.
const maxLanes = 64

// session is the state of the page.
type session struct {
	device *dispatch.Device
	job    job                              // what was planned last, on the device
	state  func(format string, args ...any) // tells the page what is happening
}

// batch is a batch with its matrices and its plan.
type batch struct {
	*session
	*workload.Operands
	plan *planner.Plan
}

// deviceView is a device for the page.
type deviceView struct {
	Backend  string `json:"backend"`
	Name     string `json:"name"`
	Software bool   `json:"software"` // a CPU that emulates a GPU
	Reason   string `json:"reason"`   // why it cannot be used
}

func devices(ctx context.Context) ([]deviceView, error) {
	all, err := dispatch.Devices(ctx)
	if err != nil {
		return nil, err
	}
	var views []deviceView
	for _, l := range all {
		switch {
		case l.Backend != "webgpu" && l.Backend != "cpu": // pages have no others
		case l.Err != nil:
			views = append(views, deviceView{Backend: l.Backend, Reason: l.Err.Error()})
		default:
			info := l.Devices[0]
			views = append(views, deviceView{Backend: l.Backend, Name: info.Name,
				Software: info.Kind == dispatch.KindSoftware})
		}
	}
	return views, nil
}

// planView is a plan for the page.
type planView struct {
	Micros   float64             `json:"micros"` // time of planning
	Explain  planner.Explanation `json:"explain"`
	Problems []problemView       `json:"problems"`
	Timeline timelineView        `json:"timeline"`
}

type problemView struct {
	M    int    `json:"m"`
	N    int    `json:"n"`
	K    int    `json:"k"`
	Tile string `json:"tile"`
	TM   int    `json:"tm"`
	TN   int    `json:"tn"`
}

type timelineView struct {
	Total float64   `json:"total"` // microseconds
	Lanes int       `json:"lanes"` // Rows of them are drawn
	Rows  int       `json:"rows"`
	Bars  []barView `json:"bars"`
}

// barView has short names, because there may be many bars.
type barView struct {
	Row     int     `json:"r"`
	Start   float64 `json:"s"` // microseconds
	End     float64 `json:"e"`
	Problem int     `json:"p"`
	Kind    string  `json:"k,omitempty"` // partial or fixup
}

// planned loads a batch, opens the device and plans.
func (s *session) planned(ctx context.Context, r *request) (*planView, error) {
	s.job = nil
	load, err := loaded(r)
	if err != nil {
		return nil, err
	}
	if err := s.open(ctx, r.Backend); err != nil {
		return nil, err
	}
	start := time.Now()
	plan, err := s.device.Plan(ctx, load.Batch, planner.Options{})
	if err != nil {
		return nil, err
	}
	took := time.Since(start)
	s.job = &batch{s, load.Operands, plan}
	v := &planView{Micros: float64(took.Nanoseconds()) / 1e3, Explain: plan.Explain(),
		Timeline: viewTimeline(plan)}
	v.Explain.Problems = nil // below, shorter
	for i := range plan.Batch {
		p, t := &plan.Batch[i], plan.Tiles[i]
		v.Problems = append(v.Problems, problemView{p.M, p.N, p.K, t.Name, t.TM, t.TN})
	}
	return v, nil
}

// loaded reads a batch, and makes matrices if it has none.
func loaded(r *request) (load *workload.Workload, err error) {
	if r.content != nil {
		load, err = workload.Read(r.Workload, r.content)
	} else {
		load, err = workload.Load(r.Workload, nil)
	}
	if err != nil || load.Operands != nil {
		return load, err
	}
	if load.Operands, err = workload.NewOperands(load.Batch, 0); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(1, 0))
	for _, numbers := range [][]float32{load.Operands.A, load.Operands.B, load.Operands.C} {
		reference.Uniform(rng, numbers)
	}
	return load, nil
}

// open makes a device of a backend the session's, unless it is. It opens a lost device again.
func (s *session) open(ctx context.Context, backend string) error {
	if s.device != nil {
		if s.device.Info().Backend == backend && s.device.Wait(ctx) == nil {
			return nil
		}
		_ = s.device.Close() // nothing of it is needed any more
		s.device = nil
	}
	if backend != "webgpu" && backend != "cpu" {
		return errors.New("no such device: " + backend)
	}
	device, err := dispatch.Open(ctx, dispatch.WithBackend(backend))
	s.device = device
	return err
}

func viewTimeline(plan *planner.Plan) timelineView {
	t := timeline.New(plan)
	drawn := t.Sample(maxLanes)
	v := timelineView{Total: t.Total, Lanes: len(t.Lanes), Rows: len(drawn), Bars: []barView{}}
	rows := make(map[int]int, len(drawn))
	for row, lane := range drawn {
		rows[lane] = row
	}
	for i := range t.Bars {
		b := &t.Bars[i]
		row, is := rows[b.Lane]
		if !is {
			continue
		}
		kind := ""
		switch {
		case b.Fixup:
			kind = "fixup"
		case b.Partial:
			kind = "partial"
		}
		v.Bars = append(v.Bars, barView{row, b.Start, b.End, b.Problem, kind})
	}
	return v
}
