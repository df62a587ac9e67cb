package cpu

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
)

// TestPacked: operands whose rows share sets of a cache, or are far apart, several tiles of which use the
// same packed columns; tiles of fewer rows have panels of another width. A run sees what is in B then.
func TestPacked(t *testing.T) {
	for _, with := range available() {
		t.Run(with.name, func(t *testing.T) {
			t.Setenv(variable, with.name)
			d := openDevice(t)
			for i, c := range []struct{ m, n, k, ld int }{
				{300, 130, 300, 1024}, {261, 257, 513, 512}, {133, 100, 2400, 530}, {128, 128, 256, 256},
			} {
				for trans := range 4 {
					q := planner.GEMM(c.m, c.n, c.k)
					q.TransA, q.TransB = trans&1 != 0, trans&2 != 0
					q.A.LD, q.B.LD, q.C.LD = far(c.ld, q.ShapeA), far(c.ld, q.ShapeB), c.n
					checkFar(t, d, planner.Batch{q}, fmt.Sprint(i, trans))
				}
			}
		})
	}
}

// TestRuns: tiles of few rows, several of which a thread computes together.
func TestRuns(t *testing.T) {
	t.Setenv(ThreadsEnv, "1")
	for _, with := range available() {
		t.Run(with.name, func(t *testing.T) {
			t.Setenv(variable, with.name)
			problems := make([]planner.Problem, 90)
			for i := range problems {
				problems[i] = planner.Problem{M: 1 + i%runRows, N: 1000, K: 128 + i, Beta: float64(i % 2)}
			}
			batch, err := planner.Pack(problems...)
			require.NoError(t, err)
			checkFar(t, openDevice(t), batch, with.name)
		})
	}
}

// far returns the least multiple of ld that holds a row.
func far(ld int, shape func() (rows, cols int)) int {
	_, cols := shape()
	return (cols + ld - 1) / ld * ld
}

// checkFar runs products twice, with other numbers the second time.
func checkFar(t *testing.T, d *device, batch planner.Batch, name string) {
	plan, err := planner.New(&d.info.Planner).Plan(t.Context(), batch, planner.Options{})
	require.NoError(t, err, name)
	program, err := d.Prepare(context.Background(), plan)
	require.NoError(t, err)
	run := driver.Run{Program: program}
	rng := rand.New(rand.NewPCG(1, 0))
	var x [3][]float32
	for i, to := range []*driver.Buffer{&run.A, &run.B, &run.C} {
		x[i] = make([]float32, []int{plan.ExtentA, plan.ExtentB, plan.ExtentC}[i])
		*to, err = d.Alloc(len(x[i]))
		require.NoError(t, err)
	}
	for range 2 {
		for i, to := range []driver.Buffer{run.A, run.B, run.C} {
			reference.Integers(rng, x[i], 9)
			require.NoError(t, to.Write(t.Context(), 0, x[i]))
		}
		after := slices.Clone(x[2])
		require.NoError(t, d.Submit(t.Context(), []driver.Run{run}))
		require.NoError(t, run.C.Read(t.Context(), 0, after))
		require.NoError(t, reference.CheckExact(batch, x[0], x[1], x[2], after), name)
	}
}
