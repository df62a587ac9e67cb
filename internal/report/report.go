// Package report shows the results of batchgemm bench as one HTML page with plots.
package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/batchgemm/batchgemm/internal/atomicfile"
	"github.com/batchgemm/batchgemm/internal/bench"
	"github.com/batchgemm/batchgemm/internal/timeline"
	"github.com/batchgemm/batchgemm/planner"
)

// Data is the content of a page.
type Data struct {
	Bench    *bench.Report
	Device   planner.Device // for our own plans
	Compute  planner.Compute
	Planning []Planning
	Chosen   *Timeline // nil: no plan was chosen

	Version string    // of batchgemm
	Date    time.Time // of the page
	Command string    // that made the page
}

// Planning is the time to plan and encode a batch on one core, in microseconds.
type Planning struct {
	Problems int
	New      float64 // a plan in new memory
	Again    float64 // in the memory of an earlier plan
	Renewed  float64 // in that memory, for an update whose items the device makes
}

// Timeline is the run of one plan.
type Timeline struct {
	Workload  string
	Predicted *timeline.Timeline
	Measured  *timeline.Timeline // nil: it was not measured
	Missing   string             // the reason
}

// Dir is a folder that gets a page and its files.
type Dir struct {
	path string
	page *atomicfile.File
}

// Create makes the folder, and checks whether a page can be written there before any work is done. It fails
// if there is a page of another program.
func Create(path string) (*Dir, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	index := filepath.Join(path, "index.html")
	if err := replaceable(index); err != nil {
		return nil, err
	}
	page, err := atomicfile.Create(index)
	if err != nil {
		return nil, err
	}
	return &Dir{path, page}, nil
}

// replaceable reports whether there is no page, or one of this package.
func replaceable(index string) error {
	info, err := os.Stat(index)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", index)
	}
	f, err := os.Open(index)
	if err != nil {
		return err
	}
	defer f.Close()
	const within = 1024 // bytes: the mark is in the first lines
	head, err := io.ReadAll(io.LimitReader(f, within))
	if err == nil && !bytes.Contains(head, []byte(`content="`+generator+`"`)) {
		err = fmt.Errorf("%s is not a page of %s: take another folder, or remove it", index, generator)
	}
	return err
}

// Write writes bench.csv, each plot as SVG and PNG, and finally index.html, which is self-contained. It
// replaces files of the same names and leaves others.
func (d *Dir) Write(data *Data) error {
	p := newPage(data)
	if err := d.file("bench.csv", data.Bench.WriteCSV); err != nil {
		return err
	}
	for _, s := range p.Sections {
		for _, f := range s.Figures {
			if err := errors.Join(d.file(f.Name+".svg", f.writeSVG),
				d.file(f.Name+".png", f.writePNG)); err != nil {
				return err
			}
		}
	}
	if err := p.write(d.page); err != nil {
		return err
	}
	return d.page.Commit()
}

func (d *Dir) file(name string, write func(io.Writer) error) error {
	f, err := atomicfile.Create(filepath.Join(d.path, name))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := write(f); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return f.Commit()
}

// Close discards what was not written.
func (d *Dir) Close() error { return d.page.Close() }
