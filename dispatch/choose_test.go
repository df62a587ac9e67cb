package dispatch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/fakedriver"
	"github.com/batchgemm/batchgemm/internal/hardware"
)

// laptop has a discrete GPU that two backends reach, an integrated one, and software.
func laptop(t *testing.T) []driver.Driver {
	fake := func(backend string, kinds ...hardware.Kind) driver.Driver {
		return &fakedriver.Driver{TB: t, Backend: backend, Kinds: kinds}
	}
	return []driver.Driver{
		fake("cuda", KindDiscrete),
		backend.Missing("hip", "a test"),
		fake("webgpu", KindDiscrete, KindOther, KindIntegrated, KindSoftware),
		fake("cpu", KindSoftware),
	}
}

// byID chooses like a program that stores an ID.
func byID(id string) Option {
	return WithAdapter(func(all []Info) int {
		return slices.IndexFunc(all, func(i Info) bool { return i.ID == id })
	})
}

func TestChoose(t *testing.T) {
	inUse := fmt.Errorf("%w: in use", ErrUnavailable)
	index := func(i int) Option { return WithAdapter(func([]Info) int { return i }) }
	for _, c := range []struct {
		name    string
		change  func(all []driver.Driver)
		options []Option
		opened  string // ID
		failure string
		wraps   error
	}{
		{name: "low power", options: []Option{WithPower("low")}, opened: "webgpu:2"},
		{name: "high power", options: []Option{WithPower("high")}, opened: "cuda:0"},
		{name: "high power, where the first backend has another kind",
			options: []Option{WithPower("high")}, opened: "webgpu:0",
			change: func(all []driver.Driver) { all[0].(*fakedriver.Driver).Kinds[0] = KindIntegrated }},
		{name: "no preference", options: []Option{WithPower("")}, opened: "cuda:0"},
		{name: "unknown power", options: []Option{WithPower("medium")},
			failure: `WithPower: unknown power "medium" (known: low, high)`, wraps: ErrInvalid},
		{name: "low power, in use", options: []Option{WithPower("low")}, opened: "webgpu:1",
			change: func(all []driver.Driver) {
				all[2].(*fakedriver.Driver).OpenErrs = map[int]error{2: inUse}
			}},
		{name: "low power, broken", options: []Option{WithPower("low")}, failure: "broken",
			wraps: errBroken,
			change: func(all []driver.Driver) {
				all[2].(*fakedriver.Driver).OpenErrs = map[int]error{2: errBroken}
			}},
		{name: "low power of a backend", options: []Option{WithPower("low"), WithBackend("cuda")},
			opened: "cuda:0"},
		{name: "low power of a backend that is not here",
			options: []Option{WithPower("low"), WithBackend("hip")},
			failure: "hip: unavailable: not in this build: a test", wraps: ErrUnavailable},
		{name: "low power, no GPU", options: []Option{WithPower("low")}, opened: "cpu:0", change: noGPU},
		{name: "low power, a GPU required", options: []Option{WithPower("low"), RequireGPU()},
			change: noGPU, wraps: ErrUnavailable,
			failure: "no device: hip: unavailable: not in this build: a test; webgpu: device 0 (webgpu0): " +
				"unavailable: software, where a GPU is required; " +
				"cpu: device 0 (cpu0): unavailable: software, where a GPU is required"},

		{name: "a GPU required", options: []Option{RequireGPU()}, opened: "cuda:0"},
		{name: "a GPU required, none", options: []Option{RequireGPU()}, change: noGPU, wraps: ErrUnavailable,
			failure: "no device: hip: unavailable: not in this build: a test; webgpu: device 0 (webgpu0): " +
				"unavailable: software, where a GPU is required; " +
				"cpu: device 0 (cpu0): unavailable: software, where a GPU is required"},
		{name: "a GPU required of the CPU", options: []Option{RequireGPU(), WithBackend("cpu")},
			wraps:   ErrUnavailable,
			failure: "no device: cpu: device 0 (cpu0): unavailable: software, where a GPU is required"},
		{name: "a GPU required, software asked for", options: []Option{RequireGPU(), WithBackend("webgpu"),
			WithDevice(3)}, wraps: ErrUnavailable,
			failure: "no device: webgpu: device 0 (webgpu0): device 3 was asked for; webgpu: device 1 " +
				"(webgpu1): device 3 was asked for; " +
				"webgpu: device 2 (webgpu2): device 3 was asked for; webgpu: device 3 (webgpu3): " +
				"unavailable: software, where a GPU is required"},

		{name: "by ID", options: []Option{byID("webgpu:2")}, opened: "webgpu:2"},
		{name: "software by ID", options: []Option{byID("webgpu:3")}, opened: "webgpu:3"},
		{name: "the CPU by ID", options: []Option{byID("cpu:0")}, opened: "cpu:0"},
		{name: "an ID that is gone", options: []Option{byID("cuda:7")}, opened: "cuda:0"},
		{name: "an ID that is gone, low power", options: []Option{byID("cuda:7"), WithPower("low")},
			opened: "webgpu:2"},
		{name: "first by low power", options: []Option{index(0), WithPower("low")}, opened: "webgpu:2"},
		{name: "software where a GPU is required", options: []Option{byID("webgpu:3"), RequireGPU()},
			opened: "cuda:0"},
		{name: "of another backend", options: []Option{byID("webgpu:2"), WithBackend("cuda")},
			opened: "cuda:0"},
		{name: "too large", options: []Option{index(6)}, failure: "WithAdapter: chose 6 of 6 devices",
			wraps: ErrInvalid},
		{name: "no option", options: []Option{RequireGPU(), nil}, failure: "option 1 is nil",
			wraps: ErrInvalid},
		{name: "no function", options: []Option{WithAdapter(nil)},
			failure: "WithAdapter: the function is nil", wraps: ErrInvalid},
		{name: "by index too", options: []Option{index(0), WithBackend("cuda"), WithDevice(0)},
			failure: "device 0: WithAdapter chooses the device", wraps: ErrInvalid},
		{name: "chosen, in use", options: []Option{byID("webgpu:2")},
			failure: "webgpu: device 2 (webgpu2): unavailable: in use", wraps: ErrUnavailable,
			change: func(all []driver.Driver) { all[2].(*fakedriver.Driver).OpenErr = inUse }},
		{name: "a broken backend", options: []Option{byID("cpu:0")}, failure: "cuda: broken",
			wraps:  errBroken,
			change: func(all []driver.Driver) { all[0].(*fakedriver.Driver).DevicesErr = errBroken }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(backendEnv, "")
			drivers := laptop(t)
			if c.change != nil {
				c.change(drivers)
			}
			d, err := open(t.Context(), drivers, c.options)
			if c.failure != "" {
				require.EqualError(t, err, c.failure)
				require.ErrorIs(t, err, c.wraps)
				return
			}
			require.NoError(t, err)
			defer d.Close()
			require.Equal(t, c.opened, d.Info().ID)
		})
	}
}

func noGPU(all []driver.Driver) {
	all[0].(*fakedriver.Driver).Kinds = nil
	all[2].(*fakedriver.Driver).Kinds = []hardware.Kind{KindSoftware}
}

// The list of WithAdapter has every device once, in the order of Open. Devices that Open would not open by
// itself are last.
func TestAdapterList(t *testing.T) {
	t.Setenv(backendEnv, "")
	var got []string
	d, err := open(t.Context(), laptop(t), []Option{WithAdapter(func(all []Info) int {
		for _, i := range all {
			got = append(got, i.ID)
		}
		return 2
	})})
	require.NoError(t, err)
	defer d.Close()
	require.Equal(t, []string{"cuda:0", "webgpu:0", "webgpu:1", "webgpu:2", "cpu:0", "webgpu:3"}, got)
	require.Equal(t, "hip: unavailable: not in this build: a test; "+
		"cuda: device 0 (cuda0): webgpu device 1 (webgpu1) was opened; webgpu: device 0 (webgpu0): webgpu "+
		"device 1 (webgpu1) was opened; "+
		"webgpu: device 2 (webgpu2): webgpu device 1 (webgpu1) was opened; cpu: device 0 (cpu0): webgpu "+
		"device 1 (webgpu1) was opened; "+
		"webgpu: device 3 (webgpu3): webgpu device 1 (webgpu1) was opened",
		strings.TrimPrefix((&allSkipped{d.Skipped()}).Error(), "no device: "))
}

// Devices of this machine have unique and stable IDs.
func TestIDs(t *testing.T) {
	seen := map[string]bool{}
	for range 2 {
		listings, err := Devices(t.Context())
		require.NoError(t, err)
		again := map[string]bool{}
		for _, l := range listings {
			require.True(t, l.Err == nil || errors.Is(l.Err, ErrUnavailable))
			for _, i := range l.Devices {
				require.NotEmpty(t, i.Kind)
				require.Regexp(t, "^"+l.Backend+"(:|$)", i.ID)
				require.False(t, again[i.ID], i.ID)
				again[i.ID] = true
			}
		}
		require.True(t, len(seen) == 0 || len(seen) == len(again))
		for id := range seen {
			require.True(t, again[id], id)
		}
		seen = again
	}
}
