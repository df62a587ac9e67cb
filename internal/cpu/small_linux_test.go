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

// TestSmallItems: random small items between guard pages, each as the first of its shape and as the second.
// The bits are those of multiply.
func TestSmallItems(t *testing.T) {
	memory := [3]guarded{newGuarded(t, 1<<16), newGuarded(t, 1<<16), newGuarded(t, 1<<16)}
	trials := 10_000
	if testing.Short() {
		trials = 1000
	}
	for _, with := range available() {
		t.Run(with.name, func(t *testing.T) {
			sample.CPU.Skip(t, 1)
			own, plain := newScratch(with, new(atomic.Bool)), newScratch(with, new(atomic.Bool))
			rng := rand.New(rand.NewPCG(1, 0))
			for i := range trials {
				limit := [3]int{34, 34, 34}
				if i%10 == 0 {
					limit[i/10%3] = maxSide
				}
				p := newTrial(rng, &memory, element.F32, limit)
				if p.a.gather != nil {
					continue
				}
				j, item := smallJob(&p.product)
				for range 2 {
					copy(p.c, p.before)
					j.plainWorkers(own, 0, 1)
					require.NoError(t, p.check(), "trial %d: %v", i, item)
				}
				if own.small.ready {
					got := slices.Clone(p.c)
					copy(p.c, p.before)
					p.few = false
					plain.multiply(&p.product)
					same := func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) }
					require.True(t, slices.EqualFunc(p.c, got, same), "trial %d: %v", i, item)
				}
			}
			require.NotEmpty(t, own.small.blocks)
		})
	}
}

// TestSmallTransposed: what is kept from item to item is not used with another transposition.
func TestSmallTransposed(t *testing.T) {
	const n = 8
	rng := rand.New(rand.NewPCG(1, 0))
	var numbers [2][n * n]float32
	for i := range numbers {
		for k := range numbers[i] {
			numbers[i][k] = rng.Float32()
		}
	}
	for _, with := range available() {
		t.Run(with.name, func(t *testing.T) {
			own, plain := newScratch(with, new(atomic.Bool)), newScratch(with, new(atomic.Bool))
			for i := range 8 {
				i ^= i >> 1 // one transposition changes at a time
				got, want := make([]float32, n*n), make([]float32, n*n)
				p := product{rows: n, cols: n, depth: n, c: got, ldc: n, alpha: 1,
					a: operand{data: numbers[0][:], ld: n, trans: i&2 != 0},
					b: operand{data: numbers[1][:], ld: n, trans: i&1 != 0}}
				j, _ := smallJob(&p)
				j.plainWorkers(own, 0, 1)
				p.c = want
				plain.multiply(&p)
				require.Equal(t, want, got, "%d", i)
			}
		})
	}
}

// smallJob is a job of one item.
func smallJob(p *product) (*job, []uint32) {
	item := make([]uint32, encoding.ItemWords)
	item[encoding.Depth], item[encoding.Extent] = uint32(p.depth), encoding.PackExtent(p.rows, p.cols)
	item[encoding.LDA], item[encoding.LDB], item[encoding.LDC] = uint32(p.a.ld), uint32(p.b.ld), uint32(p.ldc)
	item[encoding.Alpha], item[encoding.Beta] = math.Float32bits(float32(p.alpha)),
		math.Float32bits(float32(p.beta))
	item[encoding.Slot] = encoding.Final
	l := &encoding.Launch{Count: 1}
	l.Tile = &tile.Shape{TM: maxSide, TN: maxSide}
	l.TransA, l.TransB = p.a.trans, p.b.trans
	return &job{launch: l, words: item, a: p.a.data, b: p.b.data, c: p.c}, item
}
