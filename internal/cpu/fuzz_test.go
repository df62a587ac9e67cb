package cpu

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/devices"
)

// FuzzRun: if a plan of any batch for any device uses tiles that the CPU has, it computes what the batch
// says, and writes nothing else.
func FuzzRun(f *testing.F) {
	for i := range uint64(60) {
		f.Add(i, uint8(i), uint8(i/3), uint8(i/5), i%7 == 0, i%3 == 0, uint16(i*i))
	}
	f.Fuzz(func(t *testing.T, seed uint64, device, shape, schedule uint8, narrow, short bool, units uint16) {
		names := devices.Names()
		facts, err := devices.Lookup(names[int(device)%len(names)])
		require.NoError(t, err)
		facts.Kernels = slices.DeleteFunc(facts.Kernels, func(k planner.KernelFacts) bool {
			return k.Tile.Unit != tile.FMA
		})
		facts.ComputeUnits = 1 + int(units)%500
		facts.Finishes = false // like the CPU
		if narrow {
			facts.MaxBinding = 64 << 10
		}
		if short {
			facts.MaxTrips = 100
		}
		o := planner.Options{Tile: facts.Kernels[int(shape)%len(facts.Kernels)].Tile.Name}
		if all := planner.Schedules(); int(schedule)%8 < len(all) {
			o.Schedule = all[schedule%8]
		}
		if shape >= 128 {
			o.Tile = ""
		}
		runAndCheck(t, facts, o, rand.New(rand.NewPCG(seed, 0)))
	})
}

func runAndCheck(t *testing.T, facts *planner.Device, o planner.Options, rng *rand.Rand) {
	batch, lens := placed(rng)
	plan, err := planner.New(facts).Plan(t.Context(), batch, o)
	require.NoError(t, err)
	d := openDevice(t)
	program, err := d.Prepare(context.Background(), plan)
	require.NoError(t, err)
	var host [3][]float32
	var buffers [3]driver.Buffer
	for i := range host {
		host[i] = make([]float32, lens[i])
		reference.Integers(rng, host[i], 8)
		buffers[i], err = d.Alloc(lens[i])
		require.NoError(t, err)
		require.NoError(t, buffers[i].Write(context.Background(), 0, host[i]))
	}
	run := driver.Run{Program: program, A: buffers[0], B: buffers[1], C: buffers[2]}
	require.NoError(t, d.Submit(t.Context(), []driver.Run{run}))
	require.NoError(t, d.Wait(t.Context()))
	require.NoError(t, reference.CheckExact(batch, host[0], host[1], host[2], buffers[2].(*buffer).data))
}

// placed returns up to 6 problems with gaps, with sizes up to 90 and one long K, and the lengths of the
// buffers.
func placed(rng *rand.Rand) (b planner.Batch, lens [3]int) {
	lens = [3]int{1, 1, 1}
	place := func(i, rows, cols int) planner.Matrix {
		m := planner.Matrix{Offset: lens[i] + rng.IntN(5), LD: cols + rng.IntN(5)}
		lens[i] = m.Offset + rows*m.LD
		return m
	}
	for i := range rng.IntN(7) {
		p := planner.Problem{M: rng.IntN(90), N: rng.IntN(90), K: rng.IntN(90), TransA: rng.IntN(2) == 1,
			TransB: rng.IntN(2) == 1,
			Alpha:  planner.Scale(float64(rng.IntN(3) - 1)), Beta: float64(rng.IntN(3) - 1)}
		if i == 0 { // with short rows, so that a tile has enough of them in a narrow window
			p.M, p.N, p.K, p.TransA, p.TransB = rng.IntN(9), rng.IntN(9), rng.IntN(3000), true, false
		}
		reference.Place(&p, place)
		b = append(b, p)
	}
	return b, lens
}
