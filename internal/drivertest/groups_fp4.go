package drivertest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
)

// testAllFP4 multiplies all 16 elements by all 256 scales, with one product in each element of C: scale i of
// column j is j^i, but j alone where one of four is NaN or too large; element k of each column is k%16, and A
// is the identity.
func (s *suite) testAllFP4(t *testing.T) {
	facts := s.device.Info().Planner
	for _, e := range []planner.Epilogue{{ScaleB: planner.PerGroup32}, {ScaleB: planner.PerGroup16}} {
		o := planner.Options{TypeA: s.of, TypeB: e.ScaleB.TypeB(s.of), TypeC: s.ofC, Epilogue: e}
		t.Run(o.TypeB.String(), func(t *testing.T) { s.runAllFP4(t, o) })
		for i := range facts.Kernels {
			shape := facts.Kernels[i].Tile
			o := o
			if o.Tile = shape.Name; (shape.Int4Only || shape.Name == "thin-8x64") && facts.Fits(shape, o) {
				t.Run(o.TypeB.String()+"/"+shape.Name, func(t *testing.T) { s.runAllFP4(t, o) })
			}
		}
	}
}

func (s *suite) runAllFP4(t *testing.T, o planner.Options) {
	t.Helper()
	const depth = 64
	b := planner.Batch{{M: depth, N: 256, K: depth, Alpha: planner.Scale(1)}}
	d := s.placeEpilogue(b, o.Epilogue, newRand(5), few(newRand(6)))
	p := &b[0]
	for i := range depth {
		clear(d.numbers[bufferA][p.A.Offset+i*p.A.LD:][:depth])
		d.numbers[bufferA][p.A.Offset+i*p.A.LD+i] = 1
	}
	groups, each := d.rows[p.ScaleB:], 32
	if o.Epilogue.ScaleB == planner.PerGroup16 {
		for j := range p.N {
			groups[j] = int32(math.Float32bits(0.125))
		}
		groups, each = groups[p.B.LD:], 16
	}
	alone := func(j int) bool { return j >= 252 || each == 16 && j>>2 == 31 }
	for j := range p.N {
		word := uint32(j) * 0x01010101
		if !alone(j) {
			word ^= 0x03020100
		}
		groups[j] = int32(word)
		for k := range depth {
			at, shift := p.B.Offset/8+8*j+k/8, 4*[8]int{0, 4, 1, 5, 2, 6, 3, 7}[k%8]
			d.packed[bufferB][at] = d.packed[bufferB][at]&^(15<<shift) | uint32(k%16)<<shift
		}
	}
	d.number(p, &o.Epilogue)
	c, err := s.prepareEpilogue(t, b, &d, o, nil).run(&d)
	require.NoError(t, err)
	for k := range depth {
		for j := range p.N {
			want, got := d.numbers[bufferB][p.B.Offset+k*p.B.LD+j], c[p.C.Offset+k*p.C.LD+j]
			if each == 32 && (j == 253 || j == 254) {
				continue // 4 and 6 times such a scale are too large, and 0 times that is NaN
			}
			scale := j ^ k/each
			if alone(j) {
				scale = j
			}
			if scale == 0 && s.device.Info().FlushesSubnormals && got == 0 { // the scale is below 2^-126
				continue
			}
			if want != want {
				require.True(t, got != got, "element %d times scale %d is %g, not NaN", k%16, scale, got)
				continue
			}
			require.Equal(t, want, got, "element %d times scale %d", k%16, scale)
		}
	}
}
