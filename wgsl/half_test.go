package wgsl

import (
	"go/ast"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/planner/element"
	"github.com/stretchr/testify/require"
)

var (
	anyFunction = regexp.MustCompile(`(?ms)^fn (\w+)\((.*?)\) -> \w+ \{\n(.*?)^\}`)
	bitcasts    = regexp.MustCompile(`bitcast<\w+>`)
	parameter   = regexp.MustCompile(`(\w+): \w+`)
)

// functions returns the functions of a text by name. Floats are their bits.
func functions(t *testing.T, text string) map[string]procedure {
	all := map[string]procedure{}
	for _, m := range anyFunction.FindAllStringSubmatch(text, -1) {
		p := parseProcedure(t, "", bitcasts.ReplaceAllString(m[3], ""))
		for _, m := range parameter.FindAllStringSubmatch(m[2], -1) {
			p.parameters = append(p.parameters, m[1])
		}
		all[m[1]] = p
	}
	return all
}

// call runs a function on u32 values.
func call(all map[string]procedure, name string, arguments ...int) int {
	env := map[string]int{}
	for i, parameter := range all[name].parameters {
		env[parameter] = arguments[i]
	}
	value := func(e ast.Expr) int { return functionValue(all, e, env) }
	var run func(body []ast.Stmt) (int, bool)
	run = func(body []ast.Stmt) (int, bool) {
		for _, s := range body {
			switch s := s.(type) {
			case *ast.AssignStmt:
				env[s.Lhs[0].(*ast.Ident).Name] = value(s.Rhs[0])
			case *ast.ReturnStmt:
				return value(s.Results[0]), true
			case *ast.IfStmt:
				if value(s.Cond) != 0 {
					if result, returned := run(s.Body.List); returned {
						return result, true
					}
				}
			}
		}
		return 0, false
	}
	result, _ := run(all[name].body)
	return result
}

func functionValue(all map[string]procedure, e ast.Expr, env map[string]int) int {
	return evaluate(e, env, func(e ast.Expr) int {
		x := e.(*ast.CallExpr)
		arguments := make([]int, len(x.Args))
		for i := range arguments {
			arguments[i] = functionValue(all, x.Args[i], env)
		}
		return call(all, x.Fun.(*ast.Ident).Name, arguments...)
	})
}

// TestRounding: a pair of numbers gets the bits of element.Narrow; NaN bits may differ in fp16. Numbers
// that pair alone gets wrong are rare, and rare detects them.
func TestRounding(t *testing.T) {
	numbers := []uint32{0, 1, 1 << 31, 0x7f800000, 0xff800000, 0x7f800001, 0x7fc00000, 0x7fffffff,
		0xffffffff, 0xffff8000}
	for _, around := range []uint32{0x33000000, 0x33800000, 0x38000000, 0x38800000, 0x3f800000,
		0x3f808000, 0x3f818000,
		0x3f801000, 0x3f803000, 0x477fe000, 0x477ff000, 0x47800000, 0x7f7f8000, 0x7f7fffff} {
		numbers = append(numbers, around-1, around, around+1, around|1<<31)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		numbers = append(numbers, rng.Uint32(), math.Float32bits(float32(rng.NormFloat64())),
			0x32800000+rng.Uint32N(0x7000000))
	}
	for of, text := range narrows {
		if of.Bytes() == 1 { // C never has that
			continue
		}
		all := functions(t, text.pair+text.rare+text.tame)
		for i, x := range numbers {
			other := numbers[len(numbers)-1-i]
			tamed := call(all, "pair", call(all, "tame", int(x)), call(all, "tame", int(other)))
			for half, x := range []uint32{x, other} {
				number, got := math.Float32frombits(x), uint16(tamed>>(16*half))
				want := elemtype.Bits(of, number)
				if of == element.F16 && number != number {
					want = want&0x8000 | 0x7e00
				}
				require.Equal(t, want, got, "%s %#x", of, x)
			}
			size, least := x&0x7fffffff, 2*x-1
			if call(all, "rare", int(size), int(least)) == 0 {
				want := int(elemtype.Bits(of, math.Float32frombits(x)))
				require.Equal(t, want, call(all, "pair", int(x), 0)&0xffff, "%s: %#x is not rare", of, x)
			}
		}
	}
}

// elementsOfWord returns the number of elements of A and B in a word.
func elementsOfWord(s Shader) int {
	switch {
	case strings.Contains(s.Source, narrows[element.E4M3].numbers),
		strings.Contains(s.Source, narrows[element.Int8].numbers):
		return 4
	case strings.Contains(s.Source, "fn numbers"):
		return 2
	}
	return 1
}
