package drivertest

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// quantizeCases are gates with scales: those of a router's choices, in turn with activations, layouts, types
// and scales, and plain quantisation of all rows.
func quantizeCases(types, narrow []element.Type) (cases []gateCase) {
	if len(narrow) == 0 {
		return nil
	}
	inners := []int{1, 37, 64, 300, 2048, 9001}
	activations := encoding.GateActivations
	for i, c := range layerCases {
		for j, inner := range inners {
			if c.Tokens*c.TopK*inner > 1<<16 {
				continue
			}
			at := i*len(inners) + j
			g := planner.Gate{Choices: c.Choices, Intermediate: inner, Activation: activations[at%7],
				Gated: at%7 == 6 || at/2%3 != 0, Interleaved: at/2%3 == 1, Alpha: alpha, Limit: limit,
				Type:  types[(i+j)%len(types)],
				Scale: planner.PerRow, TypeC: narrow[at%len(narrow)], Scales: c.words() + at%5}
			if g.TypeC == element.E4M3 && at/2%2 == 0 {
				g.Scale = planner.PerBlock
			}
			if at%3 == 0 { // plain
				g.Activation, g.Gated, g.Interleaved, g.All = "", false, false, true
			}
			cases = append(cases, gateCase{layerCase: c, gate: g})
		}
	}
	return cases
}

// narrowTypes are those that a gate may give.
func narrowTypes(facts *planner.Device) (types []element.Type) {
	for _, of := range facts.Types {
		if of.Bytes() == 1 {
			types = append(types, of)
		}
	}
	return types
}

// quantizeJob is a job whose C is followed by Sizes, which has the scales.
func (d *gateData) quantizeJob(facts *planner.Device) (j LayerJob, err error) {
	g := &d.gate
	if j.Plan, err = planner.New(facts).PlanStep(*g); err != nil {
		return j, err
	}
	if d.rows = d.choices(); !g.All {
		d.rows = int(math.Float32bits(d.words[d.Experts-1]))
	}
	d.spoil()
	n, inner, each := d.Tokens*d.TopK, g.Intermediate, g.Intermediate
	if g.Scale == planner.PerBlock {
		each = encoding.Block
	}
	blocks := (inner + each - 1) / each
	words := wordsOf(g.TypeC, n*inner) + 3
	j = LayerJob{Plan: j.Plan, Extent: d.extent, A: backend.ToWords(g.Type, d.pre), Sizes: words,
		Before: slices.Repeat([]float32{canary}, words+g.Scales+n*blocks+2)}
	copy(j.Before[words:], d.words)
	j.Want = slices.Clone(j.Before)
	q := region{"q", 0, g.TypeC, make([]*near, n*inner)}
	scales := region{"scale", words + g.Scales, element.F32, make([]*near, n*blocks)}
	for i := range d.rows * blocks {
		row, first := i/blocks, i%blocks*each
		h := make([]near, min(each, inner-first))
		for c := range h {
			h[c] = d.quantized(row, first+c)
		}
		scales.want[i] = quantize(q.want[row*inner+first:], h, g.TypeC)
	}
	j.regions = []region{q, scales}
	return j, nil
}

// spoil replaces NaN by numbers, but in some rows, of which some have an infinity in its place, and makes
// some rows 0 or subnormal.
func (d *gateData) spoil() {
	width := len(d.pre) / max(d.Tokens*d.TopK, 1)
	for i, x := range d.pre {
		row := i / max(width, 1)
		switch {
		case row >= d.rows:
			d.pre[i] = float32(math.NaN())
		case row%6 == 5:
			d.pre[i] = []float32{0, 0x1p-24, float32(math.Copysign(0, -1)), -0x1p-24}[i%4*(row/6%2)]
		case row%6 == 2 && x != x && row%4 == 0:
			d.pre[i] = float32(math.Inf(1 - row/4%2*2))
		case row%6 != 2 && x != x:
			d.pre[i] = 3
		}
	}
	d.pre = backend.FromWords(d.gate.Type, backend.ToWords(d.gate.Type, d.pre), len(d.pre))
}

// quantized is an element of h. Without sigmoids it is exact.
func (d *gateData) quantized(row, col int) near {
	h, _, _, gate, up := d.forward(row, col)
	switch v := d.pre[gate]; d.gate.Activation {
	case "", planner.ReLU, planner.ReLU2:
		if d.gate.Activation != "" {
			v = max(v, 0)
		}
		if d.gate.Activation == planner.ReLU2 {
			v *= v
		}
		if up >= 0 {
			v *= d.pre[up]
		}
		return exactly(v)
	}
	return h
}

// quantize finds what a row or block of numbers becomes by the rule of planner.Gate. It returns the scale.
func quantize(q []*near, h []near, to element.Type) *near {
	amax, bad := near{want: 0x1p-64}, false
	for _, x := range h {
		bad = bad || x.want-x.want != 0
		amax.bound = max(amax.bound, x.bound)
		amax.want = max(amax.want, math.Abs(x.want))
	}
	if bad {
		for i := range h {
			q[i] = &near{}
		}
		return &near{want: math.NaN()}
	}
	most := float64(encoding.QuantizedMost(to))
	scale := float64(float32(amax.want * float64(float32(1/most))))
	inverse := float64(float32(most / amax.want))
	off := amax.bound / amax.want // of both
	for i, x := range h {
		product := float32(x.want * inverse)
		n := near{want: float64(elemtype.Float(to, elemtype.Bits(to, product)))}
		if amax.bound > 0 { // a neighbour may be nearer to what is rounded
			n.want = float64(product)
			n.bound = (x.bound*inverse + math.Abs(n.want)*(off+4*halfUnit)) * (1 + 0x1p-3)
			if to == element.Int8 {
				n.bound += 0.5
			} else {
				n.bound += max(math.Abs(n.want)*0x1p-4, 0x1p-10)
			}
		}
		q[i] = &n
	}
	return &near{want: scale, bound: scale * (off + 2*halfUnit*min(1, off*1e30))}
}

// quantizeJobs are jobs of each case.
func quantizeJobs(t *testing.T, facts *planner.Device, types []element.Type) (jobs []LayerJob) {
	t.Helper()
	cases := quantizeCases(types, narrowTypes(facts))
	for i := range cases {
		j, err := cases[i].data().quantizeJob(facts)
		require.NoError(t, err)
		if len(j.Plan.Launches) > 0 {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// testQuantize compares results of 8 bits and their scales: bit by bit, except after sigmoids.
func (s *suite) testQuantize(t *testing.T) {
	facts := s.device.Info().Planner
	cases := quantizeCases(s.layerTypes(), narrowTypes(&facts))
	for i := range cases {
		c := &cases[i]
		t.Run(c.String(), func(t *testing.T) {
			on := s
			if c.extent > 0 {
				on = s.onStream(t)
			}
			j, err := c.data().quantizeJob(&facts)
			on.runLayer(t, on.prepareLayer(t, j.Plan, err), j)
		})
	}
}
