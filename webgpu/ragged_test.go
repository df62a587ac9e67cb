//go:build !nowebgpu && (js || (cgo && ((linux && amd64) || darwin || (windows && amd64))))

package webgpu

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/drivertest"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/internal/invalid"
	exact "github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/wgsl"
)

// raggedRun is a prepared ragged plan with operands.
type raggedRun struct {
	*device
	plan    *planner.Plan
	program *program
	a, b, c []float32
	A, B    *buffer
}

// prepareRagged plans for that many compute units.
func prepareRagged(t testing.TB, d *device, r planner.Ragged, units int) *raggedRun {
	t.Helper()
	facts := d.info.Planner
	facts.ComputeUnits = units
	plan, err := planner.New(&facts).PlanRagged(r, planner.Options{})
	require.NoError(t, err)
	p, err := d.Prepare(t.Context(), plan)
	require.NoError(t, err)
	x := &raggedRun{device: d, plan: plan, program: p.(*program),
		a: integers(plan.ExtentA, 1), b: integers(plan.ExtentB, 2), c: integers(plan.ExtentC+19, 3)}
	x.A, x.B = upload(t, d, x.a), upload(t, d, x.b)
	return x
}

func (x *raggedRun) close(t testing.TB) {
	for _, o := range []interface{ Close() error }{x.program, x.A, x.B} {
		require.NoError(t, o.Close())
	}
}

// run returns a run of sizes, and its C.
func (x *raggedRun) run(t testing.TB, sizes []int32) (r driver.Run, c *buffer) {
	t.Helper()
	bits := make([]float32, len(sizes))
	for i, s := range sizes {
		bits[i] = math.Float32frombits(uint32(s))
	}
	c = upload(t, x.device, x.c)
	return driver.Run{Program: x.program, A: x.A, B: x.B, C: c, Sizes: upload(t, x.device, bits)}, c
}

// words returns what the last run left.
func (x *raggedRun) words(t *testing.T) []uint32 {
	words := make([]uint32, x.plan.Words)
	for i, w := range download(t, x.program.images[x.program.now].words, len(words)) {
		words[i] = math.Float32bits(w)
	}
	return words
}

// check runs the sizes, and checks all results.
func (x *raggedRun) check(t *testing.T, sizes []int32) *drivertest.Dealing {
	t.Helper()
	run, c := x.run(t, sizes)
	want := x.checkItems(t, run, sizes)
	batch, _ := x.plan.Ragged.Batch(nil, sizes, planner.Options{})
	require.NoError(t, exact.CheckExact(batch, x.a, x.b, x.c, download(t, c, len(x.c))))
	require.NoError(t, run.Sizes.Close())
	require.NoError(t, c.Close())
	return want
}

// checkItems checks only items, tables and the status.
func (x *raggedRun) checkItems(t *testing.T, run driver.Run, sizes []int32) *drivertest.Dealing {
	t.Helper()
	require.NoError(t, x.Submit(t.Context(), []driver.Run{run}))
	batch, refused := x.plan.Ragged.Batch(nil, sizes, planner.Options{})
	want, words := drivertest.Deal(x.plan.Encode(nil), batch), x.words(t)
	for i, table := range want.Tables {
		l := &x.plan.Launches[2+i]
		require.Equal(t, table, words[l.Table:][:l.Count+1], "table %d", i)
		require.Equal(t, want.Items, words[l.Items:][:len(want.Items)])
	}
	for _, want := range []int{refused, -1} {
		group, err := x.program.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, group)
	}
	return want
}

// Shaders make the items of a batch as its sizes describe it, for all sizes, and write nothing else.
func TestRagged(t *testing.T) {
	d := open(t, webgpuDriver{})
	for trans := range 4 {
		transA, transB := trans&1 != 0, trans&2 != 0
		for form, r := range drivertest.RaggedBatches(transA, transB) {
			t.Run(fmt.Sprintf("%d/%s", form, encoding.Trans(transA, transB)), func(t *testing.T) {
				drivertest.Sampled(t, d, 1)
				x := prepareRagged(t, d, r, 16)
				defer x.close(t)
				for name, sizes := range drivertest.RaggedSizes(t, &r) {
					t.Run(name, func(t *testing.T) { x.check(t, sizes) })
				}
				rng := rand.New(rand.NewPCG(uint64(trans), 0))
				for range 10 {
					sizes := make([]int32, x.plan.ExtentSizes)
					for i := range sizes {
						sizes[i] = int32(rng.Uint32() >> rng.IntN(32))
					}
					x.check(t, sizes)
				}
			})
		}
	}
}

// Any bits in any word of records. C of groups may then overlap, so only the items can be checked.
func TestRaggedHostileRecords(t *testing.T) {
	sample.WebGPU.Skip(t, 1)
	d := open(t, webgpuDriver{})
	rng := rand.New(rand.NewPCG(3, 4))
	for trans := range 4 {
		r := drivertest.RaggedBatches(trans&1 != 0, trans&2 != 0)[planner.Records]
		x := prepareRagged(t, d, r, 16)
		good := drivertest.RaggedRecords(t, &r)["good"]
		computed := 0
		for range 60 {
			sizes := slices.Clone(good)
			for range 1 + rng.IntN(3) {
				sizes[rng.IntN(len(sizes))] = int32(rng.Uint32() >> rng.IntN(32))
			}
			run, c := x.run(t, sizes)
			if want := x.checkItems(t, run, sizes); len(want.Items) > 0 {
				computed++
			}
			require.NoError(t, c.Close())
			require.NoError(t, run.Sizes.Close())
		}
		require.Greater(t, computed, 20)
		x.close(t)
	}
}

// Batches with nothing to multiply, and empty ones.
func TestRaggedDegenerate(t *testing.T) {
	d := open(t, webgpuDriver{})
	for name, change := range map[string]func(r *planner.Ragged){
		"K 0, beta 1":     func(r *planner.Ragged) { r.K, r.Beta = 0, 1 },
		"K 0, beta 0":     func(r *planner.Ragged) { r.K = 0 },
		"alpha 0, beta 2": func(r *planner.Ragged) { r.Alpha, r.Beta = planner.Scale(0), 2 },
		"alpha 0, beta 1": func(r *planner.Ragged) { r.Alpha, r.Beta = planner.Scale(0), 1 },
		"M 0":             func(r *planner.Ragged) { r.M = 0 },
		"N 0":             func(r *planner.Ragged) { r.N = 0 },
		"one group":       func(r *planner.Ragged) { r.Groups = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			sample.WebGPU.Whole(t)
			for form, r := range drivertest.RaggedBatches(false, false) {
				if form == planner.Records {
					continue
				}
				change(&r)
				x := prepareRagged(t, d, r, 16)
				for _, sizes := range drivertest.RaggedEnds(40) {
					x.check(t, sizes[:r.Groups])
				}
				x.close(t)
			}
		})
	}
}

// narrow compiles the shaders of ragged plans as for a device that allows that many threads.
func narrow(t *testing.T, d *device, threads int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, stage := range []encoding.RaggedStage{encoding.RaggedPlan, encoding.RaggedExpand} {
		k := encoding.Kernel{Ragged: stage}
		s, err := wgsl.Render(k, wgsl.Limits{Threads: threads, SharedBytes: 16 << 10})
		require.NoError(t, err)
		require.Equal(t, threads, s.Threads)
		if old := d.pipelines[k]; old != nil {
			old.free()
		}
		d.pipelines[k], err = d.compile(s)
		require.NoError(t, err)
	}
}

// The largest number of groups, in workgroups of all sizes.
func TestRaggedManyGroups(t *testing.T) {
	sample.WebGPU.Skip(t, 1)
	const groups = planner.MaxGroups
	rng := rand.New(rand.NewPCG(1, 2))
	rows := planner.Ragged{Form: planner.EndsOfRows, Groups: groups, M: 9000, N: 7, K: 5,
		Rest: planner.RestZero,
		A:    planner.Matrix{LD: 5}, B: planner.Matrix{LD: 7}, C: planner.Matrix{LD: 9}, StrideB: 35}
	depth := planner.Ragged{Form: planner.EndsOfDepth, Groups: groups, M: 5, N: 3, K: 20_000, Beta: 1,
		A: planner.Matrix{LD: 20_000}, B: planner.Matrix{LD: 3}, C: planner.Matrix{LD: 3}, StrideC: 16}
	var problems []planner.Problem
	for i := range groups {
		problems = append(problems, planner.Problem{M: i % 5, N: 1 + i%11,
			K: rng.IntN(1 + 8*rng.IntN(1+rng.IntN(50))), Beta: float64(i % 3)})
	}
	batch, err := planner.Pack(problems...)
	require.NoError(t, err)
	table, err := planner.AppendRecords(nil, batch, planner.Options{})
	require.NoError(t, err)
	any := planner.Ragged{Form: planner.Records, Groups: groups, M: 2 * groups, N: 11, K: 400}
	need := batch.Lengths(planner.Epilogue{})
	any.LenA, any.LenB, any.LenC = need.A, need.B, need.C
	beyond := slices.Clone(table)
	beyond[4000*encoding.RecordWords] = 4 * groups
	cut := func(bound int) []int32 {
		ends := make([]int32, groups)
		for i := range ends {
			ends[i] = int32(rng.IntN(bound))
		}
		slices.Sort(ends)
		return ends
	}
	late := cut(9000)
	late[4095] = 9001
	for _, threads := range []int{32, 64, 128, 256} {
		t.Run(fmt.Sprint(threads), func(t *testing.T) {
			d := open(t, webgpuDriver{})
			narrow(t, d, threads)
			for _, c := range []struct {
				planner.Ragged
				sizes [][]int32
			}{{rows, [][]int32{cut(9000), late}}, {depth, [][]int32{cut(20_000)}},
				{any, [][]int32{table, beyond}}} {
				x := prepareRagged(t, d, c.Ragged, 64)
				for _, sizes := range c.sizes {
					x.check(t, sizes)
				}
				x.close(t)
			}
		})
	}
}

// Groups take the kernel that suits them, and all take the second if there is little work.
func TestRaggedChoosesKernels(t *testing.T) {
	d := open(t, webgpuDriver{})
	if d.info.Kind != hardware.KindSoftware {
		t.Skip("the sizes are for the rates of a CPU")
	}
	r := drivertest.RaggedBatches(false, false)[planner.Records]
	r.Groups = 4
	x := prepareRagged(t, d, r, 16)
	require.Len(t, x.plan.Launches, 4, "two kernels")
	for name, c := range map[string]struct {
		problems      []planner.Problem
		first, second bool
	}{
		"both": {[]planner.Problem{gemm(3, 5, 100), gemm(300, 290, 150), gemm(8, 8, 8), gemm(200, 256, 90)},
			true, true},
		"large":  {[]planner.Problem{gemm(256, 256, 100), gemm(256, 256, 90), {}, {}}, true, false},
		"little": {[]planner.Problem{gemm(64, 64, 100), {}, {}, gemm(64, 64, 90)}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			batch, err := planner.Pack(c.problems...)
			require.NoError(t, err)
			sizes, err := planner.AppendRecords(nil, batch, planner.Options{})
			require.NoError(t, err)
			got := x.check(t, sizes)
			require.Equal(t, c.first, got.Tiles(0) > 0, "first kernel")
			require.Equal(t, c.second, got.Tiles(1) > 0, "second kernel")
		})
	}
}

// Each run of a submission has its own sizes, and Status reports what the first one refused.
func TestRaggedSubmission(t *testing.T) {
	d := open(t, webgpuDriver{})
	x := prepareRagged(t, d, drivertest.RaggedBatches(false, true)[planner.EndsOfRows], 16)
	var runs []driver.Run
	var want [][]int32
	var cs []*buffer
	for _, name := range []string{"some", "descending", "negative", "one has all", "none"} {
		sizes := drivertest.RaggedEnds(int32(x.plan.Ragged.M))[name]
		run, c := x.run(t, sizes)
		runs, want, cs = append(runs, run), append(want, sizes), append(cs, c)
	}
	require.NoError(t, d.Submit(t.Context(), runs))
	for i, c := range cs {
		batch, _ := x.plan.Ragged.Batch(nil, want[i], planner.Options{})
		require.NoError(t, exact.CheckExact(batch, x.a, x.b, x.c, download(t, c, len(x.c))))
	}
	group, err := x.program.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, group, "of the second run; the third refused 1")

	_, err = x.program.Status(cancelled(t))
	require.ErrorIs(t, err, context.Canceled)
	for name, sizes := range map[string]driver.Buffer{"none": nil,
		"foreign": alloc(t, open(t, webgpuDriver{}), 7)} {
		bad := runs[0]
		bad.Sizes = sizes
		err := d.Submit(t.Context(), []driver.Run{bad})
		require.ErrorIs(t, err, invalid.Err, name)
		require.ErrorContains(t, err, "the sizes are of another device", name)
	}
	sets := x.program.sets.Len()
	require.NoError(t, runs[0].Sizes.Close())
	require.Equal(t, sets-1, x.program.sets.Len(), "closed sizes are forgotten")
}

// Fresh sizes are zeros: nothing is computed or refused.
func TestRaggedFreshSizes(t *testing.T) {
	d := open(t, webgpuDriver{})
	r := drivertest.RaggedBatches(false, false)[planner.EndsOfRows]
	r.Rest = planner.RestKept
	x := prepareRagged(t, d, r, 16)
	c := upload(t, d, x.c)
	require.NoError(t, d.Submit(t.Context(),
		[]driver.Run{{Program: x.program, A: x.A, B: x.B, C: c, Sizes: alloc(t, d, 7)}}))
	requireEqual(t, x.c, download(t, c, len(x.c)))
	group, err := x.program.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, -1, group)
}

// The words of a plan must fit in a binding.
func TestRaggedBeyondABinding(t *testing.T) {
	d := open(t, webgpuDriver{maxBinding: 16 << 10})
	r := planner.Ragged{Form: planner.EndsOfRows, Groups: planner.MaxGroups, M: 90, N: 7, K: 5,
		A: planner.Matrix{LD: 5}, B: planner.Matrix{LD: 7}, C: planner.Matrix{LD: 7}}
	plan, err := planner.New(&d.info.Planner).PlanRagged(r, planner.Options{})
	require.NoError(t, err)
	_, err = d.Prepare(t.Context(), plan)
	require.ErrorIs(t, err, hardware.ErrOutOfMemory)
	require.ErrorContains(t, err, "a binding has 16384")
}
