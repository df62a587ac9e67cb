package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/workload"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// check is one row of verify: a schedule on a device, or a backend that cannot run.
type check struct {
	Backend  string           `json:"backend"`
	Index    int              `json:"index"`
	Device   string           `json:"device,omitempty"`
	Type     element.Type     `json:"type,omitempty"`    // of A and B, if it is not float32
	TypeB    element.Type     `json:"type_b,omitempty"`  // of B, if it differs from that of A
	TypeC    element.Type     `json:"type_c,omitempty"`  // of C, if it differs from that of A
	Compute  planner.Compute  `json:"compute,omitempty"` // the allowed mode
	Epilogue planner.Epilogue `json:"epilogue,omitzero"`
	Schedule planner.Schedule `json:"schedule,omitempty"`
	Launches int              `json:"launches,omitempty"`
	Micros   float64          `json:"device_micros,omitempty"`
	Error    float64          `json:"error"` // the largest, relative to its bound
	Failure  string           `json:"failure,omitempty"`
	Skipped  string           `json:"skipped,omitempty"` // why the backend or device cannot run
}

func newVerify() *cobra.Command {
	var flags verifyFlags
	cmd := &cobra.Command{
		Use:   "verify WORKLOAD",
		Short: "Check every device and schedule against float64",
		Long: `Compute a batch on every available device, or on the chosen device, under each
schedule, and compare every element with a float64 computation. The arithmetic that
--compute allows sets the bound of the error. Backends that are not available, and
devices without kernels for --type or --epilogue, are listed; they are no failure.

` + typesHelp + `

` + epilogueHelp,
		Example: `  batchgemm verify random:mn=100,k=300,batch=20
  batchgemm verify in.npz --backend webgpu
  batchgemm verify inception-3 --compute tf32
  batchgemm verify inception-3 --type bf16
  batchgemm verify inception-3 --epilogue gated,silu`,
		RunE: func(cmd *cobra.Command, args []string) error { return flags.run(cmd, args[0]) },
	}
	oneWorkload(cmd)
	flags.target.flags(cmd)
	flags.productFlags.flags(cmd)
	return cmd
}

type verifyFlags struct {
	target
	productFlags
}

func (f *verifyFlags) run(cmd *cobra.Command, name string) error {
	options, err := f.options()
	if err != nil {
		return err
	}
	w, err := workload.LoadOf(name, cmd.InOrStdin(), &options)
	if err != nil {
		return err
	}
	w, options = placeEpilogue(w, options)
	ops, err := operands(w, &options)
	if err != nil {
		return err
	}
	checks, err := f.places(cmd, &options)
	if err != nil {
		return err
	}
	if checks, err = verify(cmd, checks, w, ops); err != nil {
		return err
	}
	return reportChecks(cmd, checks)
}

// places lists the devices to check, and the backends without devices.
func (t *target) places(cmd *cobra.Command, o *planner.Options) ([]check, error) {
	if t.given(cmd) {
		device, err := t.open(cmd.Context(), cmd, element.F32)
		if err != nil {
			return nil, err
		}
		info := device.Info()
		return []check{newCheck(&info, o)}, device.Close()
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
			places = append(places, newCheck(&d, o))
		}
	}
	return places, nil
}

func newCheck(at *dispatch.Info, o *planner.Options) check {
	return check{Backend: at.Backend, Index: at.Index, Device: at.Name, Type: o.TypeA, TypeB: typeB(o),
		TypeC: o.TypeC, Compute: o.Compute, Epilogue: o.Epilogue}
}

// options returns those of the check.
func (c *check) options() planner.Options {
	return planner.Options{TypeA: c.Type, TypeB: cmp.Or(c.TypeB, c.Type), TypeC: c.TypeC, Compute: c.Compute,
		Schedule: c.Schedule, Epilogue: c.Epilogue}
}

// verify runs every schedule at each place. It fails only if it is cancelled.
func verify(cmd *cobra.Command, places []check, w *workload.Workload, ops *workload.Operands) (checks []check,
	err error) {
	ctx := cmd.Context()
	bar := newProgress(cmd, len(places)*len(planner.Schedules()))
	defer bar.stop()
	for _, place := range places {
		if place.Skipped != "" {
			checks = append(checks, place)
			continue
		}
		device, err := dispatch.Open(ctx, dispatch.WithBackend(place.Backend),
			dispatch.WithDevice(place.Index))
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

// schedules checks every schedule on one device, and closes the device. It skips a device without kernels
// for the types.
func (c check) schedules(ctx context.Context, device *dispatch.Device, w *workload.Workload,
	ops *workload.Operands, bar *progress) (checks []check) {
	schedules := planner.Schedules()
	if _, err := device.Plan(ctx, nil, c.options()); err != nil {
		c.Skipped = err.Error()
		checks, schedules = append(checks, c), nil
	}
	for _, schedule := range schedules {
		bar.next(fmt.Sprintf("%s %d, %s", c.Backend, c.Index, schedule))
		c.Schedule = schedule
		row := c
		if err := row.run(ctx, device, w, ops); err != nil {
			row.Failure = err.Error()
		}
		checks = append(checks, row)
	}
	if err := device.Close(); err != nil {
		checks = append(checks, check{Backend: c.Backend, Index: c.Index, Device: c.Device,
			Failure: "close: " + err.Error()})
	}
	return checks
}

// run computes and checks the batch under c.options.
func (c *check) run(ctx context.Context, device *dispatch.Device, w *workload.Workload,
	ops *workload.Operands) (err error) {
	options := c.options()
	j, err := newJob(ctx, device, w.Batch, ops, options)
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
	found, err := checked(device, &options, w.Batch, ops, result)
	if err != nil {
		return err // the worst is then infinite, which JSON cannot represent
	}
	c.Error = found.Worst
	return nil
}

// reportChecks prints the checks, and fails if one of them did.
func reportChecks(cmd *cobra.Command, checks []check) error {
	err := emit(cmd, checks, func(w io.Writer) error {
		rows := [][]string{{"BACKEND", "INDEX", "DEVICE", "SCHEDULE", "LAUNCHES", "TIME",
			"ERROR/BOUND", "RESULT"}}
		var notes []string
		if i := slices.IndexFunc(checks, func(c check) bool { return c.Type != element.F32 }); i >= 0 {
			notes = append(notes, "elements: "+
				elemtype.Show(checks[i].Type, checks[i].TypeB, checks[i].TypeC))
		}
		if i := slices.IndexFunc(checks, func(c check) bool {
			return c.Epilogue != planner.Epilogue{}
		}); i >= 0 {
			notes = append(notes, "epilogue: "+showEpilogue(checks[i].Epilogue))
		}
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
	row := []string{c.Backend, fmt.Sprint(c.Index), c.Device, string(c.Schedule), fmt.Sprint(c.Launches),
		showMicros(c.Micros), fmt.Sprintf("%.2g", c.Error), "ok"}
	if c.Failure != "" {
		row[6], row[7] = "-", "FAILED: "+c.Failure
	}
	return row
}
