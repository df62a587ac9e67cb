package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/batchgemm/batchgemm/internal/atomicfile"
)

// emit writes a result to standard output: as JSON with --json, otherwise with the text function.
func emit(cmd *cobra.Command, result any, text func(io.Writer) error) error {
	if asJSON(cmd) {
		enc := json.NewEncoder(cmd.OutOrStdout())
		enc.SetIndent("", "  ")
		return enc.Encode(result)
	}
	return text(cmd.OutOrStdout())
}

type commandLineKey struct{}

// withCommandLine stores the words of the command line for the command.
func withCommandLine(ctx context.Context, words []string) context.Context {
	return context.WithValue(ctx, commandLineKey{}, words)
}

// commandLine returns how the command was called, for a shell.
func commandLine(ctx context.Context) string {
	words, _ := ctx.Value(commandLineKey{}).([]string)
	return shellWords(words)
}

// special matches characters with a meaning in shells.
var special = regexp.MustCompile(`[^\w@%+=:,./-]`)

// shellWords quotes the words that a shell would interpret.
func shellWords(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		if w == "" || special.MatchString(w) {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		quoted[i] = w
	}
	return strings.Join(quoted, " ")
}

// create opens a file for a result. "-" is standard output; everything else that the command prints then
// goes to standard error.
func create(cmd *cobra.Command, path string) (*atomicfile.File, error) {
	if path != "-" {
		return atomicfile.Create(path)
	}
	out := cmd.OutOrStdout()
	cmd.SetOut(cmd.ErrOrStderr())
	return atomicfile.Stream(out), nil
}

func asJSON(cmd *cobra.Command) bool {
	set, err := cmd.Flags().GetBool("json")
	return err == nil && set
}

// table writes rows in columns, and notes below them.
func table(w io.Writer, rows [][]string, notes []string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(tw, strings.Join(row, "\t")) // Flush reports the error
	}
	for i, note := range notes {
		if i == 0 {
			fmt.Fprintln(tw)
		}
		fmt.Fprintln(tw, note)
	}
	return tw.Flush()
}

// micros returns a duration in microseconds, for JSON.
func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// showMicros formats microseconds with at least three digits, such as 12.3us or 4.57ms.
func showMicros(us float64) string {
	switch {
	case us < 1e3:
		return fmt.Sprintf("%.3gus", us)
	case us < 1e6:
		return fmt.Sprintf("%.3gms", us/1e3)
	}
	return fmt.Sprintf("%.4gs", us/1e6)
}

// progressDelay is how long a command runs before its progress bar appears.
const progressDelay = time.Second

// progress is a bar on the terminal for work of known steps.
type progress struct {
	w     io.Writer // nil: no bar
	total int
	timer *time.Timer

	mu      sync.Mutex
	done    int
	what    string
	bar     *progressbar.ProgressBar // nil until the delay is over
	stopped bool
}

// newProgress shows a bar on standard error after delay, if that is a terminal and the output is not JSON.
func newProgress(cmd *cobra.Command, total int) *progress {
	f, isFile := cmd.ErrOrStderr().(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) || asJSON(cmd) {
		return &progress{}
	}
	return startProgress(f, total, progressDelay)
}

func startProgress(w io.Writer, total int, delay time.Duration) *progress {
	p := &progress{w: w, total: total}
	p.timer = time.AfterFunc(delay, p.show)
	return p
}

func (p *progress) show() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return
	}
	p.bar = progressbar.NewOptions(p.total,
		progressbar.OptionSetWriter(p.w),
		progressbar.OptionSetDescription(p.what),
		progressbar.OptionShowCount(),
		progressbar.OptionSetElapsedTime(false), // it would count from now
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionClearOnFinish(),
	)
	_ = p.bar.Set(p.done) // a terminal that fails to draw is no reason to stop
}

// next announces the next step.
func (p *progress) next(what string) {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.what != "" {
		p.done++
	}
	p.what = what
	if p.bar != nil {
		p.bar.Describe(what)
		_ = p.bar.Set(p.done)
	}
}

// stop removes the bar.
func (p *progress) stop() {
	if p.w == nil {
		return
	}
	p.timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
}
