package workload

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/batchgemm/batchgemm/planner"
)

// fields are the columns of a line, in order. The first three are required;
// the others may be left out from the end.
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
		var alpha float32
		err := parseScalar(s, &alpha)
		p.Alpha = planner.Scale(alpha)
		return err
	}},
	{"beta", func(p *planner.Problem, s string) error { return parseScalar(s, &p.Beta) }},
}

// parse reads one problem a line:
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
		problems = append(problems, p)
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
	case n < 0: // here and below also when out of range
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

// parseScalar accepts NaN and Inf, which compute as IEEE 754 says.
func parseScalar(s string, scalar *float32) error {
	v, err := strconv.ParseFloat(s, 32)
	if errors.Is(err, strconv.ErrRange) {
		return errors.New("is outside the range of float32")
	}
	if err != nil {
		return errors.New("is not a number")
	}
	*scalar = float32(v)
	return nil
}
