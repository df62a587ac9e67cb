package planner

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Explanation describes a plan in words and numbers, for people and for JSON.
type Explanation struct {
	Device string       `json:"device"`
	Type   element.Type `json:"type,omitempty"`   // of A and B, if it is not float32
	TypeB  element.Type `json:"type_b,omitempty"` // of B, if it differs from that of A
	TypeC  element.Type `json:"type_c,omitempty"` // of C, if it differs from that of A
	// Compute is the arithmetic of the tiles: f32 unless a tile uses tensor cores.
	Compute   Compute `json:"compute"`
	Rule      Rule    `json:"rule"`
	Schedule  string  `json:"schedule"` // of the launches, each name once
	GFLOP     float64 `json:"gflop"`
	Micros    float64 `json:"predicted_micros"`
	Guess     bool    `json:"predicted_is_guess"` // see Device.Measured
	TLP       float64 `json:"tlp"`                // Zhang et al. 2025, Eq 4, threads
	TLPGroups float64 `json:"tlp_eq3"`            // Eq 3, threads
	// Occupancy is the predicted number of active waves over the device's maximum, weighted by tiles.
	Occupancy float64 `json:"occupancy"`
	Workers   int     `json:"workers"`
	Segments  int     `json:"segments"`
	Workspace int     `json:"workspace_bytes"`
	PlanBytes int     `json:"plan_bytes"`

	Tiles []struct { // shapes that the plan uses
		Name      string  `json:"name"`
		Shape     string  `json:"shape"` // TM x TN x TK / threads
		Problems  int     `json:"problems"`
		Tiles     int     `json:"tiles"`
		Groups    int     `json:"groups_per_unit"` // resident workgroups of a compute unit
		Occupancy float64 `json:"occupancy"`
		Limiter   string  `json:"limiter"`
	} `json:"tiles"`
	Launches []struct {
		Kernel  string  `json:"kernel"`
		Workers int     `json:"workers"`
		Micros  float64 `json:"predicted_micros"`
	} `json:"launches"`
	Problems []struct { // what the plan does with each
		Index    int     `json:"index"`
		M        int     `json:"m"`
		N        int     `json:"n"`
		K        int     `json:"k"`
		Trans    string  `json:"trans"` // nn, tn, nt, tt
		Tile     string  `json:"tile"`
		Tiles    int     `json:"tiles"`
		Waves    int     `json:"waves"`
		Segments int     `json:"segments"`
		MinK     int     `json:"min_k"` // shortest and longest K range of a segment
		MaxK     int     `json:"max_k"`
		Padding  float64 `json:"padding"` // share of the tiles' area outside of C
	} `json:"problems"`
}

// Explain describes the plan.
func (p *Plan) Explain() Explanation {
	d := p.Device
	if d == nil { // the empty plan, made for no device
		d = new(Device)
	}
	e := Explanation{
		Device: d.Name, Type: p.Options.TypeA, TypeC: p.Options.TypeC, Compute: p.arithmetic(),
		Rule: p.Options.Rule, Schedule: p.scheduleNames(),
		GFLOP: p.Batch.FLOPs() * float64(p.Options.Epilogue.kernel().Products()) / 1e9, Micros: p.Cost,
		Guess: !d.Measured(),
		TLP:   p.TLP, TLPGroups: p.TLPGroups,
		Workers: max(len(p.Workers)-1, 0), Segments: len(p.Segments),
		Workspace: 4 * p.Workspace, PlanBytes: 4 * p.Words,
	}
	e.Launches = listLike(e.Launches, len(p.Launches))
	for i := range p.Launches {
		l, u := &p.Launches[i], &e.Launches[i]
		u.Kernel, u.Workers, u.Micros = l.Kernel.String(), l.Count, l.Cost
	}
	p.explainProblems(&e)
	p.explainTiles(&e, d)
	if of := p.Options.TypeB; of != e.Type {
		e.TypeB = of
	}
	return e
}

// listLike returns a list of n elements of the type of another list.
func listLike[T any](_ []T, n int) []T { return make([]T, n) }

// explainTiles needs the problems.
func (p *Plan) explainTiles(e *Explanation, d *Device) {
	e.Tiles = listLike(e.Tiles, len(d.Kernels))[:0]
	var total int
	for i := range d.Kernels {
		k := &d.Kernels[i]
		problems, tiles := 0, 0
		for i, q := range e.Problems {
			if p.Tiles[i] == k.Tile && q.Tiles > 0 {
				problems++
				tiles += q.Tiles
			}
		}
		if problems == 0 {
			continue
		}
		o, n := d.Resident(k.Tile.Threads, k.Resources), len(e.Tiles)
		e.Tiles = e.Tiles[:n+1]
		u := &e.Tiles[n]
		u.Name, u.Shape, u.Problems, u.Tiles = k.Tile.Name, k.Tile.Size(), problems, tiles
		u.Groups, u.Occupancy, u.Limiter = o.Groups, o.Active, o.Limiter
		e.Occupancy += o.Active * float64(tiles)
		total += tiles
	}
	if total > 0 {
		e.Occupancy /= float64(total)
	}
}

// arithmetic returns the least exact arithmetic that a launch uses.
func (p *Plan) arithmetic() Compute {
	for i := range p.Launches {
		if t := p.Launches[i].Tile; t != nil && t.Unit.Tensor() {
			return p.Options.Compute
		}
	}
	return ComputeF32
}

// scheduleNames lists the schedules of the launches.
func (p *Plan) scheduleNames() string {
	var names []string
	for _, l := range p.Launches {
		if !slices.Contains(names, l.Schedule) {
			names = append(names, l.Schedule)
		}
	}
	return strings.Join(names, ", ")
}

func (p *Plan) explainProblems(e *Explanation) {
	e.Problems = listLike(e.Problems, len(p.Batch))
	for i := range p.Batch {
		q, t, u := &p.Batch[i], p.Tiles[i], &e.Problems[i]
		u.Index, u.M, u.N, u.K, u.Trans, u.Tile = i, q.M, q.N, q.K, encoding.Trans(q.TransA, q.TransB), t.Name
		if p.Options.Epilogue.Writes(q) {
			rows, cols := grid(t, q)
			u.Tiles = rows * cols
			u.Waves = u.Tiles * ceilDiv(t.Threads, max(p.Device.WaveSize, 1))
			u.Padding = 1 - float64(q.M)*float64(q.N)/float64(rows*t.TM*cols*t.TN)
		}
	}
	for _, s := range p.Segments {
		u, depth := &e.Problems[s.Problem], int(s.K1-s.K0)
		if u.Segments == 0 {
			u.MinK = depth
		}
		u.Segments++
		u.MinK, u.MaxK = min(u.MinK, depth), max(u.MaxK, depth)
	}
}

// WriteText writes the plan's explanation as text.
func (p *Plan) WriteText(w io.Writer) error {
	e := p.Explain()
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "device\t%s\n", e.Device)
	fmt.Fprintf(tw, "rule; schedule\t%s; %s\n", e.Rule, e.Schedule)
	fmt.Fprintf(tw, "compute\t%s\n", e.Compute)
	if e.Type != element.F32 {
		fmt.Fprintf(tw, "elements\t%s\n", elemtype.Show(e.Type, e.TypeB, e.TypeC))
	}
	fmt.Fprintf(tw, "work\t%d problems, %.4g GFLOP\n", len(e.Problems), e.GFLOP)
	guess := ""
	if e.Guess {
		guess = " (a guess, as no rates were measured)"
	}
	fmt.Fprintf(tw, "predicted\t%.1f us%s, occupancy %.0f %%, TLP %.0f threads (Eq 3: %.0f)\n", e.Micros,
		guess, 100*e.Occupancy, e.TLP, e.TLPGroups)
	fmt.Fprintf(tw, "workers\t%d with %d segments, workspace %d bytes, plan %d bytes\n", e.Workers,
		e.Segments, e.Workspace, e.PlanBytes)
	fmt.Fprintln(tw, "\ntile\tshape\tproblems\ttiles\tgroups/unit\toccupancy\tlimited by")
	for _, t := range e.Tiles {
		fmt.Fprintf(tw, "%s\t%s\t%d\t%d\t%d\t%.0f %%\t%s\n", t.Name, t.Shape, t.Problems, t.Tiles, t.Groups,
			100*t.Occupancy, t.Limiter)
	}
	fmt.Fprintln(tw, "\nlaunch\tkernel\tworkers\tpredicted")
	for i, l := range e.Launches {
		fmt.Fprintf(tw, "%d\t%s\t%d\t%.1f us\n", i, l.Kernel, l.Workers, l.Micros)
	}
	fmt.Fprintln(tw, "\nproblem\tM\tN\tK\ttrans\ttile\ttiles\twaves\tsegments\tK of a segment\tpadding")
	for _, q := range e.Problems {
		k := fmt.Sprint(q.MaxK)
		if q.MinK != q.MaxK {
			k = fmt.Sprintf("%d-%d", q.MinK, q.MaxK)
		}
		fmt.Fprintf(tw, "%d\t%d\t%d\t%d\t%s\t%s\t%d\t%d\t%d\t%s\t%.0f %%\n", q.Index, q.M, q.N, q.K, q.Trans,
			q.Tile, q.Tiles, q.Waves, q.Segments, k, 100*q.Padding)
	}
	return tw.Flush()
}
