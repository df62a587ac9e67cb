package planner

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Concurrent calls have a builder each. If two shared one, the race detector would see it.
func TestPlanConcurrent(t *testing.T) {
	const callers, calls = 4, 50
	shared := New(device(t, "h200"))
	var group sync.WaitGroup
	for i := range callers {
		b := mustPack(t, GEMM(64*(i+1), 96, 32*(i+1)), GEMM(33, 7*(i+1), 65))
		want, err := New(device(t, "h200")).Plan(t.Context(), b, Options{})
		require.NoError(t, err)
		group.Go(func() {
			for range calls {
				got, err := shared.Plan(t.Context(), b, Options{})
				assert.NoError(t, err)
				assert.Equal(t, want, got)
			}
		})
	}
	group.Wait()
}
