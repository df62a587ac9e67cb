package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/batchgemm/batchgemm/internal/bench"
	"github.com/batchgemm/batchgemm/internal/report"
	"github.com/batchgemm/batchgemm/internal/workload"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// sweep is the name of all cases of workload.Zhang.
const sweep = "zhang"

type benchFlags struct {
	target
	planFlags
	vs                []string
	csv, cold, regret bool
	live              bool
	repeat            int
	page              string // folder of --report
	data              string
}

func newBench() *cobra.Command {
	var flags benchFlags
	cmd := &cobra.Command{
		Use:   "bench WORKLOAD...",
		Short: "Time batches, beside cuBLAS or OpenBLAS if asked",
		Long: `Time batches on a device, one method after the other, and check every result against
float64. "zhang" stands for the 72 workloads zhang-MN-K-BATCH. The table ends with their
geometric mean and the worst case.

On CUDA the device time of float32 is that of a node in a CUDA graph, and of back-to-back
calls in a stream; elsewhere it is the time of one submission of many runs.
--vs adds rivals, of NVIDIA's library or libraries of the host where they are installed:
  cublas-loop      cublasSgemm for each problem, back to back in a stream
  cublas-graph     the same calls, captured in a CUDA graph
  cublas-grouped   cublasSgemmGroupedBatched, a group for each problem; with another
                   --type cublasGemmGroupedBatchedEx
  cublas-padded    the same, with all sizes rounded up to multiples of 8
  openblas         cblas_sgemm for each problem, on the host, with as many
                   threads as the backend cpu has: all for each product, or
                   products dealt to them, whichever is faster
  blis, mkl        the same with BLIS, and with Intel's MKL
All compute in plain fp32, and so do two of our own:
  f32              our kernels without tensor cores
  webgpu           our kernels through WebGPU, on its first device
With --type f64 there are cublas-grouped (cublasDgemmGroupedBatched), openblas, blis and mkl
(cblas_dgemm), with others cublas-grouped, cublas-padded and webgpu.
The host time is the time of the call, without waiting.

--data says which numbers fill A and B, and adds the largest and the mean error over sum|a||b|:
` + dataHelp() + `

--report writes a page with plots of all that to a folder, with the cost of planning and a
timeline of the last workload's plan. The timeline is predicted; on GPUs of compute
capability 9.0 it is also measured, by kernels that note when they run.

` + typesHelp + `

` + epilogueHelp + `

With --epilogue there is also "plain": our own method without an epilogue, on copies of A, B
and C with their rows in order. Its x is the part of our time that the products take. With
gated, the products with B2 are problems of plain too, each with a C of its own. With
--type-b int4 plain's B has the type of --type. --vs takes only f32 and webgpu then, --live
only updates, and --data is refused.`,
		Example: `  batchgemm bench zhang --vs cublas-grouped,cublas-loop,cublas-graph,f32
  batchgemm bench zhang-512-1024-256 --cold --repeat 20 --json
  batchgemm bench inception-1 inception-2 --backend webgpu
  batchgemm bench zhang --regret --csv > regret.csv
  batchgemm bench zhang-128-128-8 zhang-512-1024-256 --live
  batchgemm bench zhang --vs cublas-grouped,f32 --report page
  batchgemm bench inception-1 --vs cublas-loop,f32 --data mixed
  batchgemm bench inception-1 --backend cpu --vs openblas
  batchgemm bench inception-1 --type bf16 --type-c f32
  batchgemm bench moe:tokens=256 --type bf16 --epilogue gated,silu,gather`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("bench takes one WORKLOAD or more")
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return append([]string{sweep, "random:", "moe:"}, workload.Names()...),
				cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error { return flags.run(cmd, args) },
	}
	flags.target.flags(cmd)
	flags.planFlags.flags(cmd)
	cmd.Flags().StringSliceVar(&flags.vs, "vs", nil, "compare with: "+strings.Join(rivals, ", "))
	cmd.Flags().BoolVar(&flags.csv, "csv", false, "print CSV, a line for each way to time a method")
	cmd.Flags().BoolVar(&flags.cold, "cold", false, "rotate the matrices beyond the L2 cache")
	cmd.Flags().BoolVar(&flags.regret, "regret", false,
		"also time every tile, or that of --tile, under every schedule, to judge the planner's choice")
	cmd.Flags().BoolVar(&flags.live, "live", false,
		"also time steps in which the program is updated before each run, as where sizes change")
	cmd.Flags().StringVar(&flags.data, "data", "", "fill the matrices with "+strings.Join(dataNames(), ", ")+
		" numbers, and sum up the errors")
	cmd.Flags().IntVar(&flags.repeat, "repeat", 10, "repetitions to take the median of")
	cmd.Flags().StringVar(&flags.page, "report", "", "write index.html, plots and bench.csv to this `DIR`")
	complete(cmd, "vs", func() []string { return rivals })
	complete(cmd, "data", dataNames)
	return cmd
}

func (f *benchFlags) run(cmd *cobra.Command, args []string) (err error) {
	ctx := cmd.Context()
	options, err := f.planFlags.options(cmd)
	if err != nil {
		return err
	}
	if err := f.check(cmd, &options); err != nil {
		return err
	}
	loads, err := loadAll(cmd, args, &options)
	if err != nil {
		return err
	}
	var dir *report.Dir
	if f.page != "" {
		if dir, err = report.Create(f.page); err != nil {
			return err
		}
		defer dir.Close()
	}
	device, err := f.open(ctx, cmd, options.TypeA)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, device.Close()) }()
	b := &bencher{device: device, options: options, repeat: f.repeat, cold: f.cold, regret: f.regret,
		live: f.live, data: f.data}
	defer func() { err = cmp.Or(err, b.close()) }()
	notes, err := b.open(ctx, f.vs)
	if err != nil {
		return err
	}

	info := device.Info()
	found := &bench.Report{Device: fmt.Sprintf("%s %d: %s", info.Backend, info.Index, info.Name),
		Driver:  info.Driver,
		Library: b.library(), Type: options.TypeA, TypeB: typeB(&options), TypeC: options.TypeC,
		Epilogue: showEpilogue(options.Epilogue), Repeat: f.repeat, Cold: f.cold, Notes: notes}
	bar := newProgress(cmd, len(loads))
	defer bar.stop()
	for _, w := range loads {
		bar.next(w.Name)
		c, err := b.bench(ctx, w)
		if err != nil {
			return fmt.Errorf("%s: %w", w.Name, err)
		}
		found.Add(*c)
	}
	found.Finish()
	bar.stop()
	if f.csv {
		err = found.WriteCSV(cmd.OutOrStdout())
	} else {
		err = emit(cmd, found, found.WriteText)
	}
	if err == nil && dir != nil {
		err = b.writePage(ctx, dir, found, loads[len(loads)-1])
	}
	return cmp.Or(err, found.Err())
}

func (f *benchFlags) check(cmd *cobra.Command, o *planner.Options) error {
	of, withEpilogue := o.TypeA, o.Epilogue != planner.Epilogue{}
	for _, name := range f.vs {
		if !slices.Contains(rivals, name) {
			return usageError{fmt.Errorf("--vs %q is not one of %s", name, strings.Join(rivals, ", "))}
		}
		if !takes(name, of) {
			return usageError{fmt.Errorf("--vs %s takes matrices of %s, not %s", name, element.F32, of)}
		}
		if withEpilogue && !slices.Contains(epilogueRivals, name) {
			return usageError{fmt.Errorf("--vs %s has no epilogues; with --epilogue use %s", name,
				strings.Join(epilogueRivals, " and "))}
		}
	}
	if f.data != "" {
		if withEpilogue {
			return usageError{errors.New("--data and --epilogue exclude each other")}
		}
		i := slices.Index(dataNames(), f.data)
		if i < 0 {
			return usageError{fmt.Errorf("--data %q is not one of %s", f.data,
				strings.Join(dataNames(), ", "))}
		}
		if !dataKinds[i].suits(of) {
			return usageError{fmt.Errorf("--data %s has numbers that %s cannot represent", f.data, of)}
		}
	}
	if f.csv && asJSON(cmd) {
		return usageError{errors.New("--csv and --json exclude each other")}
	}
	return checkRepeat(f.repeat)
}

// loadAll loads the workloads before any work starts.
func loadAll(cmd *cobra.Command, args []string, o *planner.Options) ([]*workload.Workload, error) {
	var names []string
	for i, arg := range args {
		if arg == "-" && slices.Contains(args[:i], arg) {
			return nil, usageError{errors.New("only one WORKLOAD can be standard input")}
		}
		if arg != sweep {
			names = append(names, arg)
			continue
		}
		for _, c := range workload.Zhang() {
			names = append(names, c.Name)
		}
	}
	loads := make([]*workload.Workload, len(names))
	for i, name := range names {
		var err error
		if loads[i], err = workload.LoadOf(name, cmd.InOrStdin(), o); err != nil {
			return nil, err
		}
	}
	return loads, nil
}
