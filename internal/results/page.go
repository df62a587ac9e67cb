package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/batchgemm/batchgemm/internal/bench"
)

// maker makes a table, or returns errAbsent.
type maker func(results) (*table, error)

// tables are those of the page by name.
var tables = map[string]maker{
	"machine":             machineTable,
	"rivals":              of("sweep", rivalTable),
	"losses":              of("sweep", lossTable),
	"batches":             of("sweep", batchTable),
	"ranges":              of("sweep", rangeTable),
	"occupancy":           occupancyTable,
	"overhead":            of("overhead", overheadTable),
	"parallelism":         ofBoth("tlp3", "tlp4", parallelismTable),
	"rule":                ofBoth("sweep", "tlp4", ruleTable),
	"threads":             of("threads", threadTable),
	"threads-schedules":   of("threads", scheduleTable),
	"latency":             of("sweep", latencyTable),
	"small-latency":       smallLatencyTable,
	"inception-machine":   of("inception", inceptionMachineTable),
	"inception-speed-ups": of("inception", inceptionSpeedUpTable),
	"inception":           of("inception", inceptionTable),
	"inception-calls":     of("inception", inceptionCallTable),
	"inception-rivals":    of("inception-bench", inceptionRivalTable),
	"emulation":           emulationTable,
	"accuracy":            accuracyTable,
	"stream-k":            of("stream-k-f32", streamKTable),
	"stream-k-shapes":     of("stream-k-f32", streamKShapeTable),
	"stream-k-emulated":   of("stream-k-emulated", streamKTable),
	"stream-k-auto":       of("stream-k-auto", streamKAutoTable),
	"dynamic":             of("schedules", dynamicTable),
	"sweep":               of("sweep", caseTable),
	"beyond":              of("beyond", caseTable),
	"halves":              ofBoth("halves", "halves-rounded", halvesTable),
	"halves-cases":        ofBoth("halves", "halves-rounded", halvesCases),
	"schedules":           of("schedules", scheduleTable),
	"winners":             of("schedules", winnerTable),
	"schedules-webgpu":    of("schedules-webgpu", scheduleTable),
	"winners-webgpu":      of("schedules-webgpu", winnerTable),
}

// of makes a table from one JSON file.
func of[T any](name string, build func(*T) *table) maker {
	return func(files results) (*table, error) {
		v, err := decode[T](files, name+".json")
		if err != nil {
			return nil, err
		}
		return build(v), nil
	}
}

// ofBoth makes a table from two reports.
func ofBoth(a, b string, build func(a, b *bench.Report) *table) maker {
	return func(files results) (*table, error) {
		ra, err := files.report(a)
		if err != nil {
			return nil, err
		}
		rb, err := files.report(b)
		if err != nil {
			return nil, err
		}
		return build(ra, rb), nil
	}
}

// block matches the place of a table on the page: its mark, and the current table.
var block = regexp.MustCompile(`(?m)^<!-- table: (.*) -->\n\n((?:\|.*\n)*)`)

// fill replaces the tables of the page. It leaves those that were not measured.
func fill(page string, files results) (text string, left []string, err error) {
	text = block.ReplaceAllStringFunc(page, func(old string) string {
		name := block.FindStringSubmatch(old)[1]
		build, ok := tables[name]
		if !ok {
			err = errors.Join(err, fmt.Errorf("the page asks for a table %q that there is not", name))
			return old
		}
		t, absent := build(files)
		switch {
		case errors.Is(absent, errAbsent):
			left = append(left, name)
			return old
		case absent != nil:
			err = errors.Join(err, absent)
			return old
		}
		return fmt.Sprintf("<!-- table: %s -->\n\n%s", name, t)
	})
	return text, left, err
}

// read returns the lines of a table of the page, by the names of its columns.
func read(page, name string) (lines []map[string]string) {
	for _, m := range block.FindAllStringSubmatch(page, -1) {
		if m[1] != name {
			continue
		}
		var head []string
		for i, line := range strings.Split(strings.TrimSpace(m[2]), "\n") {
			cells := strings.Split(strings.Trim(line, "| "), " | ")
			switch {
			case i == 0:
				head = cells
			case i > 1 && len(cells) == len(head): // below the rule
				row := map[string]string{}
				for j, cell := range cells {
					row[head[j]] = cell
				}
				lines = append(lines, row)
			}
		}
	}
	return lines
}

// machineTable describes the machine of the figures.
func machineTable(files results) (*table, error) {
	r, err := files.report("sweep")
	if err != nil {
		return nil, err
	}
	devices, err := decode[devices](files, "devices.json")
	if err != nil {
		return nil, err
	}
	t := newTable("what", "which")
	t.row("device", r.Device)
	t.row("driver", r.Driver)
	t.row("library", r.Library)
	t.row("peak of plain fp32", fmt.Sprintf("%.1f TFLOPS", devices.peak()))
	if smi, err := files.csv("machine.csv"); err == nil {
		for i, name := range smi[0] {
			t.row("`nvidia-smi`: "+name, smi[1][i])
		}
	} else if !errors.Is(err, errAbsent) {
		return nil, err
	}
	for _, note := range r.Notes {
		t.row("note", note)
	}
	return t, nil
}
