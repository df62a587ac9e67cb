package workload

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/npz/npztest"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// int4Options returns options with 4-bit B.
func int4Options(of planner.Scaling) *planner.Options {
	return &planner.Options{TypeA: element.BF16, TypeB: element.Int4, TypeC: element.BF16,
		Epilogue: planner.Epilogue{ScaleB: of}}
}

// array returns an array of a test file.
func array(name string, data any, shape ...int) npztest.Array {
	return npztest.Array{Name: name, Data: data, Shape: shape}
}

// int4Case is a B of k x n in all forms of files: numbers by rows and by columns, words, scales and zero
// points.
type int4Case struct {
	n, k, ld, group int
	rows, columns   []uint8
	scales          []float32 // k/group x n
	zeros           []uint8
	packed          []uint32 // with more columns than Int4LD(n)
	words           []uint32 // of groups, k/group x ld
}

func newInt4Case(n, k, group int) *int4Case {
	rng := rand.New(rand.NewPCG(1, 0))
	c := &int4Case{n: n, k: k, ld: element.Int4LD(n) + 8, group: group, rows: make([]uint8, k*n),
		columns: make([]uint8, k*n),
		scales:  make([]float32, k/group*n), zeros: make([]uint8, k/group*n)}
	c.packed, c.words = make([]uint32, k*c.ld/8), make([]uint32, k/group*c.ld)
	for j := range n {
		for i := range k {
			c.columns[j*k+i] = uint8(rng.IntN(16))
			c.rows[i*n+j] = c.columns[j*k+i]
		}
	}
	tight := make([]uint32, k*element.Int4LD(n)/8)
	element.PackInt4(tight, c.columns, n, k)
	for i := range k / element.Int4Panel {
		copy(c.packed[i*8*c.ld:], tight[i*8*element.Int4LD(n):][:8*element.Int4LD(n)])
	}
	for i := range c.scales {
		c.scales[i], c.zeros[i] = float32(1+i), uint8(rng.IntN(16))
		c.words[i/n*c.ld+i%n] = element.GroupWord(c.scales[i], int(c.zeros[i]))
	}
	return c
}

// requireInt4 checks B of a problem, element by element, and the words of its groups.
func (c *int4Case) requireInt4(t *testing.T, p *planner.Problem, ops *Operands, groups []uint32,
	zero func(i int) uint8) {
	t.Helper()
	require.Equal(t, [3]int{c.n, c.k, element.Int4LD(c.n)}, [3]int{p.N, p.K, p.B.LD})
	columns := make([]uint8, c.n*c.k)
	element.UnpackInt4(columns, ops.Packed[p.B.Offset/8:], c.n, c.k)
	require.Equal(t, c.columns, columns)
	for i := range c.scales {
		require.Equal(t, element.GroupWord(c.scales[i], int(zero(i))), groups[i/c.n*p.B.LD+i%c.n], i)
	}
}

// TestInt4Forms: B has the same elements and groups in every form of a file.
func TestInt4Forms(t *testing.T) {
	for _, of := range []planner.Scaling{planner.PerGroup64, planner.PerGroup128} {
		const m, n, k = 2, 11, 256
		group := of.Group()
		c := newInt4Case(n, k, group)
		a := array("A0", slices.Repeat([]float32{1}, m*k), m, k)
		scales, zeros := array("S0", c.scales, k/group, n), array("Z0", c.zeros, k/group, n)
		wide := slices.Repeat([]float32{-1}, k/group*c.ld) // also scales of columns that do not exist
		wideZeros := make([]uint8, len(wide))
		for i, x := range c.scales {
			wide[i/n*c.ld+i%n], wideZeros[i/n*c.ld+i%n] = x, c.zeros[i]
		}
		signed := make([]int8, len(c.rows))
		for i, x := range c.rows {
			signed[i] = int8(x)
		}
		byColumns := npztest.Array{Name: "B0", Data: c.columns, Shape: []int{k, n}, Fortran: true}
		given := func(i int) uint8 { return c.zeros[i] }
		middle := func(int) uint8 { return 8 }
		for _, tc := range []struct {
			name   string
			arrays []npztest.Array
			zero   func(int) uint8
		}{
			{"bytes", []npztest.Array{array("B0", c.rows, k, n), scales, zeros}, given},
			{"bytes in Fortran order", []npztest.Array{byColumns, scales, zeros}, given},
			{"signed bytes without zero points", []npztest.Array{array("B0", signed, k, n), scales}, middle},
			{"bytes, words of groups", []npztest.Array{array("B0", c.rows, k, n),
				array("S0", tightWords(c), k/group, n)}, given},
			{"words, words of groups", []npztest.Array{array("B0", c.packed, k/64, c.ld, 8),
				array("S0", c.words, k/group, c.ld)}, given},
			{"words, scales", []npztest.Array{array("B0", c.packed, k/64, c.ld, 8),
				array("S0", wide, k/group, c.ld), array("Z0", wideZeros, k/group, c.ld)}, given},
		} {
			t.Run(tc.name+"/"+string(of), func(t *testing.T) {
				arrays := append([]npztest.Array{a, array("C0", make([]float32, m*n), m, n)}, tc.arrays...)
				w, err := LoadOf(npztest.Write(t, arrays...), nil, int4Options(of))
				require.NoError(t, err)
				c.requireInt4(t, &w.Batch[0], w.Operands, w.Operands.Groups, tc.zero)
				require.Equal(t, slices.Repeat([]float32{1}, m*k), w.Operands.A)
				require.Equal(t, 1.0, w.Batch[0].Beta)
			})
		}
	}
}

// tightWords returns the group words of the columns that exist.
func tightWords(c *int4Case) (words []uint32) {
	for i := range c.scales {
		words = append(words, c.words[i/c.n*c.ld+i%c.n])
	}
	return words
}

// TestInt4Several: problems follow each other, those without elements have nothing, and N is ld if there are
// only words.
func TestInt4Several(t *testing.T) {
	first, second := newInt4Case(3, 128, 64), newInt4Case(16, 64, 64)
	second.packed, second.ld = second.packed[:0], 16
	tight := make([]uint32, 64*16/8)
	element.PackInt4(tight, second.columns, 16, 64)
	numbers := make([]float32, 64*5) // quantised without loss: each column has all numbers from -8 to 7
	for i := range numbers {
		numbers[i] = 0.25 * float32(i/5%16-8)
	}
	w, err := LoadOf(npztest.Write(t,
		array("A0", make([]float32, 128), 1, 128), array("B0", first.rows, 128, 3),
		array("S0", first.scales, 2, 3),
		array("A1", []float32{}, 0, 64), array("B1", make([]float32, 64*9), 64, 9),
		array("A2", make([]float32, 64), 1, 64), array("B2", tight, 1, 16, 8),
		array("S2", tightWords(second), 1, 16),
		array("A3", []float32{}, 2, 0), array("B3", []float32{}, 0, 4),
		array("A4", make([]float32, 64), 1, 64), array("B4", numbers, 64, 5),
	), nil, int4Options(planner.PerGroup64))
	require.NoError(t, err)
	require.Len(t, w.Batch, 5)
	groups := w.Operands.Groups
	require.Len(t, groups, 2*8+16+8)
	first.requireInt4(t, &w.Batch[0], w.Operands, groups, func(int) uint8 { return 8 })
	second.requireInt4(t, &w.Batch[2], w.Operands, groups[16:], func(i int) uint8 { return second.zeros[i] })
	p := &w.Batch[4]
	back := make([]uint8, 64*5)
	element.UnpackInt4(back, w.Operands.Packed[p.B.Offset/8:], 5, 64)
	for j := range 5 {
		scale, zero := element.GroupOf(groups[32+j])
		for k := range 64 {
			require.Equal(t, numbers[k*5+j], scale*float32(int(back[j*64+k])-zero))
		}
	}
}

// TestInt4Sizes: B is in panels, whatever the source of the sizes, and random sizes have whole groups.
func TestInt4Sizes(t *testing.T) {
	w, err := LoadOf("-", strings.NewReader("5 9 128\n0 3 5\n7 3 256\n"), int4Options(planner.PerGroup128))
	require.NoError(t, err)
	require.Equal(t, planner.Matrix{Offset: 0, LD: 16}, w.Batch[0].B)
	require.Equal(t, planner.Matrix{Offset: 128 * 16, LD: 8}, w.Batch[2].B)
	var ops Operands
	require.NoError(t, ops.MakePacked(w.Batch))
	require.Len(t, ops.Packed, (128*16+256*8)/8)

	drawn, err := LoadOf("random:mn=20,k=200,batch=50", nil, int4Options(planner.PerGroup64))
	require.NoError(t, err)
	plain, err := Load("random:mn=20,k=200,batch=50", nil)
	require.NoError(t, err)
	for i, p := range drawn.Batch {
		q := plain.Batch[i]
		require.Equal(t, [3]int{q.M, q.N, (q.K + 63) / 64 * 64}, [3]int{p.M, p.N, p.K})
	}
}

// TestInt4Errors: errors name the array or problem that 4-bit B cannot have.
func TestInt4Errors(t *testing.T) {
	const k = 128
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	zeros := func(n int) []float32 { return make([]float32, n) }
	a := array("A0", zeros(2*k), 2, k)
	bytes := array("B0", make([]uint8, k*3), k, 3)
	scales := array("S0", zeros(3), 1, 3)
	words := array("B0", make([]uint32, 2*8*8), 2, 8, 8)
	with := func(n, at int, x float32) []float32 { s := zeros(n); s[at] = x; return s }
	large := make([]uint8, k*3)
	large[3*5+1] = 16
	for _, tc := range []struct {
		name   string
		arrays []npztest.Array
		want   string
	}{
		{"no whole group", []npztest.Array{array("A0", zeros(2*96), 2, 96), array("B0", zeros(96), 96, 1)},
			"problem 0: K 96 is no multiple of the group of 128 that share a scale of B"},
		{"of a later problem", []npztest.Array{a, array("B0", zeros(k), k, 1), array("A1", zeros(64), 1, 64),
			array("B1", zeros(64), 64, 1)}, "problem 1: K 64 is no multiple of the group of 128 that share " +
			"a scale of B"},
		{"A in Fortran order", []npztest.Array{{Name: "A0", Data: zeros(2 * k), Shape: []int{2, k},
			Fortran: true}, array("B0", zeros(k), k, 1)},
			"A0 is in Fortran order; convert it with numpy.ascontiguousarray"},
		{"NaN", []npztest.Array{a, array("B0", with(k*3, 3*7+2, nan), k, 3)},
			"B0[7, 2] is NaN, for which int4 has no number"},
		{"infinite, in Fortran order", []npztest.Array{a, {Name: "B0", Data: with(k*3, 2*k+7, -inf),
			Shape: []int{k, 3}, Fortran: true}}, "B0[7, 2] is -Inf, for which int4 has no number"},
		{"rows", []npztest.Array{a, array("B0", zeros(64), 64, 1)},
			"B0 has shape (64, 1), but A0 has 128 columns"},
		{"panels", []npztest.Array{a, array("B0", make([]uint32, 64), 1, 8, 8), scales},
			"B0 has shape (1, 8, 8), of 1 panels of 64 k's, but A0 has 128 columns"},
		{"flat words", []npztest.Array{a, array("B0", make([]uint32, 3*k), k, 3), scales},
			"B0 has shape (128, 3), want (K/64, ld, 8) of words, and ld a multiple of 8"},
		{"odd ld", []npztest.Array{a, array("B0", make([]uint32, 2*7*8), 2, 7, 8), scales},
			"B0 has shape (2, 7, 8), want (K/64, ld, 8) of words, and ld a multiple of 8"},
		{"words of nine", []npztest.Array{a, array("B0", make([]uint32, 2*8*9), 2, 8, 9), scales},
			"B0 has shape (2, 8, 9), want (K/64, ld, 8) of words, and ld a multiple of 8"},
		{"words in Fortran order", []npztest.Array{a, {Name: "B0", Data: make([]uint32, 2*8*8),
			Shape: []int{2, 8, 8}, Fortran: true}, array("S0", zeros(8), 1, 8)},
			"B0 is in Fortran order; convert it with numpy.ascontiguousarray"},
		{"C with more columns than words", []npztest.Array{a, words, array("S0", zeros(8), 1, 8),
			array("C0", zeros(18), 2, 9)}, "C0 has shape (2, 9), but A0*B0 has (2, 8)"},
		{"no scales", []npztest.Array{a, bytes}, "array S0 is missing: the scales of B0, which is of uint8"},
		{"words without scales", []npztest.Array{a, words},
			"array S0 is missing: the scales of B0, which is of uint32"},
		{"scales of what is quantised", []npztest.Array{a, array("B0", zeros(k), k, 1), scales},
			"B0 is of float32, for which scales are found, but there are S0"},
		{"zero points of what is quantised", []npztest.Array{a, array("B0", make([]uint16, k), k, 1),
			array("Z0", []uint8{1}, 1, 1)}, "B0 is of float16, for which scales are found, but there are Z0"},
		{"zero points of words", []npztest.Array{a, bytes, array("S0", make([]uint32, 3), 1, 3),
			array("Z0", make([]uint8, 3), 1, 3)}, "Z0 is there, but the words of S0 have zero points"},
		{"scales of other groups", []npztest.Array{a, bytes, array("S0", zeros(6), 2, 3)},
			"S0 has shape (2, 3), want (1, 3): one for each 128 k's of a column of B0"},
		{"scales of n columns for words", []npztest.Array{a, words, scales},
			"S0 has shape (1, 3), want (1, 8): one for each 128 k's of a column of B0"},
		{"zero points of another shape", []npztest.Array{a, bytes, scales, array("Z0", make([]uint8, 2), 1,
			2)}, "Z0 has shape (1, 2), want (1, 3): one for each 128 k's of a column of B0"},
		{"scales in Fortran order", []npztest.Array{a, bytes, {Name: "S0", Data: zeros(3), Shape: []int{1, 3},
			Fortran: true}}, "S0 is in Fortran order; convert it with numpy.ascontiguousarray"},
		{"whole scales", []npztest.Array{a, bytes, array("S0", make([]int8, 3), 1, 3)},
			"S0 is of int8, want scales of float32 or float16, or words of uint32"},
		{"zero points that are not whole", []npztest.Array{a, bytes, scales, array("Z0", zeros(3), 1, 3)},
			"Z0 is of float32, want zero points of uint8 or int8"},
		{"a large zero point", []npztest.Array{a, bytes, scales, array("Z0", []uint8{0, 15, 16}, 1, 3)},
			"Z0[0, 2] is 16, want 0 to 15"},
		{"a negative zero point", []npztest.Array{a, bytes, scales, array("Z0", []int8{0, -1, 8}, 1, 3)},
			"Z0[0, 1] is -1, want 0 to 15"},
		{"a large number", []npztest.Array{a, array("B0", large, k, 3), scales},
			"B0[5, 1] is 16, want 0 to 15"},
		{"C of words", []npztest.Array{a, array("B0", zeros(k), k, 1), array("C0", make([]uint32, 2), 2, 1)},
			"C0 is of uint32, which are words of B of int4, not elements of bf16"},
		{"three dimensions of C", []npztest.Array{a, array("B0", zeros(k), k, 1),
			array("C0", make([]uint32, 2), 2, 1, 1)}, "C0 has 3 dimensions, want 2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := npztest.Write(t, tc.arrays...)
			_, err := LoadOf(path, nil, int4Options(planner.PerGroup128))
			require.EqualError(t, err, path+": "+tc.want)
		})
	}
}

// TestElementArrays: arrays of 8-bit numbers are elements of their type, and of no other.
func TestElementArrays(t *testing.T) {
	int8s, e4m3 := &planner.Options{TypeA: element.Int8, TypeC: element.F32}, &planner.Options{
		TypeA: element.E4M3, TypeC: element.F16}
	nan := float32(math.NaN())
	a, c := array("A0", []int8{-128, 127}, 1, 2), array("C0", []float32{nan}, 1, 1)
	bits := array("B0", []uint8{0x38, 0xfe}, 2, 1) // 1 and -448
	for _, tc := range []struct {
		name   string
		o      *planner.Options
		arrays []npztest.Array
		b      []float32
		want   string
	}{
		{"int8", int8s, []npztest.Array{a, array("B0", []int8{-1, 3}, 2, 1)}, []float32{-1, 3}, ""},
		{"int8 as float32", new(planner.Options), []npztest.Array{a, array("B0", []int8{-1, 3}, 2, 1)},
			[]float32{-1, 3}, ""},
		{"C may be NaN", int8s, []npztest.Array{a, array("B0", []int8{-1, 3}, 2, 1), c},
			[]float32{-1, 3}, ""},
		{"bits of e4m3", e4m3, []npztest.Array{a, bits}, []float32{1, -448}, ""},
		{"NaN of e4m3", e4m3, []npztest.Array{a, array("B0", []float32{nan, 1}, 2, 1)},
			[]float32{nan, 1}, ""},
		{"bits for int8", int8s, []npztest.Array{a, bits}, nil,
			"B0 is of uint8, which are bits of e4m3, not elements of int8"},
		{"bits for float32", new(planner.Options), []npztest.Array{a, bits}, nil,
			"B0 is of uint8, which are bits of e4m3, not elements of f32"},
		{"bits for C", e4m3, []npztest.Array{a, bits, array("C0", []uint8{1}, 1, 1)}, nil,
			"C0 is of uint8, which are bits of e4m3, not elements of f16"},
		{"words", int8s, []npztest.Array{a, array("B0", []uint32{1, 2}, 2, 1)}, nil,
			"B0 is of uint32, which are words of B of int4, not elements of int8"},
		{"words of three dimensions", int8s, []npztest.Array{a, array("B0", []uint32{1, 2}, 2, 1, 1)}, nil,
			"B0 has 3 dimensions, want 2"},
		{"scales", int8s, []npztest.Array{a, bits, array("S0", []float32{1}, 1, 1)}, nil,
			"array S0 is there, but scales and zero points are for B of int4"},
		{"zero points", int8s, []npztest.Array{a, bits, array("Z0", []uint8{1}, 1, 1)}, nil,
			"array Z0 is there, but scales and zero points are for B of int4"},
		{"NaN in A", int8s, []npztest.Array{array("A0", []float32{0, 1, 2, 3, nan, 5}, 3, 2), bits}, nil,
			"A0[2, 0] is NaN, for which int8 has no number"},
		{"infinite in B", int8s, []npztest.Array{a, array("B0", []uint16{0, 0x7c00}, 2, 1)}, nil,
			"B0[1, 0] is +Inf, for which int8 has no number"},
		{"int32", int8s, []npztest.Array{a, array("B0", []int32{1, 2}, 2, 1)}, nil,
			`B0: has dtype "<i4", want float64, float32, float16, int8, uint8 or uint32`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := npztest.Write(t, tc.arrays...)
			w, err := LoadOf(path, nil, tc.o)
			if tc.want != "" {
				require.EqualError(t, err, path+": "+tc.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, []float32{-128, 127}, w.Operands.A)
			for i, x := range tc.b {
				require.Equal(t, math.Float32bits(x), math.Float32bits(w.Operands.B[i]))
			}
		})
	}
}
