package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/fakedriver"
	"github.com/batchgemm/batchgemm/internal/hardware"
)

func TestOpen(t *testing.T) {
	unavailable := fmt.Errorf("%w: no driver", hardware.ErrUnavailable)
	none := func(name string) driver.Driver {
		return &fakedriver.Driver{TB: t, Backend: name, DevicesErr: unavailable}
	}
	gpu := func(name string) driver.Driver {
		return &fakedriver.Driver{TB: t, Backend: name, Kinds: []hardware.Kind{hardware.KindDiscrete,
			hardware.KindDiscrete}}
	}
	software := func(name string) driver.Driver {
		return &fakedriver.Driver{TB: t, Backend: name, Kinds: []hardware.Kind{hardware.KindSoftware}}
	}
	two := &fakedriver.Driver{TB: t, Backend: "webgpu", Kinds: []hardware.Kind{hardware.KindSoftware,
		hardware.KindDiscrete}}
	cases := []struct {
		name    string
		drivers []driver.Driver
		env     string
		options []Option
		backend string // the opened one
		device  int
		passed  []string
		failure string
		kind    error // of the failure; nil: any
	}{
		{name: "first", drivers: []driver.Driver{gpu("cuda"), gpu("hip")}, backend: "cuda",
			passed: []string{"cuda: device 1 (cuda1): cuda device 0 (cuda0) was opened"}},
		{name: "unavailable", drivers: []driver.Driver{none("cuda"), gpu("webgpu"), software("cpu")},
			backend: "webgpu",
			passed: []string{"cuda: unavailable: no driver",
				"webgpu: device 1 (webgpu1): webgpu device 0 (webgpu0) was opened"}},
		{name: "software adapter", drivers: []driver.Driver{software("webgpu"), software("cpu")},
			backend: "cpu",
			passed: []string{"webgpu: device 0 (webgpu0): software, which is slower than the cpu backend; " +
				"BATCHGEMM_BACKEND=webgpu takes it"}},
		{name: "GPU after a software adapter", drivers: []driver.Driver{two, software("cpu")},
			backend: "webgpu", device: 1,
			passed: []string{"webgpu: device 0 (webgpu0): software, and there is a GPU"}},
		{name: "cannot open", drivers: []driver.Driver{&fakedriver.Driver{TB: t, Backend: "cuda",
			Kinds: []hardware.Kind{hardware.KindDiscrete}, OpenErr: unavailable}, software("cpu")},
			backend: "cpu",
			passed:  []string{"cuda: device 0 (cuda0): unavailable: no driver"}},
		{name: "broken list", drivers: []driver.Driver{&fakedriver.Driver{TB: t, Backend: "cuda",
			DevicesErr: errBroken}, software("cpu")}, failure: "cuda: broken"},
		{name: "broken open", drivers: []driver.Driver{&fakedriver.Driver{TB: t, Backend: "cuda",
			Kinds: []hardware.Kind{hardware.KindDiscrete}, OpenErr: errBroken}, software("cpu")},
			failure: "cuda: broken"},
		{name: "nothing", drivers: []driver.Driver{none("cuda"), none("cpu")},
			failure: "no device: cuda: unavailable: no driver; cpu: unavailable: no driver"},
		{name: "option", drivers: []driver.Driver{gpu("cuda"), software("webgpu")},
			options: []Option{WithBackend("webgpu")}, backend: "webgpu"},
		{name: "environment", drivers: []driver.Driver{gpu("cuda"), software("webgpu")}, env: "webgpu",
			backend: "webgpu"},
		{name: "option over environment", drivers: []driver.Driver{gpu("cuda"), gpu("hip")}, env: "hip",
			options: []Option{WithBackend("cuda")}, backend: "cuda",
			passed: []string{"cuda: device 1 (cuda1): cuda device 0 (cuda0) was opened"}},
		{name: "empty option", drivers: []driver.Driver{gpu("cuda"), gpu("hip")}, env: "hip",
			options: []Option{WithBackend("")}, backend: "hip",
			passed: []string{"hip: device 1 (hip1): hip device 0 (hip0) was opened"}},
		{name: "device", drivers: []driver.Driver{gpu("cuda")},
			options: []Option{WithBackend("cuda"), WithDevice(1)}, backend: "cuda", device: 1,
			passed: []string{"cuda: device 0 (cuda0): device 1 was asked for"}},
		{name: "no such device", drivers: []driver.Driver{gpu("cuda")}, options: []Option{WithBackend("cuda"),
			WithDevice(2)}, failure: "cuda: no device 2 (known: 0 cuda0, 1 cuda1)", kind: ErrInvalid},
		{name: "negative device", drivers: []driver.Driver{gpu("cuda")},
			options: []Option{WithBackend("cuda"), WithDevice(-1)},
			failure: "cuda: no device -1 (known: 0 cuda0, 1 cuda1)", kind: ErrInvalid},
		{name: "device where the backend cannot run", drivers: []driver.Driver{none("cuda")},
			options: []Option{WithBackend("cuda"), WithDevice(5)},
			failure: "cuda: unavailable: no driver", kind: ErrUnavailable},
		{name: "device without backend", drivers: []driver.Driver{gpu("cuda")},
			options: []Option{WithDevice(1)},
			failure: "device 1 needs a backend: use WithBackend or BATCHGEMM_BACKEND",
			kind:    ErrInvalid},
		{name: "fixed but unavailable", drivers: []driver.Driver{none("cuda"), software("cpu")}, env: "cuda",
			failure: "cuda: unavailable: no driver", kind: ErrUnavailable},
		{name: "unknown", drivers: []driver.Driver{gpu("cuda"), gpu("hip")}, env: "metal",
			failure: `unknown backend "metal" (known: cuda, hip)`, kind: ErrInvalid},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(backendEnv, c.env)
			d, err := open(context.Background(), c.drivers, c.options)
			if c.failure != "" {
				require.EqualError(t, err, c.failure)
				if c.kind != nil {
					for _, other := range []error{ErrInvalid, ErrUnavailable} {
						require.Equal(t, other == c.kind, errors.Is(err, other))
					}
				}
				return
			}
			require.NoError(t, err)
			defer func() { require.NoError(t, d.Close()) }()
			require.Equal(t, c.backend, d.Info().Backend)
			require.Equal(t, c.device, d.Info().Index)
			var passed []string
			for _, s := range d.Skipped() {
				require.True(t, s.Device != nil || errors.Is(s.Err, ErrUnavailable))
				passed = append(passed, s.String())
			}
			require.Equal(t, c.passed, passed)
			require.Equal(t, strings.Join(c.passed, "; "),
				strings.TrimPrefix((&allSkipped{d.Skipped()}).Error(), "no device: "))
		})
	}
}

func TestOpenNothingIsUnavailable(t *testing.T) {
	t.Setenv(backendEnv, "")
	_, err := open(context.Background(), []driver.Driver{backend.Missing("cuda", "a test"),
		backend.Missing("hip", "a test")}, nil)
	require.ErrorIs(t, err, ErrUnavailable)
	require.EqualError(t, err, "no device: cuda: unavailable: not in this build: a test; hip: unavailable: "+
		"not in this build: a test")
}

// Only the driver of WithDriver is tried, whatever the environment names.
func TestWithDriver(t *testing.T) {
	unavailable := fmt.Errorf("%w: no driver", hardware.ErrUnavailable)
	two := func() *fakedriver.Driver {
		return &fakedriver.Driver{TB: t, Backend: "own", Kinds: []hardware.Kind{hardware.KindSoftware,
			hardware.KindSoftware}}
	}
	for _, c := range []struct {
		name    string
		driver  driver.Driver
		env     string
		options []Option
		device  int
		failure string
		invalid bool
	}{
		{name: "alone", driver: two()},
		{name: "environment", driver: two(), env: "webgpu"},
		{name: "its name", driver: two(), env: "cpu", options: []Option{WithBackend("own")}},
		{name: "no name", driver: two(), options: []Option{WithBackend("")}},
		{name: "another name", driver: two(), options: []Option{WithBackend("cpu")},
			failure: `unknown backend "cpu" (known: own)`, invalid: true},
		{name: "device", driver: two(), options: []Option{WithDevice(1)}, device: 1},
		{name: "no such device", driver: two(), options: []Option{WithDevice(2)},
			failure: "own: no device 2 (known: 0 own0, 1 own1)", invalid: true},
		{name: "nil", failure: "WithDriver: the driver is nil", invalid: true},
		{name: "unavailable", driver: &fakedriver.Driver{TB: t, Backend: "own", DevicesErr: unavailable},
			failure: "own: unavailable: no driver"},
		{name: "broken", driver: &fakedriver.Driver{TB: t, Backend: "own",
			Kinds: []hardware.Kind{hardware.KindDiscrete}, OpenErr: errBroken}, failure: "own: broken"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(backendEnv, c.env)
			options := append(c.options, WithDriver(c.driver))
			d, err := Open(t.Context(), options...)
			if c.failure != "" {
				require.EqualError(t, err, c.failure)
				require.Equal(t, c.invalid, errors.Is(err, ErrInvalid))
				return
			}
			require.NoError(t, err)
			defer func() { require.NoError(t, d.Close()) }()
			require.Equal(t, "own", d.Info().Backend)
			require.Equal(t, c.device, d.Info().Index)
			require.Len(t, d.Skipped(), 1, "the other device")
			if c.device == 0 {
				g, err := OpenAll(t.Context(), options...)
				require.NoError(t, err)
				require.Len(t, g.Devices(), 2)
				require.NoError(t, g.Close())
			}
		})
	}
}

// A context that has ended gives its error, and no backend is asked.
func TestEndedContext(t *testing.T) {
	t.Setenv(backendEnv, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := &fakedriver.Driver{TB: t, Backend: "cuda", DevicesErr: errBroken}
	for name, call := range map[string]func() error{
		"Devices": func() error { _, err := Devices(ctx); return err },
		"Open":    func() error { _, err := open(ctx, []driver.Driver{f}, nil); return err },
		"OpenAll": func() error { _, err := openAll(ctx, []driver.Driver{f}, nil); return err },
	} {
		require.Equal(t, context.Canceled, call(), name)
	}
}

func TestDevices(t *testing.T) {
	listings, err := Devices(t.Context())
	require.NoError(t, err)
	var names []string
	for _, l := range listings {
		names = append(names, l.Backend)
		if l.Err != nil {
			require.ErrorIs(t, l.Err, ErrUnavailable)
		}
	}
	require.Equal(t, []string{"cuda", "hip", "webgpu", "cpu"}, names)
	require.NotEmpty(t, listings[3].Devices, "the cpu backend runs anywhere")
}
