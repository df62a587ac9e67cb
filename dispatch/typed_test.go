package dispatch

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/devices"
	"github.com/batchgemm/batchgemm/planner/element"
)

// drawn returns numbers of a type, and their bits if the type has fewer than 32.
func drawn(of element.Type, n int) (numbers []float32, bits []uint16) {
	numbers, bits = make([]float32, n), make([]uint16, n)
	reference.UniformOf(of, rand.New(rand.NewPCG(uint64(n), 0)), numbers)
	if of == element.F32 {
		return numbers, nil
	}
	for i, x := range numbers {
		bits[i] = elemtype.Bits(of, x)
		numbers[i] = elemtype.Float(of, bits[i])
	}
	return numbers, bits
}

// bytesOf returns 8-bit values.
func bytesOf(bits []uint16) []uint8 {
	all := make([]uint8, len(bits))
	for i, x := range bits {
		all[i] = uint8(x)
	}
	return all
}

func TestTypedRun(t *testing.T) {
	ctx := t.Context()
	d, err := Open(ctx, WithBackend("cpu"))
	require.NoError(t, err)
	defer d.Close()
	batch, err := planner.Pack(planner.Problem{M: 7, N: 5, K: 30, Beta: 1},
		planner.Problem{M: 33, N: 41, K: 300, TransA: true})
	require.NoError(t, err)
	for _, of := range []element.Type{element.BF16, element.F16, element.E4M3, element.Int8} {
		for _, ofC := range elemtype.TypesC(of) {
			t.Run(of.String()+"/"+ofC.String(), func(t *testing.T) {
				plan, err := d.Plan(ctx, batch, planner.Options{TypeA: of, TypeC: ofC})
				require.NoError(t, err)
				p, err := d.Prepare(ctx, plan)
				require.NoError(t, err)
				defer p.Close()
				lens := [3]int{plan.ExtentA, plan.ExtentB, plan.ExtentC}
				var on [3]*Buffer
				var numbers [3][]float32
				for i, of := range []element.Type{of, of, ofC} {
					on[i], err = d.NewBuffer(of, lens[i])
					require.NoError(t, err)
					defer on[i].Close()
					require.Equal(t, of, on[i].Type())
					require.Equal(t, lens[i], on[i].Len())
					var bits []uint16
					if numbers[i], bits = drawn(of, lens[i]); of == element.F32 {
						require.NoError(t, Write(ctx, on[i], 0, numbers[i]))
						continue
					}
					if of.Bytes() == 1 {
						require.NoError(t, Write(ctx, on[i], 0, bytesOf(bits)))
						continue
					}
					require.NoError(t, Write(ctx, on[i], 0, bits))
				}
				require.NoError(t, p.Run(ctx, Operands{A: on[0], B: on[1], C: on[2]}))
				got := make([]float32, lens[2])
				if ofC == element.F32 {
					require.NoError(t, Read(ctx, on[2], 0, got))
				} else {
					bits := make([]uint16, len(got))
					require.NoError(t, Read(ctx, on[2], 0, bits))
					element.Widen(ofC, got, bits)
				}
				_, err = reference.CheckIn(reference.Arithmetic{TypeC: ofC}, batch, numbers[0], numbers[1],
					numbers[2], got)
				require.NoError(t, err)
			})
		}
	}
}

// narrowMoves are the copies of 16-bit or 8-bit elements.
type narrowMoves[T bits] struct {
	of          element.Type
	write, read func(ctx context.Context, b *Buffer, offset int, data []T) error
	start       func(ctx context.Context, b *Buffer, offset int, dst []T) *Reading
}

var (
	ofHalves = narrowMoves[uint16]{element.F16, Write[uint16], Read[uint16], ReadAsync[uint16]}
	ofBytes  = narrowMoves[uint8]{element.E4M3, Write[uint8], Read[uint8], ReadAsync[uint8]}
)

// Each range of elements moves by itself.
func TestBits(t *testing.T) {
	t.Run("16", ofHalves.testRanges)
	t.Run("8", ofBytes.testRanges)
}

func (m narrowMoves[T]) testRanges(t *testing.T) {
	ctx := t.Context()
	d, _ := openFake(t)
	defer d.Close()
	for _, n := range []int{1, 2, 7, 8} {
		b, err := d.NewBuffer(m.of, n)
		require.NoError(t, err)
		want := make([]T, n)
		require.NoError(t, m.write(ctx, b, 0, want))
		next := T(0)
		for first := range n + 1 {
			for end := first; end <= n; end++ {
				for i := first; i < end; i++ {
					next++
					want[i] = next
				}
				require.NoError(t, m.write(ctx, b, first, want[first:end]))
				got := make([]T, n)
				require.NoError(t, m.read(ctx, b, 0, got))
				require.Equal(t, want, got, "%d: [%d, %d) was written", n, first, end)
				part, later := make([]T, end-first), make([]T, end-first)
				require.NoError(t, m.read(ctx, b, first, part))
				require.Equal(t, want[first:end], part, "%d: [%d, %d) was read", n, first, end)
				require.NoError(t, wait(t, m.start(ctx, b, first, later)))
				require.Equal(t, part, later, "%d: [%d, %d) was read later", n, first, end)
			}
		}
		require.NoError(t, b.Close())
	}
}

// A copy larger than a piece is complete, and writes nothing beyond it.
func TestManyBits(t *testing.T) {
	t.Run("16", ofHalves.testMany)
	t.Run("8", ofBytes.testMany)
}

func (m narrowMoves[T]) testMany(t *testing.T) {
	ctx := t.Context()
	d, _ := openFake(t)
	const n = 2*maxPiece + 5
	b, err := d.NewBuffer(m.of, n)
	require.NoError(t, err)
	want := make([]T, n)
	for round, r := range [][2]int{{0, n}, {1, n}, {0, n - 1}, {3, n - 2}, {1, 1 + maxPiece}, {0, maxPiece}} {
		for i := r[0]; i < r[1]; i++ {
			want[i] = T(i*7 + round + 1)
		}
		require.NoError(t, m.write(ctx, b, r[0], want[r[0]:r[1]]))
		got, part := make([]T, n), make([]T, r[1]-r[0])
		require.NoError(t, m.read(ctx, b, 0, got))
		require.True(t, slices.Equal(want, got), "%v was written", r)
		require.NoError(t, m.read(ctx, b, r[0], part))
		require.True(t, slices.Equal(want[r[0]:r[1]], part), "%v was read", r)
	}
}

func TestTypedMistakes(t *testing.T) {
	ctx := t.Context()
	d, err := Open(ctx, WithBackend("cpu"))
	require.NoError(t, err)
	defer d.Close()
	gpu, err := devices.Lookup("h200")
	require.NoError(t, err)
	gpu.Types = nil
	_, refused := planner.New(gpu).Plan(ctx, nil, planner.Options{TypeA: element.F16, TypeC: element.F16})
	batch := planner.Batch{{M: 1, N: 1, K: 1, A: planner.Matrix{LD: 1}, B: planner.Matrix{LD: 1},
		C: planner.Matrix{LD: 1}}}
	plan, err := d.Plan(ctx, batch, planner.Options{TypeA: element.BF16})
	require.NoError(t, err)
	p, err := d.Prepare(ctx, plan)
	require.NoError(t, err)
	buffer := func(of element.Type) *Buffer {
		b, err := d.NewBuffer(of, 4)
		require.NoError(t, err)
		return b
	}
	half, other, full, eighth := buffer(element.BF16), buffer(element.F16), buffer(element.F32),
		buffer(element.E4M3)
	typed := func(a, c element.Type) error {
		_, err := d.Plan(ctx, batch, planner.Options{TypeA: a, TypeC: c})
		return err
	}
	bf16 := planner.Options{TypeA: element.BF16}
	for want, err := range map[string]error{
		"the plan is for bf16":                   p.Run(ctx, Operands{A: other, B: half, C: full}),
		"B has elements of f32":                  p.Run(ctx, Operands{A: half, B: full, C: full}),
		"C has elements of bf16, the plan":       p.Run(ctx, Operands{A: half, B: half, C: half}),
		"has elements of bf16, not f32":          Write(ctx, half, 0, make([]float32, 1)),
		"read: the buffer has elements of bf16":  Read(ctx, half, 0, make([]int32, 1)),
		"has elements of bf16, not of 8 bits":    Write(ctx, half, 0, make([]uint8, 1)),
		"has elements of e4m3, not of 16 bits":   Read(ctx, eighth, 0, make([]uint16, 1)),
		"has elements of f32, not of 16 bits":    Write(ctx, full, 0, make([]uint16, 1)),
		"2 elements from 3 on, in a buffer of 4": Read(ctx, half, 3, make([]uint16, 2)),
		"has no kernels for elements of f16":     refused,
		"C cannot be f16 if those of A and B":    typed(element.BF16, element.F16),
		"C cannot be bf16 if those of A":         typed(element.F32, element.BF16),
		"unknown element types 9, 0 and 0":       typed(9, 0),
		"the options have TypeA bf16, but A is": gemmOf[float32, float32](ctx, d, batch, bf16, nil, nil,
			nil),
	} {
		require.ErrorIs(t, err, ErrInvalid, want)
		require.ErrorContains(t, err, want)
	}
	_, err = d.NewBuffer(9, 1)
	require.ErrorIs(t, err, ErrInvalid)
	_, err = d.Plan(ctx, batch, planner.Options{TypeA: element.F16, Compute: planner.ComputeTF32})
	require.ErrorContains(t, err, "compute mode tf32 is for operands of f32, not f16")
}
