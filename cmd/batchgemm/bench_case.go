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
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/openblas"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/internal/workload"
	"github.com/batchgemm/batchgemm/planner"
)

const (
	ownName = "batchgemm"
	// warmUp is how long the device works before the first measurement. An idle
	// H200 runs at 345 MHz and takes some 200 ms to reach its full clock.
	warmUp = 250 * time.Millisecond
	// kernels is the least number of kernels in a graph or a submission, so that the launch is only a small
	// part of the time.
	kernels = 20
	// enoughTime has the effect of many kernels.
	enoughTime = 10 * time.Millisecond
	// coldBytes is the total size of the sets of operands of --cold: over twice the L2 cache of any GPU (50
	// MB on an H200).
	coldBytes = 128 << 20
	// sampleFLOPs bounds the check of other libraries' results.
	sampleFLOPs = 1e9
)

// bencher measures workloads on a device.
type bencher struct {
	device       *dispatch.Device
	options      planner.Options // for all workloads
	repeat       int
	cold, regret bool
	live         bool
	data         string       // kind of operands, or "": the workload's
	vs           []string     // rivals
	cuda         *cudaBench   // nil: another backend
	webgpu       *bencher     // the rival of that name, or nil
	blas         []*blasBench // rivals that are libraries of the host
}

// benchCase is a workload on the device: operands in as many sets as are rotated, and the methods that
// compute it.
type benchCase struct {
	*bencher
	options planner.Options // for this workload
	batch   planner.Batch
	ops     *workload.Operands
	sets    []operandSet
	next    int // set of the next execution, by any method
	closers []func() error
}

// operandSet is a copy of a workload's operands on the device, see inBuffers.
type operandSet struct {
	buffers  [5]*dispatch.Buffer
	onStream [5]*dispatch.Buffer // CUDA only: the same memory as ptrs
	ptrs     [5]uintptr
}

// contender is a method with the ways in which it is timed.
type contender struct {
	on      *benchCase // has its operands
	name    string
	timed   []bench.Method
	result  func(context.Context) ([]float32, error) // C after one execution, on fresh operands
	got     []float32
	largest float64 // FLOPs of the problems to check; 0: all
}

// bench measures a workload. It checks results last, because checking leaves the device idle and lowers its
// clock.
func (b *bencher) bench(ctx context.Context, w *workload.Workload) (out *bench.Case, err error) {
	w, options := placeEpilogue(w, b.options)
	ops, err := b.operands(w, &options)
	if err != nil {
		return nil, err
	}
	c := &benchCase{bencher: b, options: options, batch: w.Batch, ops: ops}
	defer func() { err = cmp.Or(err, c.close()) }()
	if err := c.upload(ctx); err != nil {
		return nil, err
	}
	plan, err := b.device.Plan(ctx, w.Batch, options)
	if err != nil {
		return nil, err
	}
	contenders, err := c.contenders(ctx, plan)
	if err != nil {
		return nil, err
	}
	var methods []bench.Method
	for _, m := range contenders {
		if m.got, err = m.result(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		for _, t := range m.timed {
			if len(b.blas) > 0 {
				t.Settle = openblas.Spin
			}
			methods = append(methods, t)
		}
	}
	found, err := bench.Measure(ctx, methods, b.repeat, warmUp)
	if err != nil {
		return nil, err
	}
	explained := plan.Explain()
	out = &bench.Case{Workload: w.Name, Problems: len(w.Batch), GFLOP: explained.GFLOP,
		Bytes: moved(w.Batch, &options), Schedule: explained.Schedule}
	if out.Plan, err = planMicros(ctx, plan, b.repeat, (*planner.Planner).Replan); err != nil {
		return nil, err
	}
	if b.live {
		if out.Renew, err = planMicros(ctx, plan, b.repeat, (*planner.Planner).Renew); err != nil {
			return nil, err
		}
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

// moved returns the least traffic of a batch in bytes: A and B are read and C is written once, and read if
// beta is not 0, plus the operands of an epilogue.
func moved(batch planner.Batch, o *planner.Options) (bytes float64) {
	c := float64(o.TypeC.Bytes())
	for i := range batch {
		p := &batch[i]
		if !o.Epilogue.Writes(p) {
			continue
		}
		bytes += movedBeside(p, o)
		m, n := float64(p.M), float64(p.N)
		if p.Reads() {
			bytes += float64(o.TypeA.Size(p.M*p.K)) + float64(o.TypeB.Size(p.K*p.N))
		}
		bytes += c * m * n
		if p.Beta != 0 {
			bytes += c * m * n
		}
	}
	return bytes
}

// contenders prepares our method, which comes first, and its rivals.
func (c *benchCase) contenders(ctx context.Context, plan *planner.Plan) ([]*contender, error) {
	own, err := c.own(ctx, plan)
	if err != nil {
		return nil, err
	}
	all := []*contender{own}
	if c.options.Epilogue != (planner.Epilogue{}) {
		plain, err := c.plain(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, plain)
	}
	if c.live {
		planned, err := c.onDevicePlanned(ctx, plan)
		if err != nil {
			return nil, err
		}
		all = append(all, planned...)
	}
	inF32 := c.options
	inF32.Compute = planner.ComputeF32
	if slices.Contains(c.vs, plainF32) {
		rival, err := c.rival(ctx, plainF32, inF32)
		if err != nil {
			return nil, err
		}
		all = append(all, rival)
	}
	if c.webgpu != nil {
		rival, err := c.beside(ctx, &benchCase{bencher: c.webgpu, options: inF32, batch: c.batch, ops: c.ops},
			ownWebGPU)
		if err != nil {
			return nil, err
		}
		all = append(all, rival)
	}
	for _, o := range c.blas {
		rival, err := o.contender(c)
		if err != nil {
			return nil, err
		}
		all = append(all, rival)
	}
	if c.cuda == nil {
		return all, nil
	}
	others, err := c.cuda.contenders(ctx, c)
	return append(all, others...), err
}

// beside prepares a rival with operands of its own, in a case that ends with this one.
func (c *benchCase) beside(ctx context.Context, there *benchCase, name string) (*contender, error) {
	c.closers = append(c.closers, there.close)
	if err := there.upload(ctx); err != nil {
		return nil, err
	}
	return there.rival(ctx, name, there.options)
}

// rival prepares our own method with other options, timed in the first of our ways.
func (c *benchCase) rival(ctx context.Context, name string, o planner.Options) (*contender, error) {
	plan, err := c.device.Plan(ctx, c.batch, o)
	if err != nil {
		return nil, err
	}
	m, err := c.own(ctx, plan)
	if err != nil {
		return nil, err
	}
	m.name, m.timed = name, m.timed[:1]
	m.timed[0].Name = name
	return m, nil
}

// rows checks a contender's result, which is the same for all its timings.
func (c *benchCase) rows(m *contender, found []bench.Measurement) []bench.Row {
	checked, errs, wrong := m.on.check(m.got, m.largest)
	var accuracy *bench.Accuracy
	if wrong == nil && c.data != "" {
		accuracy = c.accuracy(c.sample(m.largest), m.got)
	}
	rows := make([]bench.Row, len(m.timed))
	for i := range rows {
		rows[i] = bench.NewRow(m.timed[i], found[i])
		rows[i].Checked = checked
		if wrong != nil {
			rows[i].Wrong = wrong.Error()
			continue
		}
		rows[i].Error, rows[i].Errors, rows[i].Accuracy = errs.Worst, errs.Counts[:], accuracy
	}
	return rows
}

// upload copies the operands to the device, in one set, or if cold in enough sets to exceed the cache.
func (c *benchCase) upload(ctx context.Context) error {
	n, held := 1, inBuffers(c.ops, &c.options)
	bytes := 0 // of A, B and C
	for i := range held[:3] {
		bytes += held[i].of.Size(held[i].len())
	}
	if c.cold && bytes > 0 {
		n = coldBytes/bytes + 2
	}
	for range n {
		var s operandSet
		for i, data := range held {
			var err error
			var shared sharedBuffer
			if c.cuda != nil {
				s.buffers[i], shared, err = c.cuda.buffer(c, data.of, data.len())
				s.onStream[i], s.ptrs[i] = shared.onStream, shared.ptr
			} else {
				s.buffers[i], err = c.device.NewBuffer(data.of, data.len())
			}
			if err != nil {
				return err
			}
			c.closers = append(c.closers, s.buffers[i].Close)
			if err := data.write(ctx, s.buffers[i]); err != nil {
				return err
			}
		}
		c.sets = append(c.sets, s)
	}
	return c.wait(ctx)
}

// own prepares a plan as a contender.
func (c *benchCase) own(ctx context.Context, plan *planner.Plan) (*contender, error) {
	m := &contender{on: c, name: ownName}
	if c.cuda != nil {
		graph, err := c.cuda.ownGraph(ctx, c, plan, nil)
		if err != nil {
			return nil, err
		}
		m.timed = append(m.timed, graph)
	}
	own, err := c.series(ctx, plan, nil)
	if err != nil {
		return nil, err
	}
	m.result = c.onDevice(func() error { return c.device.Run(ctx, own.run(0)) })
	if c.cuda == nil || !c.cold { // the backend's own graphs are for operands that are soon used again
		m.timed = append(m.timed, own.method(own.both))
	}
	if c.live {
		steps, err := c.liveSteps(ctx, plan)
		if err != nil {
			return nil, err
		}
		m.timed = append(m.timed, bench.Method{Name: ownName, Timed: bench.Live, Sample: steps})
	}
	return m, nil
}

// series is a program that is executed and timed many times at once.
type series struct {
	*benchCase
	program *dispatch.Program
	runs    []dispatch.Run   // of one submission
	clock   string           // source of the device time
	sizes   *dispatch.Buffer // of a ragged plan, or nil
}

func (c *benchCase) series(ctx context.Context, plan *planner.Plan, sizes *dispatch.Buffer) (*series, error) {
	program, err := c.device.Prepare(ctx, plan)
	if err != nil {
		return nil, err
	}
	c.closers = append(c.closers, program.Close)
	s := &series{benchCase: c, program: program, sizes: sizes}
	once, err := c.device.Time(ctx, s.run(0))
	s.runs = make([]dispatch.Run, enough(once.Device))
	s.clock = once.Clock
	return s, err
}

// enough returns how many executions of that duration are timed at once.
func enough(once time.Duration) int { return min(kernels, 1+int(enoughTime/max(once, 1))) }

func (s *series) run(set int) dispatch.Run {
	run := runOf(s.program, s.sets[set].buffers[:])
	run.Sizes = s.sizes
	return run
}

func (s *series) method(sample func(context.Context) (bench.Sample, error)) bench.Method {
	return bench.Method{Name: ownName, Timed: s.clock, Sample: sample}
}

// device times the runs as one submission.
func (s *series) device(ctx context.Context) (bench.Sample, error) {
	for i := range s.runs {
		s.runs[i] = s.run(s.turn())
	}
	timing, err := s.benchCase.device.Time(ctx, s.runs...)
	return bench.Sample{Device: timing.Device / time.Duration(len(s.runs))}, err
}

// both times the runs as one submission, and then the calls for each.
func (s *series) both(ctx context.Context) (bench.Sample, error) {
	sample, err := s.device(ctx)
	if err != nil {
		return sample, err
	}
	start := time.Now()
	for i := range s.runs {
		if err := s.benchCase.device.Run(ctx, s.runs[i]); err != nil {
			return bench.Sample{}, err
		}
	}
	sample.Host = time.Since(start) / time.Duration(len(s.runs))
	return sample, s.benchCase.device.Wait(ctx)
}

// turn returns the set of operands for the next execution.
func (c *benchCase) turn() int {
	set := c.next
	c.next = (c.next + 1) % len(c.sets)
	return set
}

// onDevice returns the result of what run queues for the first set of operands.
func (c *benchCase) onDevice(run func() error) func(context.Context) ([]float32, error) {
	return func(ctx context.Context) ([]float32, error) {
		to, got := c.sets[0].buffers[2], make([]float32, len(c.ops.C))
		for _, step := range []func() error{
			func() error { return c.wait(ctx) },
			func() error { return write(ctx, to, c.ops.C) },
			func() error { return c.wait(ctx) },
			run,
			func() error { return c.wait(ctx) },
		} {
			if err := step(); err != nil {
				return nil, err
			}
		}
		return got, read(ctx, to, got)
	}
}

// wait waits for all queued work, on all streams.
func (c *benchCase) wait(ctx context.Context) error {
	if c.cuda != nil {
		if err := c.cuda.device.Wait(ctx); err != nil {
			return err
		}
	}
	return c.device.Wait(ctx)
}

// check compares results with float64: all problems, or the first ones up to an amount of work (see sample).
// All other elements pass.
func (c *benchCase) check(got []float32, largest float64) (count int, found reference.Errors, wrong error) {
	if largest == 0 {
		found, wrong = checked(c.device, &c.options, c.batch, c.ops, got)
		return len(c.batch), found, wrong
	}
	sample, after := c.sample(largest), slices.Clone(c.ops.C)
	for i := range sample {
		p := &sample[i]
		for row := 0; row < p.M && p.N > 0; row++ {
			at := elemtype.Words(elemtype.Sums(c.options.TypeC), p.C.Offset+row*p.C.LD)
			end := at + elemtype.Words(elemtype.Sums(c.options.TypeC), p.N)
			copy(after[at:end], got[at:end])
		}
	}
	found, wrong = checked(c.device, &c.options, sample, c.ops, after)
	return len(sample), found, wrong
}

// sample returns all problems, or the first ones up to an amount of work. If the first problem alone exceeds
// that, it returns its first rows.
func (c *benchCase) sample(largest float64) planner.Batch {
	if largest == 0 {
		return c.batch
	}
	n := 0
	for n < len(c.batch) && c.batch[:n+1].FLOPs() <= largest {
		n++
	}
	if n > 0 || len(c.batch) == 0 {
		return c.batch[:n]
	}
	first := slices.Clone(c.batch[:1])
	first[0].M = max(1, int(float64(first[0].M)*largest/first.FLOPs()))
	return first
}

func (c *benchCase) close() error {
	var errs []error
	for _, free := range slices.Backward(c.closers) {
		errs = append(errs, free())
	}
	return errors.Join(errs...)
}
