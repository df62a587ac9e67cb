package main

import (
	"archive/tar"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/bench"
	"github.com/batchgemm/batchgemm/internal/sample"
)

var update = flag.Bool("update", false, "draw the pictures of docs again")

// sweepCase has times of batchgemm, f32, loop, graph and grouped.
func sweepCase(workload string, gflop float64, times ...float64) bench.Case {
	c := bench.Case{Workload: workload, GFLOP: gflop, Plan: 2, Schedule: "lpt",
		Tiles: []string{"small", "large"}}
	for i, method := range []string{"batchgemm", "f32", loop, graph, grouped}[:len(times)] {
		c.Rows = append(c.Rows, bench.Row{Method: method, Timed: bench.Graph,
			Device: bench.Spread{Median: times[i]}})
	}
	return c
}

// planned adds times of planning, and of runs in which the device does some of it.
func planned(c bench.Case, renew, run, planning float64) bench.Case {
	c.Renew = renew
	for method, micros := range map[string]float64{"batchgemm-ragged": run, "ragged-plan": planning} {
		c.Rows = append(c.Rows, bench.Row{Method: method, Timed: bench.Graph,
			Device: bench.Spread{Median: micros}})
	}
	return c
}

// forced adds times of forced plans, as tile, schedule, time.
func forced(c bench.Case, planner float64, plans ...bench.Forced) bench.Case {
	c.Regret = &bench.Regret{Planner: planner, Tile: plans[0].Tile, Schedule: plans[0].Schedule,
		Forced: plans}
	return c
}

func accuracy(c bench.Case, largest ...float64) bench.Case {
	for i, x := range largest {
		c.Rows[i].Accuracy = &bench.Accuracy{Max: x, Mean: x / 4}
	}
	return c
}

const ncu = `==PROF== Connected to process 7 (/bin/batchgemm)
==PROF== Profiling "bg_large_nn": 0%....50%....100% - 1 pass
"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","7","bg_large_nn(A *)","gpu__time_duration.sum","ns","1,000"
"0","7","bg_large_nn(A *)","sm__maximum_warps_per_active_cycle_pct","%","50"
"0","7","bg_large_nn(A *)","sm__warps_active.avg.pct_of_peak_sustained_active","%","10"
"0","7","bg_large_nn(A *)","smsp__issue_active.avg.per_cycle_active","inst/cycle","0.50"
"1","7","bg_large_nn(A *)","gpu__time_duration.sum","ns","3,000"
"1","7","bg_large_nn(A *)","sm__maximum_warps_per_active_cycle_pct","%","50"
"1","7","bg_large_nn(A *)","sm__warps_active.avg.pct_of_peak_sustained_active","%","30"
"1","7","bg_large_nn(A *)","smsp__issue_active.avg.per_cycle_active","inst/cycle","0.50"
"2","7","bg_large_fixup(A *)","gpu__time_duration.sum","ns","9"
"3","7","void cutlass::Kernel2<simt>(T1::Params)","gpu__time_duration.sum","ns","5,000"
"3","7","void cutlass::Kernel2<simt>(T1::Params)","sm__maximum_warps_per_active_cycle_pct","%","12.5"
"3","7","void cutlass::Kernel2<simt>(T1::Params)","sm__warps_active.avg.pct_of_peak_sustained_active","%","7"
"3","7","void cutlass::Kernel2<simt>(T1::Params)","smsp__issue_active.avg.per_cycle_active",` +
	`"inst/cycle","0.25"
==PROF== Disconnected from process 7
`

// measured returns a small set of results, whose figures are easy to check.
func measured(t *testing.T) results {
	files := results{}
	add := func(name string, cases ...bench.Case) {
		data, err := json.Marshal(bench.Report{Device: "cuda 0: GPU", Driver: "CUDA 13", Library: "cuBLAS 13",
			Cases: cases})
		require.NoError(t, err)
		files[name+".json"] = data
	}
	add("sweep", sweepCase("zhang-128-128-8", 0.01, 2, 4, 20, 8, 1),
		sweepCase("zhang-128-128-32", 0.04, 4, 4, 160, 40, 16),
		sweepCase("zhang-512-128-32", 0.08, 10, 20, 50, 40, 40))
	halves := sweepCase("zhang-128-128-8", 0.01, 2)
	halves.Rows = append(halves.Rows, bench.Row{Method: padded, Device: bench.Spread{Median: 6}})
	add("halves", halves)
	add("halves-rounded", sweepCase("rounded-128-128-8", 0.02, 1, 1, 1, 1, 4))
	add("beyond", sweepCase("8x64x64x8192", 0.5, 10, 20, 90, 80, 70))
	add("overhead", planned(sweepCase("random:mn=128,k=128,batch=8,seed=1", 0.01, 38), 1, 49, 5),
		planned(sweepCase("random:mn=128,k=128,batch=1024,seed=1", 0.01, 198), 2, 200, 4))
	other := sweepCase("zhang-128-128-32", 0.04, 5)
	other.Tiles = []string{"small"}
	add("tlp3", sweepCase("zhang-128-128-8", 0.01, 6), other)
	add("tlp4", sweepCase("zhang-128-128-8", 0.01, 6), sweepCase("zhang-128-128-32", 0.04, 4))
	add("threads", forced(sweepCase("zhang-128-128-8", 0.01, 2), 2,
		bench.Forced{Tile: "medium-k4", Schedule: "split-k", Micros: 2},
		bench.Forced{Tile: "medium", Schedule: "lpt", Micros: 3},
		bench.Forced{Tile: "medium", Schedule: "split-k", Micros: 4},
		bench.Forced{Tile: "large", Schedule: "lpt", Micros: 8}))
	add("schedules", forced(sweepCase("zhang-128-128-8", 0.01, 2), 2,
		bench.Forced{Tile: "large", Schedule: "cluster", Micros: 5},
		bench.Forced{Tile: "medium", Schedule: "data-parallel", Micros: 4},
		bench.Forced{Tile: "medium", Schedule: "lpt", Micros: 6},
		bench.Forced{Tile: "medium", Schedule: "dynamic", Micros: 5},
		bench.Forced{Tile: "small", Schedule: "lpt", Micros: 7},
		bench.Forced{Tile: "small", Schedule: "dynamic", Micros: 7}))
	add("schedules-webgpu", forced(sweepCase("zhang-128-128-8", 0.01, 2), 2,
		bench.Forced{Tile: "small-k8", Schedule: "split-k", Micros: 6}),
		forced(sweepCase("zhang-512-128-32", 0.01, 2), 2,
			bench.Forced{Tile: "large-8x8", Schedule: "batched", Micros: 7}))
	add("inception-bench", sweepCase("inception-8", 0.01, 3, 4, 9, 12, 6))
	add("emulation", sweepCase("1x1024", 2.1, 42, 84, 0, 60, 70))
	add("emulation-tf32", sweepCase("1x1024", 2.1, 21))
	add("accuracy-mixed", accuracy(sweepCase("128x128x64", 0.01, 1, 1, 1, 1), 1e-7, 2e-7, 9, 4e-7))
	wrong := sweepCase("128x128x64", 0.01, 1)
	wrong.Rows[0].Wrong = "C[0,0]"
	add("accuracy-tf32-mixed", wrong)
	for _, name := range []string{"stream-k-f32", "stream-k-emulated"} {
		add(name, forced(sweepCase("128x128x8128", 0.3, 1, 1, 1, 30), 10, bench.Forced{Tile: "large",
			Schedule: streamK, Micros: 10}, bench.Forced{Tile: "large", Schedule: dataParallel, Micros: 80}),
			forced(sweepCase("128x264x128", 0.3, 1, 1, 1, 8), 4,
				bench.Forced{Tile: "large", Schedule: dataParallel, Micros: 4},
				bench.Forced{Tile: "large", Schedule: streamK, Micros: 8}))
	}
	add("stream-k-auto", sweepCase("128x264x128", 0.3, 2, 4, 9, 8))
	files["devices.json"] = []byte(`{"backends":[{"backend":"cuda","devices":[{"planner":{"tflops":100}}]}]}`)
	files["machine.csv"] = []byte("name, clock\nGPU, 1980 MHz\n")
	files["latency.csv"] = []byte("what,problems,size,node_us,call_us,complete_us\n" +
		"empty kernel,0,0,0.600,2.100,5.200\nbatchgemm,8,32,1.500,2.900,6.300\n")
	files["occupancy-zhang2025-zhang-128-128-8.csv"] = []byte(ncu)
	files["occupancy-chosen-zhang-128-128-8.csv"] = []byte("==ERROR== no permission\n")
	files["inception.json"] = []byte(`{"device": "GPU", "torch": "2.11", "cudnn": 91000, "rows": [
		{"workload": "inception-1", "method": "batchgemm", "timed": "graph", "micros": 2},
		{"workload": "inception-1", "method": "batchgemm-f32", "timed": "graph", "micros": 4},
		{"workload": "inception-1", "method": "cudnn", "timed": "graph", "micros": 16},
		{"workload": "inception-1", "method": "cudnn", "timed": "calls", "micros": 40},
		{"workload": "inception-1", "method": "batchgemm", "timed": "calls", "micros": 20},
		{"workload": "inception-8", "method": "batchgemm", "timed": "graph", "micros": 4},
		{"workload": "inception-8", "method": "cudnn", "timed": "graph", "micros": 8}]}`)
	return files
}

// page is the committed one.
func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "results.md"))
	require.NoError(t, err)
	return string(text)
}

// marks returns the names of the tables that a page asks for, with their current lines.
func marks(page string) map[string]string {
	all := map[string]string{}
	for _, m := range block.FindAllStringSubmatch(page, -1) {
		all[m[1]] += m[2]
	}
	return all
}

// TestPage: the committed page asks for each table once, has its lines, and has no other tables.
func TestPage(t *testing.T) {
	text := page(t)
	require.Equal(t, strings.Count(text, "<!--"), len(block.FindAllString(text, -1)),
		"marks that nothing reads")
	require.Len(t, block.FindAllString(text, -1), len(tables), "a table twice")
	for name, lines := range marks(text) {
		require.Contains(t, tables, name)
		require.GreaterOrEqual(t, strings.Count(lines, "\n"), 3, "%s: no lines", name)
	}
	// groups of many rows, problems along K, boxes of fp32, fp64, 4 bits: of benchmarks and of the command
	own := 11
	require.Equal(t, len(tables)+own, strings.Count(text, "\n| --- |"), "a table that is not made here")
}

// TestFill: the lines of the tables for the small results replace all that were there.
func TestFill(t *testing.T) {
	old := page(t)
	text, left, err := fill(old, measured(t))
	require.NoError(t, err)
	require.Empty(t, left)
	require.NotContains(t, text, "NaN")
	require.Equal(t, block.ReplaceAllString(old, "$1"), block.ReplaceAllString(text, "$1"),
		"text between the tables")
	for name, lines := range marks(text) {
		require.NotEqual(t, marks(old)[name], lines, name)
	}
	for name, line := range map[string]string{
		"device":  "| device | cuda 0: GPU |",
		"clocks":  "| `nvidia-smi`: clock | 1980 MHz |",
		"PyTorch": "| device | GPU |\n| PyTorch | 2.11 |\n| cuDNN | 91000 |\n",
		"peak":    "| peak of plain fp32 | 100.0 TFLOPS |",
		"speed-up": "| rocBLAS or cuBLAS, a loop | 5.09 | 7.18 | 18.3 | 12.6 (5.00–40.0) | 7.94 " +
			"(2.50–40.0) | – |",
		"rival not run": "| Li et al. | – | 1.94 | – | – | – | – |",
		"loss":          "| default | `cublas-grouped` | 3 | 1 | 0.500 (zhang-128-128-8) |",
		"batch of 32":   "| 32 | 14.1 | 6.32 | 4.00 | 10.0 | 4.47 | 2.83 |",
		"range":         "| 512, 128 | 5.00 | 4.00 | 4.00 | 2.50 | 2.00 | 2.00 |",
		"every batch": "| 128, 128, 8 | 0.0100 | 2.00 | 5.00 | small large, lpt | 0.500 | 4.00 | 10.0 " +
			"| 4.00 | – |",
		"beyond": "| 8x64x64x8192 | 0.500 | 10.0 | 50.0 | small large, lpt | 7.00 | 8.00 | 9.00 " +
			"| 20.0 | – |",
		"halves":          "| all | 3.00 (3.00–3.00) | 4.00 (4.00–4.00) |",
		"halves, a batch": "| 128, 128, 8 | 2.00 | 6.00 | 1.00 | 4.00 | 20.0 |",
		"latency":         "| 32 | 6.32 | 8.94 | – | 25.3 | 40.0 | 89.4 |",
		"overhead": "| 128, 128 | 8 | 2.00 | 38.0 | 5 % | 1.00 | 49.0 | 2 % | 5.00 | 10 % | 6.06 % " +
			"| 6.37 % |",
		"overhead, large": "| 128, 128 | 1024 | 2.00 | 198 | 1 % | 2.00 | 200 | 0.99 % | 4.00 | 2 % | < 1 " +
			"% | < 1 % |",
		"TLP":              "| all | 1.077 | 1.085 | 1.12 (1.00–1.25) | 1 of 2 |",
		"TLP, large":       "| of 32 or more | 1.10 | 1.11 | 1.25 (1.25–1.25) | 1 of 1 |",
		"rule":             "| all | 1.22 (1.00–1.50) |",
		"tile":             "| medium, 32x32 | 128 | 8 (1 K groups) | yes | 1.50 (1.50–1.50) |",
		"threads":          "| best of all with | 128 |  |  | 1.00 (1.00–1.00) |",
		"table 3":          "| best of Table 3 with | 256 | 8–16 | yes | 4.00 (4.00–4.00) |",
		"schedule":         "| lpt | 1.50 (1.50–1.50) |",
		"dynamic":          "| medium | 1.20 (1.20–1.20) | 0.800 (0.800–0.800) | 0 of 1 |",
		"schedules":        "| cluster | 1.25 (1.25–1.25) |",
		"winner":           "| 128, 128 | small-k8, split-k | – |",
		"another winner":   "| 512, 128 | – | large-8x8, batched |",
		"occupancy":        "| 128, 128, 8 | large_nn (rule zhang2025) | 2 | 2.00 | 25 % | 50 % | 0.500 |",
		"occupancy, rival": "| 128, 128, 8 | cuBLAS loop | 1 | 5.00 | 7 % | 12 % | 0.250 |",
		"ncu failed":       "| 128, 128, 8 | chosen: no table of ncu | – | – | – | – | – |",
		"empty kernel":     "| empty kernel | 0.600 | 2.100 | 5.200 |",
		"small batch":      "| 8 of 32x32x32 | 1.500 | 2.900 | 6.300 |",
		"inception": "| cudnn | 5.00 | 4.00 (2.00–8.00) | 2.00 (2.00–2.00) | 4.00 (4.00–4.00) | – | " +
			"2.00 (2.00–2.00) |",
		"inception GEMM": "| 8 | 3.00 | 4.00 | small large, lpt | 2.00 | 4.00 |",
		"emulation":      "| 1x1024 | 50.0 | 50 % | small large, lpt | 25.0 | 100 | 35.0 | 30.0 |",
		"accuracy":       "| mixed | 64 | 1e-07, 2.5e-08 | 2e-07, 5e-08 | 4e-07, 1e-07 | wrong | 0.25 |",
		"stream-k": "| stream-k | 4.25 | 2.00 | 0.500 (128x264x128) | 8.00 (128x128x8128) | 1 of 2 " +
			"| 1.73 (1.00–3.00) |",
		"auto": "| auto | 4.50 | 2.83 | 1.00 (128x264x128) | 8.00 (128x128x8128) | 0 of 2 | " +
			"2.45 (2.00–3.00) |",
		"stream-k shape": "| 128x128x8128 | 80.0 | 10.0 | 10.0 | 30.0 | 8.00 |",
		"own choice":     "| `f32` | 2.00 | 2.00 | 2.00 (128x264x128) | 2.00 (128x264x128) | 0 of 1 |",
	} {
		t.Run(name, func(t *testing.T) { require.True(t, strings.Contains(text, line), line) })
	}
}

// TestWrongResults have no time.
func TestWrongResults(t *testing.T) {
	c := sweepCase("zhang-128-128-8", 1, 2, 4)
	require.Equal(t, 2.0, micros(&c, "batchgemm"))
	c.Rows[0].Wrong = "problem 3: C[0,0] is 1, want 2"
	require.Zero(t, micros(&c, "batchgemm"))
	require.Equal(t, 4.0, micros(&c, "f32"))
}

// TestTables: all rows of a table have as many cells as its head.
func TestTables(t *testing.T) {
	text, _, err := fill(page(t), measured(t))
	require.NoError(t, err)
	cells := 0
	for _, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "|") {
			cells = 0
			continue
		}
		if n := strings.Count(line, "|"); cells == 0 {
			cells = n
		}
		require.Equal(t, cells, strings.Count(line, "|"), line)
	}
}

// TestAbsent: without a file, exactly its tables stay and are named.
func TestAbsent(t *testing.T) {
	old := page(t)
	text, left, err := fill(old, results{})
	require.NoError(t, err)
	require.Equal(t, old, text)
	require.Len(t, left, len(tables))

	whole, _, err := fill(old, measured(t))
	require.NoError(t, err)
	// Files that a table does not need.
	parts := map[string]string{"machine.csv": "machine", "accuracy-tf32-mixed.json": "accuracy",
		"occupancy-zhang2025-zhang-128-128-8.csv": "occupancy",
		"occupancy-chosen-zhang-128-128-8.csv":    "occupancy"}
	for name := range measured(t) {
		files := measured(t)
		delete(files, name)
		text, left, err := fill(old, files)
		require.NoError(t, err, name)
		require.True(t, len(left) > 0 || parts[name] != "", name)
		for table, lines := range marks(text) {
			switch {
			case slices.Contains(left, table):
				require.Equal(t, marks(old)[table], lines, name)
			case parts[name] == table:
				require.Less(t, len(lines), len(marks(whole)[table]), name)
			default:
				require.Equal(t, marks(whole)[table], lines, name)
			}
		}
	}
	files := measured(t)
	delete(files, "accuracy-tf32-mixed.json")
	text, _, err = fill(old, files)
	require.NoError(t, err)
	require.Contains(t, text, "| mixed | 64 | 1e-07, 2.5e-08 | 2e-07, 5e-08 | 4e-07, 1e-07 | – | 0.25 |")
}

// TestDamaged: an error names the file that cannot be read, or the mark of an unknown table.
func TestDamaged(t *testing.T) {
	for name := range measured(t) {
		if strings.HasPrefix(name, "occupancy-") {
			continue // the table says so
		}
		files := measured(t)
		files[name] = []byte("{")
		_, _, err := fill(page(t), files)
		require.ErrorContains(t, err, name)
	}
	_, _, err := fill("<!-- table: other -->\n\n| 1 |\n", measured(t))
	require.ErrorContains(t, err, `"other"`)
}

// TestRun reads an archive of tar, and writes the page and the picture.
func TestRun(t *testing.T) {
	docs := t.TempDir()
	archive, target := filepath.Join(docs, "results.tar"), filepath.Join(docs, "results.md")
	f, err := os.Create(archive)
	require.NoError(t, err)
	w := tar.NewWriter(f)
	for name, data := range measured(t) {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: "./" + name, Mode: 0o600, Size: int64(len(data))}))
		_, err := w.Write(data)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, f.Close())
	want, _, err := fill(page(t), measured(t))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(target, []byte(page(t)), 0o600))
	left, err := run(archive, docs)
	require.NoError(t, err)
	require.Empty(t, left)
	got, err := os.ReadFile(target)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
	for _, p := range pictures {
		svg, err := os.ReadFile(filepath.Join(docs, p.name))
		require.NoError(t, err)
		require.Contains(t, string(svg), ">2× default<") // of 0.5, 4 and 4
		require.NotContains(t, string(svg), "WebGPU", "not measured")
	}

	require.NoError(t, os.WriteFile(archive, []byte(strings.Repeat("x", 1024)), 0o600))
	_, err = run(archive, docs)
	require.ErrorContains(t, err, archive)
	_, err = run(archive+"x", docs)
	require.ErrorIs(t, err, os.ErrNotExist)
	got, err = os.ReadFile(target)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}

// TestPicture: the committed pictures agree with the committed page.
func TestPicture(t *testing.T) {
	docs := filepath.Join("..", "..", "docs")
	folder := t.TempDir()
	if *update {
		folder = docs
	}
	require.NoError(t, draw(page(t), folder))
	for _, p := range pictures {
		want, err := os.ReadFile(filepath.Join(folder, p.name))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(docs, p.name))
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "%s: go test ./internal/results -update", p.name)
		require.Less(t, len(got), 60<<10)
	}
}

// TestSweepOf: the speeds of the picture agree with the page's own summary. They come from four numbers of
// three digits, each rounded by at most 0.5 %.
func TestSweepOf(t *testing.T) {
	sweep, err := sweepOf(page(t))
	require.NoError(t, err)
	rivals := read(page(t), "rivals")
	i := slices.IndexFunc(rivals, func(line map[string]string) bool {
		return line["rival"] == "cuBLAS grouped"
	})
	for j, column := range []string{"default", "`f32`", "WebGPU"} {
		var geomean, least, most float64
		_, err := fmt.Sscanf(strings.ReplaceAll(rivals[i][column], "–", " "), "%g (%g %g)", &geomean,
			&least, &most)
		require.NoError(t, err)
		s := &ratios{}
		for _, b := range sweep.Methods[j].Batches {
			s.add("", b.Times)
		}
		require.Len(t, s.all, 72)
		require.InEpsilon(t, geomean, s.geomean(), 0.02)
		require.InEpsilon(t, least, slices.Min(s.all), 0.02)
		require.InEpsilon(t, most, slices.Max(s.all), 0.02)
	}
}

// TestDrawDamaged: a page without the numbers is an error.
func TestDrawDamaged(t *testing.T) {
	const mark = "<!-- table: sweep -->\n\n"
	for want, page := range map[string]string{
		"no batches to draw": "",
		`no column "µs"`:     mark + "| GFLOP | x grouped |\n| --- | --- |\n| 1 | 2 |\n",
		`parsing "fast"`:     mark + "| GFLOP | x grouped | µs |\n| --- | --- | --- |\n| 1 | fast | 3 |\n",
	} {
		require.ErrorContains(t, draw(page, t.TempDir()), want)
	}
}

// TestScript runs the script's steps that need no GPU on the CPU, and reads their results.
func TestScript(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command")
	}
	sample.Command.Whole(t)
	if _, err := exec.LookPath("timeout"); err != nil {
		t.Skip("the script needs timeout")
	}
	dir := t.TempDir()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	require.NoError(t, err)
	command := filepath.Join(dir, "batchgemm")
	out, err := exec.Command("go", "build", "-o", command,
		filepath.Join(root, "cmd", "batchgemm")).CombinedOutput()
	require.NoError(t, err, string(out))
	script := func(arguments ...string) (string, error) {
		cmd := exec.Command(filepath.Join(root, "scripts", "results.sh"), arguments...)
		cmd.Env = append(os.Environ(), "QUICK=1", "BACKEND=cpu", "BATCHGEMM="+command)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	text, err := script(dir, "machine", "tlp")
	require.NoError(t, err, text)
	text, err = script(dir, "tlp", "emulation", "halves", "beyond") // adds to the archive
	require.NoError(t, err, text)
	require.NotContains(t, text, "exit code")

	files, err := unpack(filepath.Join(dir, "results.tar"))
	require.NoError(t, err)
	for _, name := range []string{"devices", "tlp3", "tlp4", "emulation", "emulation-tf32"} {
		require.Contains(t, files, name+".json")
	}
	rendered, left, err := fill(page(t), files)
	require.NoError(t, err)
	require.Contains(t, left, "sweep")
	require.NotContains(t, left, "beyond")
	require.Contains(t, rendered, "| all | 1.077 | 1.085 | ")
	require.Contains(t, rendered, "| 2x32 | ")
	require.Regexp(t, `\| 128, 256, 8 \| [0-9.]+ \| – \| [0-9.]+ \| – \| [0-9.]+ \|`, rendered)
	require.Contains(t, rendered, "| 64+255x32 | ")

	text, err = script(dir, "nothing")
	require.Error(t, err)
	require.Contains(t, text, "no step nothing")
	text, err = script()
	require.Error(t, err)
	require.Contains(t, text, "Usage: scripts/results.sh OUT [STEP...]")
}
