//go:build !race

package dispatch

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
)

// With the race detector, sync.Pool drops some of its content.
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
		"Run":  func() error { return p.Run(ctx, Operands{A: a, B: b, C: c}) },
		"Copy": func() error { return d.Copy(ctx, a, b) },
		"RunRagged": func() error {
			err := l.Run(ctx, Operands{A: l.a, B: l.b, C: l.c, Sizes: l.sizes})
			return errors.Join(err, l.Status(ctx))
		},
		"Update": func() error {
			err := p.Update(ctx, batch)
			return errors.Join(err, p.Run(ctx, Operands{A: a, B: b, C: c}))
		},
		"GEMM": func() error {
			return gemmOf(ctx, d, batch, planner.Options{}, host[:4], host[4:8], host[8:])
		},
	} {
		require.Zero(t, testing.AllocsPerRun(100, func() {
			if err := call(); err != nil {
				t.Error(err)
			}
		}), name)
	}
}
