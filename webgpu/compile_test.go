//go:build cgo && !nowebgpu && ((linux && amd64) || darwin || (windows && amd64))

package webgpu

import (
	"context"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/drivertest"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/planner"
)

// kernelsOf lists the kernels of plans with options.
func kernelsOf(t *testing.T, d *device, o planner.Options) (all []encoding.Kernel) {
	t.Helper()
	groups, err := planner.New(&d.info.Planner).Kernels(o, planner.Transposition{}, false)
	require.NoError(t, err)
	for _, g := range groups {
		all = append(all, g.Kernels...)
	}
	return all
}

// A driver with an empty cache compiles on other devices first, so that the device itself is busy only
// briefly. A driver without a cache does so as long as it helps.
func TestCompileCold(t *testing.T) {
	sample.WebGPU.Skip(t, 1)
	for name, env := range map[string]string{"cache": "MESA_SHADER_CACHE_DIR",
		"no cache": "MESA_SHADER_CACHE_DISABLE"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("MESA_SHADER_CACHE_DIR", t.TempDir())
			if env == "MESA_SHADER_CACHE_DISABLE" {
				t.Setenv(env, "true")
			}
			first := open(t, webgpuDriver{})
			if first.info.Vendor != "Mesa" {
				t.Skip("other drivers have caches of their own")
			}
			d, err := openDevice(t.Context(), first.info, 0)
			require.NoError(t, err)
			defer d.Close()
			kernels := kernelsOf(t, d, planner.Options{Tile: "small"})
			c := newCompilation(d, kernels, func(int) {})
			start := time.Now()
			c.work(t.Context())
			require.NoError(t, c.failed)
			t.Logf("%d kernels in %v: %v on a helper, %v on the device", len(kernels), time.Since(start),
				d.helpers.first, d.helpers.second)
			for _, k := range kernels {
				require.True(t, d.compiled(k))
			}
			before := len(d.pipelines)
			require.NoError(t, d.Compile(t.Context(), kernels, func(int) {}))
			require.Len(t, d.pipelines, before)
		})
	}
}

// One helper has a text, and who needs it waits for that one.
func TestClaim(t *testing.T) {
	h := newHelpers()
	done := h.claim("text")
	require.NotNil(t, done)
	require.Nil(t, h.claim("text"))
	require.NotNil(t, h.claim("another"))
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	h.await(canceled, "text")
	close(done)
	h.await(t.Context(), "text")
	h.await(t.Context(), "that nobody compiles")
	require.Nil(t, h.claim("text"))
}

// TestCompileTogether: calls at the same time compile each text once on a helper.
func TestCompileTogether(t *testing.T) {
	sample.WebGPU.Skip(t, 1)
	t.Setenv("MESA_SHADER_CACHE_DIR", t.TempDir())
	first := open(t, webgpuDriver{})
	d, err := openDevice(t.Context(), first.info, 0)
	require.NoError(t, err)
	defer d.Close()
	kernels, texts := kernelsOf(t, d, planner.Options{Tile: "tiny-k4"}), map[string]bool{}
	for _, k := range kernels {
		text, err := d.Text(k)
		require.NoError(t, err)
		texts[text] = true
	}
	failed := make(chan error)
	for range 3 {
		go func() { failed <- d.Compile(t.Context(), kernels, func(int) {}) }()
	}
	for range 3 {
		require.NoError(t, <-failed)
	}
	for _, k := range kernels {
		require.True(t, d.compiled(k))
	}
	require.LessOrEqual(t, len(d.helpers.texts), len(texts))
}

// A device whose helpers cannot be opened compiles alone.
func TestCompileWithoutHelpers(t *testing.T) {
	first := open(t, webgpuDriver{})
	d, err := openDevice(t.Context(), first.info, 0)
	require.NoError(t, err)
	defer d.Close()
	d.info.ID = "gone"
	kernels := kernelsOf(t, d, planner.Options{Tile: "small", Schedule: planner.ScheduleDataParallel})
	ready := 0
	require.NoError(t, d.Compile(t.Context(), kernels[:1], func(int) { ready++ }))
	require.Equal(t, 1, ready)
}

// Prepare and Update compile everything that runs need: runs add nothing to the driver's cache files, which
// are all written when the device is closed.
func TestPrepareCompiles(t *testing.T) {
	sample.WebGPU.Whole(t)
	if open(t, webgpuDriver{}).info.Vendor != "Mesa" {
		t.Skip("other drivers have caches of their own")
	}
	compiled := func(run bool) (kernels, files int) {
		dir := t.TempDir()
		t.Setenv("MESA_SHADER_CACHE_DIR", dir)
		opened, err := Driver().Open(t.Context(), 0)
		require.NoError(t, err)
		d := opened.(*device)
		maker := planner.New(&d.info.Planner)
		var program driver.Program
		for _, x := range []task{newTask(t, gemm(40, 8, 300)),
			newTask(t, gemm(8, 300, 16), gemm(100, 100, 8))} {
			var plan planner.Plan
			require.NoError(t, maker.Renew(t.Context(), &plan, x.batch, planner.Options{}))
			if program == nil {
				program, err = d.Prepare(t.Context(), &plan)
			} else {
				err = program.Update(t.Context(), &plan)
			}
			require.NoError(t, err)
			for _, l := range plan.Launches {
				require.True(t, d.compiled(l.Kernel))
			}
			if run {
				a, b, c := upload(t, d, x.a), upload(t, d, x.b), upload(t, d, x.c)
				require.NoError(t, d.Submit(t.Context(), []driver.Run{{Program: program, A: a, B: b, C: c}}))
				requireEqual(t, reference(x.batch, x.a, x.b, x.c), download(t, c, len(x.c)))
			}
		}
		kernels = len(d.pipelines)
		require.NoError(t, d.Close())
		require.NoError(t, filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() && e.Name() != "index" {
				files++
			}
			return err
		}))
		return kernels, files
	}
	kernels, files := compiled(false)
	require.Greater(t, kernels, 1)
	require.GreaterOrEqual(t, files, kernels)
	_, after := compiled(true)
	require.Equal(t, files, after, "a run compiled")
}

// A kernel that is being compiled does not count as ready, and a call that waits for it does not use it
// again.
func TestCompileWhileCompiling(t *testing.T) {
	first := open(t, webgpuDriver{})
	d, err := openDevice(t.Context(), first.info, 0)
	require.NoError(t, err)
	defer d.Close()
	k := kernelsOf(t, d, planner.Options{Tile: "small"})[0]
	d.mu.Lock()
	p, err := d.pipeline(k)
	require.NoError(t, err)
	p.ran = d.submitted + 1 // in the future
	d.mu.Unlock()
	require.False(t, d.compiled(k))
	require.ErrorIs(t, d.compileAndRun(cancelled(t), k), context.Canceled)
	d.mu.Lock()
	require.NoError(t, d.submitEmpty(p))
	d.mu.Unlock()
	require.NoError(t, d.compileAndRun(t.Context(), k))
	require.True(t, d.compiled(k))
	require.Equal(t, p.ran, d.submitted)
	require.EqualValues(t, 1, p.ran)
}

// Frames of changing sizes need no kernel that Compile has not made, also no ragged ones. (examples/frames
// measures how long they take.)
func TestFramesAfterCompile(t *testing.T) {
	sample.WebGPU.Whole(t)
	frames := 1500
	if testing.Short() {
		frames = 200
	}
	var o planner.Options
	if !sample.Shaders.Drawn(t.Name(), 1) {
		o.Tile = "small" // the kernels of others take a minute
	}
	d := open(t, webgpuDriver{})
	require.NoError(t, d.Compile(t.Context(), kernelsOf(t, d, o), func(int) {}))
	before := len(d.pipelines)
	rng := rand.New(rand.NewPCG(1, 1))
	problems := make([]planner.Problem, 24)
	p := planner.New(&d.info.Planner)
	var plan planner.Plan
	var program driver.Program
	used := map[encoding.Kernel]bool{}
	a, b, c := alloc(t, d, 1<<20), alloc(t, d, 1<<20), alloc(t, d, 1<<20)
	for range frames {
		most := []int{8, 16, 32, 80}[rng.IntN(4)]
		n := 1 + rng.IntN(len(problems))
		for i := range n {
			problems[i] = gemm(1+rng.IntN(most), 1+rng.IntN(most), 1+rng.IntN(3*most))
		}
		batch, err := planner.Pack(problems[:n]...)
		require.NoError(t, err)
		require.NoError(t, p.Renew(t.Context(), &plan, batch, o))
		if program == nil {
			program, err = d.Prepare(t.Context(), &plan)
		} else {
			err = program.Update(t.Context(), &plan)
		}
		require.NoError(t, err)
		require.NoError(t, d.Submit(t.Context(), []driver.Run{{Program: program, A: a, B: b, C: c}}))
		require.NoError(t, d.Wait(t.Context()))
		for _, l := range plan.Launches {
			used[l.Kernel] = true
		}
	}
	require.Greater(t, len(used), 3, "the sizes are different enough")
	t.Logf("%d frames by %d kernels of %d", frames, len(used), before)
	for _, r := range drivertest.RaggedBatches(false, false) {
		if o.Tile != "" {
			break // they take any kernels
		}
		x := prepareRagged(t, d, r, 16)
		for _, sizes := range drivertest.RaggedSizes(t, &r) {
			x.check(t, sizes)
		}
		for _, l := range x.plan.Launches {
			used[l.Kernel] = true
		}
		x.close(t)
	}
	require.Len(t, d.pipelines, before, "a kernel was compiled in a frame")
	for k := range used {
		require.True(t, d.compiled(k))
	}
	require.True(t, slices.ContainsFunc(kernelsOf(t, d, o), func(k encoding.Kernel) bool { return used[k] }))
}

// TestTextsOfGPUs runs the long texts of GPUs on a software adapter, which normally has shorter ones. It
// runs when shaders have changed.
func TestTextsOfGPUs(t *testing.T) {
	if !sample.Shaders.Drawn(t.Name(), 1) {
		t.Skip("shaders have not changed")
	}
	drivertest.Run(t, likeGPU{Driver()}, drivertest.Parts("Types"))
}

// likeGPU is a driver whose devices have the shaders of GPUs.
type likeGPU struct{ driver.Driver }

func (l likeGPU) Open(ctx context.Context, index int) (driver.Device, error) {
	d, err := l.Driver.Open(ctx, index)
	if err == nil {
		d.(*device).shader.Short = false
	}
	return d, err
}
