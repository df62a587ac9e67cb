package dispatch

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/fakedriver"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// The first call of a backend fails, then the second and so on, until an operation needs no more calls. The
// error is returned, the device continues to work, and no more stays allocated than without the failure.
func TestEveryCallFails(t *testing.T) {
	for n := 0; ; n++ {
		require.Less(t, n, 100, "it never ends")
		at := fmt.Sprintf("call %d", n+1)
		d, f := openFake(t)
		fakes := []*fakedriver.Device{f}
		hit := fakedriver.FailNth(fakes, n, errBroken)
		err := runProgram(t, d)
		if !hit() {
			require.NoError(t, err)
			require.Greater(t, n, 4, "calls are counted")
			return
		}
		require.ErrorIs(t, err, errBroken, at)
		require.NoError(t, runProgram(t, d), "%s: the device works on", at)
		programs, buffers := fakedriver.Held(fakes)
		require.Zero(t, programs+buffers, at)
	}
}

// runProgram does all that callers do with a program and buffers.
func runProgram(t *testing.T, d *Device) error {
	ctx := t.Context()
	if err := d.Warm(ctx, WarmOptions{
		Plans: []planner.Options{{Tile: "small", Schedule: planner.ScheduleDataParallel}}}); err != nil {
		return err
	}
	plan, err := d.Plan(ctx, small(t), planner.Options{})
	require.NoError(t, err)
	p, err := d.Prepare(ctx, plan)
	if err != nil {
		return err
	}
	defer p.Close()
	var buffers [3]*Buffer
	for i := range buffers {
		if buffers[i], err = d.NewBuffer(element.F32, 4); err != nil {
			return err
		}
		defer buffers[i].Close()
		if err := Write(ctx, buffers[i], 0, []float32{1, 2, 3, 4}); err != nil {
			return err
		}
	}
	if err := p.Update(ctx, small(t)); err != nil {
		return err
	}
	if err := p.Run(ctx, Operands{A: buffers[0], B: buffers[1], C: buffers[2]}); err != nil {
		return err
	}
	ragged, err := d.PrepareRagged(ctx, planner.Ragged{Form: planner.EndsOfRows, Groups: 2, M: 2, N: 1, K: 1,
		A: planner.Matrix{LD: 1}, B: planner.Matrix{LD: 1}, C: planner.Matrix{LD: 1}, StrideB: 1},
		planner.Options{})
	if err != nil {
		return err
	}
	defer ragged.Close()
	if err := Write(ctx, buffers[1], 0, []int32{0, 0}); err != nil {
		return err
	}
	if err := ragged.Run(ctx, Operands{A: buffers[0], B: buffers[0], C: buffers[2],
		Sizes: buffers[1]}); err != nil {
		return err
	}
	if err := ragged.Status(ctx); err != nil {
		return err
	}
	got := make([]float32, 4)
	if err := Read(ctx, buffers[2], 0, got); err != nil {
		return err
	}
	require.Equal(t, []float32{7, 10, 15, 22}, got)
	if err := d.Copy(ctx, buffers[0], buffers[2]); err != nil {
		return err
	}
	clear(got)
	r := ReadAsync(ctx, buffers[0], 0, got)
	if <-r.Done(); r.Err() != nil {
		return r.Err()
	}
	require.Equal(t, []float32{7, 10, 15, 22}, got)
	return nil
}
