package wgsl

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
)

// The shaders of ragged plans keep the limits of all adapters, and declare as much workgroup memory as they
// state.
func TestRaggedRespectsLimits(t *testing.T) {
	arrays := regexp.MustCompile(`var<workgroup> \w+: array<(?:u32|atomic<u32>), (\d+)>;`)
	for name, lim := range adapters {
		t.Run(name, func(t *testing.T) {
			for i := range 4 {
				k := encoding.Kernel{Ragged: []encoding.RaggedStage{encoding.RaggedPlan,
					encoding.RaggedExpand}[i%2]}
				if i > 1 {
					k.Epilogue = encoding.Epilogue{Bias: true, Gated: true, Gather: true, Scatter: true,
						Weights: true}
				}
				s, err := Render(k, lim)
				require.NoError(t, err)
				require.Equal(t, min(lim.Threads, 256), s.Threads)
				require.LessOrEqual(t, s.SharedBytes, lim.SharedBytes)
				require.Contains(t, s.Source, fmt.Sprintf("@workgroup_size(%d)", s.Threads))
				require.Equal(t, 1, s.Pieces)
				require.Equal(t, []string{"words", "sizes"}, declared(t, s))
				bytes := 4 * strings.Count(s.Source, ": atomic<u32>;")
				for _, m := range arrays.FindAllStringSubmatch(s.Source, -1) {
					bytes += 4 * number(m[1])
				}
				require.Equal(t, bytes, s.SharedBytes)
			}
		})
	}
}

// A duplicate name would be ambiguous.
func TestRaggedNames(t *testing.T) {
	require.PanicsWithValue(t, "wgsl: the texts of ragged plans have two things of the name vector", func() {
		raggedNumbers(256).words("", []string{"narrow", "vector"})
	})
	require.PanicsWithValue(t, "wgsl: the texts of ragged plans name nothing", func() {
		names{"some": "${nothing}"}.expand("${some}")
	})
	require.PanicsWithValue(t, "wgsl: the texts of ragged plans have the part odd", func() {
		kept("#if odd\n#end\n", raggedParts(encoding.Epilogue{}))
	})
}
