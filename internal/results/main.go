// Command results writes docs/results.md from what scripts/results.sh measured:
//
//	go run ./internal/results OUT > docs/results.md
//
// The text and the papers' figures are in results.md.tmpl and beside the tables;
// every figure of ours comes from OUT/results.tar. What a step would have measured
// that was left out is told in its place.
package main

import (
	"archive/tar"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/batchgemm/batchgemm/internal/bench"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: results OUT")
		os.Exit(2)
	}
	if err := run(filepath.Join(os.Args[1], "results.tar"), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "results:", err)
		os.Exit(1)
	}
}

func run(archive string, w io.Writer) error {
	files, err := unpack(archive)
	if err != nil {
		return err
	}
	text, err := render(files)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text)
	return err
}

// results are the files of a measurement by name.
type results map[string][]byte

// unpack reads the archive that scripts/results.sh leaves.
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

//go:embed results.md.tmpl
var text string

func render(files results) (string, error) {
	t, err := template.New("results.md").Option("missingkey=error").Parse(text)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	if err := t.Execute(&out, files); err != nil {
		return "", err
	}
	return out.String(), nil
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

// report reads what a bench command found.
func (files results) report(name string) (*bench.Report, error) {
	return decode[bench.Report](files, name+".json")
}

// or tells in a table's place that its step was left out.
func or(step string, table string, err error) (string, error) {
	if errors.Is(err, errAbsent) {
		return fmt.Sprintf("*Not measured: `scripts/results.sh OUT %s`.*", step), nil
	}
	return table, err
}

// Command is the command that made a result, as code.
func (files results) Command(name string) string {
	command, ok := files[name+".command"]
	if !ok {
		return "scripts/results.sh"
	}
	return strings.TrimSpace(string(command))
}

// Machine says where the figures are from.
func (files results) Machine() (string, error) {
	r, err := files.report("sweep")
	if err != nil {
		return or("sweep", "", err)
	}
	text := fmt.Sprintf("%s, %s; %s", r.Device, r.Driver, r.Library)
	if lines := strings.Split(strings.TrimSpace(string(files["machine.csv"])), "\n"); len(lines) > 1 {
		text += fmt.Sprintf("; `nvidia-smi` (%s): %s", lines[0], lines[1])
	}
	for _, note := range r.Notes {
		text += "; " + note
	}
	return text, nil
}
