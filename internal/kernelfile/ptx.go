package kernelfile

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// PackPTX writes PTX as products have it: numbers of registers and labels are what they differ by from the
// last of their kind, which is the same where the same code stands in another kernel, or further on. That
// makes products of PTX half as large.
func PackPTX(ptx []byte) ([]byte, error) {
	var packed []byte
	for part := range parts(ptx) {
		packed = append(packed, renumber(part, true)...)
	}
	if !bytes.Equal(unpackPTX(packed), ptx) {
		return nil, errors.New("there are numbers that would become others")
	}
	return packed, nil
}

func unpackPTX(packed []byte) (ptx []byte) {
	for part := range parts(packed) {
		ptx = append(ptx, renumber(part, false)...)
	}
	return ptx
}

var entry = []byte(".visible .entry ")

// parts are what stands in front of entries, and each with what stands after it. They are numbered for
// themselves.
func parts(ptx []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(ptx) > 0 {
			end := len(ptx)
			if i := bytes.Index(ptx[1:], entry); i >= 0 {
				end = i + 1
			}
			if !yield(ptx[:end]) {
				return
			}
			ptx = ptx[end:]
		}
	}
}

// renumber writes the numbers of a part as differences, or the other way round.
func renumber(text []byte, pack bool) []byte {
	to, last := make([]byte, 0, len(text)+len(text)/4), map[string]int{}
	label := false // its second number may follow
	for len(text) > 0 {
		kind := kindOf(text, label)
		name := text[:max(kind, 1)]
		to, text = append(to, name...), text[len(name):]
		digits := digitsOf(text, !pack)
		if label = false; kind == 0 || digits == 0 {
			continue
		}
		value, _ := strconv.Atoi(string(text[:digits]))
		if before := last[string(name)]; pack {
			to = fmt.Appendf(to, "%+d", value-before)
		} else {
			value += before
			to = strconv.AppendInt(to, int64(value), 10)
		}
		last[string(name)] = value
		label, text = string(name) == "BB", text[digits:]
	}
	return to
}

// kindOf is the length of what stands in front of a number: of a register as %r, or of a label as BB, and _
// after that.
func kindOf(text []byte, label bool) (n int) {
	switch {
	case text[0] == '%':
		for n = 1; n < len(text) && 'a' <= text[n] && text[n] <= 'z'; n++ {
		}
		return n
	case label && text[0] == '_':
		return 1
	case bytes.HasPrefix(text, []byte("BB")):
		return 2
	}
	return 0
}

// digitsOf is the length of a number, or of a difference, which has a sign. One with zeros in front is none,
// nor one of many digits.
func digitsOf(text []byte, signed bool) (n int) {
	first := 0
	if signed {
		if first = 1; len(text) == 0 || text[0] != '+' && text[0] != '-' {
			return 0
		}
	}
	for n = first; n < len(text) && '0' <= text[n] && text[n] <= '9'; n++ {
	}
	if n == first || n > first+9 || text[first] == '0' && n > first+1 {
		return 0
	}
	return n
}

// oneKernel returns the PTX of one kernel, packed or not: its entry and what stands before it beside other
// entries.
func oneKernel(ptx []byte, kernel string) ([]byte, error) {
	var code []byte
	depth, wanted, other := 0, false, false // of the entry that the line is in
	for line := range bytes.Lines(ptx) {
		if name, begins := bytes.CutPrefix(line, entry); begins {
			wanted = bytes.HasPrefix(name, []byte(kernel+"("))
			other = !wanted
		}
		if !other {
			code = append(code, line...)
		}
		depth += bytes.Count(line, []byte("{")) - bytes.Count(line, []byte("}"))
		if depth > 0 || line[0] != '}' {
			continue
		}
		if wanted {
			return code, nil
		}
		other = false
	}
	return nil, fmt.Errorf("no kernel %s", kernel)
}
