package drivertest

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
)

// side is M, N and K of the problems of LargeOffsets. All operands then have equally many rows, and all
// tiles of tensor cores have more than one K step.
const side = 40

// farEnd is the length of the one large buffer of each case, in elements: 18 GB.
var farEnd int64 = 1<<32 + 1<<28

// LargeOffsets runs problems whose A, B or C lies at and beyond 2^31 and 2^32 elements, or has rows 3*2^25
// elements apart, with every tile of the device. alloc allocates the large buffers, one at a time; the test
// touches little of them. It skips if there is no memory for one.
func LargeOffsets(t *testing.T, d driver.Device, alloc func(n int) (driver.Buffer, error)) {
	if bits.UintSize < 64 {
		t.Skip("addresses have 32 bits")
	}
	facts := d.Info().Planner
	from := func(offset int64, ld int) planner.Matrix { return planner.Matrix{Offset: int(offset), LD: ld} }
	for operand, name := range []string{"A", "B", "C"} {
		t.Run(name, func(t *testing.T) {
			far, err := alloc(int(farEnd))
			if errors.Is(err, hardware.ErrOutOfMemory) {
				t.Skip(err)
			}
			require.NoError(t, err)
			defer func() { require.NoError(t, far.Close()) }()
			for _, c := range []struct {
				name   string
				places []planner.Matrix // of the operand, one for each problem
			}{
				{"across 2^31", []planner.Matrix{from(1<<31-100, side+3)}},
				{"across 2^32", []planner.Matrix{from(1<<32-100, side+3)}},
				{"beyond 2^32", []planner.Matrix{from(1<<32+1003, side+4)}},
				{"at both ends", []planner.Matrix{from(1<<32+1004, side+4), from(8, side+4)}},
				{"rows far apart", []planner.Matrix{from(1, 1<<26+1<<25)}},
				{"rows far apart, windows", []planner.Matrix{from(1<<29+1, 1<<26+1<<25)}},
			} {
				for i := range facts.Kernels {
					tile := facts.Kernels[i].Tile
					if !facts.Fits(tile, planner.Options{Compute: planner.ComputeF32Emulated}) {
						continue
					}
					for _, trans := range []bool{false, true} {
						t.Run(fmt.Sprintf("%s/%s/%v", c.name, tile.Name, trans), func(t *testing.T) {
							farTask(t, d, operand, c.places, tile.Name, trans).check(t, far)
						})
					}
				}
			}
		})
	}
}

// far is a batch with one operand in a large buffer and the others in small ones. All values are small
// integers, whose results are exact.
type far struct {
	device  driver.Device
	operand int // 0 to 2: A, B, C
	plan    *planner.Plan
	values  [3][]float32 // of all problems, densely
}

func farTask(t *testing.T, d driver.Device, operand int, places []planner.Matrix, tile string,
	trans bool) *far {
	t.Helper()
	batch := make(planner.Batch, len(places))
	for i, at := range places {
		near := planner.Matrix{Offset: i * side * side, LD: side}
		p := planner.Problem{M: side, N: side, K: side, TransA: trans, TransB: trans, Beta: -1, A: near,
			B: near, C: near}
		*[...]*planner.Matrix{&p.A, &p.B, &p.C}[operand] = at
		batch[i] = p
	}
	facts := d.Info().Planner
	plan, err := planner.New(&facts).Plan(t.Context(), batch, planner.Options{Tile: tile})
	require.NoError(t, err)
	f := &far{device: d, operand: operand, plan: plan}
	for i := range f.values {
		f.values[i] = make([]float32, len(places)*side*side)
		reference.Integers(newRand(uint64(i)), f.values[i], 8)
	}
	return f
}

// check runs the batch. Elements around the rows of C must not change.
func (f *far) check(t *testing.T, large driver.Buffer) {
	t.Helper()
	ctx := context.Background()
	program, err := f.device.Prepare(ctx, f.plan)
	require.NoError(t, err)
	defer func() { require.NoError(t, program.Close()) }()
	var buffers [3]driver.Buffer
	for i := range buffers {
		if i == f.operand {
			buffers[i] = large
			continue
		}
		buffers[i], err = f.device.Alloc(len(f.values[i]))
		require.NoError(t, err)
		defer func() { require.NoError(t, buffers[i].Close()) }()
		require.NoError(t, buffers[i].Write(ctx, 0, f.values[i]))
	}
	for row, at := range f.rows() {
		line := append([]float32{canary}, f.values[f.operand][row*side:][:side]...)
		require.NoError(t, large.Write(ctx, at-1, append(line, canary)))
	}
	require.NoError(t, f.device.Submit(ctx,
		[]driver.Run{{Program: program, A: buffers[0], B: buffers[1], C: buffers[2]}}))
	got := make([]float32, len(f.values[2]))
	if f.operand == 2 {
		for row, at := range f.rows() {
			line := make([]float32, side+2)
			require.NoError(t, large.Read(ctx, at-1, line))
			require.Equal(t, []float32{canary, canary}, []float32{line[0], line[side+1]})
			copy(got[row*side:], line[1:side+1])
		}
	} else {
		require.NoError(t, buffers[2].Read(ctx, 0, got))
	}
	require.NoError(t, reference.CheckExact(f.dense(), f.values[0], f.values[1], f.values[2], got))
}

// rows returns the offsets of the rows of the large operand.
func (f *far) rows() (offsets []int) {
	for i := range f.plan.Batch {
		p := &f.plan.Batch[i]
		m := [...]planner.Matrix{p.A, p.B, p.C}[f.operand]
		for row := range side {
			offsets = append(offsets, m.Offset+row*m.LD)
		}
	}
	return offsets
}

// dense returns the batch with its matrices placed as in values.
func (f *far) dense() planner.Batch {
	b := append(planner.Batch(nil), f.plan.Batch...)
	for i := range b {
		at := planner.Matrix{Offset: i * side * side, LD: side}
		b[i].A, b[i].B, b[i].C = at, at, at
	}
	return b
}
