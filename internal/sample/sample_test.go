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
