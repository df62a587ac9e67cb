package wgsl

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner/element"
	"github.com/batchgemm/batchgemm/planner/encoding"
)

// The shaders of ragged plans keep to the limits of all adapters, and declare the workgroup
// memory that they say.
func TestRaggedRespectsLimits(t *testing.T) {
	arrays := regexp.MustCompile(`var<workgroup> \w+: array<(?:u32|atomic<u32>), (\d+)>;`)
	for name, lim := range adapters {
		t.Run(name, func(t *testing.T) {
			for _, stage := range []encoding.RaggedStage{encoding.RaggedPlan, encoding.RaggedExpand} {
				s, err := Render(encoding.Kernel{Ragged: stage}, lim)
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

// Items on the device have the flag of wide loads that items of the host have.
func TestRaggedWideFlag(t *testing.T) {
	for of, mask := range map[element.Type]string{element.F32: "& 3u) == 0u", element.BF16: "& 7u) == 0u", element.F16: "& 7u) == 0u"} {
		s, err := Render(encoding.Kernel{Ragged: encoding.RaggedExpand, Type: of}, adapters["nvidia"])
		require.NoError(t, err)
		require.Contains(t, s.Source, "words[at + 11u] = select(0u, 1u, ((p.offA | p.ldA | p.offB | p.ldB) "+mask, of)
	}
}
