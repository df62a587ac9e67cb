// Package sample selects the cases of long tests that run. A case belongs to a text: the files in which it
// finds mistakes. green.txt records the texts with which the tests passed. For such a text few cases run, to
// show that the tests still work. For a changed text more cases run, or all, as the environment asks. The
// selection follows from the names of cases and from the text: every change of the text selects others, and
// a commit runs the same cases everywhere.
package sample

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Variable is the environment variable: "all" runs all cases, "changed" those of texts that green.txt does
// not have.
const Variable = "BATCHGEMM_TESTS"

// For a text in green.txt, fewer is the factor by which fewer cases run, and fewerParts that of parts; one of
// some whole tests runs, and one of few jobs.
const (
	fewer      = 48
	fewerParts = 4
	some       = 16
	few        = 8
)

// green has the hashes of texts with which the tests passed, as Record writes them.
//
//go:embed green.txt
var green string

// Text is files of the repository in which a test may find mistakes.
type Text struct {
	name     string
	hash     func() []byte // nil if there are no sources, as in a browser
	patterns []string
}

// The texts. They share the files that define words and types for plans and kernels.
var (
	Planner = text("planner", "planner/*.go", "internal/occupancy/*.go", "internal/tune/*.go")
	Shaders = text("shaders", "wgsl/*.go")
	Kernels = text("kernels", "native/*/*.cuh", "native/*/*.h", "native/*.h", "native/*.cu",
		"native/*.hip", "native/lists/*", "native/internal/emulator/*")
	Products = text("products", "native/products/*MANIFEST", "native/internal/gcn/*.go")
	Drivers  = text("drivers", "internal/dl/*", "internal/dl/dltest/*", "internal/backend/*.go",
		"native/cuda/*.go", "native/hip/*.go", suite)
	WebGPU = text("webgpu", "webgpu/*.go", "internal/backend/*.go", "dispatch/driver/*.go", "wgsl/*.go",
		suite)
	CPU = text("cpu", "internal/cpu/*.go", "internal/cpu/*.s", "internal/cpu/asm/*.go", suite)
	// What calls them, from dispatch on.
	Calls   = text("calls", calls...)
	Library = text("library", append(calls, "capi/*", "capi/testdata/*", "python/batchgemm/*.py")...)
	Command = text("command", append(calls, "cmd/batchgemm/*.go", "internal/bench/*.go", "internal/report/*",
		"internal/results/*.go", "internal/workload/*.go", "internal/npz/*.go", "scripts/results.sh")...)
	Examples = text("examples", append(calls, "examples/*/*", "examples/browser/*/*", "webgpu/*_js.go",
		"internal/browser/*.go", "scripts/page.sh")...)

	texts = []*Text{Planner, Shaders, Kernels, Products, Drivers, WebGPU, CPU, Calls, Library, Command,
		Examples}
)

// suite is the conformance suite of backends.
const suite = "internal/drivertest/*.go"

var calls = []string{"dispatch/*.go", "dispatch/driver/*.go", "internal/hostgemm/*.go",
	"internal/hostmem/*.go", "internal/backend/*.go"}

var common = []string{"planner/element/*.go", "internal/elemtype/*.go", "internal/encoding/*.go",
	"internal/tile/*.go"}

func text(name string, patterns ...string) *Text {
	patterns = slices.Concat(patterns, common)
	return &Text{name, sync.OnceValue(func() []byte { return hash(patterns) }), patterns}
}

func hash(patterns []string) []byte {
	root, err := Root()
	if err != nil {
		return nil
	}
	sum := sha256.New()
	for _, pattern := range patterns {
		paths, _ := filepath.Glob(filepath.Join(root,
			filepath.FromSlash(pattern))) // sorted; the patterns are valid
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil || strings.HasSuffix(path, "_test.go") {
				continue // a folder, or a test
			}
			data = code(data)
			fmt.Fprintf(sum, "%s %d\n%s", filepath.Base(path), len(data), data)
		}
	}
	return sum.Sum(nil)
}

// comment matches a comment of Go, C or WGSL, or a string, in which no comment starts.
var comment = regexp.MustCompile(`"(?:[^"\\\n]|\\.)*"|//[^\n]*|(?s:/\*.*?\*/)`)

// code returns a file without comments and layout, so that rewording them does not change a text.
func code(file []byte) []byte {
	file = comment.ReplaceAllFunc(file, func(found []byte) []byte {
		if found[0] == '"' {
			return found
		}
		return nil
	})
	return bytes.Join(bytes.Fields(file), []byte(" "))
}

// Root returns the folder of the repository, above the working directory of a test.
func Root() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir = parent
		} else {
			err = os.ErrNotExist
		}
	}
	return "", err
}

// Record returns green.txt with the current hashes of the texts of these names, or of all texts if there are
// no names.
func Record(names ...string) (string, error) {
	for _, name := range names {
		if !slices.ContainsFunc(texts, func(x *Text) bool { return x.name == name }) {
			return "", fmt.Errorf("no text %q", name)
		}
	}
	first, rest, _ := strings.Cut(green, "\n")
	lines := []string{first + "\n"}
	for _, x := range texts {
		line := x.line()
		for old := range strings.Lines(rest) {
			if strings.HasPrefix(old, x.name+" ") && len(names) > 0 && !slices.Contains(names, x.name) {
				line = old
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, ""), nil
}

func (x *Text) line() string { return fmt.Sprintf("%s %x\n", x.name, x.hash()) }

// Skip skips the test, one of many cases, unless it is selected.
func (x *Text) Skip(t testing.TB, n uint64) {
	t.Helper()
	if !x.Drawn(t.Name(), n) {
		t.Skipf("not drawn of the cases of %s, which all run with %s=all", x.name, Variable)
	}
}

// Whole skips a test that is more than a case, unless it is selected. It always runs if the text has
// changed.
func (x *Text) Whole(t testing.TB) {
	t.Helper()
	if !x.WholeDrawn(t.Name()) {
		t.Skipf("not drawn of the tests of %s, which all run with %s=all", x.name, Variable)
	}
}

// WholeDrawn reports whether the test of a name runs: see Whole.
func (x *Text) WholeDrawn(name string) bool { return !x.same() || x.oneOf(name, some) }

// Part skips the test, a part of one that Skip let run: one of n parts runs if the text has changed, else
// fewer.
func (x *Text) Part(t testing.TB, n uint64) {
	t.Helper()
	if !x.PartDrawn(t.Name(), n) {
		t.Skipf("not drawn of the parts of %s, which all run with %s=all", x.name, Variable)
	}
}

// Drawn reports whether the case of a name runs: one of n does if the text has changed.
func (x *Text) Drawn(name string, n uint64) bool {
	if x.same() {
		n *= fewer
	}
	return x.oneOf(name, n)
}

// same reports whether green.txt has the text.
func (x *Text) same() bool { return x.hash() != nil && strings.Contains(green, x.line()) }

// PartDrawn reports whether the part of a name runs: see Part.
func (x *Text) PartDrawn(name string, n uint64) bool {
	if x.same() {
		n *= fewerParts
	}
	return x.oneOf(name, n)
}

// Jobs returns the jobs of a test that Skip let run: all if the text has changed, else one of some.
func Jobs[J any](t testing.TB, x *Text, jobs []J) []J {
	if All() || !x.same() || len(jobs) == 0 {
		return jobs
	}
	var drawn []J
	every := min(few, len(jobs))
	for i := int(x.number(t.Name()) % uint64(every)); i < len(jobs); i += every {
		drawn = append(drawn, jobs[i])
	}
	return drawn
}

// oneOf selects one of n names.
func (x *Text) oneOf(name string, n uint64) bool {
	if mode := os.Getenv(Variable); mode == "all" || mode == "changed" && x.hash() != nil && !x.same() {
		return true
	}
	return x.number(name)%n == 0
}

// number is one of a name and the text.
func (x *Text) number(name string) uint64 {
	sum := sha256.Sum256(append([]byte(name+"\x00"), x.hash()...))
	return binary.LittleEndian.Uint64(sum[:])
}

// Main runs the tests of a package, most of which skip if one of these tools is missing. It then says so in
// the line that go test prints for the package.
func Main(m *testing.M, tools ...string) (code int) {
	code = m.Run()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil && !testing.Short() {
			// go test repeats the second line after "ok"; it hides all other output of a package that
			// passes.
			fmt.Printf("of those that need %s:\ntesting: warning: no tests to run\n", tool)
		}
	}
	return code
}

// All reports whether all cases run.
func All() bool { return os.Getenv(Variable) == "all" }
