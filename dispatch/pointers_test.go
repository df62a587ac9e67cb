package dispatch

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/cpu"
	"github.com/batchgemm/batchgemm/internal/fakedriver"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// TestPointers: a run needs no buffer for operands with addresses, and drivers see none.
func TestPointers(t *testing.T) {
	ctx, queued := t.Context(), errors.New("queued")
	f := fakedriver.New(t)
	f.Pointers = true
	d, err := Open(ctx, WithDriver(f))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	f.Last().OnSubmit = func() error { return queued } // the CPU has no kernels for pointers
	m := planner.Matrix{LD: 2}
	prepare := func(by planner.Pointers, gated bool) *Program {
		plan, err := d.Plan(ctx, planner.Batch{{M: 2, N: 2, K: 2, A: m, B: m, C: m, B2: m, Pointers: 1}},
			planner.Options{Epilogue: planner.Epilogue{Gated: gated, Pointers: by}})
		require.NoError(t, err)
		p, err := d.Prepare(ctx, plan)
		require.NoError(t, err)
		return p
	}
	every := prepare(planner.Pointers{A: true, B: true, C: true}, true)
	b, rows, four, none := prepare(planner.Pointers{B: true}, false), buffer(t, d, 9), buffer(t, d, 4),
		buffer(t, d, 0)
	narrow, err := d.NewBuffer(element.BF16, 4)
	require.NoError(t, err)
	for _, c := range []struct {
		name string
		run  Run
		want string // "": it is queued
	}{
		{"none", Run{Program: every, Operands: Operands{Rows: rows}}, ""},
		{"empty", Run{Program: every, Operands: Operands{A: none, B: none, C: none, B2: none, Rows: rows}},
			""},
		{"some", Run{Program: every, Operands: Operands{A: four, B: four, C: buffer(t, d, 4), Rows: rows}},
			""},
		{"B", Run{Program: b, Operands: Operands{A: four, C: buffer(t, d, 4), Rows: rows}}, ""},
		{"no rows", Run{Program: every}, "run 0: Rows is nil"},
		{"short rows", Run{Program: every, Operands: Operands{Rows: buffer(t, d, 8)}},
			"run 0: Rows has 8 elements, the plan needs 9"},
		{"type", Run{Program: every, Operands: Operands{Rows: rows, A: narrow}},
			"run 0: A has elements of bf16, the plan is for f32"},
		{"no A", Run{Program: b, Operands: Operands{C: four, Rows: rows}}, "run 0: A is nil"},
		{"no C", Run{Program: b, Operands: Operands{A: four, Rows: rows}}, "run 0: C is nil"},
		{"short A", Run{Program: b, Operands: Operands{A: none, C: four, Rows: rows}},
			"run 0: A has 0 elements, the plan needs 4"},
		{"C is A", Run{Program: b, Operands: Operands{A: four, C: four, Rows: rows}},
			"run 0: buffer C is also A"},
		{"B2 without use", Run{Program: b, Operands: Operands{A: four, C: buffer(t, d, 4), B2: four,
			Rows: rows}},
			"run 0: B2 is not nil, but the plan's epilogue does not use it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := d.Run(ctx, c.run)
			if c.want == "" {
				require.ErrorIs(t, err, queued)
				return
			}
			require.EqualError(t, err, c.want)
			require.ErrorIs(t, err, ErrInvalid)
		})
	}

	real, _ := openFake(t) // a CPU, which does not claim to
	_, err = real.Plan(ctx, planner.Batch{{M: 2, N: 2, K: 2, A: m, B: m, C: m}},
		planner.Options{Epilogue: planner.Epilogue{Pointers: planner.Pointers{A: true}}})
	require.ErrorContains(t, err, "has no kernels for pointers")
	require.ErrorIs(t, err, ErrInvalid)
}

// addressed is a CPU whose buffers have addresses.
type addressed struct{ driver.Driver }

type addressedDevice struct{ driver.Device }

type addressedBuffer struct{ driver.Buffer }

func (a addressed) Open(ctx context.Context, index int) (driver.Device, error) {
	d, err := a.Driver.Open(ctx, index)
	return addressedDevice{d}, err
}

func (d addressedDevice) Alloc(n int) (driver.Buffer, error) {
	b, err := d.Device.Alloc(n)
	return addressedBuffer{b}, err
}

func (addressedBuffer) Address() (uint64, error) { return 0xfedc_ba98_7654_3210, nil }

func TestAddress(t *testing.T) {
	d, err := Open(t.Context(), WithDriver(addressed{cpu.Driver()}))
	require.NoError(t, err)
	b, closed := buffer(t, d, 3), buffer(t, d, 3)
	at, err := b.Address()
	require.NoError(t, err)
	require.EqualValues(t, uint64(0xfedc_ba98_7654_3210), at)
	require.NoError(t, closed.Close())
	_, err = closed.Address()
	require.EqualError(t, err, "address: buffer: closed")
	require.ErrorIs(t, err, ErrClosed)
	require.NoError(t, d.Close())
	_, err = b.Address()
	require.ErrorIs(t, err, ErrClosed)

	none, _ := openFake(t)
	_, err = buffer(t, none, 1).Address()
	require.EqualError(t, err, "backend fake has no addresses of buffers")
}
