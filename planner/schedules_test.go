package planner

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestScheduleRows: every row is complete, and its name can be parsed.
func TestScheduleRows(t *testing.T) {
	names := Schedules()
	for i, s := range names {
		row := s.find()
		require.Same(t, &schedules[i], row, "%q is there twice", s)
		require.NotNil(t, row.suits, s)
		require.NotNil(t, row.cost, s)
		require.NotNil(t, row.deal, s)
		got, err := parseSchedule(string(s))
		require.NoError(t, err)
		require.Equal(t, s, got)
	}
	for _, s := range []string{"", "auto"} {
		got, err := parseSchedule(s)
		require.NoError(t, err)
		require.Empty(t, got)
	}
	names[0] = "another"
	require.Equal(t, ScheduleDataParallel, Schedules()[0], "a copy")
}

// TestClustersAreAVariant: the schedule of clusters deals like data-parallel. Only the kernel differs.
func TestClustersAreAVariant(t *testing.T) {
	b := mustPack(t, GEMM(33, 20, 256), GEMM(70, 40, 1000))
	plan := func(s Schedule) *Plan {
		p, err := New(device(t, "h200")).Plan(t.Context(), b, Options{Tile: "tensor-32x32", Schedule: s})
		require.NoError(t, err)
		return p
	}
	whole, shared := plan(ScheduleDataParallel), plan(ScheduleCluster)
	require.Equal(t, whole.Segments, shared.Segments)
	require.Equal(t, whole.Workers, shared.Workers)
	require.Empty(t, shared.Fixups)
	k := shared.Launches[0].Kernel
	require.Greater(t, k.Cluster, uint8(1))
	k.Cluster = 0
	require.Equal(t, whole.Launches[0].Kernel, k)
}

// TestSecondRound: uneven tiles that begin a second round but no third are dealt evenly if that is known to
// be faster.
func TestSecondRound(t *testing.T) {
	const side, depth = 128, 100 // two by two tiles of large-8x4
	batch := func(problems int, uneven bool) (b Batch) {
		for i := range problems {
			q := GEMM(side, side, depth)
			if uneven {
				q.K -= i % 64
			}
			b = append(b, q)
		}
		return mustPack(t, b...)
	}
	d := device(t, "h200-webgpu")
	room := d.resident(d.Kernel(shape(t, "large-8x4"))) / 4
	for _, c := range []struct {
		name     string
		problems int
		uneven   bool
		tile     string
		want     Schedule
	}{
		{"one round", room, true, "large-8x4", ScheduleDataParallel},
		{"a second round", room + 1, true, "large-8x4", ScheduleLPT},
		{"two rounds", 2 * room, true, "large-8x4", ScheduleLPT},
		{"a third round", 2*room + 1, true, "large-8x4", ScheduleDataParallel},
		{"even tiles", room + 1, false, "large-8x4", ScheduleDataParallel},
		{"another kernel", room + 1, true, "large-8x8", ScheduleDataParallel},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := batch(c.problems, c.uneven)
			p, err := New(d).Plan(t.Context(), b, Options{Tile: c.tile})
			require.NoError(t, err)
			require.Equal(t, string(c.want), p.Explain().Schedule)
			even, err := New(d).Plan(t.Context(), b, Options{Tile: c.tile, Schedule: ScheduleDataParallel})
			require.NoError(t, err)
			if c.want == ScheduleLPT {
				require.InEpsilon(t, 0.98*even.Cost, p.Cost, 1e-9)
			} else {
				require.Equal(t, even.Cost, p.Cost)
			}
		})
	}
}
