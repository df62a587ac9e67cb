//go:build !nowebgpu && (js || (cgo && ((linux && amd64) || darwin || (windows && amd64))))

package webgpu

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/drivertest"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/wgsl"
)

func TestSchedules(t *testing.T) {
	d := open(t, webgpuDriver{})
	scaled := planner.Problem{M: 20, N: 9, K: 33, Alpha: planner.Scale(2), Beta: -3,
		TransA: true, TransB: true}
	k := newTask(t, gemm(17, 33, 300), gemm(1, 1, 1), gemm(5, 0, 3), gemm(3, 4, 0), scaled)
	for _, schedule := range planner.Schedules() {
		t.Run(string(schedule), func(t *testing.T) {
			sample.WebGPU.Whole(t)
			got, _ := k.run(t, d, planner.Options{Schedule: schedule})
			requireEqual(t, reference(k.batch, k.a, k.b, k.c), got)
		})
	}
}

// kernels lists all kernels that a plan can name.
func kernels() []encoding.Kernel {
	list := []encoding.Kernel{{Ragged: encoding.RaggedPlan}, {Ragged: encoding.RaggedExpand}}
	for _, tile := range tile.Of(tile.FMA) {
		list = append(list, encoding.Kernel{Tile: tile, Fixup: true})
		for bits := range 32 {
			set := func(i int) bool { return bits>>i&1 == 1 }
			k := encoding.Kernel{Tile: tile, TransA: set(0), TransB: set(1), Vector: set(2), Loop: set(3),
				Split: set(4)}
			if k.Vector && !k.TransA && k.TransB {
				continue // both operands are K-major
			}
			list = append(list, k)
		}
	}
	return list
}

func TestEveryKernelCompiles(t *testing.T) {
	d := open(t, webgpuDriver{})
	drivertest.Sampled(t, d, 1)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, k := range kernels() {
		_, err := d.pipeline(k)
		require.NoError(t, err, "%+v", k)
	}
}

// Buffers larger than a binding are reached through windows.
func TestWindows(t *testing.T) {
	d := open(t, webgpuDriver{maxBinding: 48 << 10})
	require.Equal(t, 48<<10, d.info.Planner.MaxBinding)
	problems := []planner.Problem{gemm(60, 70, 1000)}
	for i := range 30 {
		problems = append(problems, gemm(20+i, 50-i, 40))
	}
	k := newTask(t, problems...)
	require.Greater(t, 4*len(k.a), 48<<10)
	for _, schedule := range planner.Schedules() {
		t.Run(string(schedule), func(t *testing.T) {
			got, plan := k.run(t, d, planner.Options{Schedule: schedule})
			require.NotZero(t, plan.Launches[len(plan.Launches)-1].BaseC)
			requireEqual(t, reference(k.batch, k.a, k.b, k.c), got)
		})
	}
}

// 200 MB of A and of C on a device that binds 128 MiB, like lavapipe and WebGPU's default limits.
func TestBatchLargerThanABinding(t *testing.T) {
	sample.WebGPU.Skip(t, 1)
	d := open(t, webgpuDriver{maxBinding: 128 << 20})
	k := newTask(t,
		gemm(8192, 3, 6400),
		planner.Problem{M: 7200, N: 7200, Beta: 2}, // no products: only C matters
		gemm(5, 6, 7))
	require.Greater(t, min(len(k.a), len(k.c)), 50_000_000)
	got, plan := k.run(t, d, planner.Options{Tile: "tiny-k4"})
	require.GreaterOrEqual(t, len(plan.Launches), 4)
	for i := range k.c {
		if c := k.batch[1].C; i >= c.Offset && i < c.Offset+7200*7200 {
			k.c[i] *= 2
		}
	}
	k.batch[1].M = 0 // done
	requireEqual(t, reference(k.batch, k.a, k.b, k.c), got)
}

// Lavapipe ends all loops of a thread after 65535 iterations without an error. The planner keeps threads
// below that, and cuts problems along K if necessary.
func TestLoopsLongerThanLavapipeAllows(t *testing.T) {
	d := open(t, webgpuDriver{})
	for _, steps := range []int{8180, 8190, 66000} {
		for _, schedule := range planner.Schedules() {
			t.Run(fmt.Sprintf("%d/%s", steps, schedule), func(t *testing.T) {
				sample.WebGPU.Skip(t, 1)
				k := newTask(t, gemm(2, 3, 16*steps+15), gemm(9, 9, 9))
				got, plan := k.run(t, d, planner.Options{Tile: "tiny-k4", Schedule: schedule})
				if d.info.Planner.MaxTrips > 0 && steps > d.info.Planner.MaxTrips {
					require.Greater(t, len(plan.Launches), 1)
				}
				requireEqual(t, reference(k.batch, k.a, k.b, k.c), got)
			})
		}
	}
}

func TestMoreWorkersThanADispatchMayHave(t *testing.T) {
	d := open(t, webgpuDriver{})
	problems := make([]planner.Problem, 70_000)
	for i := range problems {
		problems[i] = gemm(2, 1, 1)
	}
	k := newTask(t, problems...)
	got, plan := k.run(t, d, planner.Options{Schedule: planner.ScheduleDataParallel})
	require.Greater(t, len(plan.Launches), 1)
	requireEqual(t, reference(k.batch, k.a, k.b, k.c), got)

	// A launch that is too large would fail the whole submission.
	plan.Launches[0].Count = 65536
	_, err := d.Prepare(t.Context(), plan)
	require.ErrorContains(t, err, "65536 workgroups, the device allows 65535")
}

// TestWholeVectors: tiles of all shapes, whole and at edges, are also exact with the shaders of devices on
// which a store to a component may touch the whole vector.
func TestWholeVectors(t *testing.T) {
	d := open(t, webgpuDriver{whole: true})
	require.False(t, d.shader.Components)
	for _, k := range d.info.Planner.Kernels {
		for _, s := range []planner.Schedule{planner.ScheduleDataParallel, planner.ScheduleSplitK} {
			t.Run(fmt.Sprintf("%s/%s", k.Tile.Name, s), func(t *testing.T) {
				drivertest.Sampled(t, d, 3)
				var problems []planner.Problem
				for transposed := range 4 {
					for _, size := range [][3]int{{1, 3, 5}, {67, 33, 70}, {64, 128, 64}} {
						p := gemm(size[0], size[1], size[2])
						p.TransA, p.TransB, p.Beta = transposed&1 != 0, transposed&2 != 0, float64(transposed)
						problems = append(problems, p)
					}
				}
				task := newTask(t, problems...)
				got, _ := task.run(t, d, planner.Options{Tile: k.Tile.Name, Schedule: s})
				requireEqual(t, reference(task.batch, task.a, task.b, task.c), got)
			})
		}
	}
}

// tinyShader returns a valid shader with this much workgroup memory.
func tinyShader(shared int) wgsl.Shader {
	return wgsl.Shader{Threads: 1, SharedBytes: shared,
		Bindings: []encoding.Binding{{Number: 0, Written: true}},
		Source: fmt.Sprintf(
			`@group(0) @binding(0) var<storage, read_write> x: array<u32>;
		var<workgroup> w: array<u32, %d>;
		@compute @workgroup_size(1) fn main() { w[0] = 1u; x[0] = w[0]; }`, shared/4)}
}

func TestShaderLimits(t *testing.T) {
	d := open(t, webgpuDriver{})
	limit, one := d.info.Planner.GroupShared, tinyShader(16).Bindings
	// The binding accepts each of the bad ones, or crashes.
	for name, c := range map[string]struct {
		shader wgsl.Shader
		want   string
	}{
		"empty": {wgsl.Shader{Threads: 1}, "no bindings"},
		"no bindings": {wgsl.Shader{Source: "@compute @workgroup_size(1) fn main() {}", Threads: 1},
			"no bindings"},
		"memory": {tinyShader(limit + 1024),
			fmt.Sprintf("%d bytes of workgroup memory, the device allows %d", limit+1024, limit)},
		"threads":     {wgsl.Shader{Bindings: one, Threads: 1 << 20}, "threads, the device allows"},
		"not WGSL":    {wgsl.Shader{Source: "nonsense", Bindings: one, Threads: 1}, "shader"},
		"no function": {wgsl.Shader{Source: "fn other() {}", Bindings: one, Threads: 1}, "pipeline"},
	} {
		d.mu.Lock()
		_, err := d.compile(c.shader)
		d.mu.Unlock()
		require.ErrorContains(t, err, c.want, name)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p, err := d.compile(tinyShader(limit))
	require.NoError(t, err)
	p.free()
}
