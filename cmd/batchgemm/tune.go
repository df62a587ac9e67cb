package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchgemm/batchgemm/internal/bench"
	"github.com/batchgemm/batchgemm/internal/ratefile"
	"github.com/batchgemm/batchgemm/internal/tune"
	"github.com/batchgemm/batchgemm/internal/workload"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

type tuneFlags struct {
	target
	repeat int
	dryRun bool
	cases  func(*planner.Device) ([]tune.Case, error)
}

// newTune returns the command that measures these cases.
func newTune(cases func(*planner.Device) ([]tune.Case, error)) *cobra.Command {
	flags := tuneFlags{cases: cases}
	cmd := &cobra.Command{
		Use:   "tune",
		Short: "Measure the kernels of a device, for better plans on it",
		Long: `Measure how fast each kernel runs on a device, in a minute or two, and keep the
rates in the user's cache directory. From then on every program of this user that
opens the device plans by them, in place of the rates that came with the package.
$` + ratefile.DirEnv + ` names another directory; "off" turns such files off.

The table shows what was fitted to the times: efficiency (of the peak fp32 rate, on a
full device), and microseconds of a K step alone on a compute unit, of a workgroup
besides its steps, and of a full compute unit for a workgroup. It also shows how far
predicted times are from measured times (rms), and the rates of the package for this
device. Regret is how much longer the planner's choices take than the best of the
measured plans. If new rates make the choices worse than those of the package, they are
not kept. Leave the device otherwise idle.`,
		Example: `  batchgemm tune
  batchgemm tune --backend webgpu --repeat 9
  batchgemm tune --dry-run --json > times.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return flags.run(cmd) },
	}
	flags.target.flags(cmd)
	cmd.Flags().IntVar(&flags.repeat, "repeat", 5, "repetitions to take the median of")
	cmd.Flags().BoolVar(&flags.dryRun, "dry-run", false, "measure and print, keep nothing")
	return cmd
}

func (f *tuneFlags) run(cmd *cobra.Command) (err error) {
	if err := checkRepeat(f.repeat); err != nil {
		return err
	}
	device, err := f.open(cmd.Context(), cmd, element.F32)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, device.Close()) }()
	info := device.Info()
	if info.Backend == "cpu" {
		return errors.New(
			"backend cpu has one kernel for all tiles, and no rates to measure: fix a GPU by --backend")
	}
	var file *ratefile.File // nil: rates are not kept
	if !f.dryRun {
		if file, err = ratefile.Create(&info); err != nil {
			return fmt.Errorf("%w (--dry-run keeps nothing)", err)
		}
		defer file.Close()
	}
	b := &bencher{device: device, repeat: f.repeat}
	defer func() { err = cmp.Or(err, b.close()) }()
	if _, err := b.open(cmd.Context(), nil); err != nil {
		return err
	}
	observed, err := f.observe(cmd, b)
	if err != nil {
		return err
	}
	report, tuned, err := newTuneReport(&info, f.repeat, observed)
	if err != nil {
		return err
	}
	if file != nil && report.better() {
		if err := file.Save(tuned, time.Now()); err != nil {
			return err
		}
		report.File = file.Path
	}
	return emit(cmd, report, report.text)
}

// observe times all cases.
func (f *tuneFlags) observe(cmd *cobra.Command, b *bencher) ([]tune.Observation, error) {
	facts := b.device.Info().Planner
	cases, err := f.cases(&facts)
	if err != nil {
		return nil, err
	}
	bar := newProgress(cmd, len(cases))
	defer bar.stop()
	var all []tune.Observation
	for i := range cases {
		bar.next(cases[i].Name)
		found, err := b.observe(cmd.Context(), &facts, &cases[i])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", cases[i].Name, err)
		}
		all = append(all, found...)
	}
	return all, nil
}

// observe times every plan of a case to which the model is fitted.
func (b *bencher) observe(
	ctx context.Context, facts *planner.Device, k *tune.Case) (all []tune.Observation, err error) {
	ops, err := operands(&workload.Workload{Name: k.Name, Batch: k.Batch}, &b.options)
	if err != nil {
		return nil, err
	}
	c := &benchCase{bencher: b, batch: k.Batch, ops: ops}
	defer func() { err = cmp.Or(err, c.close()) }()
	if err := c.upload(ctx); err != nil {
		return nil, err
	}
	var methods []bench.Method
	for _, row := range tune.Rows(facts) {
		for _, schedule := range row.Schedules() {
			tile := row.Tile.Name
			o := planner.Options{Compute: row.Compute, Tile: tile, Schedule: schedule}
			plan, err := b.device.Plan(ctx, k.Batch, o)
			if err != nil {
				return nil, err
			}
			if schedule == planner.ScheduleSplitK && len(plan.Fixups) == 0 {
				continue // nothing was split: it is the data-parallel plan
			}
			method, err := c.ownMethod(ctx, plan)
			if err != nil {
				return nil, fmt.Errorf("tile %s, %s: %w", tile, schedule, err)
			}
			methods = append(methods, method)
			all = append(all, tune.Observation{Row: row, Case: k, Schedule: schedule})
		}
	}
	found, err := bench.Measure(ctx, methods, b.repeat, warmUp)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Micros = found[i].Device.Median; all[i].Micros <= 0 {
			return nil, fmt.Errorf("tile %s: the device's clock did not move", all[i].Tile.Name)
		}
	}
	return all, nil
}
