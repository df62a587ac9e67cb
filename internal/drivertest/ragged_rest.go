package drivertest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/planner"
)

// filled places batches of 7 groups whose sizes are ends up to 170, with a rest.
func (how spacing) filled(rest planner.Rest, trans [2]bool, beta float32) map[string]layout {
	common := planner.Ragged{Groups: 7, N: 45, TransA: trans[0], TransB: trans[1], Beta: float64(beta),
		Rest: rest}
	rows, depth := common, common
	rows.Form, rows.M, rows.K = planner.EndsOfRows, 170, 30
	depth.Form, depth.M, depth.K = planner.EndsOfDepth, 40, 170
	return map[string]layout{"rows": how.ends(rows), "depth": how.ends(depth)}
}

// rests returns those that the backend guarantees.
func (s *suite) rests() []planner.Rest {
	if s.finiteOnly != "" {
		return []planner.Rest{planner.RestKept, planner.RestZero}
	}
	return []planner.Rest{planner.RestKept, planner.RestZero, planner.RestNaN}
}

// testRaggedRest fills C that no group computes, whatever its content was.
func (s *suite) testRaggedRest(t *testing.T) {
	for _, rest := range s.rests() {
		for i, trans := range transpositions {
			how := spacing(i % 2).of(s.of)
			for name, l := range how.filled(rest, trans, float32((i/2+int(rest))%2)) {
				s.part(t, fmt.Sprintf("%d/%v%v/%s", rest, trans[0], trans[1], name), func(t *testing.T) {
					l.sets = slices.AppendSeq(l.sets, maps.Values(RaggedEnds(170)))
					s.prepareRagged(t, l, planner.Options{Tile: s.tile()}).checkAll(t)
				})
			}
		}
	}
}

// onStream returns the suite with runs by SubmitOn on stream 0, or skips. Its device waits for that stream.
func (s *suite) onStream(t *testing.T) *suite {
	t.Helper()
	on := s.borrowing(t)
	if on == nil {
		t.Skip("the backend has no SubmitOn")
	}
	return on
}

// borrowing is onStream, or nil if the backend has no SubmitOn.
func (s *suite) borrowing(t *testing.T) *suite {
	t.Helper()
	on := *s
	on.borrows = true
	if w, ok := s.device.(backend.Wrapper); ok {
		d, err := w.OnStream(0)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		on.device = d
	}
	if _, ok := on.device.(backend.Borrower); !ok {
		return nil
	}
	return &on
}

// testRaggedExtent has less of the bound than there may be: what is after that is neither read nor written.
func (s *suite) testRaggedExtent(t *testing.T) {
	on := s.onStream(t)
	for _, rest := range s.rests() {
		for i, trans := range transpositions {
			for name, l := range spacing(i%2).filled(rest, trans, float32(i/2)) {
				s.part(t, fmt.Sprintf("%d/%v%v/%s", rest, trans[0], trans[1], name), func(t *testing.T) {
					j := on.prepareRagged(t, l, planner.Options{})
					for _, extent := range []int{1, 7, 151, 169, 170, 0} {
						j.extent = extent
						for _, sizes := range RaggedEnds(int32(cmp.Or(extent, 170))) {
							j.check(t, sizes, uint64(extent))
						}
						j.checkAll(t)
					}
				})
			}
		}
	}
}

// submit queues runs.
func (s *suite) submit(runs ...driver.Run) error {
	if s.borrows {
		return s.device.(backend.Borrower).SubmitOn(context.Background(), 0, runs)
	}
	return s.device.Submit(context.Background(), runs)
}
