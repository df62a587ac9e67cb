package dltest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/drivertest"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// RandomProblems checks batches of 100 problems of all kinds against float64.
func RandomProblems(t *testing.T, on driver.Driver, batches uint64) {
	d := drivertest.Open(t, on)
	for seed := range batches {
		require.NoError(t, checkRandom(t.Context(), d, seed, 100), "seed %d", seed)
	}
}

// RandomProblemsOnGPU checks 10,000 problems, or 500 in short runs, as under a sanitizer.
func RandomProblemsOnGPU(t *testing.T, on driver.Driver) {
	batches := uint64(100)
	if testing.Short() {
		batches = 5
	}
	RandomProblems(t, on, batches)
}

// checkRandom plans, runs and checks a batch of n problems from a seed: sizes, transposes, scalars, gaps,
// alignments, types of elements and plan options.
func checkRandom(ctx context.Context, d driver.Device, seed uint64, n int) error {
	rng := rand.New(rand.NewPCG(seed, 7))
	batch, lens := randomBatch(rng, n)
	info := d.Info()
	options := randomOptions(rng, &info.Planner)
	plan, err := planner.New(&info.Planner).Plan(ctx, batch, options)
	if err != nil {
		return err
	}
	p, err := d.Prepare(ctx, plan)
	if err != nil {
		return err
	}
	defer p.Close()
	var host [3][]float32
	var buffers [3]driver.Buffer
	words := 0 // of C
	for i, of := range [...]element.Type{options.TypeA, options.TypeA, options.TypeC} {
		numbers := make([]float32, lens[i])
		reference.UniformOf(of, rng, numbers)
		bits := backend.ToWords(of, numbers)
		host[i], words = backend.FromWords(of, bits, len(numbers)), len(bits)
		if buffers[i], err = d.Alloc(words); err != nil {
			return err
		}
		defer buffers[i].Close()
		if err := buffers[i].Write(ctx, 0, bits); err != nil {
			return err
		}
	}
	if err := d.Submit(ctx, []driver.Run{{Program: p, A: buffers[0], B: buffers[1], C: buffers[2]}}); err !=
		nil {
		return err
	}
	read := make([]float32, words)
	if err := buffers[2].Read(ctx, 0, read); err != nil {
		return err
	}
	got := backend.FromWords(options.TypeC, read, lens[2])
	how := reference.Arithmetic{NarrowSums: reference.NarrowSums(plan), TypeC: options.TypeC}
	if _, err = reference.CheckIn(how, batch, host[0], host[1], host[2], got); err != nil {
		return fmt.Errorf("%+v: %w", options, err)
	}
	return nil
}

func randomOptions(rng *rand.Rand, d *planner.Device) (o planner.Options) {
	onlyB := func(t element.Type) bool { return elemtype.TypesC(t) == nil }
	types := slices.DeleteFunc(slices.Clone(d.Types), onlyB)
	if n := rng.IntN(len(types) + 1); n < len(types) {
		o.TypeA = types[n]
		of := elemtype.TypesC(o.TypeA)
		o.TypeC = of[rng.IntN(len(of))]
	}
	var tiles []string
	zhang := false // there are kernels for its tiles
	for i := range d.Kernels {
		// Aligned tiles of 8 bits, and those of boxes, are only for some layouts.
		if s := d.Kernels[i].Tile; d.Fits(s, o) && !(s.Boxes || s.Aligned && o.TypeA.Bytes() == 1) {
			tiles, zhang = append(tiles, s.Name), zhang || s.Zhang
		}
	}
	switch rng.IntN(4) {
	case 0:
		if zhang {
			o.Rule = planner.RuleZhang2025
		}
	case 1, 2:
		o.Tile = tiles[rng.IntN(len(tiles))]
		o.Schedule = planner.Schedules()[rng.IntN(len(planner.Schedules()))]
	}
	return o
}

func randomBatch(rng *rand.Rand, n int) (batch planner.Batch, lens [3]int) {
	size := func() int { // log-uniform, with zeros
		if rng.IntN(40) == 0 {
			return 0
		}
		return int(math.Exp2(rng.Float64() * 7.6)) // up to 194
	}
	scalars := [...]float32{0, 1, 1, 1, -1, 0.5, -2.25}
	unit := [...]int{1, 8, 16}[rng.IntN(3)] // of offsets and leading dimensions, in elements
	place := func(end *int, rows, cols int) planner.Matrix {
		m := planner.Matrix{Offset: *end + unit*rng.IntN(3), LD: (cols+unit-1)/unit*unit + unit*rng.IntN(3)}
		m.LD = max(m.LD, 1)
		*end = (m.Offset + rows*m.LD + unit - 1) / unit * unit
		return m
	}
	swap := func(yes bool, a, b int) (int, int) {
		if yes {
			return b, a
		}
		return a, b
	}
	for range n {
		p := planner.Problem{M: size(), N: size(), K: size(), TransA: rng.IntN(2) == 0,
			TransB: rng.IntN(2) == 0,
			Alpha:  planner.Scale(float64(scalars[rng.IntN(len(scalars))])),
			Beta:   float64(scalars[rng.IntN(len(scalars))])}
		rows, cols := swap(p.TransA, p.M, p.K)
		p.A = place(&lens[0], rows, cols)
		rows, cols = swap(p.TransB, p.K, p.N)
		p.B = place(&lens[1], rows, cols)
		p.C = place(&lens[2], p.M, p.N)
		batch = append(batch, p)
	}
	for i := range lens {
		lens[i] = max(lens[i], 1)
	}
	return batch, lens
}
