package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/internal/npz"
	"github.com/batchgemm/batchgemm/internal/ratefile"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/devices"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// asCommand in the environment makes the test binary act as the command.
const asCommand = "BATCHGEMM_TEST_AS_COMMAND"

// TestMain keeps rates that were measured on this machine out of the tests.
func TestMain(m *testing.M) {
	os.Setenv(ratefile.DirEnv, "off")
	if os.Getenv(asCommand) != "" {
		main()
	}
	os.Exit(m.Run())
}

const numpyFile = "../../internal/workload/testdata/numpy.npz"

// batchgemm runs a command line on the cpu backend.
func batchgemm(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	if args == nil {
		args = []string{} // cobra reads nil as os.Args
	}
	t.Setenv("BATCHGEMM_BACKEND", "cpu")
	var out, errs bytes.Buffer
	code = execute(t.Context(), args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

// succeed runs a command line that must leave nothing on stderr.
func succeed(t *testing.T, stdin string, args ...string) (stdout string) {
	t.Helper()
	code, stdout, stderr := batchgemm(t, stdin, args...)
	require.Empty(t, stderr)
	require.Equal(t, exitOK, code)
	return stdout
}

// decode runs a command with --json and decodes its output.
func decode[T any](t *testing.T, stdin string, args ...string) T {
	t.Helper()
	var v T
	d := json.NewDecoder(strings.NewReader(succeed(t, stdin, append(args, "--json")...)))
	require.NoError(t, d.Decode(&v))
	require.False(t, d.More())
	return v
}

func TestErrors(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	bad, huge, text := file("bad.txt", "1 2 3\n4 five 6\n"), file("huge.txt", "2147483647 1000000 1\n"),
		file("text.npz", "no zip")
	sum := file("sum.txt", "1 2 3\n4 5 6 t n 1 2\n")
	npy := file("a.npy", "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }")
	for _, tc := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"unknown command", []string{"plot"}, exitUsage, `unknown command "plot" for "batchgemm"`},
		{"nearly a command", []string{"pla"}, exitUsage,
			`unknown command "pla" for "batchgemm" Did you mean this? plan`},
		{"unknown flag", []string{"run", "inception-1", "--fast"}, exitUsage, `unknown flag: --fast`},
		{"bad flag value", []string{"run", "inception-1", "--repeat", "x"}, exitUsage,
			`invalid argument "x" for "--repeat" flag: strconv.ParseInt: parsing "x": invalid syntax`},
		{"no workload", []string{"plan"}, exitUsage, `plan takes one WORKLOAD, not 0`},
		{"two workloads", []string{"verify", "a", "b"}, exitUsage, `verify takes one WORKLOAD, not 2`},
		{"devices with argument", []string{"devices", "x"}, exitUsage,
			`unknown command "x" for "batchgemm devices"`},
		{"unknown workload", []string{"run", "inception-0"}, exitUsage,
			`unknown workload "inception-0": not a file, nor inception-1 .. inception-9, zhang-MN-K-BATCH, ` +
				`random:mn=N,k=N,batch=N,seed=N or moe:experts=N,top=N,tokens=N,n=N,k=N,skew=X,seed=N`},
		{"too many experts of a token", []string{"plan", "moe:experts=4,top=5", "--device", "mi210"},
			exitUsage, `unknown workload "moe:experts=4,top=5": top 5 is more than the 4 experts`},
		{"bad parameter", []string{"plan", "random:k=1", "--device", "mi210"}, exitUsage,
			`unknown workload "random:k=1": k "1" is not in [16, 2147483647]`},
		{"unknown rule", []string{"plan", "inception-1", "--rule", "x"}, exitUsage,
			`--rule: unknown rule "x" (known: cost, zhang2025)`},
		{"unknown schedule", []string{"run", "inception-1", "--schedule", "x"}, exitUsage,
			`--schedule: unknown schedule "x" (known: data-parallel, batched, `},
		{"unknown tile", []string{"run", "inception-1", "--tile", "x"}, exitUsage,
			`--tile: unknown tile "x" (known: `},
		{"tlp", []string{"plan", "inception-1", "--rule", "zhang2025", "--tlp", "5"}, exitUsage,
			`--tlp: unknown TLP equation 5 (known: 3, 4)`},
		{"threshold", []string{"plan", "inception-1", "--rule", "zhang2025", "--threshold", "nan"}, exitUsage,
			`--threshold: threshold NaN is not a finite number from 0 on`},
		{"threshold without its rule", []string{"plan", "inception-1", "--threshold", "5"}, exitUsage,
			`--tlp and --threshold need --rule zhang2025`},
		{"repeat", []string{"run", "inception-1", "--repeat", "0"}, exitUsage,
			`--repeat 0 is not in [1, 1000000]`},
		{"unknown plan device", []string{"plan", "inception-1", "--device", "x"}, exitUsage,
			`unknown device "x" (known: mi210, `},
		{"two plan devices", []string{"plan", "inception-1", "--device", "h200", "--backend", "cpu"},
			exitUsage, `--device and --backend exclude each other`},
		{"plan unknown backend", []string{"plan", "inception-1", "--backend", "x"}, exitUsage,
			`unknown backend "x" (known: cuda, hip, webgpu, cpu)`},
		{"verify unknown compute", []string{"verify", "inception-1", "--compute", "x"}, exitUsage,
			`--compute: unknown compute mode "x" (known: f32-emulated, f32, tf32)`},
		{"unknown type", []string{"run", "inception-1", "--type", "fp8"}, exitUsage,
			`--type "fp8" is not f32, bf16, f16, e4m3, int8 or f64`},
		{"unknown type of C", []string{"verify", "inception-1", "--type-c", "x"}, exitUsage,
			`--type-c "x" is not f32 if A is f32`},
		{"types that do not go together", []string{"plan", "inception-1", "--type-c", "f16"}, exitUsage,
			`--type-c "f16" is not f32 if A is f32`},
		{"tf32 of another type", []string{"verify", "inception-1", "--type", "f16", "--compute", "tf32"},
			exitUsage, `compute mode tf32 is for operands of f32, not f16`},
		{"unknown epilogue", []string{"run", "inception-1", "--epilogue", "bias,swish"}, exitUsage,
			`--epilogue "swish" is not one of bias, relu, gelu, silu, gated, gather, scatter, weights`},
		{"two activations", []string{"verify", "inception-1", "--epilogue", "relu,gated,silu"}, exitUsage,
			`--epilogue has both relu and silu`},
		{"gated sum", []string{"run", sum, "--epilogue", "gated"}, exitFailure,
			sum + `: problem 1: beta 2 is not 0, but gated units do not read C`},
		{"gathered transpose", []string{"bench", sum, "--epilogue", "gather"}, exitFailure,
			sum + `: problem 1: transA is set, but GatherRows needs an A that is not transposed`},
		{"no kernels", []string{"plan", "inception-1", "--device", "a100", "--type", "f16", "--tile",
			"small"}, exitFailure,
			`inception-1: tile small 16x16x16/128: device a100 has no kernels for 16-bit elements`},
		{"unknown backend", []string{"run", "inception-1", "--backend", "x"}, exitUsage,
			`unknown backend "x" (known: cuda, hip, webgpu, cpu)`},
		{"verify unknown backend", []string{"verify", "inception-1", "--backend", "x"}, exitUsage,
			`unknown backend "x" (known: cuda, hip, webgpu, cpu)`},
		{"unknown device", []string{"run", "inception-1", "--backend", "cpu", "--device-index", "7"},
			exitUsage, `cpu: no device 7 (known: 0 `},
		{"negative device", []string{"verify", "inception-1", "--device-index", "-1"}, exitUsage,
			`cpu: no device -1 (known: 0 `},
		{"malformed file", []string{"run", bad}, exitFailure, bad + `:2: N "five" is not a whole number`},
		{"directory", []string{"plan", dir, "--device", "mi210"}, exitFailure,
			`read ` + dir + `: is a directory`},
		{"one array", []string{"run", npy}, exitFailure,
			npy +
				` is a .npy file with one array, want .npz with A0, B0[, C0], A1 and so on, as numpy.savez ` +
				`writes it`},
		{"not a zip", []string{"run", text}, exitFailure,
			text + `: not an .npz file: zip: not a valid zip file`},
		{"too large for memory", []string{"run", huge}, exitFailure,
			huge + `: the matrices: out of memory: 8000008.0 GiB more are needed, `},
		{"output in no folder", []string{"run", "inception-1", "-o", dir + "/no/out.npz"}, exitFailure,
			dir + `/no/out.npz: no such file or directory`},
		{"output is a folder", []string{"run", "inception-1", "-o", dir}, exitFailure,
			dir + `: is a directory`},
		{"drawing in no folder", []string{"plan", "inception-1", "--device", "mi210", "--svg",
			dir + "/no/p.svg"}, exitFailure, dir + `/no/p.svg: no such file or directory`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, stdout, stderr := batchgemm(t, "", tc.args...)
			require.Empty(t, stdout)
			require.True(t, strings.HasPrefix(stderr, "batchgemm: "+tc.want), stderr)
			require.Equal(t, 1, strings.Count(stderr, "\n"), stderr)
			require.Equal(t, tc.code, code)
		})
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 5, "nothing is left behind")
}

func TestDeviceIndexNeedsBackend(t *testing.T) {
	t.Setenv("BATCHGEMM_BACKEND", "")
	var out, errs bytes.Buffer
	code := execute(t.Context(), []string{"run", "inception-1", "--device-index", "0"}, nil, &out, &errs)
	require.Equal(t, "batchgemm: --device-index needs --backend\n", errs.String())
	require.Equal(t, exitUsage, code)
}

func TestHelp(t *testing.T) {
	require.Equal(t, succeed(t, ""), succeed(t, "", "--help"))
	for _, command := range []string{"devices", "plan", "run", "verify", "tune", "version"} {
		help := succeed(t, "", command, "--help")
		require.Contains(t, help, "Examples:\n  batchgemm "+command)
		require.Contains(t, help, "--json")
		require.Contains(t, succeed(t, ""), "\n  "+command+" ")
	}
	for _, schedule := range planner.Schedules() {
		require.Regexp(t, `--schedule .*\b`+string(schedule)+`\b`, succeed(t, "", "plan", "--help"))
	}
}

func TestCompletion(t *testing.T) {
	require.Contains(t, succeed(t, "", "completion", "bash"), "__start_batchgemm")
	for _, tc := range []struct{ args, want string }{
		{"run inc", "inception-7"},
		{"bench moe", "moe:"},
		{"plan inception-1 --device mi", "mi210"},
		{"run inception-1 --backend ", "webgpu"},
		{"run inception-1 --schedule s", "stream-k"},
		{"run inception-1 --tile t", "tiny-k4"},
		{"plan inception-1 --rule z", "zhang2025"},
		{"run inception-1 --type b", "bf16"},
		{"verify inception-1 --type-c f1", "f16"},
		{"plan inception-1 --epilogue ga", "gather"},
	} {
		_, stdout, _ := batchgemm(t, "", append([]string{"__complete"}, strings.Split(tc.args, " ")...)...)
		require.Contains(t, strings.Split(stdout, "\n"), tc.want)
	}
}

func TestDevices(t *testing.T) {
	l := decode[listing](t, "", "devices")
	var backends []string
	for _, b := range l.Backends {
		backends = append(backends, b.Backend)
		require.NotEqual(t, b.Unavailable == "", len(b.Devices) == 0, b.Backend)
	}
	require.Equal(t, []string{"cuda", "hip", "webgpu", "cpu"}, backends)
	require.Equal(t, &deviceRef{"cpu", 0}, l.Default)

	text := succeed(t, "", "devices")
	cpu := l.Backends[3].Devices[0]
	require.Regexp(t, `(?m)^cpu +0 .+ software +.+ f32 +f32 f64 \(bf16 f16 e4m3 int8 int4 mxfp4 nvfp4\) +`+
		`shipped +\* +cpu *$`,
		text)
	require.Equal(t, []string{}, l.Skipped, "the backend is fixed")
	require.Equal(t, "cpu", cpu.ID)
	require.Contains(t, text, cpu.Name)
	require.Contains(t, text, cpu.Subgroup)
	require.Equal(t, "shipped", cpu.Rates)
	require.Empty(t, cpu.RatesIgnored)
	for _, b := range l.Backends {
		if b.Unavailable != "" {
			require.Contains(t, text, "\n"+b.Backend+": "+b.Unavailable+"\n")
		}
	}
}

func TestElements(t *testing.T) {
	for name, want := range map[string]string{
		"h200":  "f32 bf16 f16 e4m3 int8 f64 (int4 mxfp4 nvfp4)",
		"a100":  "f32 bf16 f16 f64 (e4m3 int8 int4 mxfp4 nvfp4)",
		"mi210": "f32 bf16 f16 int8 f64 (e4m3 int4)", "mi300x": "f32 bf16 f16 e4m3 int8 f64 (int4)",
		"lavapipe": "f32 (bf16 f16 e4m3 int8 int4 mxfp4 nvfp4)",
	} {
		d, err := devices.Lookup(name)
		require.NoError(t, err)
		require.Equal(t, want, elements(d), name)
	}
	require.Equal(t, "f32", elements(new(planner.Device)))
}

// With a software adapter, the default of a machine is the CPU, and the command says why.
func TestDevicesSkipped(t *testing.T) {
	l := listing{
		Backends: []backendListing{
			{Backend: "webgpu", Devices: []deviceListing{
				{Info: dispatch.Info{Backend: "webgpu", ID: "webgpu:x", Name: "X", Vendor: "Intel",
					Kind: dispatch.KindIntegrated, Memory: 3 << 29}}}},
			{Backend: "hip", Unavailable: "unavailable: not in this build: a test"},
			{Backend: "own", Devices: []deviceListing{{Info: dispatch.Info{Backend: "own", Name: "Y"}}}},
		},
		Skipped: []string{"own: device 0 (Y): it is slow"},
	}
	var out bytes.Buffer
	require.NoError(t, l.text(&out))
	require.Regexp(t, `webgpu +0 +X +Intel +integrated +1.5 GiB +.*webgpu:x`, out.String())
	require.Regexp(t, `own +0 +Y +unknown +other +unknown`, out.String())
	require.Contains(t, out.String(), "\nhip: unavailable: not in this build: a test\nnot the default: "+
		"own: device 0 (Y): it is slow\n")
}

func TestPlanGolden(t *testing.T) {
	got := succeed(t, "", "plan", "inception-1", "--device", "mi210")
	const golden = "testdata/plan-inception-1-mi210.txt"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "run go test ./cmd/batchgemm -update and read the difference")
}

func TestPlan(t *testing.T) {
	type plan struct {
		Device   string `json:"device"`
		Rule     string `json:"rule"`
		Schedule string `json:"schedule"`
		Guess    bool   `json:"predicted_is_guess"`
		Problems []struct {
			M, N, K int
			Tile    string
		} `json:"problems"`
	}
	p := decode[plan](t, "5 6 7 # one problem\n", "plan", "-", "--device", "gfx90a", "--rule", "zhang2025",
		"--tlp", "3", "--threshold", "1000")
	require.Equal(t, "mi210", p.Device)
	require.Equal(t, "zhang2025", p.Rule)
	require.True(t, p.Guess)
	require.False(t, decode[plan](t, "", "plan", "inception-1", "--device", "h200").Guess)
	require.Len(t, p.Problems, 1)
	require.Equal(t, [3]int{5, 6, 7}, [3]int{p.Problems[0].M, p.Problems[0].N, p.Problems[0].K})

	p = decode[plan](t, "", "plan", "inception-2", "--schedule", "stream-k", "--tile", "large")
	require.Equal(t, "cpu", p.Device, "the device that run takes")
	require.Equal(t, "stream-k", p.Schedule)
	require.Equal(t, "large", p.Problems[0].Tile)
}

// TestPlanBackend: --backend also applies to plan, and overrides the environment.
func TestPlanBackend(t *testing.T) {
	t.Setenv("BATCHGEMM_BACKEND", "none")
	var out, errs bytes.Buffer
	code := execute(t.Context(), []string{"plan", "inception-2", "--backend", "cpu", "--device-index", "0"},
		nil, &out, &errs)
	require.Empty(t, errs.String())
	require.Equal(t, exitOK, code)
	require.Regexp(t, `(?m)^device +cpu$`, out.String())
}

func TestPlanSVG(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plan.svg")
	succeed(t, "", "plan", "inception-1", "--device", "mi210", "--svg", path)
	svg, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(svg), "</svg>")
	require.Contains(t, string(svg), ">inception-1<")
}

// product is a result of numpyFile.
type product struct {
	rows, cols int
	data       []float32
}

// numpyProducts are small integers, and therefore exact.
var numpyProducts = []product{
	{2, 4, []float32{38, 44, 50, 56, 83, 98, 113, 128}},
	{3, 2, []float32{5*9 + 6*11 - 3, 5*10 + 6*12 - 2, 7*9 + 8*11 - 1, 7*10 + 8*12, 9*9 + 10*11 + 1,
		9*10 + 10*12 + 2}},
	{0, 3, []float32{}},
	{2, 2, []float32{7, 8, 9, 10}},
}

// products reads an archive.
func products(t *testing.T, raw string) (all []product) {
	t.Helper()
	arrays, err := npz.List(strings.NewReader(raw), int64(len(raw)))
	require.NoError(t, err)
	for i, a := range arrays {
		require.Equal(t, fmt.Sprint("C", i), a.Name)
		p := product{a.Rows(), a.Cols(), make([]float32, a.Len())}
		require.NoError(t, a.Read(p.data))
		all = append(all, p)
	}
	return all
}

func TestRunNPZ(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.npz")
	r := decode[runResult](t, "", "run", numpyFile, "-o", path, "--verify", "--repeat", "3")
	require.Equal(t, path, r.Output)
	require.Equal(t, 3, r.Runs)
	require.Equal(t, 4, r.Problems)
	require.Zero(t, *r.Verified)
	require.Equal(t, "cpu", r.Device.Backend)
	require.True(t, r.Guess)
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, numpyProducts, products(t, string(raw)))
}

// TestStandardStreams: matrices come from standard input and go to standard output; printed text then goes
// to standard error.
func TestStandardStreams(t *testing.T) {
	raw, err := os.ReadFile(numpyFile)
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	code, stdout, stderr := batchgemm(t, string(raw), "run", "-", "-o", "-", "--verify")
	require.Equal(t, exitOK, code)
	require.Equal(t, numpyProducts, products(t, stdout))
	require.Regexp(t, `(?m)^workload +-: 4 problems`, stderr)
	require.Regexp(t, `(?m)^output +-$`, stderr)

	code, stdout, stderr = batchgemm(t, string(raw), "run", "-", "-o", "-", "--json")
	require.Equal(t, exitOK, code)
	require.Equal(t, numpyProducts, products(t, stdout))
	require.True(t, json.Valid([]byte(stderr)), stderr)

	code, stdout, stderr = batchgemm(t, "", "plan", "inception-1", "--device", "mi210", "--svg", "-")
	require.Equal(t, exitOK, code)
	require.Contains(t, stdout, "</svg>")
	require.Contains(t, stderr, "predicted")

	left, err := os.ReadDir(".")
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestRunText(t *testing.T) {
	text := succeed(t, "20 30 40 t n 0.5 2\n0 5 5\n", "run", "-", "--verify", "--schedule", "split-k",
		"--repeat", "2")
	for _, line := range []string{
		`device    cpu 0: .+`,
		`workload  -: 2 problems, 4.8e-05 GFLOP`,
		`plan      split-k, \d+ launches, \d+ workers, tiles .+; predicted .+s \(a guess\)`,
		`host      plan .+s, prepare .+s, run .+s`,
		`run       .+s on the device \(wall\), .+ GFLOP/s; median of 2 runs, least .+s`,
		`verified  all elements; largest error .+ of its bound`,
	} {
		require.Regexp(t, `(?m)^`+line+`$`, text)
	}
}

// Scripts rely on these numbers, which docs/guide.md lists.
func TestExitCodes(t *testing.T) {
	require.Equal(t, []int{0, 1, 2, 130}, []int{exitOK, exitFailure, exitUsage, exitSignal + 2})
}
