// Command results writes what scripts/results.sh measured into docs/results.md, at the
// root of the repository:
//
//	go run ./internal/results OUT
//
// People write that page; this command replaces the table below each line "<!-- table: NAME -->" by that of
// OUT/results.tar. It leaves and lists the tables of steps that are missing there. Then it draws
// docs/speed-light.svg and docs/speed-dark.svg from the page's table "sweep".
package main

import (
	"archive/tar"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/batchgemm/batchgemm/internal/bench"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: results OUT")
		os.Exit(2)
	}
	left, err := run(filepath.Join(os.Args[1], "results.tar"), "docs")
	if err != nil {
		fmt.Fprintln(os.Stderr, "results:", err)
		os.Exit(1)
	}
	if len(left) > 0 {
		fmt.Fprintln(os.Stderr, "results: not measured, left as they were:", strings.Join(left, ", "))
	}
}

// run updates the page and the picture in a folder. It returns the names of the tables that were not
// measured.
func run(archive, docs string) (left []string, err error) {
	files, err := unpack(archive)
	if err != nil {
		return nil, err
	}
	page := filepath.Join(docs, "results.md")
	old, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	text, left, err := fill(string(old), files)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
		return nil, err
	}
	return left, draw(text, docs)
}

// results are the files of a measurement by name.
type results map[string][]byte

// unpack reads the archive of scripts/results.sh.
func unpack(archive string) (results, error) {
	f, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	files := results{}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", archive, err)
		}
		if files[path.Base(h.Name)], err = io.ReadAll(r); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", archive, h.Name, err)
		}
	}
}

// errAbsent: a file is not among the results.
var errAbsent = errors.New("not measured")

// decode reads a JSON file.
func decode[T any](files results, name string) (*T, error) {
	data, ok := files[name]
	if !ok {
		return nil, fmt.Errorf("%s: %w", name, errAbsent)
	}
	v := new(T)
	if err := json.Unmarshal(data, v); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return v, nil
}

// report reads the result of a bench command.
func (files results) report(name string) (*bench.Report, error) {
	return decode[bench.Report](files, name+".json")
}

// csv reads the lines of a table. The first line has the names of its columns.
func (files results) csv(name string) ([][]string, error) {
	data, ok := files[name]
	if !ok {
		return nil, fmt.Errorf("%s: %w", name, errAbsent)
	}
	r := csv.NewReader(bytes.NewReader(data))
	r.TrimLeadingSpace = true // nvidia-smi writes spaces
	lines, err := r.ReadAll()
	if err == nil && len(lines) < 2 {
		err = errors.New("no lines")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return lines, nil
}
