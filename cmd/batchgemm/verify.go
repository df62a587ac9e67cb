package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/internal/workload"
	"github.com/batchgemm/batchgemm/planner"
)

// check is one row of verify: a schedule on a device, or a backend that cannot run.
type check struct {
	Backend  string           `json:"backend"`
	Index    int              `json:"index"`
	Device   string           `json:"device,omitempty"`
	Compute  planner.Compute  `json:"compute,omitempty"` // that was allowed
	Schedule planner.Schedule `json:"schedule,omitempty"`
	Launches int              `json:"launches,omitempty"`
	Micros   float64          `json:"device_micros,omitempty"`
	Error    float64          `json:"error"` // the largest, relative to its bound
	Failure  string           `json:"failure,omitempty"`
	Skipped  string           `json:"skipped,omitempty"` // why the backend cannot run
}

func newVerify() *cobra.Command {
	var to target
	var compute string
	cmd := &cobra.Command{
		Use:   "verify WORKLOAD",
		Short: "Check every device and schedule against float64",
		Long: `Compute a batch on every device that is available, or on the chosen one, under
each schedule, and compare every element with a float64 computation. The bound of
the error is that of the arithmetic which --compute allows. Backends that are not
available are listed and are no failure.`,
		Example: `  batchgemm verify random:mn=100,k=300,batch=20
  batchgemm verify in.npz --backend webgpu
  batchgemm verify inception-3 --compute tf32`,
		RunE: func(cmd *cobra.Command, args []string) error {
			allowed, err := planner.ParseCompute(compute)
			if err != nil {
				return usageError{err}
			}
			w, err := workload.Load(args[0], cmd.InOrStdin())
			if err != nil {
				return err
			}
			ops, err := operands(w)
			if err != nil {
				return err
			}
			checks, err := to.places(cmd, allowed)
			if err != nil {
				return err
			}
			if checks, err = verify(cmd, checks, w, ops); err != nil {
				return err
			}
			return reportChecks(cmd, checks)
		},
	}
	oneWorkload(cmd)
	to.flags(cmd)
	computeFlag(cmd, &compute)
	return cmd
}

// places lists the devices to check, and the backends that have none.
func (t *target) places(cmd *cobra.Command, compute planner.Compute) ([]check, error) {
	if t.given(cmd) {
		device, err := t.open(cmd.Context(), cmd)
		if err != nil {
			return nil, err
		}
		info := device.Info()
		return []check{{Backend: info.Backend, Index: info.Index, Device: info.Name, Compute: compute}}, device.Close()
	}
	var places []check
	backends, err := dispatch.Devices(cmd.Context())
	if err != nil {
		return nil, err
	}
	for _, l := range backends {
		if l.Err != nil {
			places = append(places, check{Backend: l.Backend, Skipped: l.Err.Error()})
		}
		for _, d := range l.Devices {
			places = append(places, check{Backend: d.Backend, Index: d.Index, Device: d.Name, Compute: compute})
		}
	}
	return places, nil
}

// verify runs every schedule at each place. It fails only when it is cancelled.
func verify(cmd *cobra.Command, places []check, w *workload.Workload, ops *workload.Operands) (checks []check, err error) {
	ctx := cmd.Context()
	bar := newProgress(cmd, len(places)*len(planner.Schedules()))
	defer bar.stop()
	for _, place := range places {
		if place.Skipped != "" {
			checks = append(checks, place)
			continue
		}
		device, err := dispatch.Open(ctx, dispatch.WithBackend(place.Backend), dispatch.WithDevice(place.Index))
		if err != nil {
			place.Failure = err.Error()
			checks = append(checks, place)
		} else {
			checks = append(checks, place.schedules(ctx, device, w, ops, bar)...)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return checks, nil
}

// schedules checks every schedule on one device, and closes it.
func (c check) schedules(ctx context.Context, device *dispatch.Device, w *workload.Workload, ops *workload.Operands, bar *progress) (checks []check) {
	for _, schedule := range planner.Schedules() {
		bar.next(fmt.Sprintf("%s %d, %s", c.Backend, c.Index, schedule))
		c.Schedule = schedule
		row := c
		if err := row.run(ctx, device, w, ops); err != nil {
			row.Failure = err.Error()
		}
		checks = append(checks, row)
	}
	if err := device.Close(); err != nil {
		checks = append(checks, check{Backend: c.Backend, Index: c.Index, Device: c.Device, Failure: "close: " + err.Error()})
	}
	return checks
}

// run computes and checks the batch under c.Schedule, in the arithmetic of c.Compute.
func (c *check) run(ctx context.Context, device *dispatch.Device, w *workload.Workload, ops *workload.Operands) (err error) {
	j, err := newJob(ctx, device, w.Batch, ops, planner.Options{Compute: c.Compute, Schedule: c.Schedule})
	defer func() { err = cmp.Or(err, j.close()) }()
	if err != nil {
		return err
	}
	timing, err := j.time(ctx)
	if err != nil {
		return err
	}
	result, err := j.result(ctx)
	if err != nil {
		return err
	}
	c.Launches, c.Micros = len(j.plan.Launches), micros(timing.Device)
	found, err := reference.CheckIn(arithmetic(device, c.Compute), w.Batch, ops.A, ops.B, ops.C, result)
	if err != nil {
		return err // the worst is infinite then, which JSON cannot say
	}
	c.Error = found.Worst
	return nil
}

// reportChecks prints the checks, and fails when one of them did.
func reportChecks(cmd *cobra.Command, checks []check) error {
	err := emit(cmd, checks, func(w io.Writer) error {
		rows := [][]string{{"BACKEND", "INDEX", "DEVICE", "SCHEDULE", "LAUNCHES", "TIME", "ERROR/BOUND", "RESULT"}}
		var notes []string
		for _, c := range checks {
			if c.Skipped != "" {
				notes = append(notes, c.Backend+": "+c.Skipped)
				continue
			}
			rows = append(rows, c.row())
		}
		return table(w, rows, notes)
	})
	if err != nil {
		return err
	}
	ran, failed := 0, 0
	for _, c := range checks {
		if c.Skipped == "" {
			ran++
		}
		if c.Failure != "" {
			failed++
		}
	}
	switch {
	case failed > 0:
		return fmt.Errorf("%d of %d checks failed", failed, ran)
	case ran == 0:
		return errors.New("no device is available")
	}
	return nil
}

func (c *check) row() []string {
	row := []string{c.Backend, fmt.Sprint(c.Index), c.Device, string(c.Schedule), fmt.Sprint(c.Launches), showMicros(c.Micros), fmt.Sprintf("%.2g", c.Error), "ok"}
	if c.Failure != "" {
		row[6], row[7] = "-", "FAILED: "+c.Failure
	}
	return row
}
