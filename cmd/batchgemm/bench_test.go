package main

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/internal/bench"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/internal/version"
	"github.com/batchgemm/batchgemm/internal/workload"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// tiny has transposes, scalars, and a problem without elements.
const tiny = "20 30 40 t n 0.5 2\n0 5 5\n7 3 9 n t\n"

func TestBenchErrors(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"no workload", []string{"bench"}, "bench takes one WORKLOAD or more"},
		{"unknown workload", []string{"bench", "inception-1", "zhang-1-2-3"},
			`unknown workload "zhang-1-2-3": not a file`},
		{"unknown rival", []string{"bench", "inception-1", "--vs", "cublas-loop,magma"},
			`--vs "magma" is not one of cublas-loop, cublas-graph, cublas-grouped`},
		{"repeat", []string{"bench", "inception-1", "--repeat", "0"}, `--repeat 0 is not in [1, 1000000]`},
		{"two formats", []string{"bench", "inception-1", "--csv", "--json"},
			`--csv and --json exclude each other`},
		{"rival of float32", []string{"bench", "inception-1", "--type", "bf16", "--vs", "openblas"},
			`--vs openblas takes matrices of f32, not bf16`},
		{"rival without epilogues", []string{"bench", "inception-1", "--epilogue", "relu", "--vs",
			"f32,cublas-loop"},
			`--vs cublas-loop has no epilogues; with --epilogue use f32 and webgpu`},
		{"data and epilogue", []string{"bench", "inception-1", "--epilogue", "relu", "--data", "mixed"},
			`--data and --epilogue exclude each other`},
		{"numbers too small", []string{"bench", "inception-1", "--type", "f16", "--data", "tiny"},
			`--data tiny has numbers that f16 cannot represent`},
		{"unknown tile", []string{"bench", "inception-1", "--tile", "x"}, `--tile: unknown tile "x"`},
		{"unknown backend", []string{"bench", "inception-1", "--backend", "x"}, `unknown backend "x"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, stdout, stderr := batchgemm(t, "", tc.args...)
			require.Empty(t, stdout)
			require.True(t, strings.HasPrefix(stderr, "batchgemm: "+tc.want), stderr)
			require.Equal(t, exitUsage, code)
		})
	}
}

func TestBench(t *testing.T) {
	r := decode[bench.Report](t, tiny, "bench", "-", "random:mn=20,k=20,batch=3", "--repeat", "3", "--vs",
		"cublas-loop")
	require.Equal(t, 3, r.Repeat)
	require.Equal(t, []string{"no comparison with cuBLAS: unavailable: it needs the backend cuda, this is " +
		"cpu"}, r.Notes)
	require.Len(t, r.Cases, 2)
	for i, name := range []string{"-", "random:mn=20,k=20,batch=3"} {
		c := r.Cases[i]
		require.Equal(t, name, c.Workload)
		require.Equal(t, 3, c.Problems)
		require.NotEmpty(t, c.Tiles)
		require.Nil(t, c.Regret)
		require.Len(t, c.Rows, 1)
		row := c.Rows[0]
		require.Equal(t, [2]string{"batchgemm", "wall"}, [2]string{row.Method, row.Timed})
		require.Equal(t, 3, row.Checked)
		require.Positive(t, row.Error)
		require.Less(t, row.Error, 1.0)
		elements := int64(0)
		for _, n := range row.Errors {
			elements += n
		}
		require.Positive(t, elements)
		require.Positive(t, c.Bytes)
		require.Positive(t, row.Device.Min)
		require.LessOrEqual(t, row.Device.Min, row.Device.Median)
		require.LessOrEqual(t, row.Device.Median, row.Device.Max)
		require.NotNil(t, row.Host)
		require.InDelta(t, c.GFLOP/row.Device.Median*1e6, row.GFLOPS, 1e-6*row.GFLOPS)
	}
}

func TestBenchLive(t *testing.T) {
	r := decode[bench.Report](t, tiny, "bench", "-", "--repeat", "2", "--live")
	require.Len(t, r.Cases[0].Rows, 2)
	row := r.Cases[0].Rows[1]
	require.Equal(t, [2]string{"batchgemm", bench.Live}, [2]string{row.Method, row.Timed})
	require.Positive(t, row.Host.Median)
	require.LessOrEqual(t, row.Host.Median, row.Device.Max)
	require.Contains(t, succeed(t, tiny, "bench", "-", "--repeat", "1", "--live"),
		"batchgemm/live  the program gets the batch anew")
}

func TestBenchText(t *testing.T) {
	text := succeed(t, tiny, "bench", "-", "--repeat", "1", "--cold", "--schedule", "split-k",
		"--tile", "small")
	require.Regexp(t, `(?m)^workload +GFLOP +plan +batchgemm/wall +TFLOP/s +host +error$`, text)
	require.Regexp(t, `(?m)^- +0\.0000\d+ +\S+ +\S+ \(\S+-\S+\) +\S+ +\S+ +\S+$`, text)
	require.Contains(t, text, "rotated beyond the L2 cache")
}

// TestBenchReport: the page is complete, and says what the CPU cannot show.
func TestBenchReport(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "page")
	text := succeed(t, tiny, "bench", "random:mn=20,k=20,batch=3", "-", "--repeat", "1", "--csv",
		"--report", dir)
	written, err := os.ReadFile(filepath.Join(dir, "bench.csv"))
	require.NoError(t, err)
	require.Equal(t, text, string(written))
	page, err := os.ReadFile(filepath.Join(dir, "index.html"))
	require.NoError(t, err)
	for _, want := range []string{
		"<td>random:mn=20,k=20,batch=3</td>", "<td>-</td>", "No rival was measured",
		"the peak rates of cpu are not known",
		"Timeline of -", "workgroups are measured on the backend cuda alone, this is cpu", `id="planning"`,
		`id="errors"`, `id="roofline"`, `id="occupancy"`,
	} {
		require.Contains(t, string(page), want)
	}
	require.Regexp(t, `Version: <b>`+version.Version+
		`</b>.*Date: <b>\d{4}-\d\d-\d\d \d\d:\d\d UTC</b>.*Command: <b>batchgemm bench `+
		`random:mn=20,k=20,batch=3 - --repeat 1 --csv --report `, string(page))
	for _, name := range []string{"roofline", "errors", "occupancy", "planning", "timeline"} {
		require.FileExists(t, filepath.Join(dir, name+".svg"))
		require.FileExists(t, filepath.Join(dir, name+".png"))
	}

	code, stdout, stderr := batchgemm(t, tiny, "bench", "-", "--report", filepath.Join(dir, "bench.csv"))
	require.Equal(t, exitFailure, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "bench.csv: not a directory")
}

// TestMoved: A and B are read and C is written once, and read if beta is not 0.
func TestMoved(t *testing.T) {
	scaled := func(alpha, beta float32) planner.Problem {
		p := planner.GEMM(2, 3, 4)
		p.Alpha, p.Beta = planner.Scale(float64(alpha)), float64(beta)
		return p
	}
	for _, tc := range []struct {
		name    string
		problem planner.Problem
		bytes   float64
	}{
		{"product", scaled(1, 0), 4 * (8 + 12 + 6)},
		{"and beta", scaled(1, 2), 4 * (8 + 12 + 6 + 6)},
		{"beta alone", scaled(0, 2), 4 * (6 + 6)},
		{"zeros", scaled(0, 0), 4 * 6},
		{"nothing to do", scaled(0, 1), 0},
		{"no rows", planner.GEMM(0, 3, 4), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.bytes, moved(planner.Batch{tc.problem}, new(planner.Options)))
		})
	}
	mixed := &planner.Options{TypeA: element.BF16, TypeB: element.BF16}
	require.Equal(t, 2.0*(8+12)+4*(6+6), moved(planner.Batch{scaled(1, 2)}, mixed))
}

func TestBenchRegret(t *testing.T) {
	text := succeed(t, "64 64 64\n", "bench", "-", "--repeat", "1", "--regret", "--csv")
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	require.NoError(t, err)
	require.Len(t, records, 2)
	row := map[string]string{}
	for i, name := range records[0] {
		row[name] = records[1][i]
	}
	require.NotEmpty(t, row["regret"])
	_, err = tile.ByName(row["best_tile"])
	require.NoError(t, err)
	require.Contains(t, planner.Schedules(), planner.Schedule(row["best_schedule"]))
}

// TestAlternating: each step has another batch than the step before, and the first one another batch than
// its program.
func TestAlternating(t *testing.T) {
	b := planner.Batch{planner.GEMM(1, 2, 3), planner.GEMM(4, 5, 6)}
	turns := alternating(b)
	require.Equal(t, planner.Batch{planner.GEMM(4, 5, 6), planner.GEMM(1, 2, 3)}, turns[0])
	require.Equal(t, planner.Batch{planner.GEMM(1, 2, 3), planner.GEMM(4, 5, 6)}, turns[1])
	require.Equal(t, planner.GEMM(1, 2, 3), b[0])
}

// TestCold: together the sets of operands exceed all caches, but not by much.
func TestCold(t *testing.T) {
	device, err := dispatch.Open(t.Context(), dispatch.WithBackend("cpu"))
	require.NoError(t, err)
	defer device.Close()
	w, err := workload.Load("-", strings.NewReader("1024 1024 512\n"))
	require.NoError(t, err)
	for _, tc := range []struct {
		name  string
		types [2]element.Type
		bytes int
	}{
		{"float32", [2]element.Type{element.F32, element.F32}, 8 << 20},
		{"int8", [2]element.Type{element.Int8, element.F32}, 5 << 20},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := planner.Options{TypeA: tc.types[0], TypeB: tc.types[0], TypeC: tc.types[1]}
			c := &benchCase{bencher: &bencher{device: device, cold: true}, options: o, batch: w.Batch}
			c.ops, err = operands(w, &o)
			require.NoError(t, err)
			require.NoError(t, c.upload(t.Context()))
			require.Equal(t, coldBytes/tc.bytes+2, len(c.sets))
			require.NoError(t, c.close())
		})
	}
}

func TestBenchSweep(t *testing.T) {
	loads, err := loadAll(newBench(), []string{"inception-1", "zhang"}, new(planner.Options))
	require.NoError(t, err)
	require.Len(t, loads, 1+len(workload.Zhang()))
	require.Equal(t, "inception-1", loads[0].Name)
	require.Equal(t, "zhang-128-128-8", loads[1].Name)
}

// TestBenchCheck: a full check finds a wrong element, and so does a sample that includes its problem.
func TestBenchCheck(t *testing.T) {
	batch, err := planner.Pack(planner.GEMM(4, 4, 4), planner.GEMM(4, 4, 4))
	require.NoError(t, err)
	w := &workload.Workload{Batch: batch}
	ops, err := operands(w, new(planner.Options))
	require.NoError(t, err)
	device, err := dispatch.Open(t.Context(), dispatch.WithBackend("cpu"))
	require.NoError(t, err)
	defer func() { require.NoError(t, device.Close()) }()
	c := &benchCase{bencher: &bencher{device: device}, batch: batch, ops: ops}
	right := make([]float32, len(ops.C))
	copy(right, ops.C)
	for _, p := range batch {
		for i := range 16 {
			sum := float32(0)
			for k := range 4 {
				sum += ops.A[p.A.Offset+i/4*4+k] * ops.B[p.B.Offset+k*4+i%4]
			}
			right[p.C.Offset+i] = sum
		}
	}
	for _, tc := range []struct {
		name    string
		broken  int // problem with a wrong element, or -1
		largest float64
		checked int
		wrong   bool
	}{
		{"all right", -1, 0, 2, false},
		{"all wrong", 1, 0, 2, true},
		{"sample right", -1, 128, 1, false},
		{"sample wrong", 0, 128, 1, true},
		{"outside the sample", 1, 128, 1, false},
		{"sample of two rows wrong", 0, 64, 1, true},
		{"outside the sample of one row", 0, 1, 1, false},
		{"sample of all", 1, 1e9, 2, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := append([]float32(nil), right...)
			if tc.broken >= 0 {
				got[batch[tc.broken].C.Offset+5]++
			}
			checked, _, wrong := c.check(got, tc.largest)
			require.Equal(t, tc.checked, checked)
			require.Equal(t, tc.wrong, wrong != nil)
		})
	}
}
