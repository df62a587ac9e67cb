package dltest

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
)

// task is a batch on the device with its data.
type task struct {
	device  driver.Device
	plan    *planner.Plan
	program driver.Program
	buffers [3]driver.Buffer
	host    [3][]float32

	// For tests of faults: a plan of another kernel, two of the same batch (the device makes the items of
	// one of them), and the address of C.
	other, again *planner.Plan
	renewed      planner.Plan
	atC          uintptr
}

// newPlan plans the problems, densely packed.
func newPlan(t testing.TB, d driver.Device, o planner.Options, problems ...planner.Problem) *planner.Plan {
	t.Helper()
	batch, err := planner.Pack(problems...)
	require.NoError(t, err)
	info := d.Info()
	plan, err := planner.New(&info.Planner).Plan(t.Context(), batch, o)
	require.NoError(t, err)
	return plan
}

// newTask prepares the problems and uploads integers, whose products and sums are exact. The device frees
// everything.
func newTask(t testing.TB, d driver.Device, o planner.Options, problems ...planner.Problem) *task {
	t.Helper()
	k := &task{device: d, plan: newPlan(t, d, o, problems...)}
	var err error
	k.program, err = d.Prepare(t.Context(), k.plan)
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(1, 2))
	for i, n := range [...]int{k.plan.ExtentA, k.plan.ExtentB, k.plan.ExtentC} {
		k.host[i] = make([]float32, max(n, 1))
		reference.Integers(rng, k.host[i], 4)
		k.buffers[i] = alloc(t, d, len(k.host[i]))
		require.NoError(t, k.buffers[i].Write(t.Context(), 0, k.host[i]))
	}
	return k
}

func (k *task) run() driver.Run {
	return driver.Run{Program: k.program, A: k.buffers[0], B: k.buffers[1], C: k.buffers[2]}
}

// check compares C with the result of one run on what C held at first.
func (k *task) check(t testing.TB) {
	t.Helper()
	got := make([]float32, len(k.host[2]))
	require.NoError(t, k.buffers[2].Read(t.Context(), 0, got))
	require.NoError(t, reference.CheckExact(k.plan.Batch, k.host[0], k.host[1], k.host[2], got))
}

// alloc allocates a buffer that is freed with the device.
func alloc(t testing.TB, d driver.Device, n int) driver.Buffer {
	t.Helper()
	b, err := d.Alloc(n)
	require.NoError(t, err)
	return b
}

func gemm(m, n, k int) planner.Problem { return planner.GEMM(m, n, k) }

// twoGEMMs have different transpositions, and so a launch each.
func twoGEMMs(m, n, k int) []planner.Problem {
	p := []planner.Problem{gemm(m, n, k), gemm(m, n, k)}
	p[1].TransA = true
	return p
}
