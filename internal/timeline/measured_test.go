package timeline

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner"
)

func TestMeasured(t *testing.T) {
	p := &planner.Plan{Launches: []encoding.Launch{{}, {Kernel: encoding.Kernel{Fixup: true}}}}
	for _, tc := range []struct {
		name   string
		groups []Group
		lanes  []Lane
		bars   []Bar
		total  float64
	}{
		{name: "none"},
		{
			"one after the other", []Group{{0, 1, 5, 2, 3}, {0, 0, 5, 0, 2}, {1, 0, 5, 4, 6}}, []Lane{{5, 0}},
			[]Bar{{Worker: 0, Start: 0, End: 2}, {Worker: 1, Start: 2, End: 3},
				{Launch: 1, Fixup: true, Start: 4, End: 6}}, 6,
		},
		{
			"side by side", []Group{{0, 0, 7, 0, 4}, {0, 1, 7, 1, 2}, {0, 2, 7, 3, 5}, {0, 3, 2, 0, 1}},
			[]Lane{{2, 0}, {7, 0}, {7, 1}},
			[]Bar{{Lane: 0, Worker: 3, End: 1}, {Lane: 1, Worker: 0, End: 4},
				{Lane: 2, Worker: 1, Start: 1, End: 2}, {Lane: 2, Worker: 2, Start: 3, End: 5}}, 5,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Measured(p, tc.groups)
			require.Equal(t, tc.lanes, got.Lanes)
			require.Equal(t, tc.bars, got.Bars)
			require.Equal(t, tc.total, got.Total)
		})
	}
}
