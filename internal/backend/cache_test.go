package backend

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// dropping returns a cache of limit 3, and the values that it drops, in order.
func dropping() (c *Cache[int, string], dropped *[]string) {
	dropped = new([]string)
	return limited(3, func(v string) { *dropped = append(*dropped, v) }), dropped
}

func limited[V any](limit int, free func(V)) *Cache[int, V] {
	c := NewCache[int](free)
	c.limit = limit
	return c
}

func TestDropsWhatWasUsedLongestAgo(t *testing.T) {
	c, dropped := dropping()
	for i, v := range []string{"a", "b", "c"} {
		require.True(t, c.Room(0))
		require.Equal(t, v, *c.Put(i, v, uint64(i+1)))
	}
	require.Equal(t, "a", *c.Get(0, 4))
	require.Nil(t, c.Get(7, 4))
	require.Empty(t, *dropped)

	require.False(t, c.Room(1), "the oldest, b, was used by submission 2")
	require.Empty(t, *dropped)
	require.True(t, c.Room(2))
	require.Equal(t, []string{"b"}, *dropped)
	require.True(t, c.Room(2), "there is room already")
	c.Put(3, "d", 5)
	require.True(t, c.Room(9))
	require.Equal(t, []string{"b", "c"}, *dropped)
	require.Equal(t, 2, c.Len())
}

// A submission with more keys than the limit makes the cache grow, until the submission is done.
func TestGrowsWhileValuesAreInUse(t *testing.T) {
	c, dropped := dropping()
	for i := range 10 {
		require.Equal(t, i < 3, c.Room(0))
		c.Put(i, "", 1)
	}
	for i := range 10 {
		require.NotNil(t, c.Get(i, 1))
	}
	c.Trim(0)
	require.Equal(t, 10, c.Len())
	c.Trim(1)
	require.Equal(t, 3, c.Len())
	require.Len(t, *dropped, 7)
	require.NotNil(t, c.Get(9, 2), "the last ones stay")
	require.Nil(t, c.Get(6, 2))
}

func TestDropAndClear(t *testing.T) {
	c, dropped := dropping()
	for i, v := range []string{"a", "b", "c"} {
		c.Put(i, v, 1)
	}
	c.Drop(func(i int) bool { return i == 1 })
	require.Equal(t, []string{"b"}, *dropped)
	require.Equal(t, 2, c.Len())
	c.Clear()
	require.Len(t, *dropped, 3)
	require.Zero(t, c.Len())
	c.Put(4, "e", 2)
	require.True(t, c.Room(0), "a cleared cache works on")
}

func TestGetAllocatesNothing(t *testing.T) {
	c, _ := dropping()
	c.Put(1, "a", 1)
	c.Put(2, "b", 1)
	require.Zero(t, testing.AllocsPerRun(100, func() { c.Get(1, 2); c.Get(2, 2) }))
}

// Every value is dropped once, never while it is in use, in the order of a plain list.
func TestAgainstAList(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	type use struct {
		key    int
		number uint64
	}
	var want, got []int
	var list []use // oldest first
	c := limited(8, func(key int) { got = append(got, key) })
	for n := uint64(1); n < 2000; n++ {
		done := n - uint64(rng.IntN(4)) - 1
		for range rng.IntN(12) {
			key := rng.IntN(20)
			i := slices.IndexFunc(list, func(u use) bool { return u.key == key })
			require.Equal(t, i >= 0, c.Get(key, n) != nil)
			if i >= 0 {
				list = append(slices.Delete(list, i, i+1), use{key, n})
				continue
			}
			for len(list) > 7 && list[0].number <= done {
				want, list = append(want, list[0].key), list[1:]
			}
			require.Equal(t, len(list) <= 7, c.Room(done))
			c.Put(key, key, n)
			list = append(list, use{key, n})
		}
		require.Equal(t, want, got)
		require.Equal(t, len(list), c.Len())
	}
	require.NotEmpty(t, want)
}
