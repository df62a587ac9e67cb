package gcn

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/native"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// exactBytes runs one batch of 8-bit elements in each transposition, on all architectures and in all tiles
// whose words have at least that many k, and requires exact results. If B is K-major, matrices start at
// multiples of unit. fill makes the operands of the placed batch.
func exactBytes(t *testing.T, o planner.Options, perWordLeast, unit int,
	batch func(transA, transB bool) planner.Batch,
	fill func(of element.Type, b planner.Batch, x, y []float32)) {
	t.Helper()
	for name := range arches {
		arch, err := native.HIP(name)
		require.NoError(t, err)
		d := device(t, arch, 1024)
		for _, shape := range shapesOf(arch) {
			if d.Kernel(shape).Bytes == 0 || perWord(t, arch, shape, o.TypeA) < perWordLeast {
				continue
			}
			o := o
			o.Tile = shape.Name
			t.Run(name+"/"+shape.Name+"/"+o.TypeA.String(), func(t *testing.T) {
				sample.Products.Skip(t, 1)
				product := readProduct(t, name)
				t.Parallel()
				for transposition := range 4 {
					transA, transB := transposition/2 == 1, transposition%2 == 1
					at := 1
					if transB {
						at = unit
					}
					j := newJob(t, d, batch(transA, transB), o, at, rand.New(rand.NewPCG(1, 2)))
					fill(o.TypeA, j.plan.Batch, j.a, j.b)
					j.exact = true
					_, err := j.run(product, arch, transB, nil)
					require.NoError(t, err)
				}
			})
		}
	}
}

// TestWholeSums: sums of int8 on matrix cores are exact.
func TestWholeSums(t *testing.T) {
	exactBytes(t, planner.Options{TypeA: element.Int8}, 4, 1, reference.OfWholeSums,
		func(_ element.Type, b planner.Batch, x, y []float32) { reference.WholeSums(b, x, y) })
}

// TestBytes: all 8-bit numbers are converted correctly, in either half of a word, K-major and MN-major.
func TestBytes(t *testing.T) {
	for _, of := range []element.Type{element.E4M3, element.Int8} {
		exactBytes(t, planner.Options{TypeA: of}, 1, 1, reference.OfAllNumbers, reference.AllNumbers)
	}
}

// TestProductsOfBytes: all products of two 8-bit numbers are exact.
func TestProductsOfBytes(t *testing.T) {
	exactBytes(t, planner.Options{TypeA: element.E4M3, TypeC: element.F32}, 1, 16, reference.OfAllProducts,
		reference.AllProducts)
}

// TestSumsFP8: precision of the sums of gfx942's matrix cores.
func TestSumsFP8(t *testing.T) {
	const one, half, least, most, nan = 0x40, 0x38, 0x01, 0x7f, 0x80 // 1, 1/2, 2^-10, 240, NaN
	for _, test := range []struct {
		name string
		a, b map[int]uint8
		sum  float32
		want float64
	}{
		{"nothing", nil, nil, -3, -3},
		{"products are exact", map[int]uint8{0: most, 1: half}, map[int]uint8{0: most, 1: half}, 1,
			240*240 + 1.25},
		{"a small one beside the largest is cut", map[int]uint8{0: most, 2: least},
			map[int]uint8{0: most, 2: least}, 0, 240 * 240},
		{"and one below zero, towards it", map[int]uint8{0: most, 2: least | 0x80},
			map[int]uint8{0: most, 2: least}, 0, 240 * 240},
		{"of odd k's, downwards", map[int]uint8{0: most, 1: least | 0x80}, map[int]uint8{0: most, 1: least},
			-57599, 1 - 0x1p-10},
		{"the sum is cut", map[int]uint8{0: most, 2: most}, map[int]uint8{0: most, 2: most | 0x80}, 0x1p-11,
			0},
		{"downwards", map[int]uint8{0: most, 2: most}, map[int]uint8{0: most, 2: most | 0x80}, -0x1p-11,
			-0x1p-10},
		{"a small one is not", map[int]uint8{0: most, 2: most}, map[int]uint8{0: most, 2: most | 0x80},
			-0x1p-12, 0},
		{"products beside a larger sum round it", map[int]uint8{0: one, 1: 0x08},
			map[int]uint8{0: one, 1: one}, 0x1p24, 0x1p24 + 2},
		{"smaller ones are cut", map[int]uint8{0: one, 1: 0x04}, map[int]uint8{0: one, 1: one}, 0x1p24,
			0x1p24},
		{"a tie is even", map[int]uint8{0: one}, map[int]uint8{0: one}, 0x1p24, 0x1p24},
		{"sums go on to the next", map[int]uint8{0: one, 16: least}, map[int]uint8{0: one, 16: least}, 0x1p24,
			0x1p24},
		{"NaN", map[int]uint8{31: nan}, nil, 1, math.NaN()},
		{"NaN times NaN", map[int]uint8{31: nan}, map[int]uint8{31: nan}, 1, math.NaN()},
		{"a sum that is NaN", nil, nil, float32(math.NaN()), math.NaN()},
	} {
		t.Run(test.name, func(t *testing.T) {
			var a, b [32]uint8
			for k, x := range test.a {
				a[k] = x
			}
			for k, x := range test.b {
				b[k] = x
			}
			if got := sumFP8(a[:], b[:], test.sum); !math.IsNaN(test.want) || got == got {
				require.Equal(t, float32(test.want), got)
			}
		})
	}
}
