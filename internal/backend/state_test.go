package backend

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/hardware"
)

var info = driver.Info{Backend: "fake", Name: "GPU"}

func TestTheFirstReasonStays(t *testing.T) {
	var s State
	require.NoError(t, s.Err())
	require.NoError(t, s.Ready(t.Context()))
	first, second := errors.New("first"), errors.New("second")
	err := s.Lose(&info, first)
	require.EqualError(t, err, "fake: GPU: device lost: first")
	require.ErrorIs(t, err, hardware.ErrDeviceLost)
	require.ErrorIs(t, err, first)
	require.Equal(t, err, s.Lose(&info, second))
	require.Equal(t, err, s.Err())
	require.Equal(t, err, s.Ready(t.Context()))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, s.Ready(ended), context.Canceled)
}

func TestLostByMany(t *testing.T) {
	var s State
	var group sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		group.Go(func() { errs[i] = s.Lose(&info, errors.New("reason")) })
	}
	group.Wait()
	for _, err := range errs {
		require.True(t, err == s.Err(), "all hear the same")
	}
}

func TestAwait(t *testing.T) {
	broken := errors.New("broken")
	never := func() (bool, error) { return false, nil }
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	soon, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	for _, c := range []struct {
		name  string
		ctx   context.Context
		limit time.Duration
		ask   func() (bool, error)
		lost  bool
		want  error
	}{
		{"done", t.Context(), Forever, func() (bool, error) { return true, nil }, false, nil},
		{"done when the limit is over", t.Context(), 0, func() (bool, error) {
			return true, nil
		}, false, nil},
		{"fails", t.Context(), Forever, func() (bool, error) { return false, broken }, false, broken},
		{"done and fails", t.Context(), Forever, func() (bool, error) { return true, broken }, false, broken},
		{"context has ended", ended, Forever, never, false, context.Canceled},
		{"context ends", soon, Forever, never, false, context.DeadlineExceeded},
		{"limit", t.Context(), 2 * time.Millisecond, never, false, ErrUnfinished},
		{"lost", t.Context(), Forever, never, true, hardware.ErrDeviceLost},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s State
			if c.lost {
				time.AfterFunc(2*time.Millisecond, func() { _ = s.Lose(&info, broken) })
			}
			require.ErrorIs(t, s.Await(c.ctx, c.limit, c.ask), c.want)
		})
	}
	var s State
	require.EqualError(t, s.Await(t.Context(), time.Millisecond, never), "queued work did not end within 1ms")
}

// A wait that pauses asks again until the work is done, and allocates nothing.
func TestAwaitAllocatesNothing(t *testing.T) {
	var s State
	ctx := t.Context()
	require.Zero(t, testing.AllocsPerRun(20, func() {
		left := 5 // some of them after a pause
		start := time.Now()
		if err := s.Await(ctx, Forever, func() (bool, error) {
			if time.Since(start) > 2*spinTime {
				left--
			}
			return left == 0, nil
		}); err != nil {
			t.Error(err)
		}
	}))
}
