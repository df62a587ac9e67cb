package paint

import (
	"fmt"
	"slices"
	"time"
)

// Kept is the number of times that Times keeps.
const Kept = 200

// Times has the last Kept times of a repeated event, oldest first.
type Times struct{ list []time.Duration }

// Add drops the oldest time if there are too many.
func (t *Times) Add(d time.Duration) {
	if len(t.list) == Kept {
		t.list = slices.Delete(t.list, 0, 1)
	}
	t.list = append(t.list, d)
}

// List returns the times, which must not be changed.
func (t *Times) List() []time.Duration { return t.list }

// Summary returns 0 if there are no times.
func (t *Times) Summary() (median, worst time.Duration) {
	if len(t.list) == 0 {
		return 0, 0
	}
	sorted := slices.Sorted(slices.Values(t.list))
	return sorted[len(sorted)/2], sorted[len(sorted)-1]
}

func (t *Times) String() string {
	median, worst := t.Summary()
	return fmt.Sprintf("%.1f ms median, %.1f at most", Milliseconds(median), Milliseconds(worst))
}

// Milliseconds returns d in milliseconds, with fractions.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
