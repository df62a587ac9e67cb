package hostgemm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// guarded returns n bytes that begin after a protected page, or end before one.
func guarded(t *testing.T, n int, atEnd bool) (all, part []byte) {
	t.Helper()
	page := os.Getpagesize()
	size := (n + page - 1) / page * page
	mapping, err := syscall.Mmap(-1, 0, size+2*page, syscall.PROT_NONE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Munmap(mapping)) })
	all = mapping[page : page+size]
	require.NoError(t, syscall.Mprotect(all, syscall.PROT_READ|syscall.PROT_WRITE))
	if atEnd {
		return all, all[size-n:]
	}
	return all, all[:n:n]
}

// words returns the words that hold bytes; the last may be there in part.
func words(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), (len(b)+3)/4)
}

// A and B may be read-only, and no operand is touched beyond its first or last byte, wherever that is.
func TestInPlaceTouchesNothingElse(t *testing.T) {
	h := openCPU(t)
	rng := rand.New(rand.NewPCG(3, 4))
	for _, o := range []planner.Options{
		{}, {TypeA: element.BF16, TypeB: element.BF16, TypeC: element.BF16},
		{TypeA: element.F16, TypeB: element.F16, TypeC: element.F16},
		{TypeA: element.Int8, TypeB: element.Int8}, {TypeA: element.E4M3, TypeB: element.E4M3},
	} {
		for trial := range 60 {
			name := fmt.Sprint(o.TypeA, " ", trial)
			var batch planner.Batch
			var end [3]int
			for range 1 + rng.IntN(4) {
				q := planner.GEMM(1+rng.IntN(40), 1+rng.IntN(40), 1+rng.IntN(70))
				q.TransA, q.TransB = rng.IntN(2) == 0, rng.IntN(2) == 0
				rowsA, colsA := q.ShapeA()
				rowsB, colsB := q.ShapeB()
				for i, m := range [...]struct {
					to         *planner.Matrix
					rows, cols int
				}{{&q.A, rowsA, colsA}, {&q.B, rowsB, colsB}, {&q.C, q.M, q.N}} {
					*m.to = operand(end[i], m.cols+rng.IntN(3))
					end[i] += (m.rows-1)*m.to.LD + m.cols
				}
				batch = append(batch, q)
			}
			all := [3][]byte{}
			memory := [3][]byte{}
			for i, of := range [...]element.Type{o.TypeA, o.TypeB, o.TypeC} {
				all[i], memory[i] = guarded(t, of.Size(end[i]), rng.IntN(2) == 0)
			}
			one := []byte{0, 0, 0x80, 0x3f}
			switch o.TypeA {
			case element.BF16:
				one = one[2:]
			case element.F16:
				one = []byte{0, 0x3c}
			case element.E4M3:
				one = []byte{0x38}
			case element.Int8:
				one = []byte{1}
			}
			for i := range 2 {
				for at := range memory[i] {
					memory[i][at] = one[at%len(one)]
				}
				require.NoError(t, syscall.Mprotect(all[i], syscall.PROT_READ))
			}
			x := Operands{A: words(memory[0]), B: words(memory[1]), C: words(memory[2])}
			have := planner.Lengths{A: end[0], B: end[1], C: end[2]}
			could, err := h.InPlace(t.Context(), batch, o, x, have)
			require.NoError(t, err, name)
			require.True(t, could, name)
			size := o.TypeC.Size(1)
			for _, q := range batch {
				for row := range q.M {
					for col := range q.N {
						at := memory[2][size*(q.C.Offset+row*q.C.LD+col):][:size]
						require.Equal(t, float32(q.K), number(o.TypeC, at), "%s: %v", name, q)
					}
				}
			}
		}
	}
}

func number(of element.Type, bytes []byte) float32 {
	switch of {
	case element.BF16:
		return element.BFloat16(uint16(bytes[0]) | uint16(bytes[1])<<8).Float32()
	case element.F16:
		return element.Float16(uint16(bytes[0]) | uint16(bytes[1])<<8).Float32()
	}
	return *(*float32)(unsafe.Pointer(&bytes[0]))
}

// Matrices that no launch reaches together are used where they are, by several launches.
func TestInPlaceFarApart(t *testing.T) {
	const size, side = min(20<<30, math.MaxInt), 40
	mapping, err := syscall.Mmap(-1, 0, size, syscall.PROT_NONE,
		syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_NORESERVE)
	if err != nil {
		t.Skip("no address space: ", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Munmap(mapping)) })
	all := words(mapping)
	batch := make(planner.Batch, 4)
	for i := range batch {
		at := i % 2 * (len(all) - 1<<20)
		page := mapping[4*at:][:1<<20]
		require.NoError(t, syscall.Mprotect(page, syscall.PROT_READ|syscall.PROT_WRITE))
		for n := range 2 * side * side {
			all[at+n] = 1
		}
		q := planner.GEMM(side, side, side)
		q.A, q.B = operand(at, side), operand(at+side*side, side)
		q.C = operand(at+(2+i)*side*side, side)
		batch[i] = q
	}
	h := openCPU(t)
	require.NoError(t, h.GEMM(t.Context(), batch, planner.Options{}, Operands{A: all, B: all, C: all}))
	require.True(t, h.session.entries[0].inPlace)
	require.Greater(t, len(h.session.plan.Launches), 1)
	for _, q := range batch {
		for _, c := range all[q.C.Offset:][:side*side] {
			require.EqualValues(t, side, c)
		}
	}
}
