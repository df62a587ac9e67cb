package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/tile"
)

// target is where to run.
type target struct {
	backend string
	index   int
}

func (t *target) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.backend, "backend", "", "cuda, hip, webgpu or cpu (default: $"+dispatch.BackendEnv+", else the best)")
	cmd.Flags().IntVar(&t.index, "device-index", 0, "device of the backend, see batchgemm devices")
	complete(cmd, "backend", func() (names []string) {
		for _, d := range dispatch.Backends() {
			names = append(names, d.Name())
		}
		return names
	})
}

// given reports whether the command line names a backend or device.
func (t *target) given(cmd *cobra.Command) bool {
	return t.backend != "" || cmd.Flags().Changed("device-index")
}

func (t *target) open(ctx context.Context, cmd *cobra.Command) (*dispatch.Device, error) {
	fixed := cmp.Or(t.backend, os.Getenv(dispatch.BackendEnv))
	indexed := cmd.Flags().Changed("device-index")
	if fixed == "" && indexed {
		return nil, usageError{errors.New("--device-index needs --backend")}
	}
	options := []dispatch.Option{dispatch.WithBackend(t.backend)}
	if indexed {
		options = append(options, dispatch.WithDevice(t.index))
	}
	device, err := dispatch.Open(ctx, options...)
	if errors.Is(err, dispatch.ErrInvalid) {
		return nil, usageError{err}
	}
	return device, err
}

// planFlags are the options of the planner.
type planFlags struct {
	typeFlags
	compute, rule, schedule, tile string
	epilogue                      []string
	tlp                           int
	threshold                     float64
}

func (f *planFlags) flags(cmd *cobra.Command) {
	schedules := []string{"auto"}
	for _, s := range planner.Schedules() {
		schedules = append(schedules, string(s))
	}
	rules := []string{string(planner.RuleCost), string(planner.RuleZhang2025)}
	tiles := func() (names []string) {
		for _, t := range tile.Table() {
			names = append(names, t.Name)
		}
		return names
	}
	f.typeFlags.flags(cmd)
	epilogueFlag(cmd, &f.epilogue)
	computeFlag(cmd, &f.compute)
	cmd.Flags().StringVar(&f.rule, "rule", "", "how tiles are chosen: "+strings.Join(rules, " or ")+" (default cost)")
	cmd.Flags().StringVar(&f.schedule, "schedule", "auto", "who does what: "+strings.Join(schedules, ", "))
	cmd.Flags().StringVar(&f.tile, "tile", "", "one tile for every problem: "+strings.Join(tiles(), ", "))
	cmd.Flags().IntVar(&f.tlp, "tlp", int(planner.TLPEq4), "parallelism measure of zhang2025: equation 3 or 4")
	cmd.Flags().Float64Var(&f.threshold, "threshold", 0, "parallelism that zhang2025 aims at, in threads (default: from the device)")
	complete(cmd, "rule", func() []string { return rules })
	complete(cmd, "schedule", func() []string { return schedules })
	complete(cmd, "tile", tiles)
}

func computeFlag(cmd *cobra.Command, value *string) {
	computes := []string{string(planner.ComputeF32Emulated), string(planner.ComputeF32), string(planner.ComputeTF32)}
	cmd.Flags().StringVar(value, "compute", "", "arithmetic that is allowed: "+strings.Join(computes, ", ")+" (default "+computes[0]+")")
	complete(cmd, "compute", func() []string { return computes })
}

// options checks the flags. All errors are about usage.
func (f *planFlags) options(cmd *cobra.Command) (planner.Options, error) {
	o := planner.Options{Compute: planner.Compute(f.compute), Rule: planner.Rule(f.rule), Schedule: planner.Schedule(f.schedule),
		Tile: f.tile, TLP: planner.TLPEquation(f.tlp), Threshold: f.threshold}
	err := f.set(&o)
	if err == nil {
		o.Epilogue, err = parseEpilogue(f.epilogue)
	}
	if err == nil {
		err = o.Check()
	}
	tuned := cmd.Flags().Changed("tlp") || cmd.Flags().Changed("threshold")
	if err == nil && tuned && o.Rule != planner.RuleZhang2025 {
		err = fmt.Errorf("--tlp and --threshold need --rule %s", planner.RuleZhang2025)
	}
	if err != nil {
		return planner.Options{}, usageError{err}
	}
	return o, nil
}

// complete offers the values of a flag to the shell.
func complete(cmd *cobra.Command, flag string, values func() []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return values(), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // the flag is registered just above
	}
}
