package gcn

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/native"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// doubleShapes returns the tiles of fp64 for which an image has kernels.
func doubleShapes(arch native.Arch) (shapes []*tile.Shape) {
	for _, s := range tile.Of(tile.F64) {
		if arch.Has(s) {
			shapes = append(shapes, s)
		}
	}
	return shapes
}

// doubleJobs are plans of one tile of fp64, of every epilogue and none with all schedules. Transpositions
// vary in between. Numbers have all bits, or are integers.
func doubleJobs(t *testing.T, arch native.Arch, shape *tile.Shape) (jobs []*job) {
	t.Helper()
	schedules := []planner.Schedule{planner.ScheduleSplitK, planner.ScheduleDataParallel,
		planner.ScheduleBatched, planner.ScheduleStreamK, planner.ScheduleDynamic}
	all := append([]planner.Epilogue{{}}, reference.Epilogues(shape.TM+3)...)
	for i := range len(schedules) * len(all) {
		schedule, e, transposition := schedules[i%len(schedules)], all[i%len(all)], i%4
		split := schedule == planner.ScheduleSplitK || schedule == planner.ScheduleStreamK
		if e.Gated && split {
			continue
		}
		if i%2 == 1 {
			e.Pointers = planner.Pointers{A: true, B: true, C: true, Aligned: true}
		}
		if transposition/2 == 1 { // adjacent rows are not gathered
			e.GatherRows = 0
		}
		depths := []int{33, 0, 7}
		if split {
			depths = []int{5*shape.TK + 1, 1, 9 * shape.TK}
		}
		if schedule == planner.ScheduleSplitK && e == (planner.Epilogue{}) {
			depths[1] = manySteps * shape.TK
		}
		var b planner.Batch
		for p, k := range depths {
			q := planner.Problem{M: []int{shape.TM + 3, 5, shape.TM - 1}[p],
				N: []int{shape.TN, shape.TN + 2, 3}[p], K: k, TransA: transposition/2 == 1,
				TransB: transposition%2 == 1, Alpha: planner.Scale([]float64{1. / 3, 2, -1}[p])}
			if !e.Gated {
				q.Beta = []float64{0, 0.7, 1}[(p+i)%3]
			}
			b = append(b, q)
		}
		units := map[planner.Schedule]int{planner.ScheduleBatched: 1, planner.ScheduleDynamic: 3}[schedule]
		if units == 0 {
			units = 1024
		}
		jobs = append(jobs, doubleJob(t, device(t, arch, units), b, planner.Options{Tile: shape.Name,
			Schedule: schedule, Epilogue: e}, 1+i/2%2, uint64(i)))
	}
	return jobs
}

// doubleJob plans a batch.
func doubleJob(t *testing.T, d *planner.Device, b planner.Batch, o planner.Options, unit int,
	seed uint64) *job {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 64))
	o.TypeA, o.TypeC = element.F64, element.F64
	j := newJob(t, d, b, o, unit, rng)
	widen := func(from []float32) []float64 {
		to := make([]float64, len(from))
		for i, x := range from {
			if to[i] = float64(x); !j.exact {
				to[i] *= 1 + 0x1p-30*rng.Float64()
			}
		}
		return to
	}
	j.doubles = &reference.Doubles{A: widen(j.a), B: widen(j.b), C: widen(j.c), B2: widen(j.e.B2),
		Bias: widen(j.e.Biases), Rows: j.e.Rows}
	return j
}

// TestDoubleProducts runs the kernels of fp64.
func TestDoubleProducts(t *testing.T) {
	for name := range arches {
		arch, err := native.HIP(name)
		require.NoError(t, err)
		for _, shape := range doubleShapes(arch) {
			t.Run(name+"/"+shape.Name, func(t *testing.T) {
				sample.Products.Skip(t, 6)
				o := readProduct(t, name)
				t.Parallel()
				ran := map[string][]bool{}
				for i, j := range doubleJobs(t, arch, shape) {
					_, err := j.run(o, arch, i%2 == 1, ran)
					require.NoError(t, err)
				}
				for _, k := range arch.Variants(shape) {
					requireRan(t, o, arch, k, ran)
				}
			})
		}
	}
}

// requireRan requires that all instructions of a kernel ran that access memory, wait, or multiply matrices.
func requireRan(t *testing.T, o *Object, arch native.Arch, k encoding.Kernel, ran map[string][]bool) {
	t.Helper()
	name := arch.KernelName(k)
	require.NotNil(t, ran[name], name)
	for i, in := range kernelOf(t, o, name).code {
		needed := in.unit == memory || in.matrix != nil || isCache(&in) || in.name == "s_barrier" ||
			strings.HasPrefix(in.name, "s_waitcnt")
		if needed && !ran[name][i] {
			t.Errorf("%s: no plan runs %s at %#x", name, in.text, in.address)
		}
	}
}

// TestDouble checks operands of fp64 as the listing writes them, and the layout of a product.
func TestDouble(t *testing.T) {
	w := &wave{}
	w.vector = make([]lanesOf, registers-vectors)
	x := math.Float64bits(1.5)
	w.vector[2][7], w.vector[3][7] = uint32(x), uint32(x>>32)
	o := &Kernel{}
	o.meta.VGPRs = 8
	for text, want := range map[string]float64{"v[2:3]": 1.5, "-v[2:3]": -1.5, "-|v[2:3]|": -1.5, "1.0": 1,
		"-4.0": -4, "0": 0, "0x40080000": 3} {
		operand, err := o.operand(text)
		require.NoError(t, err)
		require.Equal(t, want, w.double(&operand, 7), text)
	}
}
