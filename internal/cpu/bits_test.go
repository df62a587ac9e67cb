package cpu

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// TestSameBits: a plan gives the same bits with any number of threads.
func TestSameBits(t *testing.T) {
	d := openDevice(t)
	batch := append(random(20, 150, 700), planner.GEMM(10, 20, 5000))
	for _, s := range []planner.Schedule{planner.ScheduleDataParallel, planner.ScheduleSplitK,
		planner.ScheduleStreamK, planner.ScheduleLPT} {
		t.Run(string(s), func(t *testing.T) {
			run := ready(t, d, planner.Options{Schedule: s}, batch...)
			c := run.C.(*buffer).data
			var want []float32
			for _, threads := range []int{1, 2, 3, 8} {
				for i := range c {
					c[i] = 7 // also between matrices
				}
				e := newEntry([]driver.Run{run}, 0, nil)
				newCrew(threads, d.crew.own.instructions, new(atomic.Bool)).run(&e, threads-1)
				e.drop()
				if want == nil {
					want = append(want, c...)
				}
				require.Equal(t, want, c, "%d threads", threads)
			}
		})
	}
}

// TestSameBitsOfSides: the bits of a product of BF16 do not depend on which side is packed, on how many rows
// and columns a tile has, and on how B lies in memory.
func TestSameBitsOfSides(t *testing.T) {
	const rows, cols, depth = 45, 70, 1303
	rng := rand.New(rand.NewPCG(1, 0))
	operandOf := func(n, m int) operand {
		o := operand{ld: m, narrow: narrowOf(element.BF16, make([]float32, (n*m+1)/2))}
		for i := range n * m {
			o.bits()[i] = elemtype.Bits(element.BF16, 2*rng.Float32()-1)
		}
		return o
	}
	a, b := operandOf(rows, depth), operandOf(depth, cols)
	turned := operandOf(cols, depth)
	turned.trans = true
	for k := range depth {
		for j := range cols {
			turned.bits()[j*depth+k] = b.bits()[k*cols+j]
		}
	}
	for _, with := range available() {
		if with.bf16 == nil {
			continue
		}
		own := newScratch(with, new(atomic.Bool))
		multiply := func(row, rows, cols int, b operand) []float32 {
			from := a
			from.narrow = from.from(row * depth)
			c := make([]float32, rows*cols)
			own.multiply(&product{rows: rows, cols: cols, depth: depth, a: from, b: b, c: c, ldc: cols,
				alpha: 1})
			return c
		}
		whole := multiply(0, rows, cols, b)
		require.Equal(t, whole, multiply(0, rows, cols, turned), "%s: B transposed", with.name)
		for row := range rows {
			for _, b := range []operand{b, turned} {
				for _, n := range []int{cols, 48, 13} {
					require.Equal(t, whole[row*cols:][:n], multiply(row, 1, n, b), "%s: row %d, %d columns",
						with.name, row, n)
				}
			}
		}
	}
}

// TestWholeSums: sums of the largest products of Int8, over the largest K, are exact, and rounded once.
func TestWholeSums(t *testing.T) {
	const depth = planner.MaxWholeK
	numbers := []int8{-128, 127, 1}
	operandOf := func() operand {
		o := operand{ld: depth, narrow: narrowOf(element.Int8, make([]float32, (len(numbers)*depth+3)/4))}
		for i, x := range numbers {
			for k := range depth {
				o.bytes[i*depth+k] = byte(x)
			}
		}
		return o
	}
	a, b := operandOf(), operandOf()
	b.trans = true
	for _, with := range available() {
		if with.int8 == nil {
			continue
		}
		c := make([]float32, len(numbers)*len(numbers))
		p := &product{rows: len(numbers), cols: len(numbers), depth: depth, a: a, b: b, c: c,
			ldc: len(numbers), alpha: 1}
		newScratch(with, new(atomic.Bool)).multiply(p)
		for i, x := range c {
			product := int(numbers[i/len(numbers)]) * int(numbers[i%len(numbers)])
			require.Equal(t, float32(product*depth), x, "%s: element %d", with.name, i)
		}
	}
}
