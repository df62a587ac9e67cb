package dispatch

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/fakedriver"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/devices"
	"github.com/batchgemm/batchgemm/planner/element"
)

// All mistakes that a caller can correct wrap ErrInvalid, and nothing else does.
func TestErrInvalid(t *testing.T) {
	ctx := t.Context()
	d, _ := openFake(t)
	other, _ := openFake(t)
	batch := small(t)
	wrong := planner.Batch{{M: -1}}
	overlap := append(small(t), batch...)
	p, foreign := program(t, d, batch), program(t, other, batch)
	a, b, c := buffer(t, d, 4), buffer(t, d, 4), buffer(t, d, 4)
	short := buffer(t, d, 3)
	full := []float32{1, 2, 3, 4}
	h200, err := devices.Lookup("h200")
	require.NoError(t, err)
	elsewhere, err := planner.New(h200).Plan(ctx, batch, planner.Options{})
	require.NoError(t, err)
	wrapping, _ := openSharing(t)
	defer wrapping.Close()
	gone := buffer(t, d, 4)
	require.NoError(t, gone.Close())
	closed, _ := openFake(t)
	require.NoError(t, closed.Close())

	drivers := []driver.Driver{&fakedriver.Driver{TB: t, Backend: "cuda",
		Kinds: []hardware.Kind{hardware.KindDiscrete}}}
	start := func(options ...Option) error { return openBoth(ctx, drivers, options...) }
	plan := func(b planner.Batch, o planner.Options) error { _, err := d.Plan(ctx, b, o); return err }
	one := func(_ any, err error) error { return err }
	for name, err := range map[string]error{
		"unknown backend":        start(WithBackend("metal")),
		"no such device":         one(open(ctx, drivers, []Option{WithBackend("cuda"), WithDevice(1)})),
		"negative device":        one(open(ctx, drivers, []Option{WithBackend("cuda"), WithDevice(-1)})),
		"device without backend": one(open(ctx, drivers, []Option{WithDevice(0)})),
		"device of all":          one(openAll(ctx, drivers, []Option{WithBackend("cuda"), WithDevice(0)})),
		"batch":                  plan(wrong, planner.Options{}),
		"overlap":                plan(overlap, planner.Options{}),
		"tile":                   plan(batch, planner.Options{Tile: "huge"}),
		"rule":                   plan(batch, planner.Options{Rule: "luck"}),
		"schedule":               plan(batch, planner.Options{Schedule: "luck"}),
		"compute":                plan(batch, planner.Options{Compute: "f64"}),
		"nil plan":               one(d.Prepare(ctx, nil)),
		"plan of another device": one(d.Prepare(ctx, elsewhere)),
		"negative buffer":        one(d.NewBuffer(element.F32, -1)),
		"wrapped nothing":        one(wrapping.Wrap(element.F32, 64, 0)),
		"wrapped too much":       one(wrapping.Wrap(element.F32, 64, backend.MaxLen+1)),
		"offset":                 Write(ctx, a, -1, full),
		"offset alone":           Write(ctx, a, 5, []float32(nil)),
		"range":                  Read(ctx, a, 1, full),
		"far":                    Read(ctx, a, math.MaxInt, full),
		"nil program":            d.Run(ctx, runOf(nil, a, b, c)),
		"foreign program":        d.Run(ctx, runOf(foreign, a, b, c)),
		"nil buffer":             p.Run(ctx, Operands{A: a, B: nil, C: c}),
		"foreign buffer":         p.Run(ctx, Operands{A: buffer(t, other, 4), B: b, C: c}),
		"short buffer":           p.Run(ctx, Operands{A: a, B: short, C: c}),
		"C is A":                 p.Run(ctx, Operands{A: c, B: b, C: c}),
		"Time":                   one(d.Time(ctx, runOf(p, c, b, c))),
		"GEMM: batch":            gemmOf(ctx, d, wrong, planner.Options{}, full, full, full),
		"GEMM: options":          gemmOf(ctx, d, batch, planner.Options{Tile: "huge"}, full, full, full),
		"GEMM: short":            gemmOf(ctx, d, batch, planner.Options{}, full, full[:3], full),
	} {
		require.ErrorIs(t, err, ErrInvalid, name)
		for _, k := range []error{ErrUnavailable, ErrOutOfMemory, ErrDeviceLost, ErrClosed,
			context.Canceled} {
			require.NotErrorIs(t, err, k, name)
		}
	}
	var problem *planner.ProblemError
	require.ErrorAs(t, plan(wrong, planner.Options{}), &problem)

	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	for want, err := range map[error]error{
		ErrClosed: errors.Join(p.Run(ctx, Operands{A: gone, B: b, C: c}), Write(ctx, gone, 0, full),
			closed.Wait(ctx)),
		ErrOutOfMemory: one(d.NewBuffer(element.F32, backend.MaxLen+1)),
		ErrUnavailable: openBoth(ctx, []driver.Driver{backend.Missing("cuda", "a test")}),
		context.Canceled: errors.Join(gemmOf(cancelled, d, batch, planner.Options{}, full, full, full),
			Write(cancelled, a, 0, full)),
		errBroken: openBoth(ctx,
			[]driver.Driver{&fakedriver.Driver{TB: t, Backend: "cuda", DevicesErr: errBroken}}),
	} {
		require.ErrorIs(t, err, want)
		require.NotErrorIs(t, err, ErrInvalid)
	}
}

// An error names the argument that must not be nil.
func TestNilArguments(t *testing.T) {
	t.Setenv(backendEnv, "")
	ctx := t.Context()
	for name, c := range map[string]struct {
		err  error
		text string
	}{
		"option": {openBoth(ctx, backends, WithBackend("cpu"), nil),
			"option 1 is nil\noption 1 is nil"},
		"driver": {openBoth(ctx, backends, WithDriver(nil)),
			"WithDriver: the driver is nil\nWithDriver: the driver is nil"},
		"function": {openBoth(ctx, backends, WithAdapter(nil)),
			"WithAdapter: the function is nil\nWithAdapter: the function is nil"},
		"host": {GEMM(ctx, nil, small(t), planner.Options{}, Slices[float32, float32]{}),
			"the device is nil"},
		"host, halves": {gemmOf[element.BFloat16, float32](ctx, nil, small(t), planner.Options{}, nil, nil,
			nil), "the device is nil"},
	} {
		t.Run(name, func(t *testing.T) {
			require.EqualError(t, c.err, c.text)
			require.ErrorIs(t, c.err, ErrInvalid)
		})
	}
	SetLogger(nil)
	d, _ := openFake(t)
	require.NoError(t, d.Warm(ctx, WarmOptions{}))
}

// openBoth calls Open and OpenAll, which must both fail.
func openBoth(ctx context.Context, drivers []driver.Driver, options ...Option) error {
	_, one := open(ctx, drivers, options)
	_, all := openAll(ctx, drivers, options)
	return errors.Join(one, all)
}
