package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/batchgemm/batchgemm/internal/hostmem"
	"github.com/batchgemm/batchgemm/internal/timeline"
	"github.com/batchgemm/batchgemm/internal/workload"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/devices"
	"github.com/batchgemm/batchgemm/planner/element"
)

func newPlan() *cobra.Command {
	var device, svg string
	var flags planFlags
	var to target
	cmd := &cobra.Command{
		Use:   "plan WORKLOAD",
		Short: "Show how a batch would be cut and balanced",
		Long: `Plan a batch and explain the plan: tiles, launches, workers, and the predicted
time. With --device no GPU is needed. Otherwise the plan is for the device that run
would take, or for that of --backend. --svg draws which worker does what, over the
predicted time.

` + typesHelp + `

` + epilogueHelp,
		Example: `  batchgemm plan inception-1 --device mi210
  batchgemm plan zhang-512-1024-256 --device h200 --schedule stream-k --svg plan.svg
  batchgemm plan inception-1 --backend webgpu
  batchgemm plan inception-1 --device mi210 --epilogue bias,relu
  batchgemm plan sizes.txt --device mi210 --rule zhang2025 --tlp 3 --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			options, err := flags.options(cmd)
			if err != nil {
				return err
			}
			facts, err := to.facts(cmd, device, options.TypeA)
			if err != nil {
				return err
			}
			w, err := workload.LoadOf(args[0], cmd.InOrStdin(), &options)
			if err != nil {
				return err
			}
			w, options = placeEpilogue(w, options)
			plan, err := planner.New(facts).Within(hostmem.CheckHalf).Plan(cmd.Context(), w.Batch, options)
			if err != nil {
				return fmt.Errorf("%s: %w", w.Name, err)
			}
			if err := roomToExplain(plan); err != nil {
				return fmt.Errorf("%s: %w", w.Name, err)
			}
			if svg != "" {
				if err := draw(cmd, plan, svg, w.Name); err != nil {
					return err
				}
			}
			return emit(cmd, plan.Explain(), func(out io.Writer) error { return plan.WriteText(out) })
		},
	}
	oneWorkload(cmd)
	flags.flags(cmd)
	to.flags(cmd)
	cmd.Flags().StringVar(&device, "device", "",
		"plan for a known GPU: mi210, h200, ... (default: the device that run takes)")
	cmd.Flags().StringVar(&svg, "svg", "", "draw the plan to this `FILE`, - for standard output")
	complete(cmd, "device", devices.Names)
	return cmd
}

// roomToExplain fails if there is no memory to explain what a plan does with each problem, as text or as
// JSON.
func roomToExplain(plan *planner.Plan) error {
	const few, bytes = 1000, 1 << 10 // for each problem
	n := len(plan.Batch)
	if n <= few {
		return nil
	}
	if err := hostmem.Check(int64(n) * bytes); err != nil {
		return fmt.Errorf("explanation of %d problems: %w", n, err)
	}
	return nil
}

// facts returns those of a known GPU, or of the device that run would open.
func (t *target) facts(cmd *cobra.Command, known string, of element.Type) (*planner.Device, error) {
	if known != "" {
		if t.given(cmd) {
			return nil, usageError{errors.New("--device and --backend exclude each other")}
		}
		facts, err := devices.Lookup(known)
		if err != nil {
			return nil, usageError{err}
		}
		return facts, nil
	}
	device, err := t.open(cmd.Context(), cmd, of)
	if err != nil {
		return nil, fmt.Errorf("%w (name a GPU by --device)", err)
	}
	facts := device.Info().Planner
	return &facts, device.Close()
}

func draw(cmd *cobra.Command, plan *planner.Plan, path, name string) error {
	f, err := create(cmd, path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := timeline.New(plan).WriteSVG(f, name); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return f.Commit()
}
