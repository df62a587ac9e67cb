package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/batchgemm/batchgemm/internal/bench"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/internal/workload"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// dataKind is a way to fill A and B that tests the accuracy.
type dataKind struct {
	name, help     string
	number         func(*rand.Rand) float32
	scaleA, scaleB float32
	cancels        bool
}

// The numbers of tiny's A are normal, but the low parts into which emulation splits them are not. Sums of up
// to 2^14 products of huge's numbers stay below 2^128.
var dataKinds = []dataKind{
	{"uniform", "in [-1, 1)", uniform, 1, 1, false},
	{"positive", "in [0, 1)", (*rand.Rand).Float32, 1, 1, false},
	{"mixed", "signs and mantissas at random, exponents from -15 to 14", mixed, 1, 1, false},
	{"cancelling", "the second half of each sum takes back the first but for 2^-12 of it",
		uniform, 1, 1, true},
	{"tiny", "A 2^-115 times uniform, B 2^100 times", uniform, 0x1p-115, 0x1p100, false},
	{"huge", "2^56 times uniform", uniform, 0x1p56, 0x1p56, false},
}

func uniform(rng *rand.Rand) float32 { return 2*rng.Float32() - 1 }

// mixed tests exponents in the style of Ootomo and Yokota (2022): products that exceed the range of FP16
// emulation.
func mixed(rng *rand.Rand) float32 {
	x := math.Ldexp(1+float64(rng.Float32()), rng.IntN(30)-15)
	if rng.IntN(2) == 0 {
		x = -x
	}
	return float32(x)
}

func dataNames() (names []string) {
	for _, k := range dataKinds {
		names = append(names, k.name)
	}
	return names
}

// dataHelp has a line for each kind.
func dataHelp() string {
	var lines []string
	for _, k := range dataKinds {
		lines = append(lines, fmt.Sprintf("  %-16s %s", k.name, k.help))
	}
	return strings.Join(lines, "\n")
}

// fill makes operands of a kind for a workload, always the same.
func (k *dataKind) fill(w *workload.Workload) (*workload.Operands, error) {
	if w.Operands != nil {
		return nil, usageError{fmt.Errorf("--data: %s has matrices of its own", w.Name)}
	}
	ops, err := workload.NewOperands(w.Batch, element.F32)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.Name, err)
	}
	rng := rand.New(rand.NewPCG(1, 0))
	for i, s := range [][]float32{ops.A, ops.B, ops.C} {
		scale := [...]float32{k.scaleA, k.scaleB, 1}[i]
		for j := range s {
			s[j] = scale * k.number(rng)
		}
	}
	if k.cancels {
		for i := range w.Batch {
			cancel(rng, &w.Batch[i], ops)
		}
	}
	return ops, nil
}

// cancel makes the second half of each sum the negative of the first, except for a relative change of up to
// 2^-12.
func cancel(rng *rand.Rand, p *planner.Problem, ops *workload.Operands) {
	at := func(m planner.Matrix, transposed bool, row, col int) int {
		if transposed {
			row, col = col, row
		}
		return m.Offset + row*m.LD + col
	}
	half := p.K / 2
	if !p.Reads() { // there is no memory for A and B
		return
	}
	for k := range half {
		for i := range p.M {
			ops.A[at(p.A, p.TransA, i, half+k)] = -ops.A[at(p.A, p.TransA, i, k)]
		}
		for j := range p.N {
			ops.B[at(p.B, p.TransB, half+k, j)] = ops.B[at(p.B, p.TransB, k, j)] * (1 + 0x1p-12*rng.Float32())
		}
	}
}

// operands returns those of the workload, or of the requested kind of data.
func (b *bencher) operands(w *workload.Workload, o *planner.Options) (*workload.Operands, error) {
	i := slices.IndexFunc(dataKinds, func(k dataKind) bool { return k.name == b.data })
	if i < 0 {
		return operands(w, o)
	}
	ops, err := dataKinds[i].fill(w)
	if err == nil {
		ops.Round(o.TypeA, o.TypeB, o.TypeC)
	}
	return ops, err
}

// suits reports whether a type covers the range of the kind's numbers.
func (k *dataKind) suits(of element.Type) bool {
	return !elemtype.Whole(of) && (of == element.F32 || of == element.BF16 || k.scaleA == 1 && k.scaleB == 1)
}

// accuracy summarises the errors of the first problems, whose results are right.
func (c *benchCase) accuracy(checked planner.Batch, got []float32) *bench.Accuracy {
	largest, mean := reference.Relative(checked, c.ops.A, c.ops.B, c.ops.C, got)
	return &bench.Accuracy{Max: largest, Mean: mean}
}
