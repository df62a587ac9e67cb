package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/hostmem"
	"github.com/batchgemm/batchgemm/internal/workload"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// epilogueHelp is for commands with --epilogue.
const epilogueHelp = `--epilogue lists what kernels do to C before they round it, and to rows of A and C:
  bias              add a number to each column
  relu, gelu, silu  apply this function to each element; at most one
  gated             C = act(A*B + bias) * (A*B2 + another bias); beta is 0
  gather            take the rows of A, which is not transposed, in another order
  scatter           store the rows of C in another order
  weights           multiply each row by a number from 0.5 to 1.5
  row-scales        multiply A*B by such numbers, for each stored row of A and for each column of B
                    and B2; with --type e4m3 or int8
  tensor-scales     the same with one number for A, one for B and one for B2
  block-scales      the same with a number for each 128 k's of a row of A, and for each 128 k's of
                    128 columns of B and B2; with --type e4m3; at most one of the three
  group-64          let each 64 k's of a column of B and B2 share a scale and a zero point; with
                    --type-b int4
  group-128         the same with 128 k's; this is the default of --type-b int4
  zeros             give rows of A whole numbers from -128 to 127 as zero points, and columns of B
                    and B2 sums; with row-scales and --type int8
What that needs beside A, B and C is random, the same every time. B2 has the shape of B. gather and scatter
move every row once, so they move as many bytes as without.`

// epiloguePart is a name in --epilogue, with its meaning.
type epiloguePart struct {
	name string
	set  func(*planner.Epilogue)
}

func activation(of planner.Activation) epiloguePart {
	return epiloguePart{string(of), func(e *planner.Epilogue) { e.Activation = of }}
}

func scaling(name string, of planner.Scaling) epiloguePart {
	return epiloguePart{name, func(e *planner.Epilogue) { e.ScaleA, e.ScaleB = of, of }}
}

// epilogueParts are all names. placeEpilogue sets how many rows matrices have.
var epilogueParts = []epiloguePart{
	{"bias", func(e *planner.Epilogue) { e.Bias = true }},
	activation(planner.ReLU), activation(planner.GELU), activation(planner.SiLU),
	{"gated", func(e *planner.Epilogue) { e.Gated = true }},
	{"gather", func(e *planner.Epilogue) { e.GatherRows = max(e.GatherRows, 1) }},
	{"scatter", func(e *planner.Epilogue) { e.ScatterRows = max(e.ScatterRows, 1) }},
	{"weights", func(e *planner.Epilogue) { e.Weights = true }},
	scaling("row-scales", planner.PerRow), scaling("tensor-scales", planner.PerTensor),
	scaling("block-scales", planner.PerBlock),
	{string(planner.PerGroup64), func(e *planner.Epilogue) { e.ScaleB = planner.PerGroup64 }},
	{string(planner.PerGroup128), func(e *planner.Epilogue) { e.ScaleB = planner.PerGroup128 }},
	{string(planner.PerGroup32), func(e *planner.Epilogue) { e.ScaleB = planner.PerGroup32 }},
	{string(planner.PerGroup16), func(e *planner.Epilogue) { e.ScaleB = planner.PerGroup16 }},
	{"zeros", func(e *planner.Epilogue) { e.ZeroA = true }},
}

func epilogueNames() (names []string) {
	for _, p := range epilogueParts {
		names = append(names, p.name)
	}
	return names
}

func epilogueFlag(cmd *cobra.Command, value *[]string) {
	cmd.Flags().StringSliceVar(value, "epilogue", nil, "also do to C, or by rows: "+
		strings.Join(epilogueNames(), ", "))
	complete(cmd, "epilogue", epilogueNames)
}

func parseEpilogue(names []string) (e planner.Epilogue, err error) {
	for _, name := range names {
		i := slices.IndexFunc(epilogueParts, func(p epiloguePart) bool { return p.name == name })
		if i < 0 {
			return e, fmt.Errorf("--epilogue %q is not one of %s", name, strings.Join(epilogueNames(), ", "))
		}
		before := e
		epilogueParts[i].set(&e)
		switch {
		case before.Activation != "" && before.Activation != e.Activation:
			return e, fmt.Errorf("--epilogue has both %s and %s", before.Activation, e.Activation)
		case before.ScaleB != "" && before.ScaleB != e.ScaleB, before.ScaleA != e.ScaleB &&
			before.ScaleA != "":
			return e, fmt.Errorf("--epilogue has scales of each %s and of each %s", before.ScaleB, e.ScaleB)
		}
	}
	return e, nil
}

// showEpilogue returns the list that requests an epilogue; "" for none.
func showEpilogue(e planner.Epilogue) string {
	var names []string
	for _, p := range epilogueParts {
		with := e
		if p.set(&with); with == e {
			names = append(names, p.name)
		}
	}
	return strings.Join(names, ", ")
}

// placeEpilogue places the operands of an epilogue, which workloads do not have, and sets in the options how
// many rows lists may name. B2 is in the buffer of B, after all B, so that it can be the B of other
// problems.
func placeEpilogue(w *workload.Workload, o planner.Options) (*workload.Workload, planner.Options) {
	e := &o.Epilogue
	if *e == (planner.Epilogue{}) {
		return w, o
	}
	need := w.Batch.Lengths(planner.Epilogue{})
	rows, biases, words := 1, 0, 0
	decorated := *w
	decorated.Batch = slices.Clone(w.Batch)
	for i := range decorated.Batch {
		if p := &decorated.Batch[i]; p.M > 0 && p.N > 0 { // nothing is read of the others
			rows = max(rows, p.M)
		}
	}
	if e.GatherRows > 0 {
		e.GatherRows = rows
	}
	if e.ScatterRows > 0 {
		e.ScatterRows = rows
	}
	for i := range decorated.Batch {
		p := &decorated.Batch[i]
		p.B2 = p.B
		p.B2.Offset += aligned(need.B)
		p.Bias, p.RowsA, p.RowsC, p.Weights, p.ScaleA = biases, words, words+p.M, words+2*p.M, words+3*p.M
		p.ScaleB = p.ScaleA + e.ScalesA(p)
		if p.M > 0 && p.N > 0 {
			biases, words = biases+e.Biases(p.N), p.ScaleB+e.ScalesB(p)
		}
	}
	return &decorated, o
}

// aligned returns an offset after n elements of any type with the alignment of the first one: 16 bytes have
// at most 32 elements.
func aligned(n int) int { return roundUp(n, elemtype.Line(element.Int4)) }

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }

// withEpilogue adds the operands that placeEpilogue has placed. A and C grow to the rows that lists may name
// in the last problems, which may have fewer rows than others.
func withEpilogue(ops *workload.Operands, b planner.Batch, o *planner.Options) (*workload.Operands, error) {
	e := &o.Epilogue
	if *e == (planner.Epilogue{}) {
		return ops, nil
	}
	each := elemtype.Words(elemtype.Sums(o.TypeA), 1) // words of a number
	lenA, lenB, lenC := len(ops.A)/each, len(ops.B)/each, len(ops.C)/each
	packed, biases, words := len(ops.Packed), 0, 0
	atB2 := aligned(lenB)
	if e.Gated {
		lenB += atB2
	}
	if e.Gated && packed > 0 {
		packed += atB2 / element.Int4.PerWord()
	}
	for i := range b {
		p := &b[i]
		if p.M == 0 || p.N == 0 {
			continue
		}
		if p.Reads() {
			lenA = max(lenA, p.A.Offset+e.GatherRows*p.A.LD)
		}
		lenC = max(lenC, p.C.Offset+e.ScatterRows*p.C.LD)
		biases, words = p.Bias+e.Biases(p.N), p.ScaleB+e.ScalesB(p)
	}
	lenA, lenB, lenC, biases = each*lenA, each*lenB, each*lenC, each*biases
	if err := hostmem.Check(hostmem.Size(lenA, lenB, lenC, packed, biases, words)); err != nil {
		return nil, fmt.Errorf("the matrices and the epilogue: %w", err)
	}
	rng := rand.New(rand.NewPCG(2, 0)) // not the seed of A, B and C
	all := &workload.Operands{A: longer(ops.A, lenA), B: longer(ops.B, lenB), C: longer(ops.C, lenC),
		Packed: longer(ops.Packed, packed), Groups: ops.Groups, Bias: make([]float32, biases),
		Rows: make([]int32, words)}
	fill(elemtype.Sums(o.TypeA), rng, all.Bias)
	if e.Gated {
		fill(o.TypeA, rng, all.B[each*atB2:])
		randomPacked(rng, all.Packed, atB2/element.Int4.PerWord())
	}
	for i := range b {
		if p := &b[i]; p.M > 0 && p.N > 0 {
			permute(rng, all.Rows[p.RowsA:][:p.M])
			permute(rng, all.Rows[p.RowsC:][:p.M])
			for at := p.Weights; at < p.ScaleB+e.ScalesB(p); at++ { // also scales
				all.Rows[at] = int32(math.Float32bits(0.5 + rng.Float32()))
			}
			if e.ZeroA { // after each scale
				for at := p.ScaleA + 1; at < p.ScaleB+e.ScalesB(p); at += 2 {
					all.Rows[at] = int32(rng.IntN(256) - 128)
				}
			}
			if e.ScaleB.Group() > 0 {
				randomGroups(rng, e.ScaleB, all.Rows[p.ScaleB:][:e.ScalesB(p)])
			}
		}
	}
	if elemtype.Bits4(o.TypeB) {
		finish4(all, b, e)
	}
	return all, nil
}

// longer returns s with zeros after it.
func longer[T float32 | uint32](s []T, n int) []T {
	if n <= len(s) {
		return s
	}
	return append(make([]T, 0, n), s...)[:n]
}

// permute fills a list with its own indices, in random order.
func permute(rng *rand.Rand, list []int32) {
	for i := range list {
		list[i] = int32(i)
	}
	rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
}

// runOf returns a run of a program with its epilogue's operands among the buffers.
func runOf(program *dispatch.Program, buffers []*dispatch.Buffer) dispatch.Run {
	e := &program.Plan().Options.Epilogue
	r := dispatch.Run{Program: program}
	r.A, r.B, r.C = buffers[0], buffers[1], buffers[2]
	if e.Gated {
		r.B2 = r.B
	}
	if e.Bias {
		r.Bias = buffers[3]
	}
	if e.UsesRows() {
		r.Rows = buffers[4]
	}
	return r
}

// movedBeside returns the least traffic in bytes that an epilogue adds to a problem.
func movedBeside(p *planner.Problem, o *planner.Options) (bytes float64) {
	e := &o.Epilogue
	if e.Gated && p.Reads() {
		bytes += float64(o.TypeB.Size(p.K * p.N))
	}
	if e.Bias {
		bytes += float64(o.TypeC.Bytes() * e.Biases(p.N))
	}
	for _, used := range []bool{e.GatherRows > 0 && p.Reads(), e.ScatterRows > 0, e.Weights} {
		if used {
			bytes += 4 * float64(p.M)
		}
	}
	if p.Reads() {
		few := *e
		few.GatherRows = min(e.GatherRows, p.M)
		bytes += 4 * float64(few.ScalesA(p)+few.ScalesB(p))
	}
	return bytes
}

// withoutEpilogue is the method of only the products, on copies of the operands.
const withoutEpilogue = "plain"

// plain prepares it. The products of a gated unit are separate problems. Those of B2 have their C after all
// others.
func (c *benchCase) plain(ctx context.Context) (*contender, error) {
	there := &benchCase{bencher: c.bencher, options: c.options, batch: c.batch,
		ops: &workload.Operands{A: c.ops.A, B: c.ops.B, C: c.ops.C}}
	there.options.Epilogue = planner.Epilogue{}
	if c.options.TypeB != c.options.TypeA { // the numbers that B's elements represent, rounded
		if err := hostmem.Check(hostmem.Size(len(c.ops.B))); err != nil {
			return nil, err
		}
		there.options.TypeB, there.ops.B = c.options.TypeA, slices.Clone(c.ops.B)
		there.ops.Round(element.F32, c.options.TypeA, element.F32)
	}
	if c.options.Epilogue.Gated {
		lenC := len(c.ops.C)
		if err := hostmem.Check(hostmem.Size(lenC, lenC)); err != nil {
			return nil, err
		}
		there.ops.C = longer(c.ops.C, aligned(lenC)+lenC)
		there.batch = slices.Clone(c.batch)
		for _, p := range c.batch {
			p.B = p.B2
			p.C.Offset += aligned(lenC)
			there.batch = append(there.batch, p)
		}
	}
	return c.beside(ctx, there, withoutEpilogue)
}
