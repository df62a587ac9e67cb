package bench

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner/element"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestSpread(t *testing.T) {
	for _, tc := range []struct {
		name  string
		times []float64
		want  Spread
	}{
		{"none", nil, Spread{}},
		{"one", []float64{5}, Spread{5, 5, 5}},
		{"odd", []float64{9, 1, 4}, Spread{4, 1, 9}},
		{"even", []float64{9, 1, 4, 6}, Spread{5, 1, 9}},
	} {
		t.Run(tc.name, func(t *testing.T) { require.Equal(t, tc.want, spread(tc.times)) })
	}
}

func TestGeoMean(t *testing.T) {
	require.Zero(t, GeoMean(nil))
	require.InDelta(t, 4, GeoMean([]float64{2, 8}), 1e-12)
	require.InDelta(t, 1, GeoMean([]float64{0.5, 2}), 1e-12)
}

func TestDigits(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 0.00012345: "0.000123", 0.5: "0.500", 3.14159: "3.14",
		99.96: "100.0", 31.4159: "31.4", 1234.5: "1234", -2: "-2.00", 1.5e-9: "0.000000"} {
		require.Equal(t, want, Digits(x))
	}
}

// TestMeasure: methods alternate, and the first round does not count.
func TestMeasure(t *testing.T) {
	var order string
	method := func(name string, host time.Duration) Method {
		calls := time.Duration(0)
		return Method{Name: name, Sample: func(context.Context) (Sample, error) {
			order += name
			calls++
			return Sample{Device: calls * time.Millisecond, Host: host}, nil
		}}
	}
	found, err := Measure(t.Context(), []Method{method("a", 0), method("b", 3*time.Microsecond)}, 3, 0)
	require.NoError(t, err)
	require.Equal(t, "abababab", order)
	require.Equal(t, []Measurement{
		{Device: Spread{3000, 2000, 4000}},
		{Device: Spread{3000, 2000, 4000}, Host: Spread{3, 3, 3}},
	}, found)
}

// TestMeasureSettle: samples that count come after a wait and a sample that does not count.
func TestMeasureSettle(t *testing.T) {
	calls := time.Duration(0)
	count := func(context.Context) (Sample, error) {
		calls++
		return Sample{Device: calls * time.Millisecond}, nil
	}
	start := time.Now()
	found, err := Measure(t.Context(), []Method{{Sample: count, Settle: time.Millisecond}}, 3, 0)
	require.NoError(t, err)
	require.Equal(t, []Measurement{{Device: Spread{5000, 3000, 7000}}}, found)
	require.GreaterOrEqual(t, time.Since(start), 3*time.Millisecond)
}

// TestMeasureWarmUp: samples before the first that counts take that long together, by a clock that only
// sleep advances.
func TestMeasureWarmUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		slow := Method{Sample: func(context.Context) (Sample, error) {
			calls++
			time.Sleep(time.Millisecond)
			return Sample{}, nil
		}}
		_, err := Measure(t.Context(), []Method{slow}, 1, 20*time.Millisecond)
		require.NoError(t, err)
		require.Equal(t, 20+1, calls)
	})
}

func TestMeasureErrors(t *testing.T) {
	broken := errors.New("broken")
	m := Method{Name: "m", Sample: func(context.Context) (Sample, error) { return Sample{}, broken }}
	_, err := Measure(t.Context(), []Method{m}, 1, 0)
	require.ErrorIs(t, err, broken)
	require.EqualError(t, err, "m: broken")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Measure(ctx, []Method{m}, 1, 0)
	require.ErrorIs(t, err, context.Canceled)
}

// sample returns a report with everything that a report can have.
func sample() *Report {
	r := &Report{Device: "cuda 0: NVIDIA H200", Driver: "NVIDIA 580, CUDA 13.0", Library: "cuBLAS 13.1.0",
		Repeat: 10, Notes: []string{"a note"}}
	row := func(method, timed string, micros, host, err float64) Row {
		row := NewRow(Method{Name: method, Timed: timed},
			Measurement{Device: Spread{micros, 0.9 * micros, 1.5 * micros}})
		if host > 0 {
			row.Host = &Spread{host, host, 2 * host}
		}
		row.Error, row.Errors, row.Checked = err, []int64{0, 0, 7, 64}, 8
		return row
	}
	r.Add(Case{Workload: "zhang-128-128-8", Problems: 8, GFLOP: 0.00625, Bytes: 500e3, Plan: 3.25,
		Schedule: "data-parallel", Tiles: []string{"medium-k4"},
		Rows: []Row{row("batchgemm", Graph, 3, 0, 0.01), row("batchgemm", "event", 4, 2, 0.01),
			row("cublas-loop", Stream, 90, 80, 0.02), row("cublas-grouped", Stream, 18, 7, 0.03)},
		Regret: &Regret{Planner: 3, Best: 2.5, Tile: "small-k8", Schedule: "split-k",
			Forced: []Forced{{"small-k8", "split-k", 2.5, 2.75}, {"small", "batched", 4, 5}}}})
	r.Add(Case{Workload: "zhang-512-128-256", Problems: 256, GFLOP: 2.5, Bytes: 64e6, Plan: 41,
		Schedule: "stream-k", Tiles: []string{"large-8x4", "tall-8x4"},
		Rows: []Row{row("batchgemm", Graph, 100, 0, 0.01), row("batchgemm", "event", 102, 2, 0.01),
			row("cublas-loop", Stream, 2400, 2300, 0.02), row("cublas-grouped", Stream, 150, 9, 0)},
		Regret: &Regret{Planner: 100, Best: 100, Tile: "large-8x4", Schedule: "stream-k"}})
	r.Cases[1].Rows[3].Wrong = "problem 3: C[0,0] is 1, want 2"
	r.Finish()
	return r
}

func TestFinish(t *testing.T) {
	r := sample()
	require.Equal(t, 1, r.Wrong())
	require.EqualError(t, r.Err(), "1 results are wrong")
	require.NoError(t, new(Report).Err())
	require.Len(t, r.Speedups, 2, "of the competitors alone")
	require.Equal(t, "cublas-loop", r.Speedups[0].Method)
	require.InDelta(t, 26.83, r.Speedups[0].GeoMean, 0.01)
	require.Equal(t, 24.0, r.Speedups[0].Worst)
	require.InDelta(t, 3, r.Speedups[1].GeoMean, 1e-9)
	require.Equal(t, 1.5, r.Speedups[1].Worst)
	require.Equal(t, "zhang-512-128-256", r.Speedups[1].Case)
	require.Equal(t, 1.2, r.Regret.Worst)
	require.Equal(t, "zhang-128-128-8", r.Regret.Case)
	require.InDelta(t, 6.25/3*1000, r.Cases[0].Rows[0].GFLOPS, 1e-6)
}

func TestGolden(t *testing.T) {
	for _, tc := range []struct {
		file  string
		write func(*bytes.Buffer) error
	}{
		{"testdata/report.txt", func(b *bytes.Buffer) error { return sample().WriteText(b) }},
		{"testdata/report.csv", func(b *bytes.Buffer) error { return sample().WriteCSV(b) }},
		{"testdata/report.json", func(b *bytes.Buffer) error {
			e := json.NewEncoder(b)
			e.SetIndent("", "  ")
			return e.Encode(sample())
		}},
	} {
		t.Run(tc.file, func(t *testing.T) {
			var got bytes.Buffer
			require.NoError(t, tc.write(&got))
			if *update {
				require.NoError(t, os.WriteFile(tc.file, got.Bytes(), 0o644))
			}
			want, err := os.ReadFile(tc.file)
			require.NoError(t, err)
			require.Equal(t, string(want), got.String(),
				"run go test ./internal/bench -update and read the difference")
		})
	}
}

// TestElements: each format names the types; JSON and text leave out float32.
func TestElements(t *testing.T) {
	for _, tc := range []struct {
		name            string
		ab, b, c        element.Type
		json, text, csv string
	}{
		{"float32", element.F32, element.F32, element.F32, `"cold":false`, "", ",f32,f32,f32\n"},
		{"bf16", element.BF16, element.F32, element.BF16, `"type":"bf16","type_c":"bf16"`,
			"elements  bf16, C of bf16\n", ",bf16,bf16,bf16\n"},
		{"B of int4", element.BF16, element.Int4, element.F32, `"type":"bf16","type_b":"int4","cold"`,
			"elements  bf16, B of int4, C of f32\n", ",bf16,f32,int4\n"},
		{"f16 and float32", element.F16, element.F32, element.F32, `"type":"f16","cold"`,
			"elements  f16, C of f32\n", ",f16,f32,f16\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := &Report{Type: tc.ab, TypeB: tc.b, TypeC: tc.c, Cases: []Case{{Rows: []Row{{Method: "m"}}}}}
			raw, err := json.Marshal(r)
			require.NoError(t, err)
			require.Contains(t, string(raw), tc.json)
			require.Equal(t, tc.text != "", strings.Contains(string(raw), `"type"`))
			var text, table bytes.Buffer
			require.NoError(t, r.writeNotes(&text))
			require.Equal(t, tc.text != "", strings.Contains(text.String(), "elements"))
			require.Regexp(t, strings.ReplaceAll(tc.text, "  ", " +"), text.String())
			require.NoError(t, r.WriteCSV(&table))
			require.True(t, strings.HasSuffix(table.String(), tc.csv), table.String())
		})
	}
}

func TestEmptyReport(t *testing.T) {
	r := &Report{Device: "cpu 0", Repeat: 1}
	r.Finish()
	var out bytes.Buffer
	require.NoError(t, r.WriteText(&out))
	require.Contains(t, out.String(), "device  cpu 0")
}

// TestWriteCSVFormulas: spreadsheets see no text as a formula, and numbers stay numbers.
func TestWriteCSVFormulas(t *testing.T) {
	const negative = -2.5
	for _, tc := range []struct{ text, want string }{
		{"=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"},
		{"+1", "'+1"},
		{"-", "'-"},
		{"@SUM(1)", "'@SUM(1)"},
		{"\t=1", "'\t=1"},
		{"\r=1", "'\r=1"},
		{"a=1", "a=1"},
		{"µ", "µ"},
		{"", ""},
	} {
		t.Run(tc.text, func(t *testing.T) {
			r := Report{Cases: []Case{{Workload: tc.text, Schedule: tc.text, Tiles: []string{tc.text},
				GFLOP: negative,
				Rows: []Row{{Method: tc.text, Timed: tc.text,
					Device: Spread{negative, negative, negative}}},
				Regret: &Regret{Ratio: negative, Tile: tc.text, Schedule: tc.text},
			}}}
			var out bytes.Buffer
			require.NoError(t, r.WriteCSV(&out))
			records, err := csv.NewReader(&out).ReadAll()
			require.NoError(t, err)
			require.Len(t, records, 2)
			for i, column := range records[0] {
				switch column {
				case "workload", "schedule", "tiles", "method", "timed", "best_tile", "best_schedule":
					require.Equal(t, tc.want, records[1][i], column)
				case "gflop", "device_us", "device_us_min", "device_us_max", "regret":
					require.Equal(t, "-2.5", records[1][i], column)
				}
			}
		})
	}
}
