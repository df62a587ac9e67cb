package planner

import (
	"slices"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Activations of gates, beside those of an Epilogue.
const (
	GELUExact = encoding.GELUExact // v*(1 + erf(v/sqrt(2)))/2; (1 + erf)/2 errs by at most 2^-22
	ReLU2     = encoding.ReLU2     // v*v, or 0 if v < 0
	// SwiGLUClamped is that of GPT-OSS, with Gated: g*sigmoid(Alpha*g)*(u + 1), with g = min(gate, Limit)
	// and u = max(-Limit, min(up, Limit)).
	SwiGLUClamped = encoding.SwiGLUClamped
)

// Gate describes a program for what is between the two products of a layer of experts:
//
//	h[r, i] = act(gate[r, i]) * up[r, i]      with Gated, else act(gate[r, i])
//
// It is computed in fp32 and rounded once. With n = Tokens*TopK, and W columns, 2*Intermediate with Gated and
// Intermediate without, a run has
//
//	Sizes  words of a routing (Routing), of which the first Experts are read
//	A      pre [n, W], the first product's result: columns of gate before those of up, or with Interleaved
//	       gate in even columns and up in odd ones
//	C      h [n, Intermediate]
//
// The last of the ends says how many rows there are. Later rows are neither read nor written. With All there
// are n rows, and Sizes is not read. A and C are of Type: F32, BF16 or F16. Index64 does not matter.
//
// With Scale, h is quantised: C is of TypeC, E4M3 or Int8. A row, or each 128 columns of it (PerBlock, of
// E4M3 alone), has a scale. With most as 448 or 127, amax as the largest |h|, at least 2^-64, and all of it
// rounded to fp32:
//
//	scale = amax * (1/most)       C = h * (most/amax), to the nearest number, ties to even
//
// If an h is NaN or infinite, the scale is NaN, and its row or block of C is 0. Scales are written to Sizes
// as bits of fp32, from word Scales on: n of them, or [n, ceil(Intermediate/128)]. So they are scales of A of
// a ragged program that takes C as A. Without activation and Gated this is plain quantisation.
type Gate struct {
	Choices
	Intermediate       int // from 0 to 1<<24 - 1
	Activation         Activation
	Gated, Interleaved bool
	Alpha, Limit       float32 // of SwiGLUClamped; 0, 0: 1.702 and 7
	Type               element.Type
	All                bool
	Scale              Scaling
	TypeC              element.Type // with Scale
	Scales             int          // with Scale; after the words of a routing, or with All at least 0
}

// GateBackward describes a program for the gradients of a gate and of the routing weights. For row r, with
// weight w and choice s in the routing's lists:
//
//	dpre[r]     = w*dh[r] times the derivatives of h, laid out as pre
//	hw[r]       = w*h[r], with which down has its gradient
//	dweights[s] = sum over i of h[r, i]*dh[r, i]
//
// All is computed in fp32; dpre and hw are rounded once, h is not. The order of the sum is fixed. The slope
// of relu is 0 at 0; clamped numbers have a slope at the limit, and none beyond it. There is no Scale and no
// All. dweights of choices that do not count is 0. With n and W as in Gate, a run has
//
//	Sizes  words of a routing
//	Rows   index of that routing, as words
//	A      pre [n, W]
//	B      dh [n, Intermediate], the gradient of the second product's operand, without the weight
//	C      words of 32 bits: dpre [n, W], then hw [n, Intermediate], then dweights [n], of fp32; Words says
//	       where each begins
//
// dpre and hw of rows after the last end stay as they are, and so do dweights of tokens beyond the extent. A,
// B, dpre and hw are of Type.
type GateBackward struct{ Gate }

// Words returns the words of the result where hw and dweights begin, and how many there are in all.
func (g *GateBackward) Words() (hw, dweights, all int) {
	return g.layer(encoding.LayerGateBackward).Block(g.Type)
}

func (g *Gate) layer(stage encoding.LayerStage) *encoding.Layer {
	l := g.Choices.layer(stage, g.Intermediate)
	l.Gate = encoding.Gate{Activation: g.Activation, Gated: g.Gated, Interleaved: g.Interleaved,
		Alpha: g.Alpha, Limit: g.Limit, Scale: g.Scale, Scales: g.Scales}
	if g.Alpha == 0 && g.Limit == 0 {
		l.Gate.Alpha, l.Gate.Limit = 1.702, 7
	}
	if g.All {
		l.Experts = 0
	}
	return l
}

// check names the first invalid field.
func (g *Gate) check() error {
	switch {
	case g.Intermediate < 0 || g.Intermediate > encoding.MaxGate:
		return invalid.Errorf("%d columns of a gate are not in [0, %d]", g.Intermediate, encoding.MaxGate)
	case g.Interleaved && !g.Gated:
		return invalid.Errorf("gate and up are interleaved, but there is no up")
	case !slices.Contains(encoding.GateActivations[:], g.Activation):
		return invalid.Errorf("unknown activation %q (known: %q)", g.Activation,
			encoding.GateActivations[1:])
	case g.Activation == SwiGLUClamped && !g.Gated:
		return invalid.Errorf("activation %q needs an up", g.Activation)
	case !finite(g.Alpha) || !finite(g.Limit) || g.Limit < 0:
		return invalid.Errorf("alpha %g or limit %g is not finite, or the limit is negative", g.Alpha,
			g.Limit)
	}
	if err := g.checkScale(); err != nil {
		return err
	}
	return g.Choices.check("gates", g.Type)
}

// own is how many words of Sizes a run may read.
func (g *Gate) own() int {
	if g.All {
		return 0
	}
	return g.Choices.layer(0, 0).Routed()
}

func finite(x float32) bool { return x-x == 0 }

func (g *Gate) checkScale() error {
	switch {
	case g.Scale == "" && (g.TypeC != element.F32 || g.Scales != 0):
		return invalid.Errorf("TypeC or Scales is set, but the result has no scale")
	case g.Scale == "":
	case g.Scale != PerRow && g.Scale != PerBlock:
		return invalid.Errorf("scale %q of a result is not %s or %s", g.Scale, PerRow, PerBlock)
	case g.TypeC != element.E4M3 && (g.TypeC != element.Int8 || g.Scale == PerBlock):
		return invalid.Errorf("a result with scale %q cannot be of %s", g.Scale, g.TypeC)
	case g.Scales < g.own() || g.Scales > MaxDim:
		return invalid.Errorf("scales at word %d are not in [%d, %d]", g.Scales, g.own(), MaxDim)
	}
	return nil
}

func (g Gate) plan(p *Planner) (*Plan, error) {
	plan, err := p.gate(g, encoding.LayerGate)
	if err != nil {
		return nil, err
	}
	plan.Options.TypeC, plan.ExtentSizes = g.Type, g.Experts
	if g.Scale != "" {
		plan.Options.TypeC, plan.ExtentSizes = g.TypeC, g.Scales+plan.Layer.Choices()*plan.Layer.ScaleWords()
		if !p.device.takes(g.TypeC) {
			return nil, invalid.Errorf("%s has no kernels for elements of %s", p.device, g.TypeC)
		}
	}
	plan.ExtentC = plan.Layer.Choices() * g.Intermediate
	return plan, plan.gateStep(false)
}

func (g GateBackward) plan(p *Planner) (*Plan, error) {
	plan, err := p.gate(g.Gate, encoding.LayerGateBackward)
	switch {
	case err != nil:
		return nil, err
	case g.Scale != "" || g.All:
		return nil, invalid.Errorf("the gradient of a gate has neither Scale nor All")
	}
	plan.ExtentSizes, plan.ExtentRows = plan.Layer.Routed(), g.indexLen()
	plan.ExtentB = plan.Layer.Choices() * g.Intermediate
	_, _, plan.ExtentC = g.Words()
	return plan, plan.gateStep(g.Index64)
}

// gate is what both plans share.
func (p *Planner) gate(g Gate, stage encoding.LayerStage) (*Plan, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	layer := g.layer(stage)
	if _, ok := addMul(g.Scales, layer.Choices(), 4*layer.Width()+4); !ok {
		return nil, invalid.Errorf("%d rows of %d columns are too many elements", layer.Choices(),
			layer.Width())
	}
	return &Plan{Device: p.device, Options: Options{TypeA: g.Type}, Layer: layer,
		ExtentA: layer.Choices() * layer.Width()}, nil
}

// gateStep makes the launch. Without columns gradients of weights are still to be written.
func (p *Plan) gateStep(index64 bool) error {
	groups := 0
	if p.Layer.Hidden > 0 || p.Layer.Stage == encoding.LayerGateBackward {
		groups = p.Device.family().gates(p.Layer, p.Options.TypeA)
	}
	return p.step(index64, groups)
}

// The thread groups of native kernels (native/kernels/gate.cuh).
func nativeGates(l *encoding.Layer, of element.Type) int {
	return ceilDiv(l.Choices(), l.GateRows(of))
}

// Those of the CPU share rows in pieces.
func cpuGates(l *encoding.Layer, _ element.Type) int {
	return min(l.Choices(), max(ceilDiv(l.Choices()*l.Width(), encoding.LayerPiece), 1))
}

// wgslGates is a workgroup for each row, at most as many as every device allows.
func wgslGates(l *encoding.Layer, _ element.Type) int { return min(l.Choices(), 1<<16-1) }
