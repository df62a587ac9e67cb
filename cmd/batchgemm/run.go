package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/npz"
	"github.com/batchgemm/batchgemm/internal/workload"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// runResult is the JSON of run.
type runResult struct {
	Workload string        `json:"workload"`
	Problems int           `json:"problems"`
	GFLOP    float64       `json:"gflop"`
	Type     element.Type  `json:"type,omitempty"`   // of A and B, if it is not float32
	TypeB    element.Type  `json:"type_b,omitempty"` // of B, if it differs from that of A
	TypeC    element.Type  `json:"type_c,omitempty"` // of C, if it differs from that of A
	Device   dispatch.Info `json:"device"`

	Epilogue planner.Epilogue `json:"epilogue,omitzero"`

	Schedule  string   `json:"schedule"`
	Tiles     []string `json:"tiles"`
	Launches  int      `json:"launches"`
	Workers   int      `json:"workers"`
	Predicted float64  `json:"predicted_micros"`
	Guess     bool     `json:"predicted_is_guess"` // see planner.Device.Measured

	PlanMicros    float64 `json:"plan_micros"`
	PrepareMicros float64 `json:"prepare_micros"`
	Runs          int     `json:"runs"`
	DeviceMicros  float64 `json:"device_micros"` // median of the runs, like HostMicros
	DeviceLeast   float64 `json:"device_micros_least"`
	HostMicros    float64 `json:"host_micros"` // submission and wait included
	Clock         string  `json:"clock"`       // the clock of the device time
	GFLOPS        float64 `json:"gflops"`

	Verified *float64 `json:"verified,omitempty"` // largest error, relative to its bound
	Output   string   `json:"output,omitempty"`
}

type runFlags struct {
	target
	planFlags
	output string
	repeat int
	verify bool
}

func newRun() *cobra.Command {
	var flags runFlags
	cmd := &cobra.Command{
		Use:   "run WORKLOAD",
		Short: "Compute a batch and time it",
		Long: `Compute a batch on a device. The matrices of a .npz file are real data; other
workloads get random matrices, the same every time. -o writes C0, C1, ... of
the first run to a .npz file; it appears complete or not at all. -o - writes them
to standard output, and what is printed to standard error.

` + typesHelp + `

-o writes results of f16 as NumPy's float16, of f64 as float64, and others as float32, which holds
every number of bf16.

` + epilogueHelp,
		Example: `  batchgemm run in.npz -o out.npz
  python3 make.py | batchgemm run - -o - > out.npz
  batchgemm run inception-3 --verify
  batchgemm run in.npz -o out.npz --type bf16 --type-c f32
  batchgemm run inception-3 --epilogue bias,relu --verify
  batchgemm run moe:tokens=16 --type bf16 --type-b int4
  batchgemm run zhang-256-256-64 --backend webgpu --repeat 20 --json`,
		RunE: func(cmd *cobra.Command, args []string) error { return flags.run(cmd, args[0]) },
	}
	oneWorkload(cmd)
	flags.target.flags(cmd)
	flags.planFlags.flags(cmd)
	cmd.Flags().StringVarP(&flags.output, "output", "o", "",
		"write the results to this .npz `FILE`, - for standard output")
	cmd.Flags().IntVar(&flags.repeat, "repeat", 1, "runs to time")
	cmd.Flags().BoolVar(&flags.verify, "verify", false, "check every element against float64")
	return cmd
}

func (f *runFlags) run(cmd *cobra.Command, name string) (err error) {
	ctx := cmd.Context()
	options, err := f.planFlags.options(cmd)
	if err != nil {
		return err
	}
	if err := checkRepeat(f.repeat); err != nil {
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
	var out *npz.Writer
	if f.output != "" { // before the work, so that a bad path costs no time
		file, err := create(cmd, f.output)
		if err != nil {
			return err
		}
		out = npz.NewWriter(file)
		defer out.Close()
	}
	device, err := f.open(ctx, cmd, options.TypeA)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, device.Close()) }()

	steps := 1 + f.repeat // prepare, run
	if f.verify {
		steps++
	}
	bar := newProgress(cmd, steps)
	defer bar.stop()
	bar.next("prepare")
	j, err := newJob(ctx, device, w.Batch, ops, options)
	defer func() { err = cmp.Or(err, j.close()) }()
	if err != nil {
		return fmt.Errorf("%s: %w", w.Name, err)
	}
	timings, c, err := f.measure(ctx, j, bar)
	if err != nil {
		return fmt.Errorf("%s: %w", w.Name, err)
	}
	r := newRunResult(w, j, timings)
	if f.verify {
		bar.next("verify")
		found, err := checked(device, &options, w.Batch, ops, c)
		if err != nil {
			return fmt.Errorf("%s: wrong result: %w", w.Name, err)
		}
		r.Verified = &found.Worst
	}
	if out != nil {
		if err := workload.WriteNPZ(out, w.Batch, options.TypeC, c); err != nil {
			return err
		}
		r.Output = f.output
	}
	bar.stop()
	return emit(cmd, r, r.text)
}

// measure times the runs and returns C of the first one. Later runs find C changed if beta is not 0.
func (f *runFlags) measure(ctx context.Context, j *job, bar *progress) (timings []dispatch.Timing,
	c []float32, err error) {
	for i := range f.repeat {
		bar.next("run")
		timing, err := j.time(ctx)
		if err != nil {
			return nil, nil, err
		}
		timings = append(timings, timing)
		if i == 0 {
			if c, err = j.result(ctx); err != nil {
				return nil, nil, err
			}
		}
	}
	return timings, c, nil
}

func newRunResult(w *workload.Workload, j *job, timings []dispatch.Timing) *runResult {
	device := make([]time.Duration, len(timings))
	host := make([]time.Duration, len(timings))
	for i, t := range timings {
		device[i], host[i] = t.Device, t.Wall
	}
	slices.Sort(device)
	slices.Sort(host)
	plan := j.plan.Explain()
	r := &runResult{
		Workload: w.Name, Problems: len(w.Batch), GFLOP: plan.GFLOP, Device: j.device.Info(),
		Type: j.plan.Options.TypeA, TypeB: typeB(&j.plan.Options), TypeC: j.plan.Options.TypeC,
		Epilogue: j.plan.Options.Epilogue,
		Schedule: plan.Schedule, Launches: len(j.plan.Launches), Workers: len(j.plan.Workers) - 1,
		Predicted: plan.Micros, Guess: plan.Guess,
		PlanMicros: micros(j.planTime), PrepareMicros: micros(j.prepareTime), Runs: len(timings),
		Clock:        timings[0].Clock,
		DeviceMicros: micros(device[len(device)/2]), DeviceLeast: micros(device[0]),
		HostMicros: micros(host[len(host)/2]),
	}
	if r.DeviceMicros > 0 {
		r.GFLOPS = r.GFLOP / r.DeviceMicros * 1e6
	}
	for _, t := range plan.Tiles {
		r.Tiles = append(r.Tiles, t.Name)
	}
	return r
}

func (r *runResult) text(w io.Writer) error {
	d := r.Device
	predicted := showMicros(r.Predicted)
	if r.Guess {
		predicted += " (a guess)"
	}
	of := ""
	if r.Type != element.F32 {
		of = " of " + elemtype.Show(r.Type, r.TypeB, r.TypeC)
	}
	rows := [][]string{
		{"device", fmt.Sprintf("%s %d: %s (%s)", d.Backend, d.Index, d.Name, d.Driver)},
		{"workload", fmt.Sprintf("%s: %d problems%s, %.4g GFLOP", r.Workload, r.Problems, of, r.GFLOP)},
		{"plan", fmt.Sprintf("%s, %d launches, %d workers, tiles %s; predicted %s", r.Schedule, r.Launches,
			r.Workers, strings.Join(r.Tiles, " "), predicted)},
		{"host", fmt.Sprintf("plan %s, prepare %s, run %s", showMicros(r.PlanMicros),
			showMicros(r.PrepareMicros), showMicros(r.HostMicros))},
		{"run", fmt.Sprintf("%s on the device (%s), %.4g GFLOP/s", showMicros(r.DeviceMicros),
			r.Clock, r.GFLOPS)},
	}
	if r.Epilogue != (planner.Epilogue{}) {
		rows = slices.Insert(rows, 2, []string{"epilogue", showEpilogue(r.Epilogue)})
	}
	if r.Runs > 1 {
		last := rows[len(rows)-1]
		last[1] += fmt.Sprintf("; median of %d runs, least %s", r.Runs, showMicros(r.DeviceLeast))
	}
	if r.Verified != nil {
		rows = append(rows, []string{"verified", fmt.Sprintf("all elements; largest error %.2g of its bound",
			*r.Verified)})
	}
	if r.Output != "" {
		rows = append(rows, []string{"output", r.Output})
	}
	return table(w, rows, nil)
}
