package kernelfile

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// PackPTX packs PTX for products, without comments and layout. It replaces numbers of registers and labels by
// differences from the last number of the same kind, and the name of a kernel after its entry by a character.
// Then the same code in another kernel, or elsewhere, is equal. Products of PTX become half as large.
func PackPTX(ptx []byte) ([]byte, error) {
	ptx = bare(ptx)
	var packed []byte
	for part := range parts(ptx) {
		if at, name := nameOf(part); name != nil {
			part = slices.Concat(part[:at], bytes.ReplaceAll(part[at:], name, itself))
		}
		packed = append(packed, renumber(part, true)...)
	}
	if !bytes.Equal(unpackPTX(packed), ptx) {
		return nil, errors.New("there are numbers or names that would become others")
	}
	return packed, nil
}

func unpackPTX(packed []byte) (ptx []byte) {
	for part := range parts(packed) {
		if at, name := nameOf(part); name != nil {
			part = slices.Concat(part[:at], bytes.ReplaceAll(part[at:], itself, name))
		}
		ptx = append(ptx, renumber(part, false)...)
	}
	return ptx
}

// itself stands for the name of the kernel whose text has it.
var itself = []byte{1}

// nameOf returns the name of the kernel of a part, or nil, and where the text after it begins.
func nameOf(part []byte) (at int, name []byte) {
	if rest, ok := bytes.CutPrefix(part, entry); ok {
		if n := bytes.IndexByte(rest, '('); n >= 0 {
			return len(entry) + n, rest[:n]
		}
	}
	return 0, nil
}

// bare returns PTX without comments, empty lines, and the space that only people need.
func bare(ptx []byte) (text []byte) {
	for line := range bytes.Lines(ptx) {
		line, _, _ = bytes.Cut(line, []byte("//"))
		line = bytes.ReplaceAll(bytes.Join(bytes.Fields(line), []byte(" ")), []byte(", "), []byte(","))
		if len(line) > 0 {
			text = append(append(text, line...), '\n')
		}
	}
	return text
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

// registers are the kinds of registers with numbers. In packed text the character before a number of one is
// its place here, and firstRegister more.
var registers = [...]string{"%r", "%rd", "%f", "%p", "%rs", "%fd"}

const firstRegister = 2

// renumber converts the numbers of a part to differences, or back.
func renumber(text []byte, pack bool) []byte {
	to, last := make([]byte, 0, len(text)+len(text)/4), map[string]int{}
	label := false // its second number may follow
	for len(text) > 0 {
		kind := kindOf(text, label)
		name := string(text[:max(kind, 1)])
		text = text[len(name):]
		if i := int(name[0]) - firstRegister; i >= 0 && i < len(registers) {
			name = registers[i]
		}
		digits := digitsOf(text, !pack)
		if label = false; kind == 0 || digits == 0 {
			to = append(to, name...)
			continue
		}
		value, _ := strconv.Atoi(string(text[:digits]))
		if before := last[name]; pack {
			if i := slices.Index(registers[:], name); i >= 0 {
				to = append(to, byte(firstRegister+i))
			} else {
				to = append(to, name...)
			}
			to = fmt.Appendf(to, "%+d", value-before)
		} else {
			value += before
			to = strconv.AppendInt(append(to, name...), int64(value), 10)
		}
		last[name] = value
		label, text = name == "BB", text[digits:]
	}
	return to
}

// kindOf returns the length of the text before a number: %r for a register, or the character for it, BB for a
// label, and a following _.
func kindOf(text []byte, label bool) (n int) {
	switch {
	case text[0] == '%':
		for n = 1; n < len(text) && 'a' <= text[n] && text[n] <= 'z'; n++ {
		}
		return n
	case firstRegister <= text[0] && int(text[0]) < firstRegister+len(registers), label && text[0] == '_':
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
