package wgsl

import (
	"fmt"
	"strings"

	"github.com/batchgemm/batchgemm/internal/encoding"
)

// writer collects indented lines of WGSL, and the buffers that they declare.
type writer struct {
	text     strings.Builder
	depth    int
	bindings []encoding.Binding
}

// bind declares a storage buffer that the shader reads, bindWritten one that it writes.
func (w *writer) bind(number int, name, element string) {
	w.declare(encoding.Binding{Number: number}, "read", name, element)
}

func (w *writer) bindWritten(number int, name, element string) {
	w.declare(encoding.Binding{Number: number, Written: true}, "read_write", name, element)
}

func (w *writer) declare(b encoding.Binding, access, name, element string) {
	w.line("@group(0) @binding(%d) var<storage, %s> %s: array<%s>;", b.Number, access, name, element)
	w.bindings = append(w.bindings, b)
}

func (w *writer) line(format string, args ...any) {
	for range w.depth {
		w.text.WriteByte('\t')
	}
	fmt.Fprintf(&w.text, format, args...)
	w.text.WriteByte('\n')
}

// block writes the lines of body between braces. The head may be empty.
func (w *writer) block(head string, body func()) {
	w.line("%s", strings.TrimLeft(head+" {", " "))
	w.inside(body)
	w.line("}")
}

// ifElse writes both branches of a condition.
func (w *writer) ifElse(condition string, then, otherwise func()) {
	w.line("if (%s) {", condition)
	w.inside(then)
	w.line("} else {")
	w.inside(otherwise)
	w.line("}")
}

func (w *writer) inside(body func()) {
	w.depth++
	body()
	w.depth--
}

// vec returns the type of n adjacent float32 elements; n is 1, 2 or 4.
func vec(n int) string { return vecOf("f32", n) }

func vecOf(scalar string, n int) string {
	if n == 1 {
		return scalar
	}
	return fmt.Sprintf("vec%d<%s>", n, scalar)
}

// splat returns the vector of n elements that all equal x.
func splat(n int, x string) string { return splatOf("f32", n, x) }

func splatOf(scalar string, n int, x string) string {
	if n == 1 {
		return x
	}
	return vecOf(scalar, n) + "(" + x + ")"
}

// component returns element i of a vector of n.
func component(n int, v string, i int) string {
	if n == 1 {
		return v
	}
	return v + "." + "xyzw"[i:i+1]
}

func components(n int, v string) []string {
	return each(n, func(i int) string { return component(n, v, i) })
}

// each returns n texts, by their numbers.
func each(n int, text func(i int) string) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = text(i)
	}
	return all
}

// pack returns the vector of the given elements.
func pack(elements []string) string { return packOf("f32", elements) }

func packOf(scalar string, elements []string) string {
	if len(elements) == 1 {
		return elements[0]
	}
	return vecOf(scalar, len(elements)) + "(" + strings.Join(elements, ", ") + ")"
}

// plus, times, over and rest return x + n, n * x, x / n and x % n for u32 values, without operations that
// change nothing.
func plus(x string, n int) string {
	if n == 0 {
		return x
	}
	return fmt.Sprintf("%s + %du", x, n)
}

func times(n int, x string) string {
	if n == 1 {
		return x
	}
	return fmt.Sprintf("%du * %s", n, paren(x))
}

func over(x string, n int) string {
	if n == 1 {
		return x
	}
	return fmt.Sprintf("%s / %du", paren(x), n)
}

func rest(x string, n int) string {
	if n == 1 {
		return "0u"
	}
	return fmt.Sprintf("%s %% %du", paren(x), n)
}

// paren encloses an expression of more than one word.
func paren(x string) string {
	if strings.Contains(x, " ") {
		return "(" + x + ")"
	}
	return x
}
