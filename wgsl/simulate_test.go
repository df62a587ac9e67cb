package wgsl

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// The tests of this file evaluate the index arithmetic of the rendered text for every thread of a workgroup.
// Its u32 expressions are also Go expressions without the suffix u.

var suffix = regexp.MustCompile(`\b(0x[0-9a-f]+|\d+)u\b`)

// expression is a parsed u32 expression.
type expression struct{ ast.Expr }

func parse(t *testing.T, text string) expression {
	e, err := parser.ParseExpr(suffix.ReplaceAllString(text, "$1"))
	require.NoError(t, err, text)
	return expression{e}
}

// in evaluates the expression; conditions give 0 or 1.
func (e expression) in(env map[string]int) int {
	return evaluate(e.Expr, env, func(e ast.Expr) int { panic(fmt.Sprintf("unexpected %T", e)) })
}

// evaluate leaves everything except arithmetic on names to others.
func evaluate(e ast.Expr, env map[string]int, others func(ast.Expr) int) int {
	switch x := e.(type) {
	case *ast.BasicLit:
		return number(x.Value)
	case *ast.Ident:
		v, ok := env[x.Name]
		if !ok {
			panic("unknown name " + x.Name)
		}
		return v
	case *ast.ParenExpr:
		return evaluate(x.X, env, others)
	case *ast.UnaryExpr:
		if a := evaluate(x.X, env, others); x.Op == token.XOR {
			return wrapped(^uint32(a))
		} else if x.Op == token.NOT {
			return 1 - a
		}
	case *ast.CallExpr:
		argument := func(i int) int { return evaluate(x.Args[i], env, others) }
		switch name, _ := x.Fun.(*ast.Ident); {
		case name != nil && name.Name == "min":
			return min(argument(0), argument(1))
		case name != nil && name.Name == "max":
			return max(argument(0), argument(1))
		case name != nil && name.Name == "choose":
			return argument(argument(2))
		}
	case *ast.BinaryExpr:
		return operate(x.Op, evaluate(x.X, env, others), evaluate(x.Y, env, others))
	}
	return others(e)
}

func operate(op token.Token, a, b int) int {
	switch op {
	case token.ADD:
		return a + b
	case token.SUB:
		return a - b
	case token.MUL:
		return a * b
	case token.QUO:
		return a / b
	case token.REM:
		return a % b
	case token.AND:
		return a & b
	case token.OR:
		return a | b
	case token.SHL:
		return wrapped(uint32(a) << b)
	case token.SHR:
		return wrapped(uint32(a) >> b)
	case token.LSS:
		return btoi(a < b)
	case token.LEQ:
		return btoi(a <= b)
	case token.GTR:
		return btoi(a > b)
	case token.GEQ:
		return btoi(a >= b)
	case token.LOR:
		return btoi(a+b > 0)
	case token.EQL:
		return btoi(a == b)
	case token.NEQ:
		return btoi(a != b)
	case token.LAND:
		return btoi(a+b == 2)
	}
	panic("unexpected " + op.String())
}

// wrapped returns a 32-bit number as an int; if int has 32 bits, it is negative from 2^31 on.
func wrapped(x uint32) int { return int(x) }

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func number(text string) int {
	n, _ := strconv.ParseInt(text, 0, 64)
	return int(n)
}

// let is a declaration of the text.
type let struct {
	name  string
	value expression
}

var letLine = regexp.MustCompile(`let (\w+) = (.*);`)

// lets returns the declarations of wanted names in a piece of the text.
func lets(t *testing.T, text string, wanted string) []let {
	var all []let
	for _, m := range letLine.FindAllStringSubmatch(text, -1) {
		if regexp.MustCompile("^(" + wanted + ")$").MatchString(m[1]) {
			all = append(all, let{m[1], parse(t, m[2])})
		}
	}
	return all
}

// thread returns the values of the names in thread t, which has finished that many accumulators.
func thread(t, done int, lets []let) map[string]int {
	env := map[string]int{"t": t, "done": done, "load": 0}
	for _, l := range lets {
		env[l.name] = l.value.in(env)
	}
	return env
}

// turns returns how many times a thread finishes accumulators, and how many at a time.
func (s *Shader) turns() (turns, each int) {
	n := s.geometry.Accumulators
	if m := finishing.FindStringSubmatch(s.Source); m != nil {
		each = number(m[1])
		return n / each, each
	}
	return 1, n
}

var finishing = regexp.MustCompile(`for \(var done = .* done \+ (\d+)u\)`)

// One thread of each K group stores every element of the tile, from the accumulator that multiplied its row
// of A and columns of B.
func TestThreadsCoverTile(t *testing.T) {
	type key struct {
		tile      tile.Shape
		patchRows int
	}
	place := func(_ encoding.Kernel, g geometry) any { return key{g.Tile, g.PatchRows} }
	eachShader(t, place, func(t *testing.T, s Shader) {
		g := s.geometry
		names := lets(t, s.Source, `place|group|part|lane|tx|ty|readA\d+|readB\d+|row\d+|vector\d+`)
		rows := 0
		for _, l := range names {
			if strings.HasPrefix(l.name, "row") {
				rows++
			}
		}
		turns, each := s.turns()
		vectorsB := g.Tile.RN / g.B.Element
		type vector struct{ row, vector int }
		stored := map[vector]int{}
		for i := range s.Threads * turns {
			env := thread(i/turns, i%turns*each, names)
			group := env["group"]
			for n := range rows {
				output := i%turns*rows + n
				acc := output
				if g.Groups > 1 {
					if g.Chunk < g.Groups && group >= g.Chunk {
						continue // stores nothing
					}
					round, sums := output, 1
					if g.Chunk > g.Groups {
						sums = g.Chunk / g.Groups
						round = output / sums
					}
					acc = round*g.Chunk + output%sums*g.Groups + group
				}
				inBlock, col := acc/vectorsB, acc%vectorsB
				element := env[fmt.Sprintf("readA%d", inBlock/g.A.Element)] -
					group*g.A.Pitch*min(1, g.Groups-1)
				got := vector{env[fmt.Sprintf("row%d", n)], env[fmt.Sprintf("vector%d", n)]}
				require.Equal(t, g.A.member(element, inBlock%g.A.Element), got.row)
				vector := env["tx"]
				if !g.B.Direct {
					vector = env[fmt.Sprintf("readB%d", col)] - group*g.B.Pitch*min(1, g.Groups-1)
				}
				require.Equal(t, vector, got.vector)
				stored[got]++
			}
		}
		for row := range g.Tile.TM {
			for v := range g.Tile.TN / g.B.Element {
				require.Equal(t, 1, stored[vector{row, v}], "row %d, vector %d", row, v)
			}
		}
		require.Len(t, stored, g.Tile.TM*g.Tile.TN/g.B.Element)
	})
}

var (
	startLine = regexp.MustCompile(`^(?:let )?((?:at|word|across)([AB])\d*) = (.*);$`)
	loopLine  = regexp.MustCompile(`^for \(var load = 0u; (?:(\d+)u \* )?load < min\(\w+, (\d+)u\)`)
	loadLine  = regexp.MustCompile(`^next\w+ = .*;$`)
	halfLine  = regexp.MustCompile(`^let (half\w+) = (.*);$`)
	oneLoad   = regexp.MustCompile(`[AB]\[(.*?)\]`)
	storeLine = regexp.MustCompile(`^shared[AB]\[(.*?)\]\[(.*?)\](?:\[(.*?)\])? = (.*);$`)
	oneValue  = regexp.MustCompile(`(four\()?(next\w+)\)?(?:\.([xyzw]+))?(?:, (half\w+)\))?`)
	runWords  = regexp.MustCompile(`\.x, next\w+\.y, |\.y, next\w+\.z, `)
	runValue  = regexp.MustCompile(`shifted\((next\w+)\.x, next\w+\.y, (half\w+)\)`)
	guardLine = regexp.MustCompile(`^if \((.*)\) \{$`)
)

// Every element of the tiles of A and B is loaded once, and stored to the place in workgroup memory where
// the K groups look for it.
func TestStagesCoverTiles(t *testing.T) {
	type key struct {
		kernel encoding.Kernel
		tile   tile.Shape
	}
	stages := func(k encoding.Kernel, g geometry) any { return key{k, g.Tile} }
	eachShader(t, stages, func(t *testing.T, s Shader) {
		for _, operand := range []struct {
			name  string
			stage stage
		}{{"A", s.geometry.A}, {"B", s.geometry.B}} {
			if operand.stage.Direct {
				continue // see TestDirectCoversTiles
			}
			t.Run(operand.name, func(t *testing.T) {
				per := elementsOfWord(s)
				checkStage(t, s, operand.name, operand.stage, 0, 1<<20, per)
				for off := 1; off < per && !operand.stage.Vector; off++ {
					checkStage(t, s, operand.name, operand.stage, off, 1<<20, per)
					checkStage(t, s, operand.name, operand.stage, off, 1<<20+off, per)
				}
			})
		}
	})
}

// checkStage checks an operand that starts at element off, with `per` elements in a word.
func checkStage(t *testing.T, s Shader, name string, stage stage, off, ld, per int) {
	unit, width := 1, per // of positions and of their content
	if stage.Vector {
		unit, width = 4, 4
	}
	g := s.geometry
	names := lets(t, s.Source, `(along|across)`+name)
	lines := firstStage(t, s.Source, name)

	type element struct{ i, k int }
	placed := map[[3]int]element{} // row, index and component in workgroup memory
	for i := range s.Threads {
		env := thread(i, 0, names)
		env["off"+name], env["ld"+name] = off/unit, ld/unit
		registers := map[string][]element{}
		skip, first := false, env
		for _, l := range lines {
			switch {
			case l.kind == 'g':
				skip = l.at[0].in(env) == 0
			case l.kind == '}':
				skip = false
			case skip:
			case l.kind == 'f':
				if l.turn == 0 {
					first = maps.Clone(env)
				}
				env = maps.Clone(first)
				env["load"] = l.turn
			case l.kind == 's':
				env[l.register] = l.at[0].in(env)
			case l.kind == 'l':
				registers[l.register] = nil
				for _, at := range l.at {
					for c := range width {
						address := at.in(env)*width + c - off
						e := element{address % ld, address / ld}
						if stage.AlongK {
							e = element{e.k, e.i}
						}
						registers[l.register] = append(registers[l.register], e)
					}
				}
			default:
				place := [3]int{l.at[0].in(env), l.at[1].in(env)}
				if len(l.at) == 3 {
					place[2] = l.at[2].in(env)
				}
				for _, v := range stage.members(l.values, per, env) {
					if _, twice := placed[place]; twice {
						require.Fail(t, "stored twice", "place %v", place)
					}
					component := v.component
					if v.half != "" {
						component = per*component + env[v.half]/(32/per)
					}
					placed[place] = registers[v.register][component]
					place[2]++
				}
			}
		}
	}
	for k := range g.Tile.TK {
		for i := range stage.Extent {
			in, number := stage.elementOf(i)
			place := [3]int{k / g.Groups, k%g.Groups*stage.Pitch + in, number}
			if near := g.B.Together; g.B.Direct {
				place[0], place[1] = k/(near*g.Groups)*near+k%near, k/near%g.Groups*stage.Pitch+in
			}
			if got := placed[place]; got != (element{i, k}) {
				require.Equal(t, element{i, k}, got, "place %v", place)
			}
		}
	}
	require.Len(t, placed, g.Tile.TK*stage.Extent)
}

// elementOf returns the element of workgroup memory with a row or column, and the number within it; member
// inverts it.
func (s *stage) elementOf(i int) (element, number int) {
	if s.Apart > 1 {
		return i % s.Apart, i / s.Apart
	}
	return i / s.Element, i % s.Element
}

func (s *stage) member(element, number int) int { return element*s.stride() + number*s.Apart }

// members returns values, with runs expanded.
func (s *stage) members(values []value, per int, env map[string]int) []value {
	if values[0].component >= 0 {
		return values
	}
	run, first := values[0], env[values[0].half]/(32/per)
	values = nil
	for i := range s.Element {
		values = append(values, value{run.register, first + i, ""})
	}
	return values
}

// stageLine is a line of the loads and stores of a K step: a start position or a half of words, a load, a
// store, a guard or its end, or an iteration of a loop.
type stageLine struct {
	kind     byte // s, l, w, g, }, f
	turn     int
	at       []expression
	register string
	values   []value
}

// value is one component of a register, or a half of it.
type value struct {
	register  string
	component int
	half      string
}

// firstStage parses the first loads and stores of an operand.
func firstStage(t *testing.T, source, name string) []stageLine {
	var lines []stageLine
	inGuard, loop, turns := false, 0, 0
	for _, text := range strings.Split(source, "\n") {
		text = strings.TrimSpace(text)
		if text == "workgroupBarrier();" {
			break
		}
		guard, start, store := guardLine.FindStringSubmatch(text), startLine.FindStringSubmatch(text),
			storeLine.FindStringSubmatch(text)
		half := halfLine.FindStringSubmatch(text)
		switch {
		case loopLine.MatchString(text):
			m := loopLine.FindStringSubmatch(text)
			loop, turns = len(lines), number(m[2])/max(number(m[1]), 1)
		case text == "}" && turns > 0:
			body := slices.Clone(lines[loop:])
			for turn := range turns {
				lines = append(lines[:loop+turn*(1+len(body))], stageLine{kind: 'f', turn: turn})
				lines = append(lines, body...)
			}
			turns = 0
		case guard != nil && strings.Contains(guard[1], "across"+name):
			lines = append(lines, stageLine{kind: 'g', at: []expression{parse(t, guard[1])}})
			inGuard = true
		case text == "}" && inGuard:
			lines = append(lines, stageLine{kind: '}'})
			inGuard = false
		case start != nil && start[2] == name:
			lines = append(lines, stageLine{kind: 's', at: []expression{parse(t, start[3])},
				register: start[1]})
		case half != nil && strings.HasPrefix(half[1], "half"+name):
			lines = append(lines, stageLine{kind: 's', at: []expression{parse(t, half[2])},
				register: half[1]})
		case loadLine.MatchString(text) && strings.HasPrefix(text, "next"+name):
			l := stageLine{kind: 'l'}
			l.register, _, _ = strings.Cut(text, " ")
			for _, m := range oneLoad.FindAllStringSubmatch(text, -1) {
				l.at = append(l.at, parse(t, m[1]))
			}
			lines = append(lines, l)
		case store != nil && strings.HasPrefix(text, "shared"+name):
			l := stageLine{kind: 'w', at: []expression{parse(t, store[1]), parse(t, store[2])}}
			if store[3] != "" {
				l.at = append(l.at, parse(t, store[3]))
			}
			// as many numbers as an element has, from half of a word on
			if run := runValue.FindStringSubmatch(store[4]); run != nil {
				require.Equal(t, strings.Count(store[4], "shifted("),
					len(runWords.FindAllString(store[4], -1)), "words that follow each other")
				l.values = []value{{run[1], -1, run[2]}}
				lines = append(lines, l)
				continue
			}
			for _, v := range oneValue.FindAllStringSubmatch(store[4], -1) {
				components := v[3]
				switch {
				case components == "" && v[1] != "":
					components = "xyzw"
				case components == "":
					components = registerComponents(source, v[2])
				}
				for _, c := range components {
					l.values = append(l.values, value{v[2], strings.IndexRune("xyzw", c), v[4]})
				}
			}
			lines = append(lines, l)
		}
	}
	return lines
}

// registerComponents returns the components of a register from its declaration.
func registerComponents(source, register string) string {
	m := regexp.MustCompile(`var ` + register + `: (?:vec(\d)<)?`).FindStringSubmatch(source)
	return "xyzw"[:max(1, number(m[1]))]
}

// Each K step stores the registers that were loaded for it, and then loads the next step ahead.
func TestStepsAhead(t *testing.T) {
	stored := regexp.MustCompile(`sharedA.* = .*\b(next|later)A0\b`)
	loaded := regexp.MustCompile(`^(next|later)A0 = `)
	for name, want := range map[string]string{
		"small-k8":  "next< later< next> next< later> later<",
		"large-8x4": "next< next> next<",
	} {
		s, err := tile.ByName(name)
		require.NoError(t, err)
		shader, err := Render(encoding.Kernel{Tile: s, TypeA: element.BF16}, adapters["nvidia"])
		require.NoError(t, err)
		var got []string
		for _, line := range strings.Split(shader.Source, "\n") {
			if m := loaded.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
				got = append(got, m[1]+"<")
			} else if m := stored.FindStringSubmatch(line); m != nil {
				got = append(got, m[1]+">")
			}
		}
		require.Equal(t, want, strings.Join(got, " "), name)
	}
}
