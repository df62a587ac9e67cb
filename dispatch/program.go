package dispatch

import (
	"context"
	"fmt"
	"sync"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Program is a plan made ready on one device.
type Program struct {
	*object
	device *Device
	driver driver.Program
	plan   *planner.Plan // changed with device.updates held for writing

	updating sync.Mutex      // one Update at a time
	asking   chan struct{}   // holds the token of the one running Status
	own      [2]planner.Plan // for updates, which alternate
	words    int             // largest length so far
}

// Plan returns the plan. Do not change it. The second Update after the call overwrites it. After an Update,
// it may have Records in place of Batch.
func (p *Program) Plan() *planner.Plan {
	p.device.updates.RLock()
	defer p.device.updates.RUnlock()
	return p.plan
}

// Update gives the program another batch, with any sizes, scalars and offsets. It plans the batch with the
// options of the program's plan. Runs queued before still compute the old batch; later runs compute the new
// one. Update waits for calls of Run and Time in progress. It does not wait for runs, unless its memory on
// CUDA and HIP must grow or a software adapter compiles.
//
// GPUs get 48 bytes for each problem. A kernel makes the items from them before the first run, in 3 to 10
// µs, or on WebGPU in 16 µs or more. Where that is not possible (planner.Planner.Renew lists the cases),
// GPUs get 48 bytes for each tile. Once the program has had two plans as large, Update allocates nothing,
// unless a kernel is new. WebGPU compiles a new kernel in 0.05 to 0.3 s (lavapipe 0.1 to 2), unless
// Device.Warm has done so. Update fails as Plan does, and if memory is refused; the program is then
// unchanged. A graph of the caller's stream cannot contain an Update. A ragged program cannot be updated.
func (p *Program) Update(ctx context.Context, b planner.Batch) error {
	d := p.device
	if err := p.enter(); err != nil {
		return err
	}
	defer p.leave()
	p.updating.Lock()
	defer p.updating.Unlock()
	if p.plan.Takes().Sizes {
		return invalid.Errorf("update: the program's sizes are on the device")
	}
	next := &p.own[0]
	if p.plan == next {
		next = &p.own[1]
	}
	if err := d.planner.Renew(ctx, next, b, p.plan.Options); err != nil {
		return err
	}
	if err := roomForItems(next, p.words); err != nil {
		return fmt.Errorf("update: %w", err)
	}
	p.words = max(p.words, next.Words)
	d.updates.Lock()
	defer d.updates.Unlock()
	if err := p.driver.Update(ctx, next); err != nil {
		return err
	}
	p.plan = next
	return nil
}

// Device returns the device of the program.
func (p *Program) Device() *Device { return p.device }

// Run queues one execution and returns without waiting, like Device.Run.
func (p *Program) Run(ctx context.Context, x Operands) error {
	return p.device.Run(ctx, Run{Program: p, Operands: x})
}

// Close frees the program.
func (p *Program) Close() error { return p.close() }

// Operands are the buffers of a run. Each is at least as long as the plan says: ExtentA, ExtentB, ExtentC
// and so on.
type Operands struct {
	// A, B and C have elements of the plan's types. Each may be nil if the plan's epilogue has pointers to
	// it. C must differ from the others.
	A, B, C *Buffer
	// Sizes has the sizes of a ragged program, Plan.ExtentSizes words: see PrepareRagged. It is nil for other
	// programs.
	Sizes *Buffer
	// B2, Bias and Rows are operands of the plan's epilogue, nil without it. B2 has the type of B, Bias that
	// of C, and Rows has 32-bit words, as planner.Rows builds them. B2 has pointers if B has them.
	B2, Bias, Rows *Buffer
}

// Run is one execution of a program.
type Run struct {
	Program *Program
	Operands
}

// With returns a run of the program, for Device.Run and Time.
func (p *Program) With(x Operands) Run { return Run{p, x} }

// Run queues the runs, in order, as one submission, which costs less than a call for each. It returns
// without waiting for them, unless the queue is full: the CPU takes 256 submissions. Each run sees what
// earlier runs wrote. If ctx ends during the call, Run stops between launches: C is then incomplete, and the
// error says so. After the call, ctx has no effect.
func (d *Device) Run(ctx context.Context, runs ...Run) error {
	s, err := d.begin(runs)
	if err != nil {
		return err
	}
	defer d.end(s)
	return d.driver.Submit(ctx, s.runs)
}

// Time executes the runs as one submission, waits, and returns the time that the
// device took.
func (d *Device) Time(ctx context.Context, runs ...Run) (Timing, error) {
	s, err := d.begin(runs)
	if err != nil {
		return Timing{}, err
	}
	defer d.end(s)
	return d.driver.Time(ctx, s.runs)
}

// submission holds the runs of a call for the driver, and the objects that they use.
type submission struct {
	runs []driver.Run
	held []*object
}

var submissions = sync.Pool{New: func() any { return new(submission) }}

// begin checks the runs, and holds the device and all objects that they use.
func (d *Device) begin(runs []Run) (*submission, error) {
	s, err := d.newSubmission()
	if err != nil {
		return nil, err
	}
	for i := range runs {
		if err := s.add(d, &runs[i]); err != nil {
			d.end(s)
			return nil, fmt.Errorf("run %d: %w", i, err)
		}
	}
	return s, nil
}

// newSubmission holds the device, for a submission without runs yet.
func (d *Device) newSubmission() (*submission, error) {
	if err := d.acquire(); err != nil {
		return nil, err
	}
	d.updates.RLock()
	return submissions.Get().(*submission), nil
}

func (d *Device) end(s *submission) {
	for _, o := range s.held {
		o.release()
	}
	clear(s.held)
	clear(s.runs)
	s.held, s.runs = s.held[:0], s.runs[:0]
	submissions.Put(s)
	d.updates.RUnlock()
	d.release()
}

func (s *submission) add(d *Device, r *Run) error {
	if r.Program == nil {
		return invalid.Errorf("the program is nil")
	}
	if err := r.Program.hold(d); err != nil {
		return fmt.Errorf("program: %w", err)
	}
	s.held = append(s.held, r.Program.object)
	plan := r.Program.plan
	if err := r.checkSizes(plan); err != nil {
		return err
	}
	args := argumentsOf(plan)
	buffers := [len(args)]*Buffer{r.A, r.B, r.C, r.Sizes, r.B2, r.Bias, r.Rows}
	var given [len(args)]driver.Buffer
	for i, buffer := range buffers {
		arg := &args[i]
		switch {
		case buffer == nil && (!arg.used || arg.apart):
			continue
		case buffer == nil:
			return invalid.Errorf("%s is nil", arg.name)
		case !arg.used:
			return invalid.Errorf("%s is not nil, but the plan's epilogue does not use it", arg.name)
		}
		if err := buffer.hold(d); err != nil {
			return fmt.Errorf("%s: %w", arg.name, err)
		}
		s.held = append(s.held, buffer.object)
		switch {
		case buffer.of != arg.of:
			return invalid.Errorf("%s has elements of %s, the plan is for %s", arg.name, buffer.of, arg.of)
		case buffer.n < arg.need:
			return invalid.Errorf("%s has %d elements, the plan needs %d", arg.name, buffer.n, arg.need)
		}
		if !arg.apart {
			given[i] = buffer.driver
		}
	}
	for i, other := range buffers {
		switch {
		case r.C == nil || other == nil || args[i].name == "C" || args[2].apart || other.object != r.C.object:
		case other == r.C:
			return invalid.Errorf("buffer C is also %s", args[i].name)
		default:
			return invalid.Errorf("C and %s are slices of one buffer", args[i].name)
		}
	}
	s.runs = append(s.runs, driverRun(r.Program, &given))
	return nil
}

// argument is what a plan requires of an operand of its runs.
type argument struct {
	name  string
	used  bool
	need  int // elements
	of    element.Type
	apart bool // the epilogue has pointers to it
}

// argumentsOf returns the arguments A, B, C, Sizes, B2, Bias and Rows.
func argumentsOf(plan *planner.Plan) [7]argument {
	e, of, ofB, ofC := &plan.Options.Epilogue, plan.Options.TypeA, plan.Options.TypeB, plan.Options.TypeC
	takes := plan.Takes()
	return [...]argument{
		{"A", true, plan.ExtentA, of, e.Pointers.A},
		{"B", takes.B, plan.ExtentB, ofB, e.Pointers.B},
		{"C", true, plan.ExtentC, ofC, e.Pointers.C},
		{"Sizes", takes.Sizes, plan.ExtentSizes, element.F32, false},
		{"B2", e.Gated, plan.ExtentB2, ofB, e.Pointers.B},
		{"Bias", e.Bias, plan.ExtentBias, ofC, false},
		{"Rows", takes.Rows, plan.ExtentRows, element.F32, false},
	}
}

// driverRun returns a run with these operands.
func driverRun(p *Program, given *[7]driver.Buffer) driver.Run {
	return driver.Run{Program: p.driver, A: given[0], B: given[1], C: given[2],
		Sizes: given[3], B2: given[4], Bias: given[5], Rows: given[6]}
}
