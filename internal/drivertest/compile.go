package drivertest

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/planner"
)

// testCompile compiles the kernels of a tile shape while runs go on, twice.
func (s *suite) testCompile(t *testing.T) {
	ctx := context.Background()
	facts := s.device.Info().Planner
	groups, err := planner.New(&facts).Kernels(planner.Options{Tile: facts.Kernels[0].Tile.Name},
		planner.Transposition{B: true}, false)
	require.NoError(t, err)
	kernels := groups[0].Kernels
	for range 2 {
		var mu sync.Mutex
		ready := make([]int, len(kernels))
		compiled := make(chan error)
		go func() {
			compiled <- s.device.Compile(ctx, kernels, func(i int) {
				mu.Lock()
				defer mu.Unlock()
				ready[i]++
			})
		}()
		j := s.prepare(t, splitBatch(), narrow, split, nil)
		j.check(t, 4)
		require.NoError(t, <-compiled)
		require.Equal(t, slices.Repeat([]int{1}, len(kernels)), ready)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, s.device.Compile(ended, kernels, func(int) { t.Error("a kernel is ready") }),
		context.Canceled)
	require.NoError(t, s.device.Compile(ctx, nil, nil))
	batch := planner.Batch{{M: 33, N: 35, K: 300, TransB: true, Beta: 1}}
	for _, o := range []planner.Options{{}, {Schedule: planner.ScheduleSplitK},
		{Schedule: planner.ScheduleLPT}} {
		o.Tile = facts.Kernels[0].Tile.Name
		s.prepare(t, slices.Clone(batch), narrow, o, nil).check(t, 5)
	}
}

// testCompileFails asks for a kernel that the device does not have.
func (s *suite) testCompileFails(t *testing.T) {
	if s.device.Info().Planner.KernelKind == encoding.KernelsCPU {
		t.Skip("kernels of the CPU are part of the program")
	}
	unheard := *s.device.Info().Planner.Kernels[0].Tile
	// WGSL would only reduce the number of threads
	unheard.Name, unheard.TM, unheard.Threads = "unheard-of", 6, 1<<20
	err := s.device.Compile(context.Background(), []encoding.Kernel{{Tile: &unheard}}, func(int) {
		t.Error("it is ready")
	})
	require.ErrorContains(t, err, "unheard-of")
	require.NotErrorIs(t, err, hardware.ErrDeviceLost)
	s.prepare(t, splitBatch(), narrow, split, nil).check(t, 6)
}
