package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/internal/bench"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/internal/workload"
	"github.com/batchgemm/batchgemm/planner"
)

const (
	ownName = "batchgemm"
	// warmUp is how long the device works before the first measurement. An idle
	// H200 runs at 345 MHz and takes some 200 ms to reach its full clock.
	warmUp = 250 * time.Millisecond
	// kernels is how many a graph or a submission has at least, so that the
	// time of one does not contain much of the launch.
	kernels = 20
	// enoughTime is as good as many kernels.
	enoughTime = 10 * time.Millisecond
	// coldBytes is what the sets of operands of --cold have together: over
	// twice the L2 cache of any GPU (50 MB of an H200).
	coldBytes = 128 << 20
	// sampleFLOPs bounds the check of results that are not ours.
	sampleFLOPs = 1e9
)

// bencher measures workloads on a device.
type bencher struct {
	device       *dispatch.Device
	options      planner.Options
	repeat       int
	cold, regret bool
	cuda         *cudaBench // nil: another backend
}

// benchCase is a workload on the device: operands in as many sets as are
// rotated, and the methods to compute it.
type benchCase struct {
	*bencher
	batch   planner.Batch
	ops     *workload.Operands
	sets    []operandSet
	next    int // set of the next execution, of whatever method
	closers []func() error
}

// operandSet is a copy of a workload's matrices on the device: A, B and C.
type operandSet struct {
	buffers [3]*dispatch.Buffer
	shared  [3]sharedBuffer // CUDA only
}

// contender is a method with the ways in which it is timed.
type contender struct {
	name    string
	timed   []bench.Method
	run     func(set int) error // queues one execution
	got     []float32           // C after one
	largest float64             // FLOPs of the problems to check; 0: all
}

// bench measures a workload. Results are checked last, because that leaves the
// device idle and its clock falls.
func (b *bencher) bench(ctx context.Context, w *workload.Workload) (out *bench.Case, err error) {
	ops, err := operands(w)
	if err != nil {
		return nil, err
	}
	c := &benchCase{bencher: b, batch: w.Batch, ops: ops}
	defer func() { err = cmp.Or(err, c.close()) }()
	if err := c.upload(ctx); err != nil {
		return nil, err
	}
	plan, err := b.device.Plan(w.Batch, b.options)
	if err != nil {
		return nil, err
	}
	contenders, err := c.contenders(ctx, plan)
	if err != nil {
		return nil, err
	}
	var methods []bench.Method
	for _, m := range contenders {
		if m.got, err = c.result(ctx, m); err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		methods = append(methods, m.timed...)
	}
	found, err := bench.Measure(ctx, methods, b.repeat, warmUp)
	if err != nil {
		return nil, err
	}
	explained := plan.Explain()
	out = &bench.Case{Workload: w.Name, Problems: len(w.Batch), GFLOP: w.Batch.FLOPs() / 1e9, Schedule: explained.Schedule}
	if out.Plan, err = planMicros(plan, b.repeat); err != nil {
		return nil, err
	}
	for _, t := range explained.Tiles {
		out.Tiles = append(out.Tiles, t.Name)
	}
	if b.regret {
		if out.Regret, err = c.judge(ctx, contenders[0]); err != nil {
			return nil, err
		}
	}
	for _, m := range contenders {
		out.Rows = append(out.Rows, c.rows(m, found[len(out.Rows):])...)
	}
	return out, nil
}

// planMicros is the median time to make a plan again in the memory of an earlier
// one, its encoding included.
func planMicros(like *planner.Plan, repeat int) (float64, error) {
	var p planner.Plan
	var words []uint32
	took := make([]float64, repeat+1)
	for i := range took {
		start := time.Now()
		if err := p.Build(&like.Device, like.Batch, like.Options); err != nil {
			return 0, err
		}
		words = p.Encode(words)
		took[i] = float64(time.Since(start)) / float64(time.Microsecond)
	}
	took = took[1:] // the first allocates
	slices.Sort(took)
	return took[repeat/2], nil
}

// contenders prepares our method, which comes first, and those of cuBLAS.
func (c *benchCase) contenders(ctx context.Context, plan *planner.Plan) ([]*contender, error) {
	own, err := c.own(ctx, plan)
	if err != nil || c.cuda == nil {
		return []*contender{own}, err
	}
	others, err := c.cuda.contenders(c)
	return append([]*contender{own}, others...), err
}

// rows checks a contender's result, which is the same for all its timings.
func (c *benchCase) rows(m *contender, found []bench.Measurement) []bench.Row {
	checked, worst, wrong := c.check(m.got, m.largest)
	rows := make([]bench.Row, len(m.timed))
	for i := range rows {
		rows[i] = bench.NewRow(m.timed[i], found[i])
		rows[i].Checked, rows[i].Error = checked, worst
		if wrong != nil {
			rows[i].Error, rows[i].Wrong = 0, wrong.Error()
		}
	}
	return rows
}

// upload copies the operands to the device, in one set or, cold, in so many that
// they do not fit in the cache together.
func (c *benchCase) upload(ctx context.Context) error {
	n := 1
	if bytes := 4 * (len(c.ops.A) + len(c.ops.B) + len(c.ops.C)); c.cold && bytes > 0 {
		n = coldBytes/bytes + 2
	}
	for range n {
		var s operandSet
		for i, data := range [3][]float32{c.ops.A, c.ops.B, c.ops.C} {
			var err error
			if c.cuda != nil {
				s.buffers[i], s.shared[i], err = c.cuda.buffer(c, len(data))
			} else {
				s.buffers[i], err = c.device.NewBuffer(len(data))
			}
			if err != nil {
				return err
			}
			c.closers = append(c.closers, s.buffers[i].Close)
			if err := s.buffers[i].Write(ctx, 0, data); err != nil {
				return err
			}
		}
		c.sets = append(c.sets, s)
	}
	return c.wait(ctx)
}

// own prepares a plan as a contender.
func (c *benchCase) own(ctx context.Context, plan *planner.Plan) (*contender, error) {
	m := &contender{name: ownName}
	if c.cuda != nil {
		graph, err := c.cuda.ownGraph(ctx, c, plan)
		if err != nil {
			return nil, err
		}
		m.timed = append(m.timed, graph)
	}
	program, err := c.device.Prepare(ctx, plan)
	if err != nil {
		return nil, err
	}
	c.closers = append(c.closers, program.Close)
	run := func(set int) dispatch.Run {
		s := &c.sets[set].buffers
		return dispatch.Run{Program: program, A: s[0], B: s[1], C: s[2]}
	}
	m.run = func(set int) error { return c.device.Run(ctx, run(set)) }
	if c.cuda != nil && c.cold {
		return m, nil // the backend's own graphs are for operands that come again soon
	}
	once, err := c.device.Time(ctx, run(0))
	if err != nil {
		return nil, err
	}
	runs := make([]dispatch.Run, min(kernels, 1+int(enoughTime/max(once.Device, 1))))
	m.timed = append(m.timed, bench.Method{Name: ownName, Timed: once.Clock, Sample: func(ctx context.Context) (bench.Sample, error) {
		return c.sample(ctx, runs, run)
	}})
	return m, nil
}

// sample times the runs as one submission, and then the calls for each.
func (c *benchCase) sample(ctx context.Context, runs []dispatch.Run, run func(set int) dispatch.Run) (bench.Sample, error) {
	for i := range runs {
		runs[i] = run(c.turn())
	}
	timing, err := c.device.Time(ctx, runs...)
	if err != nil {
		return bench.Sample{}, err
	}
	start := time.Now()
	for i := range runs {
		if err := c.device.Run(ctx, runs[i]); err != nil {
			return bench.Sample{}, err
		}
	}
	n := time.Duration(len(runs))
	return bench.Sample{Device: timing.Device / n, Host: time.Since(start) / n}, c.device.Wait(ctx)
}

// turn is the set of operands for the next execution.
func (c *benchCase) turn() int {
	set := c.next
	c.next = (c.next + 1) % len(c.sets)
	return set
}

// result runs a contender once, on fresh operands.
func (c *benchCase) result(ctx context.Context, m *contender) ([]float32, error) {
	to, got := c.sets[0].buffers[2], make([]float32, len(c.ops.C))
	for _, step := range []func() error{
		func() error { return c.wait(ctx) },
		func() error { return to.Write(ctx, 0, c.ops.C) },
		func() error { return c.wait(ctx) },
		func() error { return m.run(0) },
		func() error { return c.wait(ctx) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return got, to.Read(ctx, 0, got)
}

// wait ends all queued work, of whatever stream.
func (c *benchCase) wait(ctx context.Context) error {
	if c.cuda != nil {
		if err := c.cuda.device.Wait(ctx); err != nil {
			return err
		}
	}
	return c.device.Wait(ctx)
}

// check compares results with float64: all problems, or the first ones up to an
// amount of work, but for the rest of the elements, which pass.
func (c *benchCase) check(got []float32, largest float64) (checked int, worst float64, wrong error) {
	if largest == 0 {
		worst, wrong = reference.Check(c.batch, c.ops.A, c.ops.B, c.ops.C, got)
		return len(c.batch), worst, wrong
	}
	for checked < len(c.batch) && (checked == 0 || c.batch[:checked+1].FLOPs() <= largest) {
		checked++
	}
	sample, after := c.batch[:checked], slices.Clone(c.ops.C)
	for i := range sample {
		p := &sample[i]
		for row := range p.M {
			at := p.C.Offset + row*p.C.LD
			copy(after[at:at+p.N], got[at:at+p.N])
		}
	}
	worst, wrong = reference.Check(sample, c.ops.A, c.ops.B, c.ops.C, after)
	return checked, worst, wrong
}

func (c *benchCase) close() error {
	var errs []error
	for _, free := range slices.Backward(c.closers) {
		errs = append(errs, free())
	}
	return errors.Join(errs...)
}
