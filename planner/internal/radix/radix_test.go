package radix

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Many keys are sorted as by comparing, whichever digits differ.
func TestSorter(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 6))
	var s Sorter
	for _, mask := range []int64{0, 1, 0x1ff, 0x3ff << 7, 0xff<<32 | 0x7fffffff, 1<<63 - 1} {
		for _, n := range []int{0, 1, fewKeys, fewKeys + 1, 1000} {
			keys := s.Reserve(n)
			for i := range keys {
				keys[i] = Key{rng.Int64() & mask, int32(i)}
			}
			want := slices.Clone(keys)
			slices.SortStableFunc(want, func(x, y Key) int { return cmp.Compare(x.By, y.By) })
			require.True(t, slices.Equal(want, s.Sort(keys)), "%x %d", mask, n)
		}
	}
}
