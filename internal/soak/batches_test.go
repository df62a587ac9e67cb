//go:build linux

package soak

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/internal/tune"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// checkEvery: one of that many batches is compared with float64.
const checkEvery = 4

// choice is how a batch is planned. All its problems have one transposition, so few kernels are needed.
type choice struct {
	options        planner.Options
	transA, transB bool
}

// menu is what the permanent device runs: few choices, because software devices take half a second to
// compile a kernel, and keep it.
var menu = []choice{
	{planner.Options{}, false, false},
	{planner.Options{Tile: "small", Schedule: planner.ScheduleSplitK}, false, true},
	{planner.Options{Tile: "tiny-k4", Schedule: planner.ScheduleBatched}, true, false},
	{planner.Options{Tile: "medium-k4", Schedule: planner.ScheduleStreamK, Compute: planner.ComputeF32}, true,
		true},
}

// randomOptions takes any tile of the device, schedule and compute mode.
func randomOptions(rng *rand.Rand, d *dispatch.Device) planner.Options {
	facts := d.Info().Planner
	modes := tune.Computes(&facts)
	o := planner.Options{Compute: modes[rng.IntN(len(modes))]}
	for o.Tile == "" {
		if s := facts.Kernels[rng.IntN(len(facts.Kernels))].Tile; facts.Fits(s,
			planner.Options{Compute: o.Compute}) {
			o.Tile = s.Name
		}
	}
	schedules := append(planner.Schedules(), "")
	o.Schedule = schedules[rng.IntN(len(schedules))]
	return o
}

// job is a batch on a device, with its operands.
type job struct {
	batch    planner.Batch
	compute  planner.Compute
	host     [3][]float32 // A, B, C
	program  *dispatch.Program
	buffers  [3]*dispatch.Buffer
	checking bool
}

// randomBatch returns up to 12 problems with up to about 100 rows, columns and depth, also 0, with gaps
// between and within matrices, and the lengths of the buffers, at most 3 MB.
func randomBatch(rng *rand.Rand, transA, transB bool) (b planner.Batch, lens [3]int) {
	size := func() int {
		if rng.IntN(30) == 0 {
			return 0
		}
		return int(math.Exp2(rng.Float64() * 6.7))
	}
	scalars := [...]float32{0, 1, 1, 1, -1, 0.5, -2.25}
	unit := 1 + 3*rng.IntN(2) // of offsets and leading dimensions: 4 allows vector loads
	place := func(i, rows, cols int) planner.Matrix {
		m := planner.Matrix{Offset: lens[i] + unit*rng.IntN(3),
			LD: max((cols+unit-1)/unit*unit+unit*rng.IntN(3), 1)}
		lens[i] = (m.Offset + rows*m.LD + unit - 1) / unit * unit
		return m
	}
	for range 1 + rng.IntN(12) {
		p := planner.Problem{M: size(), N: size(), K: size(), TransA: transA, TransB: transB,
			Alpha: planner.Scale(float64(scalars[rng.IntN(len(scalars))])),
			Beta:  float64(scalars[rng.IntN(len(scalars))])}
		reference.Place(&p, place)
		b = append(b, p)
	}
	return b, lens
}

func newJob(rng *rand.Rand, c choice) *job {
	j := &job{compute: c.options.Compute, checking: rng.IntN(checkEvery) == 0}
	var lens [3]int
	j.batch, lens = randomBatch(rng, c.transA, c.transB)
	for i := range j.host {
		j.host[i] = make([]float32, lens[i])
		reference.Uniform(rng, j.host[i])
	}
	return j
}

// check compares C after the first run.
func (j *job) check(got []float32) error {
	_, err := reference.CheckIn(reference.Arithmetic{Compute: j.compute}, j.batch, j.host[0], j.host[1],
		j.host[2], got)
	return err
}

// prepare plans a batch and uploads it. If it fails, it closes what it made.
func prepare(ctx context.Context, d *dispatch.Device, rng *rand.Rand, c choice) (*job, error) {
	j := newJob(rng, c)
	plan, err := d.Plan(ctx, j.batch, c.options)
	if err != nil {
		return nil, err
	}
	if j.program, err = d.Prepare(ctx, plan); err != nil {
		return nil, err
	}
	for i, host := range j.host {
		if j.buffers[i], err = d.NewBuffer(element.F32, len(host)); err == nil {
			err = dispatch.Write(ctx, j.buffers[i], 0, host)
		}
		if err != nil {
			return nil, errors.Join(err, j.close())
		}
	}
	return j, nil
}

func (j *job) submit(ctx context.Context, times int) error {
	for range times {
		if err := j.program.Run(ctx, dispatch.Operands{A: j.buffers[0], B: j.buffers[1],
			C: j.buffers[2]}); err != nil {
			return err
		}
	}
	return nil
}

func (j *job) close() error {
	errs := []error{j.program.Close()}
	for _, b := range j.buffers {
		if b != nil {
			errs = append(errs, b.Close())
		}
	}
	return errors.Join(errs...)
}

// program runs a batch several times by plan, program and buffers, and closes them, sometimes with queued
// runs.
func (s *stage) program(ctx context.Context, d *dispatch.Device, rng *rand.Rand, c choice) error {
	defer s.batches.Add(1)
	j, err := prepare(ctx, d, rng, c)
	if err != nil {
		return fmt.Errorf("%+v: %w", c, err)
	}
	err = j.submit(ctx, 1)
	if err == nil && j.checking {
		s.checked.Add(1)
		got := make([]float32, len(j.host[2]))
		if err = dispatch.Read(ctx, j.buffers[2], 0, got); err == nil {
			err = j.check(got)
		}
	}
	if err == nil {
		err = j.submit(ctx, rng.IntN(4))
	}
	if err == nil && rng.IntN(2) == 0 {
		err = d.Wait(ctx)
	}
	if err != nil {
		err = fmt.Errorf("%+v: %w", c, err)
	}
	return errors.Join(err, j.close())
}

// gemm runs a batch on host memory.
func (s *stage) gemm(ctx context.Context, d *dispatch.Device, rng *rand.Rand) error {
	defer s.batches.Add(1)
	j := newJob(rng, menu[0])
	got := slices.Clone(j.host[2])
	if err := dispatch.GEMM(ctx, d, j.batch, planner.Options{},
		dispatch.Slices[float32, float32]{A: j.host[0], B: j.host[1], C: got}); err != nil || !j.checking {
		return err
	}
	s.checked.Add(1)
	return j.check(got)
}

// mistakes makes a typical mistake of callers, which must be an error and change nothing.
func (s *stage) mistakes(ctx context.Context, rng *rand.Rand) error {
	d := s.stays
	full := []float32{1, 2, 3, 4}
	batch, err := planner.Pack(planner.GEMM(2, 2, 2))
	if err != nil {
		return err
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	c := slices.Clone(full)
	var got error
	switch rng.IntN(5) {
	case 0:
		batch[0].C.LD = 1
		got = dispatch.GEMM(ctx, d, batch, planner.Options{},
			dispatch.Slices[float32, float32]{A: full, B: full, C: c})
	case 1:
		got = dispatch.GEMM(ctx, d, batch, planner.Options{},
			dispatch.Slices[float32, float32]{A: full, B: full[:3], C: c})
	case 2:
		got = dispatch.GEMM(cancelled, d, batch, planner.Options{},
			dispatch.Slices[float32, float32]{A: full, B: full, C: c})
	case 3:
		_, got = d.NewBuffer(element.F32, min(1<<45, math.MaxInt/4))
	case 4:
		b, err := d.NewBuffer(element.F32, 4)
		if err != nil {
			return err
		}
		got = errors.Join(dispatch.Write(ctx, b, 1, full), b.Close())
	}
	if got == nil || !slices.Equal(c, full) {
		return fmt.Errorf("a mistake gave %v and changed C to %v", got, c)
	}
	return nil
}
