package report

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"image/png"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot/vg"

	"github.com/batchgemm/batchgemm/internal/bench"
	"github.com/batchgemm/batchgemm/internal/occupancy"
	"github.com/batchgemm/batchgemm/internal/timeline"
	"github.com/batchgemm/batchgemm/internal/workload"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/devices"
)

var (
	update = flag.Bool("update", false, "rewrite the golden files")
	pages  = flag.String("pages", "",
		"write the pages of the tests to folders in this one, for scripts/report_check.sh")
)

// made returns a report of some workloads on an H200, with invented times.
func made(t *testing.T, rivals []string, names ...string) *Data {
	t.Helper()
	device, err := devices.Lookup("h200")
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(1, 2))
	r := &bench.Report{Device: "cuda 0: NVIDIA H200", Driver: "NVIDIA 580.159.04, CUDA 13.0",
		Library: "cuBLAS 13.1.0, CUBLAS_DEFAULT_MATH (fp32)",
		Repeat:  7, Notes: []string{"no comparison with <webgpu> & others"}}
	data := &Data{Bench: r, Device: *device, Version: "1.2.3", Date: time.Date(2026, 3, 4, 23, 30, 0, 0,
		time.FixedZone("", -3600)),
		Command: "batchgemm bench " + strings.Join(names, " ") + " --report <page>"}
	for _, name := range names {
		w, err := workload.Load(name, nil)
		require.NoError(t, err)
		plan, err := planner.New(device).Plan(t.Context(), w.Batch, planner.Options{})
		require.NoError(t, err)
		data.Chosen = &Timeline{Workload: name, Predicted: timeline.New(plan), Measured: ran(plan, rng)}
		c := bench.Case{Workload: name, Problems: len(w.Batch), GFLOP: w.Batch.FLOPs() / 1e9,
			Plan: 0.4 * float64(len(w.Batch)), Schedule: plan.Explain().Schedule}
		for _, p := range w.Batch {
			c.Bytes += 4 * float64(p.M*p.K+p.K*p.N+p.M*p.N)
		}
		for _, tile := range plan.Explain().Tiles {
			c.Tiles = append(c.Tiles, tile.Name)
		}
		row := func(method, timed string, micros float64) {
			m := bench.Method{Name: method, Timed: timed}
			row := bench.NewRow(m, bench.Measurement{Device: bench.Spread{Median: micros, Min: 0.97 * micros,
				Max: 1.1 * micros}})
			row.Checked, row.Error, row.Errors = len(w.Batch), 0.02+0.02*rng.Float64(), make([]int64, 25)
			for range 500 {
				row.Errors[min(24, int(5+2*math.Abs(rng.NormFloat64())-math.Log2(rng.Float64())))]++
			}
			c.Rows = append(c.Rows, row)
		}
		own := plan.Cost * (0.9 + 0.2*rng.Float64())
		row("batchgemm", bench.Graph, own)
		row("batchgemm", "event", own+1)
		for _, rival := range rivals {
			timed := bench.Stream
			factor := 1 + 8*rng.Float64()*rng.Float64()
			switch rival {
			case "f32":
				timed, factor = bench.Graph, 0.95+0.8*rng.Float64()
			case "cublas-loop":
				factor = 5 + 200*rng.Float64()*rng.Float64()
			}
			row(rival, timed, own*factor)
		}
		r.Add(c)
	}
	r.Finish()
	for n := 8; n <= 1024; n *= 2 {
		data.Planning = append(data.Planning, Planning{n, 6 + 0.9*float64(n), 3 + 0.35*float64(n),
			1 + 0.03*float64(n)})
	}
	return data
}

// ran returns a run of a plan, close to the predicted one.
func ran(plan *planner.Plan, rng *rand.Rand) *timeline.Timeline {
	predicted := timeline.New(plan)
	byWorker := map[[2]int]*timeline.Group{}
	var groups []*timeline.Group
	for _, b := range predicted.Bars {
		id := [2]int{b.Launch, b.Worker}
		g := byWorker[id]
		if g == nil {
			g = &timeline.Group{Launch: b.Launch, Worker: b.Worker, Unit: predicted.Lanes[b.Lane].Unit,
				Start: b.Start + 0.3*rng.Float64()}
			byWorker[id], groups = g, append(groups, g)
		}
		g.End = b.End * (0.95 + 0.1*rng.Float64())
	}
	var all []timeline.Group
	for _, g := range groups {
		all = append(all, *g)
	}
	return timeline.Measured(plan, all)
}

func sweepNames() (names []string) {
	for _, w := range workload.Zhang() {
		names = append(names, w.Name)
	}
	return names
}

// samples are the pages that the tests look at.
func samples(t *testing.T) map[string]*Data {
	three := []string{"cublas-grouped", "cublas-loop", "f32"}
	all := map[string]*Data{
		"sweep":     made(t, three, sweepNames()...),
		"one":       made(t, three, "inception-1"),
		"no-rival":  made(t, nil, "zhang-128-128-8", "inception-3"),
		"split":     made(t, three[:1], "inception-2", "zhang-256-256-64", "inception-9"),
		"nothing":   {Bench: &bench.Report{Device: "cpu 0", Repeat: 1}},
		"predicted": made(t, three[2:], "inception-8"),
		"no-times":  made(t, three, "inception-1"),
	}
	p := all["predicted"]
	other := *p.Chosen.Predicted.Plan.Device
	other.TFLOPS = 1 // another GPU
	p.Chosen.Predicted.Plan.Device = &other
	p.Chosen.Measured, p.Chosen.Missing = nil, "clocks are measured on CUDA alone"
	p.Device = planner.Device{Name: "cpu", Occupancy: occupancy.Limits, ComputeUnits: 2, WaveSize: 1,
		TFLOPS: 0.02, MaxWaves: 1024, MaxGroups: 1, MaxThreads: 1024, Shared: 1 << 18, GroupShared: 1 << 18}
	all["split"].Bench.Cases[1].Rows[2].Wrong = "problem 3: C[0,0] is 1, want 2"
	all["split"].Bench.Cases[1].Rows[2].Errors = nil
	n := all["no-times"]
	n.Bench.Cases[0].GFLOP, n.Bench.Cases[0].Bytes, n.Planning = 0, 0, []Planning{{8, 0, math.NaN(), 0}}
	for i := range n.Bench.Cases[0].Rows {
		row := &n.Bench.Cases[0].Rows[i]
		row.Device, row.GFLOPS, row.Slower, row.Errors = bench.Spread{}, 0, 0, nil
	}
	empty, err := planner.New(&all["sweep"].Device).Plan(t.Context(), nil, planner.Options{})
	require.NoError(t, err)
	n.Chosen = &Timeline{Workload: "nothing", Predicted: timeline.New(empty),
		Measured: timeline.Measured(empty, nil)}
	return all
}

var notNumber = regexp.MustCompile(`NaN|[+-]Inf|\bInf\b`)

// texts returns the texts of an XML document, which must be well-formed.
func texts(t *testing.T, document string, strict bool) (all []string) {
	t.Helper()
	tokens(t, document, strict, func(_ *xml.Decoder, token xml.Token) {
		if text, ok := token.(xml.CharData); ok {
			all = append(all, strings.TrimSpace(string(text)))
		}
	})
	return all
}

// tokens calls visit for all tokens of an XML document, which must be well-formed.
func tokens(t *testing.T, document string, strict bool, visit func(*xml.Decoder, xml.Token)) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(document))
	if d.Strict = strict; !strict {
		d.AutoClose, d.Entity = xml.HTMLAutoClose, xml.HTMLEntity
	}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		visit(d, token)
	}
}

func TestWrite(t *testing.T) {
	for name, data := range samples(t) {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && name != "split" {
				t.Skip("takes long with the race detector")
			}
			path := filepath.Join(t.TempDir(), "new", "folder")
			if *pages != "" {
				path = filepath.Join(*pages, name)
			}
			dir, err := Create(path)
			require.NoError(t, err)
			defer dir.Close()
			require.NoError(t, dir.Write(data))

			files, err := filepath.Glob(filepath.Join(path, "*"))
			require.NoError(t, err)
			for _, file := range files {
				content, err := os.ReadFile(file)
				require.NoError(t, err)
				switch filepath.Ext(file) {
				case ".svg":
					require.NotEmpty(t, texts(t, string(content), true), file)
					require.NotRegexp(t, notNumber, string(content), file)
					require.FileExists(t, strings.TrimSuffix(file, ".svg")+".png")
				case ".png":
					config, err := png.DecodeConfig(bytes.NewReader(content))
					require.NoError(t, err)
					require.Greater(t, config.Width, 600)
				case ".csv":
					records, err := csv.NewReader(bytes.NewReader(content)).ReadAll()
					require.NoError(t, err)
					rows := 1
					for _, c := range data.Bench.Cases {
						rows += len(c.Rows)
					}
					require.Len(t, records, rows)
				}
			}
			page, err := os.ReadFile(filepath.Join(path, "index.html"))
			require.NoError(t, err)
			checkPage(t, string(page), data)
		})
	}
}

// checkPage checks that the page is well-formed and self-contained, and has every batch, method and remark.
func checkPage(t *testing.T, page string, data *Data) {
	t.Helper()
	require.NotRegexp(t, notNumber, page)
	require.NotRegexp(t, `<script|<link [^>]*href="[^d]|src=|url\(|@import`, page)
	require.NotContains(t, strings.ReplaceAll(page, "http://www.w3.org/", ""), "://")
	all := texts(t, strings.TrimPrefix(page, "<!doctype html>"), false)
	count := map[string]int{}
	for _, text := range all {
		count[text]++
	}
	for _, c := range data.Bench.Cases {
		require.Positive(t, count[c.Workload], c.Workload)
		drawn := 0
		for _, s := range data.Bench.Speedups {
			for _, row := range c.Rows {
				if row.Method == s.Method && row.Slower > 0 {
					drawn++
				}
			}
		}
		if drawn > 0 {
			require.GreaterOrEqual(t, count[c.Workload], 2, "%s: table and plot", c.Workload)
		}
	}
	for _, m := range methods(data.Bench) {
		require.Contains(t, strings.Join(all, "\n"), m.name)
	}
	for _, remark := range data.Bench.Remarks() {
		require.Positive(t, count[remark.Name], remark.Name)
		require.Positive(t, count[strings.TrimSpace(remark.Text)], remark.Text)
	}
	if wrong := data.Bench.Wrong(); wrong > 0 {
		require.Positive(t, count[fmt.Sprintf("Wrong results: %d. See the notes.", wrong)])
	}
}

// TestTexts: the page says what is missing, and why.
func TestTexts(t *testing.T) {
	all := samples(t)
	for _, tc := range []struct {
		page string
		want []string
	}{
		{"sweep", []string{"as fast as cublas-grouped",
			"Device time: batchgemm by graph, cublas-grouped by stream", "M, N up to 512",
			"three tf32 products, 165 TFLOP/s", "memory, 4.8 TB/s", "Measured: "}},
		{"one", []string{"Speed-up by batch", "Version:\n1.2.3\n", "Date:\n2026-03-05 00:30 UTC\n",
			"Command:\nbatchgemm bench inception-1 --report <page>\n"}},
		{"no-rival", []string{"No rival was measured"}},
		{"predicted", []string{"the peak rates of cpu are not known",
			"Only the prediction is shown: clocks are measured on CUDA alone.", "does not run",
			"predicted (a guess): ", "That time is a guess"}},
		{"nothing", []string{"No errors were counted."}},
	} {
		t.Run(tc.page, func(t *testing.T) {
			p := newPage(all[tc.page])
			var b strings.Builder
			require.NoError(t, p.write(&b))
			text := strings.Join(texts(t, strings.TrimPrefix(b.String(), "<!doctype html>"), false), "\n")
			for _, want := range tc.want {
				require.Contains(t, text, want)
			}
		})
	}
}

// TestTextWidths: every text of a plot, on the page and in files, has its width in the font of the layout.
func TestTextWidths(t *testing.T) {
	size := regexp.MustCompile(`font-size:([0-9.]+)px`)
	check := func(document string, strict bool) (checked int) {
		tokens(t, document, strict, func(d *xml.Decoder, token xml.Token) {
			start, isStart := token.(xml.StartElement)
			if !isStart || start.Name.Local != "text" {
				return
			}
			var text struct {
				Width  float64 `xml:"textLength,attr"`
				Adjust string  `xml:"lengthAdjust,attr"`
				Style  string  `xml:"style,attr"`
				Text   string  `xml:",chardata"`
			}
			require.NoError(t, d.DecodeElement(&text, &start))
			points, err := strconv.ParseFloat(size.FindStringSubmatch(text.Style)[1], 64)
			require.NoError(t, err)
			style := textStyle(ink, vg.Length(points))
			require.InDelta(t, style.Width(text.Text).Points(), text.Width, 0.01, text.Text)
			require.Positive(t, text.Width)
			require.Equal(t, "spacingAndGlyphs", text.Adjust)
			checked++
		})
		return checked
	}
	p := newPage(samples(t)["split"])
	var document strings.Builder
	require.NoError(t, p.write(&document))
	require.Greater(t, check(strings.TrimPrefix(document.String(), "<!doctype html>"), false), 100)
	for _, s := range p.Sections {
		for _, f := range s.Figures {
			var svg strings.Builder
			require.NoError(t, f.writeSVG(&svg))
			require.Positive(t, check(svg.String(), true), f.Name)
			require.NotRegexp(t, `font-family:[^;]*Sans;`, svg.String(), "a font alone")
		}
	}
}

func TestCSV(t *testing.T) {
	var got bytes.Buffer
	require.NoError(t, made(t, []string{"cublas-grouped"}, "inception-1",
		"zhang-128-128-8").Bench.WriteCSV(&got))
	const path = "testdata/bench.csv"
	if *update {
		require.NoError(t, os.WriteFile(path, got.Bytes(), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String())
}

// TestCreate: a place that cannot be written is detected before any work, and a discarded page leaves no
// files.
func TestCreate(t *testing.T) {
	path := t.TempDir()
	file := filepath.Join(path, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	_, err := Create(file)
	require.ErrorContains(t, err, "file")
	_, err = Create(filepath.Join(file, "below"))
	require.ErrorContains(t, err, "file")
	dir, err := Create(filepath.Join(path, "dir"))
	require.NoError(t, err)
	require.NoError(t, dir.Close())
	left, err := os.ReadDir(filepath.Join(path, "dir"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestCreateAgain: pages of this package are replaced, other pages stay.
func TestCreateAgain(t *testing.T) {
	path := t.TempDir()
	for range 2 {
		dir, err := Create(path)
		require.NoError(t, err)
		require.NoError(t, dir.Write(&Data{Bench: &bench.Report{Device: "cpu 0", Repeat: 1}}))
	}
	index := filepath.Join(path, "index.html")
	for _, foreign := range []string{"", "<!doctype html><title>my site</title>"} {
		require.NoError(t, os.WriteFile(index, []byte(foreign), 0o644))
		_, err := Create(path)
		require.EqualError(t, err, index+" is not a page of batchgemm bench --report: take another folder, "+
			"or remove it")
		stays, err := os.ReadFile(index)
		require.NoError(t, err)
		require.Equal(t, foreign, string(stays))
	}
	require.NoError(t, os.Remove(index))
	require.NoError(t, os.Symlink(os.DevNull, index))
	_, err := Create(path)
	require.EqualError(t, err, index+" is not a regular file")
}

func TestScale(t *testing.T) {
	for _, tc := range []struct {
		name      string
		numbers   []float64
		base      float64
		low, high float64
	}{
		{"none", nil, 2, 1, 2},
		{"not numbers", []float64{math.NaN(), math.Inf(1)}, 2, 1, 2},
		{"one", []float64{4}, 2, 4, 8},
		{"powers", []float64{0.5, 8}, 2, 0.5, 8},
		{"between", []float64{0.7, 9}, 2, 0.5, 16},
		{"tens", []float64{3, 900}, 10, 1, 1000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var s span
			for _, x := range tc.numbers {
				s.add(x)
			}
			low, high := s.powers(tc.base)
			require.InDelta(t, tc.low, low, 1e-9)
			require.InDelta(t, tc.high, high, 1e-9)
		})
	}
	labels := func(low, high float64, most int) (all []string) {
		for _, tick := range (powerTicks{2, most, times}).Ticks(low, high) {
			all = append(all, tick.Label)
		}
		return all
	}
	require.Equal(t, []string{"1/2×", "1×", "2×", "4×"}, labels(0.5, 4, 7))
	require.Equal(t, []string{"1×", "4×", "16×", "64×"}, labels(0.5, 256, 5)[:4])
	require.Empty(t, evenTicks{5}.Ticks(1, 1))
	require.Len(t, evenTicks{5}.Ticks(0, 100), 6)
}
