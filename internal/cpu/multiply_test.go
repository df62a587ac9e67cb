package cpu

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/batchgemm/batchgemm/internal/reference"
)

// BenchmarkMultiply measures one thread on tiles.
func BenchmarkMultiply(b *testing.B) {
	for _, with := range available() {
		for _, s := range [][3]int{{8, 8, 8}, {16, 16, 16}, {24, 24, 24}, {32, 32, 32}, {64, 64, 64},
			{128, 128, 128}, {128, 128, 1024}} {
			for trans := range 4 {
				b.Run(fmt.Sprintf("%s/%dx%dx%d/%d", with.name, s[0], s[1], s[2], trans), func(b *testing.B) {
					benchmarkTile(b, with, s, trans, 0)
				})
			}
		}
		for _, ld := range []int{512, 520, 1024} {
			b.Run(fmt.Sprintf("%s/128x128x512/ld%d", with.name, ld), func(b *testing.B) {
				benchmarkTile(b, with, [3]int{128, 128, 512}, 0, ld)
			})
		}
	}
}

func benchmarkTile(b *testing.B, with *instructions, s [3]int, trans, ld int) {
	own := newScratch(with, new(atomic.Bool))
	rng := rand.New(rand.NewPCG(1, 0))
	matrix := func(rows, cols int, trans bool) operand {
		if trans {
			rows, cols = cols, rows
		}
		o := operand{ld: max(cols, ld), trans: trans}
		o.data = make([]float32, rows*o.ld)
		reference.Uniform(rng, o.data)
		return o
	}
	p := &product{rows: s[0], cols: s[1], depth: s[2], a: matrix(s[0], s[2], trans&1 != 0),
		b: matrix(s[2], s[1], trans&2 != 0), alpha: 1}
	c := matrix(s[0], s[1], false)
	p.c, p.ldc = c.data, c.ld
	for b.Loop() {
		own.multiply(p)
	}
	b.ReportMetric(2*float64(s[0]*s[1]*s[2])*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}
