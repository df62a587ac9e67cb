package planner

import (
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner/element"
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
// The last of the ends says how many rows there are. Later rows are neither read nor written. A and C are of
// Type: F32, BF16 or F16. Index64 does not matter. WebGPU has no kernels for it.
type Gate struct {
	Choices
	Intermediate       int // from 0 to 1<<26 - 1
	Activation         Activation
	Gated, Interleaved bool
	Type               element.Type
}

// GateBackward describes a program for the gradients of a gate and of the routing weights. For row r, with
// weight w and choice s in the routing's lists:
//
//	dpre[r]     = w*dh[r] times the derivatives of act(gate)*up, laid out as pre
//	hw[r]       = w*h[r], with which down has its gradient
//	dweights[s] = sum over i of h[r, i]*dh[r, i]
//
// All is computed in fp32; dpre and hw are rounded once, h is not. The order of the sum is fixed. The slope
// of relu is 0 at 0. dweights of choices that do not count is 0. With n and W as in Gate, a run has
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
	l.Gate = encoding.Gate{Activation: g.Activation, Gated: g.Gated, Interleaved: g.Interleaved}
	return l
}

// check names the first invalid field.
func (g *Gate) check() error {
	switch {
	case g.Intermediate < 0 || g.Intermediate > encoding.MaxGate:
		return invalid.Errorf("%d columns of a gate are not in [0, %d]", g.Intermediate, encoding.MaxGate)
	case g.Interleaved && !g.Gated:
		return invalid.Errorf("gate and up take turns, but there is no up")
	}
	if err := checkActivation(g.Activation); err != nil {
		return err
	}
	return g.Choices.check("gates", g.Type)
}

func (g Gate) plan(p *Planner) (*Plan, error) {
	plan, err := p.gate(g, encoding.LayerGate)
	if err != nil {
		return nil, err
	}
	plan.Options.TypeC, plan.ExtentSizes = g.Type, g.Experts
	plan.ExtentC = plan.Layer.Choices() * g.Intermediate
	return plan, plan.gateStep(false)
}

func (g GateBackward) plan(p *Planner) (*Plan, error) {
	plan, err := p.gate(g.Gate, encoding.LayerGateBackward)
	if err != nil {
		return nil, err
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
	if p.device.family().gates == nil {
		return nil, invalid.Errorf("%s has no kernels for gates", p.device)
	}
	layer := g.layer(stage)
	if _, ok := addMul(0, layer.Choices(), 4*layer.Width()+4); !ok {
		return nil, invalid.Errorf("%d rows of %d columns are too many elements", layer.Choices(),
			layer.Width())
	}
	return &Plan{Device: p.device, Options: Options{TypeA: g.Type}, Layer: layer,
		ExtentA: layer.Choices() * layer.Width()}, nil
}

func (p *Plan) gateStep(index64 bool) error {
	return p.step(index64, p.Device.family().gates(p.Layer, p.Options.TypeA))
}

// The thread groups of native kernels (native/kernels/gate.cuh). Without columns, gradients of weights are
// still to be written.
func nativeGates(l *encoding.Layer, of element.Type) int {
	return ceilDiv(l.Choices(), l.GateRows(of))
}

// Those of the CPU share rows in pieces.
func cpuGates(l *encoding.Layer, _ element.Type) int {
	return min(l.Choices(), max(ceilDiv(l.Choices()*l.Width(), encoding.LayerPiece), 1))
}
