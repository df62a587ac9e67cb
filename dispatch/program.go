package dispatch

import (
	"context"
	"fmt"
	"sync"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner"
)

// Program is a plan made ready on one device.
type Program struct {
	*object
	driver driver.Program
	plan   *planner.Plan
}

// Plan returns the plan, which must not be changed.
func (p *Program) Plan() *planner.Plan { return p.plan }

// Run queues one execution and returns without waiting. The buffers are at least
// as long as the plan's ExtentA, ExtentB and ExtentC; c is neither a nor b.
func (p *Program) Run(ctx context.Context, a, b, c *Buffer) error {
	return p.device.Run(ctx, Run{p, a, b, c})
}

// Close frees the program.
func (p *Program) Close() error { return p.close() }

// Run is one execution of a program.
type Run struct {
	Program *Program
	A, B, C *Buffer
}

// Run queues the runs, in order, as one submission, which costs less than a call
// for each, and returns without waiting for them, unless very much is queued: the
// CPU takes 256 submissions. Each run sees what the earlier ones wrote. A ctx that
// ends during the call stops between launches: C is then incomplete, and the error
// says so. Later it changes nothing.
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

// submission is a call's runs as the driver takes them, and what they hold.
type submission struct {
	runs []driver.Run
	held []*object
}

var submissions = sync.Pool{New: func() any { return new(submission) }}

// begin checks the runs and holds the device and everything that they use.
func (d *Device) begin(runs []Run) (*submission, error) {
	if err := d.acquire(); err != nil {
		return nil, err
	}
	s := submissions.Get().(*submission)
	for i := range runs {
		if err := s.add(d, &runs[i]); err != nil {
			d.end(s)
			return nil, fmt.Errorf("run %d: %w", i, err)
		}
	}
	return s, nil
}

func (d *Device) end(s *submission) {
	for _, o := range s.held {
		o.release()
	}
	clear(s.held)
	clear(s.runs)
	s.held, s.runs = s.held[:0], s.runs[:0]
	submissions.Put(s)
	d.release()
}

func (s *submission) add(d *Device, r *Run) error {
	if r.Program == nil {
		return invalid.Errorf("the program is nil")
	}
	if err := s.hold(d, "program", r.Program.object); err != nil {
		return err
	}
	plan := r.Program.plan
	for _, arg := range [...]struct {
		name   string
		buffer *Buffer
		need   int
	}{{"A", r.A, plan.ExtentA}, {"B", r.B, plan.ExtentB}, {"C", r.C, plan.ExtentC}} {
		if arg.buffer == nil {
			return invalid.Errorf("%s is nil", arg.name)
		}
		if err := s.hold(d, arg.name, arg.buffer.object); err != nil {
			return err
		}
		if arg.buffer.n < arg.need {
			return invalid.Errorf("%s has %d elements, the plan needs %d", arg.name, arg.buffer.n, arg.need)
		}
	}
	if r.C == r.A || r.C == r.B {
		return invalid.Errorf("buffer C is also A or B")
	}
	s.runs = append(s.runs, driver.Run{Program: r.Program.driver, A: r.A.driver, B: r.B.driver, C: r.C.driver})
	return nil
}

func (s *submission) hold(d *Device, name string, o *object) error {
	if err := o.hold(d); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	s.held = append(s.held, o)
	return nil
}
