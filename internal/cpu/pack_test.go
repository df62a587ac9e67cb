package cpu

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/internal/tile"
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
				{133, 100, 300, 512},
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

// TestRuns: tiles of few rows, several of which a thread computes together. Nothing holds their operands
// afterwards.
func TestRuns(t *testing.T) {
	t.Setenv(ThreadsEnv, "1")
	for _, with := range available() {
		t.Run(with.name, func(t *testing.T) {
			t.Setenv(variable, with.name)
			problems := make([]planner.Problem, 90)
			for i := range problems {
				problems[i] = planner.Problem{M: 1 + i%runRows, N: []int{1000, 512, 1030}[i%3], K: 128 + i,
					Beta: float64(i % 2)}
			}
			batch, err := planner.Pack(problems...)
			require.NoError(t, err)
			d := openDevice(t)
			checkFar(t, d, batch, with.name)
			if own := d.crew.own; own.runs {
				require.NotNil(t, own.run)
				require.Equal(t, [mostRun]product{}, own.run.tiles)
			}
		})
	}
}

// TestRunOf: tiles are of one run if they lie side by side and have all else in common but their columns.
func TestRunOf(t *testing.T) {
	s := &scratch{instructions: &instructions{runs: true}}
	l := &encoding.Launch{Kernel: encoding.Kernel{Tile: &tile.Shape{TN: 64}}}
	const each = encoding.ItemWords
	items := func(edit func(w []uint32)) []uint32 {
		words := make([]uint32, 3*each)
		for i := range 3 {
			w := words[i*each:]
			w[encoding.OffB], w[encoding.OffC] = uint32(64*i), uint32(64*i)
			w[encoding.Depth], w[encoding.Extent] = 128, encoding.PackExtent(4, 64-i)
		}
		edit(words[each:])
		return words
	}
	require.Equal(t, 3, s.runOf(l, items(func([]uint32) {}), each))
	for word := range encoding.Slot {
		words := items(func(w []uint32) { w[word]++ })
		require.Equal(t, 1, s.runOf(l, words, each), "word %d", word)
	}
	for name, edit := range map[string]func(w []uint32){
		"many rows": func(w []uint32) { w[encoding.Extent] = encoding.PackExtent(17, 64) },
		"short K":   func(w []uint32) { w[encoding.Depth] = 127 },
	} {
		words := items(edit)
		require.Equal(t, 1, s.runOf(l, words[each:], each), name)
	}
	s.runs = false
	require.Equal(t, 1, s.runOf(l, items(func([]uint32) {}), each), "no runs")
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
