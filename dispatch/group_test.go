package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/drivertest"
	"github.com/batchgemm/batchgemm/internal/fakedriver"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
)

// openFakes opens n devices of the fake backend as a group. They are so slow that the tests' batches are
// split.
func openFakes(t *testing.T, n int) (*Group, []*fakedriver.Device) {
	t.Helper()
	f := &fakedriver.Driver{TB: t, Backend: "fake", Kinds: make([]hardware.Kind, n), TFLOPS: 0.001}
	g, err := OpenAll(t.Context(), WithDriver(f))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	return g, f.Opened
}

// job is a batch with operands of small integers, so results are exact.
type job struct {
	batch   planner.Batch
	a, b, c []float32
}

// newJob returns n problems with sizes up to most.
func newJob(t *testing.T, n, most int) job {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 0))
	problems := make([]planner.Problem, n)
	for i := range problems {
		problems[i] = planner.GEMM(1+rng.IntN(most), 1+rng.IntN(most), rng.IntN(most+1))
		problems[i].Beta = [...]float64{0, 1, -2}[i%3]
	}
	batch, err := planner.Pack(problems...)
	require.NoError(t, err)
	need := batch.Lengths(planner.Epilogue{})
	j := job{batch, make([]float32, need.A), make([]float32, need.B), make([]float32, need.C)}
	for _, s := range [][]float32{j.a, j.b, j.c} {
		reference.Integers(rng, s, 8)
	}
	return j
}

// gemm computes the job on a Device or a Group.
func (j job) gemm(ctx context.Context, on Host) error {
	c := slices.Clone(j.c)
	if err := gemmOf(ctx, on, j.batch, planner.Options{}, j.a, j.b, c); err != nil {
		return err
	}
	return reference.CheckExact(j.batch, j.a, j.b, j.c, c)
}

func TestOpenAll(t *testing.T) {
	unavailable := fmt.Errorf("%w: in use", hardware.ErrUnavailable)
	one := WithDevice(0)
	for _, c := range []struct {
		name    string
		drivers []driver.Driver
		env     string
		options []Option
		devices []string
		passed  []string
		failure string
	}{
		{name: "all GPUs of the first",
			drivers: []driver.Driver{&fakedriver.Driver{TB: t, Backend: "cuda",
				Kinds: []hardware.Kind{hardware.KindDiscrete, hardware.KindDiscrete}},
				&fakedriver.Driver{TB: t, Backend: "hip", Kinds: []hardware.Kind{hardware.KindDiscrete}}},
			devices: []string{"cuda0", "cuda1"}},
		{name: "no software beside GPUs",
			drivers: []driver.Driver{&fakedriver.Driver{TB: t, Backend: "webgpu", Kinds: []hardware.Kind{
				hardware.KindDiscrete, hardware.KindSoftware, hardware.KindDiscrete}}}, env: "webgpu",
			devices: []string{"webgpu0", "webgpu2"},
			passed:  []string{"webgpu: device 1 (webgpu1): software, and there is a GPU"}},
		{name: "software where asked for",
			drivers: []driver.Driver{&fakedriver.Driver{TB: t, Backend: "webgpu",
				Kinds: []hardware.Kind{hardware.KindSoftware, hardware.KindSoftware}},
				&fakedriver.Driver{TB: t, Backend: "cpu", Kinds: []hardware.Kind{hardware.KindSoftware}}},
			options: []Option{WithBackend("webgpu")}, devices: []string{"webgpu0", "webgpu1"}},
		{name: "fallback", drivers: []driver.Driver{backend.Missing("cuda", "a test"),
			&fakedriver.Driver{TB: t, Backend: "cpu", Kinds: []hardware.Kind{hardware.KindSoftware}}},
			devices: []string{"cpu0"}, passed: []string{"cuda: unavailable: not in this build: a test"}},
		{name: "one device in use", drivers: []driver.Driver{&fakedriver.Driver{TB: t, Backend: "cuda",
			Kinds:    []hardware.Kind{hardware.KindDiscrete, hardware.KindDiscrete},
			OpenErrs: map[int]error{0: unavailable}}},
			devices: []string{"cuda1"}, passed: []string{"cuda: device 0 (cuda0): unavailable: in use"}},
		{name: "all in use", drivers: []driver.Driver{&fakedriver.Driver{TB: t, Backend: "cuda",
			Kinds: []hardware.Kind{hardware.KindDiscrete, hardware.KindDiscrete}, OpenErr: unavailable}},
			failure: "no device: cuda: device 0 (cuda0): unavailable: in use; cuda: device 1 (cuda1): " +
				"unavailable: in use"},
		{name: "broken device", drivers: []driver.Driver{&fakedriver.Driver{TB: t, Backend: "cuda",
			Kinds:    []hardware.Kind{hardware.KindDiscrete, hardware.KindDiscrete},
			OpenErrs: map[int]error{1: errBroken}}},
			failure: "cuda: device 1: broken"},
		{name: "unknown", drivers: []driver.Driver{backend.Missing("cuda", "a test")}, env: "metal",
			failure: `unknown backend "metal" (known: cuda)`},
		{name: "device", drivers: []driver.Driver{backend.Missing("cuda", "a test")}, options: []Option{one},
			failure: "device 0: OpenAll opens all devices; Open opens one"},
		{name: "adapter", options: []Option{WithAdapter(func([]Info) int { return 0 })},
			failure: "WithAdapter: OpenAll opens all devices; Open opens one"},
		{name: "power", options: []Option{WithPower("low")},
			failure: "WithPower: OpenAll opens all devices; Open opens one"},
		{name: "GPUs alone", drivers: []driver.Driver{&fakedriver.Driver{TB: t, Backend: "webgpu",
			Kinds: []hardware.Kind{hardware.KindSoftware}}}, options: []Option{RequireGPU()},
			failure: "no device: webgpu: device 0 (webgpu0): unavailable: software, where a GPU is required"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(backendEnv, c.env)
			g, err := openAll(t.Context(), c.drivers, c.options)
			if c.failure != "" {
				require.EqualError(t, err, c.failure)
				for _, d := range c.drivers {
					if f, ok := d.(*fakedriver.Driver); ok {
						for _, opened := range f.Opened {
							require.EqualValues(t, 1, opened.Closes.Load(), "what was open is closed")
						}
					}
				}
				return
			}
			require.NoError(t, err)
			defer func() { require.NoError(t, g.Close()) }()
			var names, passed []string
			for _, d := range g.Devices() {
				names = append(names, d.Info().Name)
			}
			for _, s := range g.Skipped() {
				require.True(t, s.Device != nil || errors.Is(s.Err, ErrUnavailable))
				passed = append(passed, s.String())
			}
			require.Equal(t, c.devices, names)
			require.Equal(t, c.passed, passed)
		})
	}
}

// The options of a call reach its plan.
func TestGEMMOptions(t *testing.T) {
	j := newJob(t, 60, 90)
	g, fakes := openFakes(t, 2)
	require.NoError(t, gemmOf(t.Context(), g, j.batch, planner.Options{Tile: "medium"}, j.a, j.b,
		slices.Clone(j.c)))
	for _, f := range fakes {
		require.Equal(t, "medium", f.Plan.Load().Options.Tile)
	}
	require.NoError(t, gemmOf(t.Context(), g.Devices()[0], j.batch,
		planner.Options{Compute: planner.ComputeF32}, j.a, j.b, slices.Clone(j.c)))
	require.Equal(t, planner.ComputeF32, fakes[0].Plan.Load().Options.Compute)
}

// Each device of each backend is opened twice, so one is enough to split a batch on real hardware.
func TestGEMMOnEveryBackend(t *testing.T) {
	listings, err := Devices(t.Context())
	require.NoError(t, err)
	for i, l := range listings {
		t.Run(l.Backend, func(t *testing.T) {
			if l.Err != nil {
				require.NotContains(t, os.Getenv(drivertest.RequireEnv), l.Backend)
				t.Skip(l.Err)
			}
			f := &fakedriver.Driver{TB: t, Backend: l.Backend, Inner: Backends()[i],
				Kinds: make([]hardware.Kind, 2)}
			g, err := OpenAll(t.Context(), WithDriver(f))
			require.NoError(t, err)
			defer func() { require.NoError(t, g.Close()) }()
			j := newJob(t, 100, 128)
			if l.Devices[0].Kind != hardware.KindSoftware || l.Backend == "cpu" {
				j = newJob(t, 200, 256) // 40 MB
			}
			for range 2 {
				require.NoError(t, j.gemm(t.Context(), g))
			}
			for _, d := range f.Opened {
				require.NotZero(t, d.Prepared.Load(), "the batch was split")
			}
			require.NoError(t, newJob(t, 12, 40).gemm(t.Context(), g.Devices()[0]))
		})
	}
}

// A waiting call can be cancelled, and closing waits for calls.
func TestGroupWaitingAndClosing(t *testing.T) {
	g, fakes := openFakes(t, 2)
	k := newJob(t, 60, 90)
	inside, leave, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	fakes[1].OnSubmit = func() error { close(inside); <-leave; return nil }
	go func() { done <- k.gemm(context.Background(), g) }()
	<-inside
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, newJob(t, 61, 90).gemm(ctx, g), context.DeadlineExceeded)
	closed := make(chan error)
	go func() { closed <- g.Close() }()
	close(leave)
	require.NoError(t, <-done)
	require.NoError(t, <-closed)
	require.NoError(t, g.Close())
	require.ErrorIs(t, k.gemm(t.Context(), g), ErrClosed)
}

// However a call ends, the devices of a group can be closed after it.
func TestGroupGEMMLetsGo(t *testing.T) {
	for name, fail := range map[string]func(g *Group, fakes []*fakedriver.Device) error{
		"success": func(*Group, []*fakedriver.Device) error { return nil },
		"submit": func(_ *Group, fakes []*fakedriver.Device) error {
			fakes[1].OnSubmit = func() error { return errBroken }
			return errBroken
		},
		"a device is closed": func(g *Group, _ []*fakedriver.Device) error {
			_ = g.devices[1].Close()
			return ErrClosed
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, fakes := openFakes(t, 2)
			want := fail(g, fakes)
			require.ErrorIs(t, newJob(t, 60, 90).gemm(t.Context(), g), want)
			for i, d := range g.devices {
				if !d.mu.TryLock() {
					t.Errorf("device %d is held", i)
					d.mu.RUnlock() // so that it can be closed
					continue
				}
				d.mu.Unlock()
			}
		})
	}
}
