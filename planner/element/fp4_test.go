package element_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	. "github.com/batchgemm/batchgemm/planner/element"
)

// TestPackFP4: each element and each scale is at its place, nothing else is there, and unpacking inverts it.
func TestPackFP4(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	places := [8]int{0, 4, 1, 5, 2, 6, 3, 7}
	for _, of := range []Type{MXFP4, NVFP4} {
		each := map[Type]int{MXFP4: 32, NVFP4: 16}[of]
		for _, size := range [][2]int{{0, 64}, {3, 0}, {1, 64}, {8, 128}, {13, 192}} {
			n, k := size[0], size[1]
			ld := Int4LD(n)
			pairs, scales := make([]uint8, n*k/2), make([]uint8, n*k/each)
			for _, s := range [][]uint8{pairs, scales} {
				for i := range s {
					s[i] = uint8(rng.Uint32())
				}
			}
			first, rows := 0, (k+4*each-1)/(4*each)
			if of == NVFP4 && k > 0 {
				first, rows = ld, rows+1
			}
			words, groups := make([]uint32, k*ld/8), make([]uint32, rows*ld)
			for _, s := range [][]uint32{words, groups} {
				for i := range s {
					s[i] = rng.Uint32()
				}
			}
			PackFP4(of, words, groups, pairs, scales, 0.375, n, k)
			var sum uint64
			for j := range n {
				for i := range k {
					want := uint32(pairs[(j*k+i)/2]) >> (4 * (i % 2)) & 15
					require.Equal(t, want, words[i/64*8*ld+8*j+i%64/8]>>(4*places[i%8])&15)
					sum += uint64(want)
				}
				for i := range k / each {
					require.EqualValues(t, scales[j*(k/each)+i], groups[first+i/4*ld+j]>>(8*(i%4))&255)
				}
				if of == NVFP4 && k > 0 {
					require.EqualValues(t, 0x3ec00000, groups[j])
				}
			}
			for _, w := range words {
				for ; w > 0; w >>= 4 {
					sum -= uint64(w & 15)
				}
			}
			require.Zero(t, sum)
			gotPairs, gotScales := make([]uint8, len(pairs)), make([]uint8, len(scales))
			scale := UnpackFP4(of, gotPairs, gotScales, words, groups, n, k)
			require.Equal(t, pairs, gotPairs)
			require.Equal(t, scales, gotScales)
			require.Equal(t, of == NVFP4 && n*k > 0, scale == 0.375)
		}
		require.Panics(t, func() { PackFP4(of, make([]uint32, 8), make([]uint32, 16), nil, nil, 1, 1, 32) })
		require.Panics(t, func() {
			PackFP4(of, make([]uint32, 64), nil, make([]uint8, 32), make([]uint8, 4), 1, 1, 64)
		})
	}
	require.PanicsWithValue(t, "element: int4 is not mxfp4 or nvfp4",
		func() { UnpackFP4(Int4, nil, nil, nil, nil, 0, 0) })
}

// TestNumbers4: e2m1 has these numbers, and scales of MXFP4 are powers of two.
func TestNumbers4(t *testing.T) {
	for bits, x := range elemtype.Numbers4(MXFP4) {
		exponent, fraction := bits>>1&3, float32(bits&1)/2
		want := fraction
		if exponent > 0 {
			want = (1 + fraction) * float32(int(1)<<(exponent-1))
		}
		if bits > 7 {
			want = -want
		}
		require.Equal(t, want, x)
	}
	g := elemtype.GroupsOf(MXFP4, 0xff80_7f01, 1, 0)
	require.EqualValues(t, 2, g.Scales[0])
	require.True(t, g.Scales[1] != g.Scales[1])
	g = elemtype.GroupsOf(MXFP4, 0xff80_7f01, 0, 0)
	require.Equal(t, []float32{0x1p-126, 1}, g.Scales[:2])
}
