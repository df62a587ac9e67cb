//go:build cgo && linux && (amd64 || arm64)

package main

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/internal/dl/dltest"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/internal/version"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// built is the folder of libbatchgemm.so and batchgemm.h, made once.
var built struct {
	sync.Once
	dir string
	err error
}

func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(built.dir)
	os.Exit(code)
}

func library(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the library")
	}
	built.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "batchgemm"); built.err != nil {
			return
		}
		if out, err := exec.Command("../scripts/capi.sh", built.dir).CombinedOutput(); err != nil {
			built.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	require.NoError(t, built.err)
	return built.dir
}

// compile makes a program that finds the library where it was built.
func compile(t *testing.T, compiler, source string, flags ...string) string {
	t.Helper()
	dir := library(t)
	return compileAlone(t, compiler, source, append(flags, "-I", dir, "-L", dir, "-lbatchgemm", "-ldl",
		"-Wl,-rpath,"+dir)...)
}

// compileAlone makes a program without the library.
func compileAlone(t *testing.T, compiler, source string, flags ...string) string {
	t.Helper()
	if _, err := exec.LookPath(compiler); err != nil {
		t.Skip(err)
	}
	program := filepath.Join(t.TempDir(), "program")
	args := append([]string{"-Wall", "-Wextra", "-Werror", "-pedantic", "-g", "-o", program, source, "-lm",
		"-lpthread"}, flags...)
	out, err := exec.Command(compiler, args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// run returns the output of a program, with settings in its environment.
func run(t *testing.T, settings []string, program string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), program, args...)
	c.Env = append(os.Environ(), append([]string{"BATCHGEMM_BACKEND="}, settings...)...)
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// addressSanitizer finds misuse of memory in the C programs, and leaks of C memory in the library. It does
// not see Go's memory.
const addressSanitizer = "-fsanitize=address,undefined"

// sanitize skips if the sanitizers of GCC 12 fail at random: they cannot place their tables if the kernel
// scatters mappings over more than 28 bits.
func sanitize(t *testing.T) {
	t.Helper()
	bits, err := os.ReadFile("/proc/sys/vm/mmap_rnd_bits")
	if s := strings.TrimSpace(string(bits)); err != nil || s > "28" {
		t.Skipf("mmap_rnd_bits is %q, sanitizers need 28: %v", s, err)
	}
}

func TestPrograms(t *testing.T) {
	for _, name := range []string{"gemm", "halves", "int4", "int8", "epilogue", "program", "ragged",
		"experts", "network", "errors", "threads", "fork", "signals"} {
		source := filepath.Join("testdata", name+".c")
		t.Run(name, func(t *testing.T) {
			sample.Library.Whole(t)
			require.Equal(t, "ok\n", run(t, nil, compile(t, "gcc", source, "-std=c99")))
		})
		t.Run(name+"/sanitizer", func(t *testing.T) {
			sanitize(t)
			sample.Library.Skip(t, 1)
			require.Equal(t, "ok\n", run(t, nil, compile(t, "gcc", source, "-std=c99", addressSanitizer)))
		})
	}
	t.Run("C++", func(t *testing.T) {
		require.Equal(t, "ok\n", run(t, nil, compile(t, "g++", "testdata/header.cc", "-std=c++11")))
	})
	t.Run("example", func(t *testing.T) {
		out := run(t, []string{"BATCHGEMM_BACKEND=cpu"},
			compile(t, "gcc", "../examples/c/gemm.c", "-std=c99"))
		require.Equal(t, strings.Repeat("4 5 10 11, 10 20 30\n", 2), out)
	})
}

// The C half of the library, with C functions instead of Go's.
func TestEntry(t *testing.T) {
	require.Equal(t, "ok\n", run(t, nil, compileAlone(t, "gcc", "testdata/entry.c", "-std=c99",
		"-Wno-unused-parameter", "-I", ".", "-I", "testdata/stub")))
}

// Without a display, Mesa would print to stderr.
func TestEnvironment(t *testing.T) {
	out := run(t, []string{"XDG_RUNTIME_DIR="}, compile(t, "gcc", "testdata/environ.c", "-std=c99"))
	require.Equal(t, "ok\n", out)
}

// The library and the program share a libcuda that runs on the CPU.
func TestStream(t *testing.T) {
	program := compile(t, "gcc", "testdata/stream.c", "-std=c99")
	dir := t.TempDir()
	dltest.CompileCUDA(t, "../native/cuda/testdata/fakecuda.c", filepath.Join(dir, "libcuda.so.1"))
	require.Equal(t, "ok\n", run(t, []string{"LD_LIBRARY_PATH=" + dir, "FAKE_ANY_MEMORY=1"}, program))
}

func TestPython(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	settings := []string{"BATCHGEMM_LIBRARY=" + filepath.Join(library(t), "libbatchgemm.so"),
		"PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=../python"}
	out := run(t, settings, "python3", "-W", "error", "-m", "unittest", "discover", "../python/tests")
	require.Regexp(t, `\nOK( \(skipped=\d+\))?\n`, out) // without NumPy, or PyTorch
	require.NotContains(t, out, "was not closed", "an error in a finalizer, which Python prints and forgets")
}

// The library exports the functions of the header, each with the version of the binary interface, and
// nothing else.
func TestSymbols(t *testing.T) {
	f, err := elf.Open(filepath.Join(library(t), "libbatchgemm.so"))
	require.NoError(t, err)
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	require.NoError(t, err)
	var shown []string
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF && elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			shown = append(shown, s.Name)
		} else if s.Section != elf.SHN_UNDEF {
			require.Equal(t, "BATCHGEMM_"+quoted(t, "batchgemm.h", `define BG_ABI_VERSION (\d+)`), s.Name)
		}
	}
	slices.Sort(shown)
	require.Equal(t, declared(t), shown)
}

// declared lists the functions of the headers.
func declared(t *testing.T) (names []string) {
	t.Helper()
	header, err := os.ReadFile("batchgemm.h")
	require.NoError(t, err)
	experts, err := os.ReadFile("batchgemm_experts.h")
	require.NoError(t, err)
	header = append(header, experts...)
	for _, m := range regexp.MustCompile(`(?m)^(static )?[a-z][a-z0-9_ ]* \*?(bg_\w+)\(`).FindAllSubmatch(
		header, -1) {
		if len(m[1]) == 0 { // others are in the header, and are not symbols
			names = append(names, string(m[2]))
		}
	}
	require.Greater(t, len(names), 10)
	slices.Sort(names)
	return names
}

// Tests about every function call every function.
func TestCallAll(t *testing.T) {
	text, err := os.ReadFile("testdata/check.h")
	require.NoError(t, err)
	called := regexp.MustCompile(`CHECK\((bg_\w+)\(.*\) == want\)`).FindAllSubmatch(text, -1)
	names := []string{"bg_abi_version", "bg_last_error", "bg_version"} // these do not enter Go
	for _, m := range called {
		names = append(names, string(m[1]))
	}
	slices.Sort(names)
	require.Equal(t, declared(t), names)
}

// quoted returns what a pattern finds in a file.
func quoted(t *testing.T, file, pattern string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	m := regexp.MustCompile(pattern).FindSubmatch(text)
	require.NotNil(t, m, file)
	return string(m[1])
}

func TestVersionsAgree(t *testing.T) {
	want := quoted(t, "batchgemm.h", `define BG_ABI_VERSION (\d+)`)
	require.Equal(t, want, quoted(t, "exports.map", `BATCHGEMM_(\d+)`))
	require.Equal(t, want, quoted(t, "batchgemm.h", `BATCHGEMM_(\d+)`))
	require.Equal(t, want, quoted(t, "../python/batchgemm/_abi.py", `ABI_VERSION = (\d+)`))
	require.Equal(t, version.Version, quoted(t, "batchgemm.h", `define BG_VERSION "(.+)"`))
}

// The names in the comments of the header are those of the tables.
func TestHeaderLists(t *testing.T) {
	header, err := os.ReadFile("batchgemm.h")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		between [2]string
		want    []string
	}{
		"backends": {[2]string{"bg_open opens a device of a backend:", "NULL:"}, backendNames()},
		"types":    {[2]string{`"type_a"    elements of A:`, `"type_b"`}, names(elemtype.TypesA())},
		"of buffers": {[2]string{"bg_buffer_new for elements of a type:", "*/"},
			names(append(elemtype.TypesA(), element.Int4, element.MXFP4, element.NVFP4))},
		"computes": {[2]string{` "compute" `, `"rule"`},
			names([]planner.Compute{planner.ComputeF32Emulated, planner.ComputeF32, planner.ComputeTF32})},
		"rules": {[2]string{` "rule" `, `"schedule"`},
			names([]planner.Rule{planner.RuleCost, planner.RuleZhang2025})},
		"schedules": {[2]string{` "schedule" `, "(default"}, names(planner.Schedules())},
		"activations": {[2]string{` "activation" `, `"bias"`},
			names([]planner.Activation{planner.ReLU, planner.GELU, planner.SiLU})},
	} {
		t.Run(name, func(t *testing.T) {
			_, text, found := strings.Cut(string(header), c.between[0])
			require.True(t, found, c.between[0])
			text, _, found = strings.Cut(text, c.between[1])
			require.True(t, found, c.between[1])
			var listed []string
			for _, m := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(text, -1) {
				listed = append(listed, m[1])
			}
			require.ElementsMatch(t, c.want, listed)
		})
	}
	require.Equal(t, fmt.Sprint(planner.MaxGroups), quoted(t, "batchgemm.h", `groups from 1 to (\d+)`))
}

func backendNames() (all []string) {
	for _, d := range dispatch.Backends() {
		all = append(all, d.Name())
	}
	return all
}

func names[T any](values []T) (all []string) {
	for _, v := range values {
		all = append(all, fmt.Sprint(v))
	}
	return all
}
