package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/batchgemm/batchgemm/internal/report"
)

// pictures are the files of the picture of README.md, for light and dark pages.
var pictures = []struct {
	name string
	dark bool
}{{"speed-light.svg", false}, {"speed-dark.svg", true}}

// draw makes the pictures from a page and writes them to a folder.
func draw(page, folder string) error {
	sweep, err := sweepOf(page)
	if err != nil {
		return err
	}
	for _, p := range pictures {
		var svg strings.Builder
		if err := sweep.WriteSVG(&svg, p.dark); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, p.name), []byte(svg.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// sweepOf reads the speed-ups over cuBLAS grouped from the page, which has each of the numbers once: "x
// grouped" is ours by default, and times are those of all.
func sweepOf(page string) (*report.Sweep, error) {
	sweep := &report.Sweep{Rival: "cublasSgemmGroupedBatched", Short: "cuBLAS"}
	lines := read(page, "sweep")
	for _, method := range []struct{ name, column string }{{"default", "µs"}, {"f32", "`f32` µs"},
		{"WebGPU", "WebGPU µs"}} {
		speeds := report.Speeds{Name: method.name}
		for _, line := range lines {
			var numbers [4]float64
			for i, column := range []string{"GFLOP", "x grouped", "µs", method.column} {
				text, ok := line[column]
				if !ok {
					return nil, fmt.Errorf("the page's table of the sweep has no column %q", column)
				}
				if text == none {
					continue
				}
				var err error
				if numbers[i], err = strconv.ParseFloat(text, 64); err != nil {
					return nil, fmt.Errorf("the page's table of the sweep: %w", err)
				}
			}
			gflop, grouped, ours, us := numbers[0], numbers[1], numbers[2], numbers[3]
			if grouped > 0 && us > 0 {
				speeds.Batches = append(speeds.Batches,
					report.Speed{GFLOP: gflop, Times: grouped * ours / us})
			}
		}
		sweep.Methods = append(sweep.Methods, speeds)
	}
	return sweep, nil
}
