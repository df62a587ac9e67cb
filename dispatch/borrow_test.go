package dispatch

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
)

// Only a ragged program whose sizes are ends has an extent, at most its bound.
func TestRunAtExtent(t *testing.T) {
	d, err := Open(t.Context(), WithBackend("cpu"))
	require.NoError(t, err)
	rows := planner.Ragged{Form: planner.EndsOfRows, Groups: 2, M: 6, N: 2, K: 2, A: planner.Matrix{LD: 2},
		B: planner.Matrix{LD: 2}, C: planner.Matrix{LD: 2}}
	records := planner.Ragged{Form: planner.Records, Groups: 2, M: 6, N: 2, K: 2, LenA: 12, LenB: 4, LenC: 12}
	whole := program(t, d, small(t))
	for _, c := range []struct {
		of     *planner.Ragged
		extent int
		want   string
	}{
		{nil, 1, "extent 1 is not 0: the program is not ragged, its plan has the sizes"},
		{&rows, 7, "ragged batch: extent 7 is not in [0, 6]"},
		{&rows, -1, "ragged batch: extent -1 is not in [0, 6]"},
		{&rows, 6, "A is 0"},
		{&records, 1, "ragged batch: extent 1 is not 0: records have sizes of their own"},
	} {
		p := whole
		if c.of != nil {
			p, err = d.PrepareRagged(t.Context(), *c.of, planner.Options{})
			require.NoError(t, err)
		}
		err := p.RunAt(t.Context(), 0, Addresses{Extent: c.extent})
		require.ErrorIs(t, err, ErrInvalid)
		require.EqualError(t, err, c.want)
	}
	require.NoError(t, d.Close())
}
