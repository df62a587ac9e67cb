//go:build !nowebgpu

package webgpu

import (
	"context"
	"syscall/js"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/planner"
)

// hide removes a property of the browser for a test, or replaces its value.
func hide(t *testing.T, of js.Value, name string, value any) {
	t.Helper()
	object := js.Global().Get("Object")
	object.Call("defineProperty", of, name, map[string]any{"value": value, "configurable": true})
	t.Cleanup(func() { js.Global().Get("Reflect").Call("deleteProperty", of, name) })
}

func TestWithoutWebGPUInBrowser(t *testing.T) {
	open(t, webgpuDriver{}) // skips without an adapter
	gpu := js.Global().Get("navigator").Get("gpu")
	none := js.FuncOf(func(js.Value, []js.Value) any {
		return js.Global().Get("Promise").Call("resolve", js.Null())
	})
	refuses := js.FuncOf(func(js.Value, []js.Value) any {
		return js.Global().Get("Promise").Call("reject", js.Global().Get("Error").New("not today"))
	})
	defer none.Release()
	defer refuses.Release()
	for _, c := range []struct {
		name   string
		of     js.Value
		hidden string
		value  any
		want   string
	}{
		{"old browser", js.Global().Get("navigator"), "gpu", js.Undefined(),
			"unavailable: no WebGPU of the browser: it has no navigator.gpu"},
		{"no adapter", gpu, "requestAdapter", none, "unavailable: the browser has no adapter: hardware " +
			"acceleration may be switched off, or this GPU is blocked"},
		{"refused", gpu, "requestAdapter", refuses, "unavailable: the browser refuses an adapter: not today"},
	} {
		t.Run(c.name, func(t *testing.T) {
			hide(t, c.of, c.hidden, c.value)
			_, err := Driver().Devices(t.Context())
			require.ErrorIs(t, err, hardware.ErrUnavailable)
			require.EqualError(t, err, c.want)
			_, err = Driver().Open(t.Context(), 0)
			require.ErrorIs(t, err, hardware.ErrUnavailable)
		})
	}
}

// An adapter is described by what the browser reveals, and plans keep its limits.
func TestAdapterInBrowser(t *testing.T) {
	info := open(t, webgpuDriver{}).Info()
	handle, err := await(t.Context(), js.Global().Get("navigator").Get("gpu").Call("requestAdapter"))
	require.NoError(t, err)
	a := newAdapter(handle)
	require.Equal(t, a.id(), info.ID)
	require.Regexp(t, "^webgpu:browser:", info.ID)
	has := func(name string) int { return handle.Get("limits").Get(name).Int() }
	require.Equal(t, has("maxComputeWorkgroupStorageSize"), info.Planner.GroupShared)
	require.Equal(t, has("maxComputeInvocationsPerWorkgroup"), info.Planner.MaxThreads)
	require.Equal(t, has("maxComputeWorkgroupsPerDimension"), info.Planner.MaxWorkers)
	require.Equal(t, has("maxStorageBufferBindingSize")/16*16, info.Planner.MaxBinding)
	if lanes := handle.Get("info").Get("subgroupMinSize"); !lanes.IsUndefined() {
		require.GreaterOrEqual(t, info.Planner.WaveSize, lanes.Int())
		require.Contains(t, info.Subgroup, "(browser)")
	}
	for _, c := range []struct {
		name  string
		a     adapter
		lanes int
		from  string
	}{
		{"told", adapter{vendor: "google", minLanes: 4, maxLanes: 4}, 4, "browser"},
		{"a range with the usual size", adapter{vendor: "amd", minLanes: 32, maxLanes: 64}, 64, "browser"},
		{"a range below it", adapter{vendor: "intel", minLanes: 8, maxLanes: 16}, 16, "browser"},
		{"hidden", adapter{vendor: "qualcomm"}, 64, "vendor table"},
		{"all hidden", adapter{}, 32, "guess"},
	} {
		lanes, from := c.a.subgroup()
		require.Equal(t, c.lanes, lanes, c.name)
		require.Equal(t, c.from, from, c.name)
	}
}

// After a device is lost, every call says why, and the device can be opened again.
func TestLostInBrowser(t *testing.T) {
	first := open(t, webgpuDriver{})
	d, err := openDevice(t.Context(), first.info, 0)
	require.NoError(t, err)
	l := load(t, d)
	require.NoError(t, l.Wait(t.Context()))
	d.handle.Call("destroy") // as the browser does
	require.Eventually(t, func() bool { return d.events.failure.Load() != nil }, time.Minute,
		time.Millisecond)
	err = l.Wait(t.Context())
	require.ErrorIs(t, err, hardware.ErrDeviceLost)
	l.requireLost(t, err.Error())
	again, err := openDevice(t.Context(), first.info, 0)
	require.NoError(t, err)
	require.NoError(t, again.Close())
}

// If the browser refuses work that is already queued, calls that wait for it return the error.
func TestRefusedLaterInBrowser(t *testing.T) {
	first := open(t, webgpuDriver{})
	d, err := openDevice(t.Context(), first.info, 0)
	require.NoError(t, err)
	k := newTask(t, planner.GEMM(20, 20, 20))
	_, p := prepare(t, d, k.batch, planner.Options{})
	work := driver.Run{Program: p, A: upload(t, d, k.a), B: upload(t, d, k.b), C: alloc(t, d, len(k.c))}
	// Prepare refuses that
	p.images[p.now].launches[0].Count = int(d.limits.MaxComputeWorkgroupsPerDimension) + 1
	require.NoError(t, d.Submit(t.Context(), []driver.Run{work}))
	err = work.C.Read(t.Context(), 0, make([]float32, len(k.c)))
	require.ErrorIs(t, err, hardware.ErrDeviceLost)
	require.ErrorContains(t, err, "ispatch")
	require.Equal(t, err, d.Wait(t.Context()), "the first reason stays")
}

// A wait does not block the event loop, and ends with its context.
func TestEventLoopGoesOnInBrowser(t *testing.T) {
	d := open(t, webgpuDriver{})
	ticks := 0
	tick := js.FuncOf(func(js.Value, []js.Value) any { ticks++; return nil })
	defer tick.Release()
	timer := js.Global().Call("setInterval", tick, 1)
	defer js.Global().Call("clearInterval", timer)
	k := newTask(t, planner.GEMM(300, 300, 300))
	_, p := prepare(t, d, k.batch, planner.Options{})
	work := driver.Run{Program: p, A: upload(t, d, k.a), B: upload(t, d, k.b), C: alloc(t, d, len(k.c))}
	before := ticks
	took, err := d.Time(t.Context(), []driver.Run{work, work, work, work})
	require.NoError(t, err)
	require.Greater(t, ticks, before)
	// if it takes longer than browsers round to
	if d.period > 0 && d.info.Kind == hardware.KindSoftware {
		require.Equal(t, "timestamp", took.Clock)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = await(ctx, js.Global().Get("Promise").New(tick))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = await(t.Context(), js.Global().Get("Promise").Call("reject", "a text"))
	require.EqualError(t, err, "a text")
}

// Mistakes in a shader are reported in the browser's words, and the device continues to work.
func TestShaderRefusedInBrowser(t *testing.T) {
	d := open(t, webgpuDriver{})
	_, err := d.makeKernel("fn main() { nonsense }")
	require.ErrorContains(t, err, "webgpu: shader: ")
	require.NotErrorIs(t, err, hardware.ErrDeviceLost)
	require.NoError(t, d.Wait(t.Context()))
}
