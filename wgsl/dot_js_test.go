package wgsl

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner/element"
)

// TestDotInBrowser: dot products change the texts of Int8 alone, for any K-major rows and for others that are
// aligned, and keep to the limits.
func TestDotInBrowser(t *testing.T) {
	lim := adapters["nvidia"]
	for _, k := range some(t, slices.Concat(kernels(), typed(kernels()), packedKernels(), fixups())) {
		lim.Dot = false
		plain, err := Render(k, lim)
		require.NoError(t, err)
		lim.Dot = true
		dot, err := Render(k, lim)
		require.NoError(t, err)
		is := k.TypeA == element.Int8 && k.TypeB() == element.Int8 && !k.Fixup && !plain.geometry.B.Direct &&
			(k.Vector || k.TransB && !k.TransA)
		require.Equal(t, is, strings.HasPrefix(dot.Source, "requires packed_4x8_integer_dot_product;\n"), k)
		require.Equal(t, is, plain.Source != dot.Source, k)
		require.Equal(t, plain.SharedBytes, dot.SharedBytes, k)
	}
}
