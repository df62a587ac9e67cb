package backend

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

const (
	// spinTime is how long a wait asks without a pause. Runs of small batches end within it, and a pause
	// costs 50 us or more.
	spinTime = 100 * time.Microsecond
	// maxPause bounds a pause, which is an eighth of the time waited so far.
	maxPause = 500 * time.Microsecond
	// PollTurns is how often one call of C asks a driver: it takes a few microseconds, for which a mutex may
	// be held.
	PollTurns = 16
	// Forever is the limit of waits without a limit.
	Forever time.Duration = math.MaxInt64
)

// ErrUnfinished is the error of a wait that exceeded its limit.
var ErrUnfinished = errors.New("queued work did not end")

// Await asks until something is done. It ends with an error from ask, when ctx ends, when the device is
// lost, or with ErrUnfinished after the limit. It allocates nothing if it succeeds.
func (s *State) Await(ctx context.Context, limit time.Duration, ask func() (done bool, err error)) error {
	for start := time.Now(); ; {
		if err := s.Ready(ctx); err != nil {
			return err
		}
		if done, err := ask(); done || err != nil {
			return err
		}
		waited := time.Since(start)
		if waited > limit {
			return fmt.Errorf("%w within %v", ErrUnfinished, limit)
		}
		if waited > spinTime {
			pause(min(waited/8, maxPause))
		}
	}
}
