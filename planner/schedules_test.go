package planner

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestScheduleRows: every row is whole, and its name is read back.
func TestScheduleRows(t *testing.T) {
	names := Schedules()
	for i, s := range names {
		row := s.find()
		require.Same(t, &schedules[i], row, "%q is there twice", s)
		require.NotNil(t, row.suits, s)
		require.NotNil(t, row.cost, s)
		require.NotNil(t, row.deal, s)
		got, err := ParseSchedule(string(s))
		require.NoError(t, err)
		require.Equal(t, s, got)
	}
	for _, s := range []string{"", "auto"} {
		got, err := ParseSchedule(s)
		require.NoError(t, err)
		require.Empty(t, got)
	}
	names[0] = "another"
	require.Equal(t, ScheduleDataParallel, Schedules()[0], "a copy")
}

// TestClustersAreAVariant: the schedule of clusters deals as data-parallel does, and
// what differs is the kernel.
func TestClustersAreAVariant(t *testing.T) {
	b := mustPack(t, GEMM(33, 20, 256), GEMM(70, 40, 1000))
	plan := func(s Schedule) *Plan {
		p, err := New(device(t, "h200")).Plan(b, Options{Tile: "tensor-32x32", Schedule: s})
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
