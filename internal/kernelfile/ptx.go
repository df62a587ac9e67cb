package kernelfile

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// PackPTX packs PTX for products. It replaces numbers of registers and labels by differences from the last
// number of the same kind. These are equal for the same code in another kernel, or elsewhere. Products of
// PTX become half as large.
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

// parts iterates over the text before entries, and each entry with the text after it. They are numbered
// separately.
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

// renumber converts the numbers of a part to differences, or back.
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

// kindOf returns the length of the text before a number: %r for a register, BB for a label, and a following
// _.
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

// digitsOf returns the length of a number, or of a difference, which has a sign. Numbers with leading zeros
// or many digits do not count.
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

// oneKernel returns the PTX of one kernel, packed or not: its entry, and the text before it except other
// entries.
func oneKernel(ptx []byte, kernel string) ([]byte, error) {
	var code []byte
	depth, wanted, other := 0, false, false // of the entry with this line
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
