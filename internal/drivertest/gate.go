package drivertest

import (
	"fmt"
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

// near is a number in float64, and the most by which a result may be off.
type near struct{ want, bound float64 }

// region is a part of a result, from a word on: elements of a type, nil where they stay as they were.
type region struct {
	name string
	at   int
	of   element.Type
	want []*near
}

// check compares the elements, and sets them to what they were before.
func (r *region) check(got, before []float32) error {
	end := r.at + wordsOf(r.of, len(r.want))
	numbers := backend.FromWords(r.of, got[r.at:end], len(r.want))
	kept := backend.FromWords(r.of, before[r.at:end], len(r.want))
	for i, n := range r.want {
		x := float64(numbers[i])
		switch {
		case n == nil && math.Float32bits(numbers[i]) != math.Float32bits(kept[i]):
			return fmt.Errorf("%s %d is %g, but should be as before, %g", r.name, i, x, kept[i])
		case n == nil || math.IsNaN(n.want) && math.IsNaN(x):
		case !(math.Abs(x-n.want) <= n.bound):
			return fmt.Errorf("%s %d is %.9g, not %.9g within %.3g", r.name, i, x, n.want, n.bound)
		}
		numbers[i] = kept[i]
	}
	all := backend.FromWords(r.of, got[r.at:end], (end-r.at)*r.of.PerWord())
	copy(got[r.at:end], backend.ToWords(r.of, append(numbers, all[len(numbers):]...)))
	return nil
}

// halfUnit is the largest relative error of one rounding to fp32.
const halfUnit = 1.0 / (1 << 24)

func (n near) times(m near) near {
	product := n.want * m.want
	bound := math.Abs(n.want)*m.bound + math.Abs(m.want)*n.bound + n.bound*m.bound
	return near{product, bound + halfUnit*(math.Abs(product)+bound)}
}

func (n near) rounded(of element.Type) *near {
	unit, least := map[element.Type]float64{element.F32: 0, element.BF16: 1.0 / (1 << 8),
		element.F16: 1.0 / (1 << 11)}[of], 0.0
	if of == element.F16 {
		least = 1.0 / (1 << 25)
	}
	n.bound += unit*(math.Abs(n.want)+n.bound) + least
	if of == element.F16 && math.Abs(n.want)+n.bound >= elemtype.Overflow(of) {
		n.bound = math.Inf(1)
	}
	return &n
}

func exactly(x float32) near { return near{want: float64(x)} }

// activation is act(v) and its derivative. The error of a sigmoid is that of its exponential, which is as
// many units as its argument is large. Numbers below flushed may be 0.
func activation(by planner.Activation, v float32) (value, slope near) {
	const flushed = 1e-35
	x := float64(v)
	step := map[bool]float64{true: 0, false: 1}[x <= 0]
	z, by2 := x, 1.0
	switch {
	case by == "":
		return exactly(v), exactly(1)
	case math.IsInf(x, -1):
		return near{}, near{}
	}
	switch by {
	case planner.ReLU:
		return near{want: math.Max(x, 0)}, near{want: step}
	case planner.ReLU2:
		r := math.Max(x, 0)
		return near{r * r, halfUnit * r * r}, near{want: 2 * x * step}
	case planner.GELUExact:
		const off = 0x1p-21
		phi, bell := math.Erfc(-x/math.Sqrt2)/2, math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)
		return near{x * phi, off * math.Abs(x)}, near{phi + x*bell, off * (1 + math.Abs(x))}
	case planner.GELU:
		z = encoding.GELULinear*x + encoding.GELUCubic*x*x*x
		by2 = encoding.GELULinear + 3*encoding.GELUCubic*x*x
	case planner.SwiGLUClamped:
		if v > limit {
			value, _ = activation(by, limit)
			return value, near{}
		}
		z, by2 = float64(alpha)*x, float64(alpha)
	}
	s, c := 1/(1+math.Exp(-z)), 1/(1+math.Exp(z))
	off := 2 * halfUnit * (8 + 4*math.Min(math.Abs(z), 100))
	return near{x * s, off*math.Abs(x*s) + flushed},
		near{s + x*by2*s*c, off*(s+math.Abs(x*by2*s*c)) + flushed}
}

// alpha and limit are those of clamped gates.
const alpha, limit = float32(1.5), float32(5)

// factor is what multiplies an activation, of up, and its derivative.
func factor(by planner.Activation, v float32) (value, slope near) {
	if by != planner.SwiGLUClamped {
		return exactly(v), exactly(1)
	}
	x, inside := float64(v), 1.0
	if x > float64(limit) || x < -float64(limit) {
		x, inside = math.Copysign(float64(limit), x), 0
	}
	return near{x + 1, halfUnit * math.Abs(x+1)}, exactly(float32(inside))
}

// gateCase is a gate for a router's choices.
type gateCase struct {
	layerCase
	gate  planner.Gate
	whole bool // all numbers are small integers, and results exact
	lies  bool // the last end is negative, and a row's choice is none
}

// gateCases are those of a router's choices, in turn with activations, layouts and types.
func gateCases(types []element.Type) (cases []gateCase) {
	activations := encoding.GateActivations
	inners := []int{0, 1, 37, 64, 600, 2100}
	for i, c := range layerCases {
		for j, inner := range inners {
			if c.Tokens*c.TopK*inner > 1<<17 {
				continue
			}
			at := i*len(inners) + j
			g := planner.Gate{Choices: c.Choices, Intermediate: inner, Activation: activations[at%7],
				Gated: at%7 == 6 || at/2%3 != 0, Interleaved: at/2%3 == 1, Alpha: alpha, Limit: limit,
				Type: types[(i+j)%len(types)]}
			cases = append(cases, gateCase{layerCase: c, gate: g, whole: at%7 < 2 && i%2 == 0,
				lies: c.name == "all to one" || c.name == "one token"})
		}
	}
	return cases
}

func (c *gateCase) String() string {
	layout := map[[2]bool]string{{true, false}: "halves", {true, true}: "interleaved", {}: "ungated"}
	name := fmt.Sprintf("%s/%d/%s/%s/%s", c.name, c.gate.Intermediate, c.gate.Activation,
		layout[[2]bool{c.gate.Gated, c.gate.Interleaved}], c.gate.Type)
	if c.gate.Scale != "" {
		name += fmt.Sprintf("/%s/%s", c.gate.TypeC, c.gate.Scale)
	}
	return name
}

// gateData are operands of a gate as numbers that its type has. Rows that are not there are NaN.
type gateData struct {
	*gateCase
	index   []int64
	words   []float32 // of the routing
	rows    int
	pre, dh []float32
}

func (c *gateCase) data() *gateData {
	n, width := c.Tokens*c.TopK, c.gate.Intermediate
	if c.gate.Gated {
		width *= 2
	}
	d := &gateData{gateCase: c, index: c.draw(5), words: slices.Repeat([]float32{canary}, c.words()),
		pre: make([]float32, n*width), dh: make([]float32, n*c.gate.Intermediate)}
	weights := make([]float32, n)
	fill := uniform(6)
	if c.whole {
		fill = func(to []float32) {
			integers(6)(to)
			for i, x := range to {
				to[i] = float32(int(x) % 4)
			}
		}
	}
	for _, to := range [][]float32{weights, d.pre, d.dh} {
		fill(to)
	}
	if !c.whole {
		// In every second row: the others have gradients of weights that are numbers.
		specials := []float32{0, -200, 200, 5, -5, -30, 30, float32(math.NaN()), -90, 89}
		for i := range d.pre {
			if d.pre[i] *= 6; i/width%2 == 0 && i%29 == 7 {
				d.pre[i] = specials[i/29%len(specials)]
			}
		}
	}
	c.route(d.words, d.index, weights)
	d.rows = int(math.Float32bits(d.words[c.Experts-1]))
	for i := range n {
		if i >= d.rows {
			nan := float32(math.NaN())
			copy(d.pre[i*width:], slices.Repeat([]float32{nan}, width))
			copy(d.dh[i*c.gate.Intermediate:], slices.Repeat([]float32{nan}, c.gate.Intermediate))
		}
	}
	if c.lies && d.rows > 0 {
		d.words[c.Experts-1] = math.Float32frombits(math.MaxUint32)
		d.words[c.Rows()+n] = math.Float32frombits(math.MaxUint32 - 5)
	}
	d.pre = backend.FromWords(c.gate.Type, backend.ToWords(c.gate.Type, d.pre), len(d.pre))
	d.dh = backend.FromWords(c.gate.Type, backend.ToWords(c.gate.Type, d.dh), len(d.dh))
	return d
}

// at is where gate and up of an element are in pre.
func (d *gateData) at(row, col int) (gate, up int) {
	switch inner := d.gate.Intermediate; {
	case !d.gate.Gated:
		return row*inner + col, -1
	case d.gate.Interleaved:
		return 2 * (row*inner + col), 2*(row*inner+col) + 1
	default:
		return 2*row*inner + col, (2*row+1)*inner + col
	}
}

// forward is h of an element, the derivatives by gate and by up, and where these are.
func (d *gateData) forward(row, col int) (h, byGate, byUp near, gate, up int) {
	gate, up = d.at(row, col)
	value, slope := activation(d.gate.Activation, d.pre[gate])
	if up < 0 {
		return value, slope, near{}, gate, up
	}
	other, inside := factor(d.gate.Activation, d.pre[up])
	return value.times(other), other.times(slope), value.times(inside), gate, up
}

func (c *gateCase) exact(n *near) *near {
	if c.whole {
		n.bound = 0
	}
	return n
}

// job is the forward.
func (d *gateData) job(facts *planner.Device) (j LayerJob, err error) {
	c := d.gateCase
	h := make([]*near, len(d.dh))
	for i := range d.rows * c.gate.Intermediate {
		x, _, _, _, _ := d.forward(i/c.gate.Intermediate, i%c.gate.Intermediate)
		h[i] = c.exact(x.rounded(c.gate.Type))
	}
	j = d.start(wordsOf(c.gate.Type, len(h)))
	j.regions = []region{{"h", 0, c.gate.Type, h}}
	j.Plan, err = planner.New(facts).PlanStep(c.gate)
	return j, err
}

// start is a job without results of so many words.
func (d *gateData) start(words int) LayerJob {
	before := slices.Repeat([]float32{canary}, words+1)
	index := make([]int32, len(d.words))
	for i, w := range d.words {
		index[i] = int32(math.Float32bits(w))
	}
	return LayerJob{Extent: d.extent, Index: index, Rows: indexWords(d.index, d.Index64),
		A: backend.ToWords(d.gate.Type, d.pre), B: backend.ToWords(d.gate.Type, d.dh),
		Before: before, Want: before}
}

// backward is the job of the gradients.
func (d *gateData) backward(facts *planner.Device) (j LayerJob, err error) {
	c := d.gateCase
	g := planner.GateBackward{Gate: c.gate}
	n, inner := c.Tokens*c.TopK, c.gate.Intermediate
	dpre, hw, dweights := make([]*near, len(d.pre)), make([]*near, len(d.dh)), make([]*near, n)
	for i, e := range d.index[:c.choices()] {
		if !c.counts(e) {
			dweights[i] = &near{}
		}
	}
	for row := range d.rows {
		weight := exactly(d.words[c.Rows()+2*n+row])
		var sum, size near
		for col := range inner {
			h, byGate, byUp, gate, up := d.forward(row, col)
			dh := exactly(d.dh[row*inner+col])
			by := weight.times(dh)
			dpre[gate] = c.exact(by.times(byGate).rounded(c.gate.Type))
			if up >= 0 {
				dpre[up] = c.exact(by.times(byUp).rounded(c.gate.Type))
			}
			hw[row*inner+col] = c.exact(weight.times(h).rounded(c.gate.Type))
			part := h.times(dh)
			sum.want += part.want
			size.want, size.bound = size.want+math.Abs(part.want), size.bound+part.bound
		}
		sum.bound = size.bound + float64(inner)*halfUnit*(size.want+size.bound) // in any order
		if slot := math.Float32bits(d.words[c.Rows()+n+row]); slot < uint32(n) {
			dweights[slot] = c.exact(&sum)
		}
	}
	atHW, atWeights, all := g.Words()
	j = d.start(all)
	j.regions = []region{{"dpre", 0, c.gate.Type, dpre}, {"hw", atHW, c.gate.Type, hw},
		{"dweights", atWeights, element.F32, dweights}}
	j.Plan, err = planner.New(facts).PlanStep(g)
	return j, err
}

// gateJobs are jobs of each case, whose operands end after the rows that there are.
func gateJobs(t *testing.T, d *planner.Device, types []element.Type) (jobs []LayerJob) {
	t.Helper()
	cases := gateCases(types)
	for i := range cases {
		data := cases[i].data()
		for _, make := range []func(*planner.Device) (LayerJob, error){data.job, data.backward} {
			j, err := make(d)
			require.NoError(t, err)
			if len(j.Plan.Launches) > 0 {
				j.A = j.A[:wordsOf(data.gate.Type, len(data.pre)/max(len(data.index), 1)*data.rows)]
				j.B = j.B[:wordsOf(data.gate.Type, data.gate.Intermediate*data.rows)]
				jobs = append(jobs, j)
			}
		}
	}
	return jobs
}

// testGate compares what is between the products of a layer, and its gradients, with float64, by bounds
// that follow from roundings.
func (s *suite) testGate(t *testing.T) {
	facts := s.device.Info().Planner
	cases := gateCases(s.layerTypes())
	for i := range cases {
		c := &cases[i]
		t.Run(c.String(), func(t *testing.T) {
			on, data := s, c.data()
			if c.extent > 0 {
				on = s.onStream(t)
			}
			for _, make := range []func(*planner.Device) (LayerJob, error){data.job, data.backward} {
				j, err := make(&facts)
				on.runLayer(t, on.prepareLayer(t, j.Plan, err), j)
			}
		})
	}
}
