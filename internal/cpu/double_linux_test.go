package cpu

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// newDoubles makes a random product of F64 in guarded memory. Numbers are such that sums of products are
// exact, if they are not alone: integers times 2^-20, and NaN between rows.
func newDoubles(rng *rand.Rand, memory *[3]guarded, limit [3]int) (p product, before []float64) {
	p.rows, p.cols, p.depth = 1+rng.IntN(limit[0]), 1+rng.IntN(limit[1]), rng.IntN(limit[2]+1)
	p.few = rng.IntN(2) == 0
	p.alpha, p.beta = []float64{1, -0.75}[rng.IntN(2)], []float64{0, 0, 1, 0.5}[rng.IntN(4)]
	matrix := func(i, rows, cols int, trans bool) operand {
		if trans {
			rows, cols = cols, rows
		}
		o := operand{ld: cols + rng.IntN(2)*rng.IntN(40), trans: trans}
		if far := (o.ld + 511) &^ 511; rng.IntN(8) == 0 && 2*rows*far <= len(memory[i]) {
			o.ld = far
		}
		size := max((rows-1)*o.ld+cols, 0)
		o.narrow = narrow{element.F64, memory[i].bytes(8*size, rng.IntN(2) == 1)}
		all := o.numbers()
		for at := range all {
			if all[at] = math.NaN(); at%max(o.ld, 1) < cols {
				all[at] = float64(rng.IntN(1<<21)-1<<20) * 0x1p-20
			}
		}
		return o
	}
	p.a.of, p.b.of = element.F64, element.F64
	if p.depth > 0 {
		p.a = matrix(0, p.rows, p.depth, rng.IntN(2) == 1)
		p.gatherSome(rng)
		p.b = matrix(1, p.depth, p.cols, rng.IntN(2) == 1)
	}
	c := matrix(2, p.rows, p.cols, false)
	if p.beta == 0 { // must not be read
		for i := range c.numbers() {
			c.numbers()[i] = math.NaN()
		}
	}
	p.narrow, p.ldc = c.narrow, c.ld
	return p, slices.Clone(p.numbers())
}

// checkDoubles compares with exact sums.
func checkDoubles(t *testing.T, p *product, before []float64) {
	at := func(o *operand, row, col int) float64 {
		if o.gather != nil {
			if row = int(o.gather[row]); uint(row) >= uint(o.stored) {
				return 0
			}
		}
		return o.numbers()[o.index(row, col)]
	}
	for i, got := range p.numbers() {
		row, col := i/p.ldc, i%p.ldc
		if col >= p.cols {
			require.Equal(t, math.Float64bits(before[i]), math.Float64bits(got), "%d, %d was written", row,
				col)
			continue
		}
		var sum float64
		for k := range p.depth {
			sum += at(&p.a, row, k) * at(&p.b, k, col)
		}
		want := p.alpha * sum
		if p.beta != 0 {
			want += p.beta * before[i]
		}
		require.Equal(t, want, got, "C[%d, %d] of %dx%dx%d, transposed %v %v", row, col, p.rows, p.cols,
			p.depth, p.a.trans, p.b.trans)
	}
}

// TestDoubles: random products of F64 of all sizes of blocks, as tiles and as small items, twice. Kernels
// access nothing beyond the last byte, and sums that are exact in fp64, but not in fp32, are exact.
func TestDoubles(t *testing.T) {
	memory := [3]guarded{newGuarded(t, 1<<19), newGuarded(t, 1<<19), newGuarded(t, 1<<17)}
	trials := 10_000
	if testing.Short() {
		trials = 1000
	}
	for _, with := range available() {
		if with.bf16 != nil {
			continue // kernels for F64 are those of avx512
		}
		t.Run(with.name, func(t *testing.T) {
			sample.CPU.Skip(t, 1)
			own := newScratch(with, new(atomic.Bool)).forF64()
			rng := rand.New(rand.NewPCG(2, 0))
			for i := range trials {
				limit := [3]int{34, 34, 34}
				switch {
				case i%100 == 0:
					limit = [3]int{maxSide, maxSide, 3*panelDepth + 2}
				case i%10 == 0:
					limit = [3]int{maxSide, maxSide, 20}
				case i%3 == 0: // of one vector
					limit = [3]int{40, 8, 40}
				}
				p, before := newDoubles(rng, &memory, limit)
				own.multiply(&p)
				checkDoubles(t, &p, before)
				if p.a.gather != nil {
					continue
				}
				j := smallDoubles(&p)
				for range 2 {
					copy(p.numbers(), before)
					j.plainWorkers(own, 0, 1)
					checkDoubles(t, &p, before)
				}
			}
			require.NotEmpty(t, own.small.blocks)
		})
	}
}

// smallDoubles is a job of one item.
func smallDoubles(p *product) *job {
	item := make([]uint32, encoding.EpilogueItemWords)
	item[encoding.Depth], item[encoding.Extent] = uint32(p.depth), encoding.PackExtent(p.rows, p.cols)
	item[encoding.LDA], item[encoding.LDB], item[encoding.LDC] = uint32(p.a.ld), uint32(p.b.ld), uint32(p.ldc)
	item[encoding.Alpha], item[encoding.AlphaLow] = encoding.PutScalar(element.F64, p.alpha)
	item[encoding.Beta], item[encoding.BetaLow] = encoding.PutScalar(element.F64, p.beta)
	item[encoding.Slot] = encoding.Final
	l := &encoding.Launch{Count: 1}
	l.Tile = &tile.Shape{TM: maxSide, TN: maxSide}
	l.TransA, l.TransB, l.TypeA, l.TypeC = p.a.trans, p.b.trans, element.F64, element.F64
	return &job{launch: l, words: item, bitsA: p.a.narrow, bitsB: p.b.narrow, bitsC: p.narrow}
}

// TestActivateDouble compares with the fp32 functions, to their precision, and at the ends of the range.
func TestActivateDouble(t *testing.T) {
	for _, by := range []encoding.Activation{encoding.ReLU, encoding.SiLU, encoding.GELU} {
		for x := -80.0; x < 80; x += 0.37 {
			v, w := []float64{x}, []float32{float32(x)}
			activateDouble(by, v)
			activate(by, w)
			require.InDelta(t, float64(w[0]), v[0], 1e-6+1e-5*math.Abs(v[0]), "%s(%g)", by, x)
		}
		v := []float64{math.Inf(-1), -1e300, 0, 1e300, math.Inf(1), math.NaN()}
		activateDouble(by, v)
		require.Equal(t, []float64{0, 0, 0, 1e300, math.Inf(1)}, v[:5], by)
		require.True(t, math.IsNaN(v[5]))
	}
}
