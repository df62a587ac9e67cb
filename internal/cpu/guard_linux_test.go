package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/planner/element"
)

// guarded is memory between two protected pages.
type guarded []float32

func newGuarded(t *testing.T, n int) guarded {
	t.Helper()
	page := os.Getpagesize()
	size := (4*n + page - 1) / page * page
	mapping, err := syscall.Mmap(-1, 0, size+2*page, syscall.PROT_NONE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Munmap(mapping)) })
	inner := mapping[page : page+size]
	require.NoError(t, syscall.Mprotect(inner, syscall.PROT_READ|syscall.PROT_WRITE))
	return unsafe.Slice((*float32)(unsafe.Pointer(&inner[0])), size/4)
}

// part is n elements at one of the ends.
func (g guarded) part(n int, atEnd bool) []float32 {
	if atEnd {
		return g[len(g)-n:]
	}
	return g[:n:n]
}

// bytes are n bytes at one of the ends.
func (g guarded) bytes(n int, atEnd bool) []byte {
	all := unsafe.Slice((*byte)(unsafe.Pointer(&g[0])), 4*len(g))
	if atEnd {
		return all[len(all)-n:]
	}
	return all[:n:n]
}

// trial is a random product in guarded memory, with its expected results.
type trial struct {
	product
	values [2][]float32 // of A and B as they are stored, NaN between rows
	before []float32
}

func newTrial(rng *rand.Rand, memory *[3]guarded, of element.Type, limit [3]int) (p trial) {
	p.rows, p.cols, p.depth = 1+rng.IntN(limit[0]), 1+rng.IntN(limit[1]), rng.IntN(limit[2]+1)
	p.few = rng.IntN(2) == 0
	p.alpha, p.beta = []float64{1, -0.75}[rng.IntN(2)], []float64{0, 0, 1, 0.5}[rng.IntN(4)]
	matrix := func(i, rows, cols int, trans bool) operand {
		if trans {
			rows, cols = cols, rows
		}
		o := operand{ld: cols + rng.IntN(2)*rng.IntN(40), trans: trans}
		far := o.ld + 512
		if rng.IntN(2) == 0 {
			far = (o.ld + 1023) &^ 1023
		}
		if rows*far <= len(memory[i]) && rng.IntN(8) == 0 {
			o.ld = far
		}
		size := max((rows-1)*o.ld+cols, 0)
		values := make([]float32, size)
		for i := range values {
			values[i] = float32(math.NaN()) // between rows
		}
		for r := range rows {
			for c := range cols {
				values[r*o.ld+c] = 2*rng.Float32() - 1
			}
		}
		atEnd := rng.IntN(2) == 1
		if of == element.F32 || i == 2 {
			o.data = memory[i].part(size, atEnd)
			copy(o.data, values)
		} else {
			o.narrow = narrow{of, memory[i].bytes(of.Size(size), atEnd)}
			o.narrow.set(values)
		}
		if i < 2 {
			p.values[i] = values
		}
		return o
	}
	if p.depth > 0 {
		p.a = matrix(0, p.rows, p.depth, rng.IntN(2) == 1)
		p.gatherSome(rng)
		p.b = matrix(1, p.depth, p.cols, rng.IntN(2) == 1)
	}
	c := matrix(2, p.rows, p.cols, false)
	if p.beta == 0 { // must not be read
		for i := range c.data {
			c.data[i] = float32(math.NaN())
		}
	}
	p.c, p.ldc = c.data, c.ld
	p.before = append([]float32(nil), c.data...)
	return p
}

// gatherSome lets one in four products gather rows of A, some of which there are not.
func (p *product) gatherSome(rng *rand.Rand) {
	if p.a.trans || rng.IntN(4) != 0 {
		return
	}
	p.a.stored, p.a.gather = p.rows, make([]int32, p.rows)
	for i := range p.a.gather {
		p.a.gather[i] = int32(rng.IntN(p.rows+2) - 1)
	}
}

// set stores numbers, which become those that are stored, and NaN where the type has none.
func (n narrow) set(values []float32) {
	if n.of.Bytes() == 1 {
		for i := range values {
			values[i] *= 100
		}
		element.Narrow(n.of, n.bytes, values)
		element.Widen(n.of, values, n.bytes)
		return
	}
	element.Narrow(n.of, n.bits(), values)
	element.Widen(n.of, values, n.bits())
}

// vectors returns the numbers along K of the rows of op(A), or those of the columns of op(B).
func (p *trial) vectors(of int, o *operand, count int) [][]float64 {
	all := make([][]float64, count)
	for i := range all {
		all[i] = make([]float64, p.depth)
		at, step := i*o.ld, 1
		if o.trans == (of == 0) {
			at, step = i, o.ld
		}
		if o.gather != nil {
			if at = int(o.gather[i]) * o.ld; uint(o.gather[i]) >= uint(o.stored) {
				continue
			}
		}
		for k := range all[i] {
			all[i][k] = float64(p.values[of][at+k*step])
		}
	}
	return all
}

// check compares with float64, within 2(K+2) roundings.
func (p *trial) check() error {
	a, b := p.vectors(0, &p.a, p.rows), p.vectors(1, &p.b, p.cols)
	for i, got := range p.c {
		row, col := i/p.ldc, i%p.ldc
		if col >= p.cols {
			if math.Float32bits(got) != math.Float32bits(p.before[i]) {
				return fmt.Errorf("row %d: column %d of %d was written", row, col, p.cols)
			}
			continue
		}
		var sum, size float64
		for k := range p.depth {
			v := a[row][k] * b[col][k]
			sum, size = sum+v, size+math.Abs(v)
		}
		want, size := float64(p.alpha)*sum, math.Abs(float64(p.alpha))*size
		if p.beta != 0 {
			old := float64(p.beta) * float64(p.before[i])
			want, size = want+old, size+math.Abs(old)
		}
		if diff := math.Abs(float64(got) - want); !(diff <= 2*float64(p.depth+2)*0x1p-24*size) {
			return fmt.Errorf("C[%d, %d] = %v, want %v", row, col, got, want)
		}
	}
	return nil
}

// TestGuardPages: random products of all sizes of blocks, without accesses beyond the last byte.
func TestGuardPages(t *testing.T) {
	memory := [3]guarded{newGuarded(t, 1<<18), newGuarded(t, 1<<18), newGuarded(t, 1<<16)}
	trials := 10_000
	if testing.Short() {
		trials = 1000
	}
	for _, with := range available() {
		for _, of := range elemtype.TypesA() {
			if of != element.F32 && with.alongs == nil || of == element.F64 {
				continue // they become fp32, or see TestDoubles
			}
			t.Run(with.name+"/"+of.String(), func(t *testing.T) {
				sample.CPU.Skip(t, 1)
				own := newScratch(with, new(atomic.Bool))
				rng := rand.New(rand.NewPCG(1, 0))
				for i := range trials {
					limit := [3]int{20, 40, 20}
					switch {
					case i%100 == 0:
						limit = [3]int{maxSide, maxSide, 6*panelDepth + 2}
					case i%100 == 1: // with vectors along K
						limit = [3]int{9, 20, 2*alongPart + 20}
					case i%10 == 0:
						limit = [3]int{maxSide, maxSide, 20}
					case i%3 == 0: // of one vector
						limit = [3]int{40, 16, 40}
					}
					p := newTrial(rng, &memory, of, limit)
					own.multiply(&p.product)
					require.NoError(t, p.check(), "trial %d: %dx%dx%d, transposed %v %v", i, p.rows, p.cols,
						p.depth, p.a.trans, p.b.trans)
				}
			})
		}
	}
}
