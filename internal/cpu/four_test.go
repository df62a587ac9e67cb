package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/planner/element"
)

// TestPanels: columns of 4 bits become the same numbers, whatever instructions convert them.
func TestPanels(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	for _, of := range elemtype.Types4() {
		group := map[element.Type]int{element.Int4: 128, element.MXFP4: 128, element.NVFP4: 64}[of]
		const ld, cols, depth = 40, 37, 256
		words := make([]float32, depth*ld/8)
		for i := range words {
			words[i] = math.Float32frombits(rng.Uint32())
		}
		groups := make([]int32, 6*ld)
		for i := range groups {
			groups[i] = int32(rng.Uint32()&0x3fffffff | 0x20000000)
		}
		widen := func(with func(*panel)) []float32 {
			saved := widenPanel[of]
			defer func() { widenPanel[of] = saved }()
			widenPanel[of] = with
			o := operand{ld: ld, groups: groups, group: group, narrow: narrowOf(of, words)}
			to := make([]float32, cols*192+1)
			to[cols*192] = -9
			o.widen4(to, 64, cols, 192)
			require.True(t, o.trans)
			require.EqualValues(t, -9, to[cols*192])
			return to
		}
		want := widen(nil)
		for i, with := range panelsOf(of) {
			got := widen(with)
			for j := range want {
				require.Equal(t, math.Float32bits(want[j]), math.Float32bits(got[j]), "%s, %d: %d", of, i, j)
			}
		}
	}
}
