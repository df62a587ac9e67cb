package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/planner/element"
)

// fewTrial is a product of few rows by a B of 4 bits, whose numbers are there too.
type fewTrial struct {
	product
	x, y []float32 // rows of A, columns of B
}

// newFewTrial makes one in guarded memory: A, words and groups end where nothing may be read.
func newFewTrial(rng *rand.Rand, memory *[3]guarded, of element.Type, rows, cols, depth int) (p fewTrial) {
	ld := element.Int4LD(cols)
	group := map[element.Type]int{element.Int4: 64 << rng.IntN(2), element.MXFP4: 128, element.NVFP4: 64}[of]
	lists := (depth + group - 1) / group
	if of == element.NVFP4 {
		lists++
	}
	a := narrow{element.BF16, memory[0].bytes(2*rows*depth, true)}
	p.x, p.y = make([]float32, rows*depth), make([]float32, cols*depth)
	for i := range p.x {
		p.x[i] = 2*rng.Float32() - 1
	}
	a.set(p.x)
	words, groups := memory[1].part(depth/8*ld, true), memory[2].part(lists*ld, true)
	for i := range words {
		words[i] = math.Float32frombits(rng.Uint32())
	}
	for i := range groups {
		word := 0x7d807e7f + uint32(rng.IntN(2)) // from 1/4 to 2
		switch {
		case of == element.NVFP4 && i < ld:
			word = math.Float32bits(rng.Float32())
		case of == element.NVFP4:
			word = rng.Uint32() & 0xbfbfbfbf
		case of == element.Int4:
			word = element.GroupWord(rng.Float32(), rng.IntN(16))
		}
		groups[i] = math.Float32frombits(word)
	}
	p.product = product{rows: rows, cols: cols, depth: depth, few: true, alpha: 1,
		c: make([]float32, rows*cols), ldc: cols, a: operand{ld: depth, narrow: a},
		b: operand{ld: ld, group: group, narrow: narrowOf(of, words)}}
	p.b.groups = unsafe.Slice((*int32)(unsafe.Pointer(&groups[0])), len(groups))
	saved := widenPanel[of]
	widenPanel[of] = nil
	b := p.b
	b.widen4(p.y, 0, cols, depth)
	widenPanel[of] = saved
	return p
}

// TestFewRows: few rows times weights of 4 bits are within the bound of float64, whatever instructions
// multiply, and a row has the same bits whichever other rows there are.
func TestFewRows(t *testing.T) {
	memory := [3]guarded{newGuarded(t, 16*2048), newGuarded(t, maxSide*2048/8), newGuarded(t, maxSide*33)}
	for _, with := range available() {
		if with.fews == nil {
			continue
		}
		for _, of := range elemtype.Types4() {
			t.Run(with.name+"/"+of.String(), func(t *testing.T) {
				own := newScratch(with, new(atomic.Bool))
				rng := rand.New(rand.NewPCG(1, 0))
				for rows := 1; rows <= mostAlong; rows++ {
					depth := element.Int4Panel * (leastAlong/element.Int4Panel + rng.IntN(12))
					p := newFewTrial(rng, &memory, of, rows, 1+rng.IntN(maxSide), depth)
					own.multiply(&p.product)
					require.NoError(t, p.check())
					row := rng.IntN(rows)
					alone, c := p.product, make([]float32, p.cols)
					alone.rows, alone.c, alone.a.narrow = 1, c, p.a.from(row*depth)
					own.multiply(&alone)
					require.Equal(t, p.c[row*p.cols:][:p.cols], c, "row %d of %d", row, rows)
				}
			})
		}
	}
}

// check compares with float64, within 2(K+2) roundings.
func (p *fewTrial) check() error {
	for i, got := range p.c {
		a, b := p.x[i/p.cols*p.depth:][:p.depth], p.y[i%p.cols*p.depth:][:p.depth]
		var sum, size float64
		for k := range a {
			v := float64(a[k]) * float64(b[k])
			sum, size = sum+v, size+math.Abs(v)
		}
		if diff := math.Abs(float64(got) - sum); !(diff <= 2*float64(p.depth+2)*0x1p-24*size) {
			return fmt.Errorf("C[%d, %d] of %d x %d x %d = %v, want %v", i/p.cols, i%p.cols, p.rows, p.cols,
				p.depth, got, sum)
		}
	}
	return nil
}
