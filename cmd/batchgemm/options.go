package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// target is where to run.
type target struct {
	backend string
	index   int
}

func (t *target) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.backend, "backend", "", "cuda, hip, webgpu or cpu (default: $"+
		"BATCHGEMM_BACKEND"+", else the best)")
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

func (t *target) open(ctx context.Context, cmd *cobra.Command, of element.Type) (*dispatch.Device, error) {
	fixed := cmp.Or(t.backend, os.Getenv("BATCHGEMM_BACKEND"))
	indexed := cmd.Flags().Changed("device-index")
	if fixed == "" && indexed {
		return nil, usageError{errors.New("--device-index needs --backend")}
	}
	options := []dispatch.Option{dispatch.WithBackend(t.backend), dispatch.WithTypes(of)}
	if indexed {
		options = append(options, dispatch.WithDevice(t.index))
	}
	device, err := dispatch.Open(ctx, options...)
	if errors.Is(err, dispatch.ErrInvalid) {
		return nil, usageError{err}
	}
	return device, err
}

// productFlags say what is computed, and with which arithmetic.
type productFlags struct {
	typeFlags
	compute  string
	epilogue []string
}

func (f *productFlags) flags(cmd *cobra.Command) {
	f.typeFlags.flags(cmd)
	epilogueFlag(cmd, &f.epilogue)
	computeFlag(cmd, &f.compute)
}

// options checks the flags. All errors are about usage.
func (f *productFlags) options() (o planner.Options, err error) {
	if o.Compute = planner.Compute(f.compute); f.compute == "" || f.compute == "auto" {
		o.Compute = planner.ComputeF32Emulated
	}
	if err := (planner.Options{Compute: o.Compute}).Check(); err != nil {
		return o, usageError{fmt.Errorf("--compute: %w", err)}
	}
	if o.Epilogue, err = parseEpilogue(f.epilogue); err != nil {
		return o, usageError{err}
	}
	if err := f.set(&o); err != nil {
		return o, usageError{err}
	}
	if err := o.Check(); err != nil {
		return o, usageError{err}
	}
	return o, nil
}

// planFlags are the options of the planner.
type planFlags struct {
	productFlags
	rule, schedule, tile string
	tlp                  int
	threshold            float64
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
	f.productFlags.flags(cmd)
	cmd.Flags().StringVar(&f.rule, "rule", "", "how tiles are chosen: "+strings.Join(rules, " or ")+
		" (default cost)")
	cmd.Flags().StringVar(&f.schedule, "schedule", "auto", "who does what: "+strings.Join(schedules, ", "))
	cmd.Flags().StringVar(&f.tile, "tile", "", "one tile for every problem: "+strings.Join(tiles(), ", "))
	cmd.Flags().IntVar(&f.tlp, "tlp", 4,
		"parallelism measure of zhang2025: equation 3 or 4")
	cmd.Flags().Float64Var(&f.threshold, "threshold", 0,
		"parallelism that zhang2025 aims at, in threads (default: from the device)")
	complete(cmd, "rule", func() []string { return rules })
	complete(cmd, "schedule", func() []string { return schedules })
	complete(cmd, "tile", tiles)
}

func computeFlag(cmd *cobra.Command, value *string) {
	computes := []string{string(planner.ComputeF32Emulated), string(planner.ComputeF32),
		string(planner.ComputeTF32)}
	cmd.Flags().StringVar(value, "compute", "", "arithmetic that is allowed: "+strings.Join(computes, ", ")+
		" (default "+computes[0]+")")
	complete(cmd, "compute", func() []string { return computes })
}

// options checks the flags. All errors are about usage.
func (f *planFlags) options(cmd *cobra.Command) (planner.Options, error) {
	o, err := f.productFlags.options()
	if err != nil {
		return o, err
	}
	o.Rule, o.Schedule, o.Tile = planner.Rule(f.rule), planner.Schedule(f.schedule), f.tile
	o.TLP, o.Threshold = f.tlp, f.threshold
	for _, only := range []struct {
		flag string
		o    planner.Options
	}{{"rule", planner.Options{Rule: o.Rule}}, {"schedule", planner.Options{Schedule: o.Schedule}},
		{"tile", planner.Options{Tile: o.Tile}},
		{"tlp", planner.Options{TLP: o.TLP}}, {"threshold", planner.Options{Threshold: o.Threshold}}} {
		if err := only.o.Check(); err != nil {
			return o, usageError{fmt.Errorf("--%s: %w", only.flag, err)}
		}
	}
	tuned := cmd.Flags().Changed("tlp") || cmd.Flags().Changed("threshold")
	switch {
	case o.TLP == 0:
		err = errors.New("--tlp 0 is not 3 or 4")
	case tuned && o.Rule != planner.RuleZhang2025:
		err = fmt.Errorf("--tlp and --threshold need --rule %s", planner.RuleZhang2025)
	default:
		err = o.Check()
	}
	if err != nil {
		return o, usageError{err}
	}
	return o, nil
}

// mostRepeats bounds --repeat, because all times are kept.
const mostRepeats = 1_000_000

func checkRepeat(n int) error {
	if n < 1 || n > mostRepeats {
		return usageError{fmt.Errorf("--repeat %d is not in [1, %d]", n, mostRepeats)}
	}
	return nil
}

// checkGiven fails for a flag with an empty value, for example from an unset shell variable. Lists may be
// empty.
func checkGiven(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && f.Value.String() == "" {
			err = usageError{fmt.Errorf("--%s is empty", f.Name)}
		}
	})
	return err
}

// complete offers the values of a flag to the shell.
func complete(cmd *cobra.Command, flag string, values func() []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string,
		cobra.ShellCompDirective) {
		return values(), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // the flag is registered just above
	}
}
