package sample

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// About one of n is drawn, the same ones again for a seed, and others for another.
func TestDrawn(t *testing.T) {
	t.Setenv(Variable, "")
	count := func(seed string) (names []string) {
		for i := range 4000 {
			if name := strconv.Itoa(i); Drawn(name, 4, []byte(seed)) {
				names = append(names, name)
			}
		}
		return names
	}
	one, other := count("text"), count("texts")
	require.InDelta(t, 1000, len(one), 150, "5 standard deviations")
	require.Equal(t, one, count("text"))
	require.NotEqual(t, one, other)
}

// Of any four in a row one has its turn, another one for another seed.
func TestSkipOthers(t *testing.T) {
	t.Setenv(Variable, "")
	ran := map[string][]int{}
	for _, seed := range []string{"text", "texts", "another text"} {
		for i := range 16 {
			t.Run(seed, func(t *testing.T) {
				SkipOthers(t, i, 4, []byte(seed))
				ran[seed] = append(ran[seed], i)
			})
		}
		first := ran[seed][0]
		require.Less(t, first, 4)
		require.Equal(t, []int{first, first + 4, first + 8, first + 12}, ran[seed])
	}
	require.False(t, ran["text"][0] == ran["texts"][0] && ran["text"][0] == ran["another text"][0])
}

func TestSkip(t *testing.T) {
	ran := 0
	run := func(t *testing.T) {
		for i := range 64 {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				Skip(t, 4, nil)
				ran++
			})
		}
	}
	t.Setenv(Variable, "")
	t.Run("some", run)
	require.Positive(t, ran)
	require.Less(t, ran, 64)
	ran = 0
	t.Setenv(Variable, "all")
	t.Run("all", run)
	require.Equal(t, 64, ran)
}
