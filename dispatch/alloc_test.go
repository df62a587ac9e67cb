//go:build !race

package dispatch

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
)

// Under the race detector sync.Pool drops some of what it holds.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	ctx := context.Background()
	d, err := Open(ctx, WithBackend("cpu"))
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	batch := small(t)
	p := program(t, d, batch)
	a, b, c := buffer(t, d, 4), buffer(t, d, 4), buffer(t, d, 4)
	l := newLayer(t, d)
	require.NoError(t, l.run(t, 1, 2, 3))
	require.NoError(t, l.Status(ctx)) // a busy device queues what an idle one does at once
	host := make([]float32, 12)
	for name, call := range map[string]func() error{
		"Run":  func() error { return p.Run(ctx, a, b, c) },
		"Copy": func() error { return d.Copy(ctx, a, b) },
		"RunRagged": func() error {
			err := l.RunRagged(ctx, l.sizes, l.a, l.b, l.c)
			return errors.Join(err, l.Status(ctx))
		},
		"Update": func() error {
			err := p.Update(ctx, batch)
			return errors.Join(err, p.Run(ctx, a, b, c))
		},
		"GEMM": func() error { return d.GEMM(ctx, batch, planner.Options{}, host[:4], host[4:8], host[8:]) },
	} {
		require.Zero(t, testing.AllocsPerRun(100, func() {
			if err := call(); err != nil {
				t.Error(err)
			}
		}), name)
	}
}
