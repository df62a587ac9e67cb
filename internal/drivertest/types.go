package drivertest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// testTypes runs the tests of jobs with elements of the device's types beside F32, with C of each matching
// type. Updates are the same for all of them.
func (s *suite) testTypes(t *testing.T) {
	types := s.otherTypes()
	if len(types) == 0 {
		t.Skip(s.oneType)
	}
	for i, of := range types {
		for j, ofC := range elemtype.TypesC(of) { // none for Int4, which A cannot have
			t.Run(of.String()+"/"+ofC.String(), func(t *testing.T) {
				typed := *s
				typed.of, typed.ofC = of, ofC
				if j == 0 {
					typed.part(t, "Tiles", typed.testTiles)
					if of.Bytes() < 4 && !elemtype.Whole(of) {
						typed.part(t, "Rounding", typed.testRounding)
					}
					typed.part(t, "Ragged", typed.testRaggedForms)
					typed.part(t, "RaggedRest", typed.testRaggedRest)
					typed.part(t, "RaggedInvariant", typed.testRaggedInvariant)
					typed.part(t, "RaggedHalfLines", typed.testRaggedHalfLines)
				}
				if of != element.F32 {
					typed.part(t, "Boxes", typed.testBoxes)
				}
				if i == 0 && j == 0 {
					typed.part(t, "Update", typed.testUpdate)
				}
				switch {
				case of == element.F64:
					typed.part(t, "Double", typed.testDouble)
					typed.part(t, "NonFinite", typed.testNonFinite)
				case elemtype.Whole(of):
					typed.part(t, "Whole", typed.testWhole)
				default:
					typed.part(t, "NonFinite", typed.testNonFinite)
					typed.part(t, "Subnormals", typed.testSubnormals)
				}
				typed.part(t, "Mixed", typed.testMixed)
				typed.part(t, "Windows", typed.testWindows)
				typed.part(t, "Scalars", typed.testScalars)
				typed.part(t, "Empty", typed.testEmpty)
				typed.part(t, "Reuse", typed.testReuse)
			})
		}
	}
}

// otherTypes are the types beside F32 that are tested.
func (s *suite) otherTypes() []element.Type {
	if s.oneType != "" {
		return s.but
	}
	return s.device.Info().Planner.Types
}

// sumsInC reports whether C has the type of sums.
func (s *suite) sumsInC() bool { return s.ofC == elemtype.Sums(s.of) }

// slow reports whether kernels take long to make, because a CPU emulates the GPU.
func (s *suite) slow() bool { return slow(s.device) }

func slow(d driver.Device) bool {
	info := d.Info()
	return info.Kind == hardware.KindSoftware && info.Planner.KernelKind != encoding.KernelsCPU
}

// turn reports whether case n of several runs with the suite's types. If a CPU emulates the GPU, one of
// three does, because kernels for other types of C only differ in stores, unless sample.Variable asks for
// all.
func (s *suite) turn(n int) bool {
	return !s.plays() || s.of == element.F32 || (n+2*int(s.of)+int(s.ofC))%3 == 0 || sample.All()
}

// plays reports whether a CPU emulates the GPU.
func (s *suite) plays() bool { return s.oneTile != "" || s.slow() }

// part runs a part of the suite that only varies numbers or types of the other parts.
func (s *suite) part(t *testing.T, name string, test func(*testing.T)) {
	t.Run(name, func(t *testing.T) {
		s.sampled(t, 1)
		test(t)
	})
}

// sampled skips a test, one of many similar cases, unless the text of what the suite tests selects it
// (package sample).
func (s *suite) sampled(t testing.TB, many uint64) {
	t.Helper()
	switch _, kernels := s.texts(); kernels {
	case nil:
	case sample.Shaders:
		kernels.Skip(t, many)
	default: // they take less than a second
		kernels.Skip(t, 1)
	}
}

// texts returns the texts in which the suite finds mistakes, that of the backend and that of its kernels, or
// nil for a GPU, on which everything runs.
func (s *suite) texts() (backend, kernels *sample.Text) {
	switch info := s.device.Info(); {
	case s.slow():
		return sample.WebGPU, sample.Shaders
	case s.oneTile != "":
		return sample.Drivers, sample.Drivers
	case info.Planner.KernelKind == encoding.KernelsCPU:
		return sample.CPU, sample.CPU
	}
	return nil, nil
}

// Sampled skips a test of shaders, one of many similar cases, unless it is selected. It only skips if a CPU
// emulates the GPU and takes a second for a kernel.
func Sampled(t testing.TB, d driver.Device, many uint64) {
	t.Helper()
	if slow(d) {
		sample.Shaders.Skip(t, many)
	}
}

// fits reports whether a device has kernels of a tile shape for the suite's types.
func (s *suite) fits(d *planner.Device, shape *tile.Shape) bool {
	return s.fitsWith(d, shape, planner.Epilogue{})
}

func (s *suite) fitsWith(d *planner.Device, shape *tile.Shape, e planner.Epilogue) bool {
	return s.lines == s.alongK(shape).lines &&
		d.Fits(shape, planner.Options{TypeA: s.of, TypeB: e.ScaleB.TypeB(s.of), TypeC: s.ofC, Epilogue: e})
}

// alongK returns the suite for a tile shape. If its kernels need aligned K-major elements, A and B of all
// jobs are placed like that.
func (s *suite) alongK(shape *tile.Shape) *suite {
	own := *s
	own.lines = shape.Boxes || shape.Aligned && s.of.Bytes() == 1
	return &own
}

// instead returns the tile shape of a name, or the first one with kernels for the suite's types if it has
// none.
func (s *suite) instead(d *planner.Device, name string) string {
	return s.insteadWith(d, name, planner.Epilogue{})
}

func (s *suite) insteadWith(d *planner.Device, name string, e planner.Epilogue) string {
	for _, any := range []bool{false, true} {
		for i := range d.Kernels {
			if shape := d.Kernels[i].Tile; s.fitsWith(d, shape, e) && (any || shape.Name == name) {
				return shape.Name
			}
		}
	}
	return name
}

// small reports whether the smallest tile shape has kernels for the suite's types.
func (s *suite) small() bool {
	facts := s.device.Info().Planner
	return s.instead(&facts, "small") == "small"
}

// tile returns the tile of jobs that leave it to the planner; "": the planner chooses. If kernels take long
// to make, it is one tile shape for other types than F32: other shapes differ from it as with F32.
func (s *suite) tile() string {
	if s.of != element.F32 && s.slow() {
		return "small"
	}
	return ""
}

// testRounding multiplies all numbers of a type, except the smallest, by a few. Products are exact in fp32.
// C rounds them, some to infinity, and some to subnormals.
func (s *suite) testRounding(t *testing.T) {
	var numbers []float32
	for bits := range 1 << (8 * s.of.Bytes()) {
		x := elemtype.Float(s.of, uint16(bits))
		if size := math.Abs(float64(x)); size >= 0x1p-110 && size < math.Inf(1) || x == 0 {
			numbers = append(numbers, x)
		}
	}
	third := elemtype.Float(s.of, elemtype.Bits(s.of, 1.0/3))
	factors := []float32{1, -1, third, 1.5, 0x1.02p3, 0x1.8p-10, 0x1p-13}
	b := planner.Batch{{M: len(numbers), N: len(factors), K: 1}}
	j := s.prepare(t, b, narrow, planner.Options{Tile: "small"}, nil)
	o := operands{make([]float32, j.lens[0]), make([]float32, j.lens[1]),
		slices.Repeat([]float32{canary}, j.lens[2])}
	for i, x := range numbers {
		o.a[b[0].A.Offset+i*b[0].A.LD] = x
	}
	copy(o.b[b[0].B.Offset:], factors)
	o = s.typed(o)
	require.NoError(t, reference.CheckRounded(s.ofC, b, o.a, o.b, o.c, j.run(t, o)), j)
}

// testWhole multiplies all pairs of numbers of an integer type, and sums the largest products, as many as
// are exact in fp32. Rows of op(A) have one number each, and so do columns of op(B).
func (s *suite) testWhole(t *testing.T) {
	numbers := make([]float32, 1<<(8*s.of.Bytes()))
	for bits := range numbers {
		numbers[bits] = elemtype.Float(s.of, uint16(bits))
	}
	ends := []float32{slices.Min(numbers), slices.Max(numbers)}
	most := int(0x1p24 / (ends[0] * ends[0]))
	for _, how := range []spacing{narrow, wide} {
		for _, trans := range [][2]bool{{false, false}, {false, true}, {true, false}, {true, true}} {
			t.Run(fmt.Sprintf("%v/%v", how, trans), func(t *testing.T) {
				b := planner.Batch{{M: len(numbers), N: len(numbers), K: 1},
					{M: len(ends), N: len(ends), K: most}}
				for i := range b {
					b[i].TransA, b[i].TransB = trans[0], trans[1]
				}
				j := s.prepare(t, b, how, planner.Options{Tile: s.tile()}, nil)
				o := fill(b, j.lens, func([]float32) {})
				for i, of := range [][]float32{numbers, ends} {
					along(o.a, b[i].A, of, b[i].K, !trans[0])
					along(o.b, b[i].B, of, b[i].K, trans[1])
				}
				o = s.typed(o)
				require.NoError(t, reference.CheckRounded(s.ofC, b, o.a, o.b, o.c, j.run(t, o)), j)
			})
		}
	}
}

// along fills each row of a matrix, or each column, with one of the numbers, repeated.
func along(data []float32, m planner.Matrix, numbers []float32, times int, rows bool) {
	for i, x := range numbers {
		for k := range times {
			if rows {
				data[m.Offset+i*m.LD+k] = x
			} else {
				data[m.Offset+k*m.LD+i] = x
			}
		}
	}
}

// typed rounds operands to the suite's types.
func (s *suite) typed(o operands) operands {
	round(s.of, o.a)
	round(s.of, o.b)
	round(s.ofC, o.c)
	return o
}

// canary16 is the canary of types with a smaller range.
const canary16 = 3e4

// round rounds numbers to a type. For integers, fractions between -1 and 1 are scaled to the whole range,
// and NaN, which they lack, becomes the largest.
func round(of element.Type, numbers []float32) {
	if elemtype.Sums(of) == of {
		return
	}
	for i, x := range numbers {
		switch {
		case x == canary && elemtype.Overflow(of) < canary:
			x = canary16
		case elemtype.Whole(of) && x != x:
			x = math.MaxFloat32
		case elemtype.Whole(of) && x > -1 && x < 1:
			x *= -elemtype.Float(of, 1<<(8*of.Bytes()-1)) // the least
		}
		numbers[i] = elemtype.Float(of, elemtype.Bits(of, x))
	}
}

// wordsOf returns how many words of a buffer hold that many elements.
func wordsOf(of element.Type, elements int) int { return (elements*of.Bytes() + 3) / 4 }
