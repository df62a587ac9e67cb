// Command batchgemm plans, runs and verifies batches of matrix products.
//
// It writes results to standard output, and errors to standard error in one line. The exit code is 0 for
// success, 1 for a failure, 2 for wrong usage, and 130 or 143 after SIGINT or SIGTERM.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchgemm/batchgemm/internal/atomicfile"
	"github.com/batchgemm/batchgemm/internal/tune"
	"github.com/batchgemm/batchgemm/internal/version"
	"github.com/batchgemm/batchgemm/internal/workload"
)

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan int, 1)
	go func() { done <- execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr) }()
	os.Exit(await(done, signals, cancel, grace))
}

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
	exitSignal  = 128 // plus the signal's number, as in shells
)

// interruption says why a command was cancelled.
type interruption struct{ signal os.Signal }

func (interruption) Error() string { return "interrupted" }

func (i interruption) code() int {
	if n, ok := i.signal.(syscall.Signal); ok {
		return exitSignal + int(n)
	}
	return exitFailure
}

// grace is how long a command may take to end in order after a signal: to remove files and close devices.
// Some commands cannot, while they read from a pipe or a device's driver works.
const grace = 500 * time.Millisecond

// await returns the exit code of a command. The first signal cancels it. After grace, or at a second signal,
// await abandons it and removes unfinished files.
func await(done <-chan int, signals <-chan os.Signal, cancel context.CancelCauseFunc,
	grace time.Duration) int {
	var got interruption
	select {
	case code := <-done:
		return code
	case got.signal = <-signals:
		cancel(got)
	}
	select {
	case code := <-done:
		return code
	case got.signal = <-signals:
	case <-time.After(grace):
	}
	atomicfile.Discard()
	fmt.Fprintln(os.Stderr, "batchgemm:", got)
	return got.code()
}

// usageError marks an error in how the command was called.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// execute runs one command line and returns the exit code.
func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root, started := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(withCommandLine(ctx, append([]string{root.Name()}, args...)))
	if err == nil {
		return exitOK
	}
	code, message := exitFailure, err.Error()
	switch usage, signalled := (usageError{}), (interruption{}); {
	case errors.As(context.Cause(ctx), &signalled):
		code, message = signalled.code(), signalled.Error()
	case !*started, errors.As(err, &usage), errors.Is(err, workload.ErrUnknown):
		code = exitUsage
	}
	fmt.Fprintln(stderr, "batchgemm:", strings.Join(strings.Fields(message), " "))
	return code
}

// newRoot returns the command tree, and a flag that is set when the arguments are valid and the work of a
// command starts.
func newRoot() (root *cobra.Command, started *bool) {
	started = new(bool)
	root = &cobra.Command{
		Use:     "batchgemm",
		Short:   "Batches of many small matrix products on any GPU",
		Version: version.Version,
		Long: `batchgemm computes C = alpha*op(A)*op(B) + beta*C for many small
matrices at once, each product with its own sizes, on whatever GPU is there.

A WORKLOAD is one of
  FILE      a text file with one product a line: M N K [transA transB alpha beta]
            (trans is n or t; # begins a comment)
  FILE.npz  NumPy arrays A0, B0[, C0], A1, ... of float32, float16 or int8:
            C = A*B, or A*B + C. batchgemm run --help has the arrays of
            --type e4m3 and --type-b int4
  -         either of these, from standard input
  inception-1 .. inception-9   the layers of an Inception network
  zhang-MN-K-BATCH             one of 72 fixed batches, as zhang-512-1024-256
  random:mn=512,k=128,batch=64,seed=1   sizes drawn from [16, max]
  moe:experts=128,top=8,tokens=1024,n=1536,k=2048,skew=0.3,seed=1
            a layer of a mixture of experts, with a product for each expert.
            Each token goes to top experts, drawn with probabilities in
            proportion to exp(skew * normal)`,
		Example: `  batchgemm devices
  batchgemm plan inception-1 --device mi210 --svg plan.svg
  batchgemm run in.npz -o out.npz
  batchgemm verify random:mn=100,k=100,batch=20
  batchgemm bench zhang --vs cublas-grouped
  batchgemm tune`,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			*started = true
			return checkGiven(cmd)
		},
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
	}
	root.PersistentFlags().Bool("json", false, "print JSON")
	root.AddCommand(newDevices(checkedOptions), newPlan(), newRun(), newVerify(), newBench(),
		newTune(tune.Cases), newVersion())
	return root, started
}

// oneWorkload checks and completes the argument of plan, run and verify.
func oneWorkload(cmd *cobra.Command) {
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("%s takes one WORKLOAD, not %d", cmd.Name(), len(args))
		}
		return nil
	}
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string,
		cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return append(workload.Names(), "random:", "moe:"), cobra.ShellCompDirectiveDefault
	}
}
