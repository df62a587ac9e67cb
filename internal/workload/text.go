package workload

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/hostmem"
	"github.com/batchgemm/batchgemm/planner"
)

// fields are the columns of a line, in order. The first three are required; the last ones may be missing.
var fields = [...]struct {
	name string
	set  func(p *planner.Problem, text string) error
}{
	{"M", func(p *planner.Problem, s string) error { return parseSize(s, &p.M) }},
	{"N", func(p *planner.Problem, s string) error { return parseSize(s, &p.N) }},
	{"K", func(p *planner.Problem, s string) error { return parseSize(s, &p.K) }},
	{"transA", func(p *planner.Problem, s string) error { return parseTrans(s, &p.TransA) }},
	{"transB", func(p *planner.Problem, s string) error { return parseTrans(s, &p.TransB) }},
	{"alpha", func(p *planner.Problem, s string) error {
		var alpha float64
		err := parseScalar(s, &alpha)
		p.Alpha = planner.Scale(alpha)
		return err
	}},
	{"beta", func(p *planner.Problem, s string) error { return parseScalar(s, &p.Beta) }},
}

// parse reads one problem from each line:
//
//	M N K [transA [transB [alpha [beta]]]]   # comment
//
// Fields are separated by blanks. transA and transB are n or t, 0 or 1, false
// or true; they default to n, alpha to 1, beta to 0. Empty lines are skipped.
// Errors begin with name and line number.
func parse(r io.Reader, name string) ([]planner.Problem, error) {
	var problems []planner.Problem
	lines := bufio.NewScanner(r)
	number := 0
	for lines.Scan() {
		number++
		text, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		p, err := parseLine(words)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, number, err)
		}
		if problems, err = appended(problems, p); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, number, err)
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("%s:%d: line of more than %d bytes", name, number+1, bufio.MaxScanTokenSize)
	} else if err != nil {
		return nil, err
	}
	if len(problems) == 0 {
		return nil, fmt.Errorf("%s: no problems", name)
	}
	return problems, nil
}

// appended adds a problem, if there is memory for it.
func appended(to []planner.Problem, p planner.Problem) ([]planner.Problem, error) {
	if n := len(to); n == cap(to) {
		more := max(n, 64)
		if err := room(n + more); err != nil {
			return nil, err
		}
		to = slices.Grow(to, more)
	}
	return append(to, p), nil
}

// room fails if there is no memory for n problems, twice: Go lets garbage grow until the heap has doubled.
func room(n int) error {
	const few = 4096
	if n <= few {
		return nil
	}
	if err := hostmem.CheckHalf(int64(n) * int64(unsafe.Sizeof(planner.Problem{}))); err != nil {
		return fmt.Errorf("memory for %d problems: %w", n, err)
	}
	return nil
}

func parseLine(words []string) (planner.Problem, error) {
	p := planner.Problem{}
	if len(words) < 3 {
		return p, fmt.Errorf("%s is missing, want M N K [transA transB alpha beta]", fields[len(words)].name)
	}
	if len(words) > len(fields) {
		return p, fmt.Errorf("unexpected %.40q after beta", words[len(fields)])
	}
	for i, word := range words {
		if err := fields[i].set(&p, word); err != nil {
			return p, fmt.Errorf("%s %.40q %w", fields[i].name, word, err)
		}
	}
	return p, nil
}

func parseSize(s string, size *int) error {
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case n < 0: // here and below also if out of range
		return errors.New("is negative")
	case n > planner.MaxDim:
		return fmt.Errorf("is above the limit %d", planner.MaxDim)
	case err != nil:
		return errors.New("is not a whole number")
	}
	*size = int(n)
	return nil
}

func parseTrans(s string, trans *bool) error {
	switch strings.ToLower(s) {
	case "n", "0", "false":
		*trans = false
	case "t", "1", "true":
		*trans = true
	default:
		return errors.New("is not n, t, 0, 1, false or true")
	}
	return nil
}

// parseScalar accepts NaN and Inf, which follow IEEE 754.
func parseScalar(s string, scalar *float64) error {
	v, err := strconv.ParseFloat(s, 64)
	if errors.Is(err, strconv.ErrRange) {
		return errors.New("is outside the range of float64")
	}
	if err != nil {
		return errors.New("is not a number")
	}
	*scalar = v
	return nil
}
