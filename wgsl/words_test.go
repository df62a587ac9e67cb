package wgsl

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner/element"
)

// The stores of words are run unchanged: without its types, the text is also Go.

const canary = 0xcafe // in half words outside of the tile

var (
	function  = regexp.MustCompile(`(?ms)^fn (store\w+|ends)\((.*?)\)(?: -> u32)? \{\n(.*?)^\}`)
	forLoop   = regexp.MustCompile(`for \((.*;.*;.*) :=(.*)\) \{`)
	bitsOf    = regexp.MustCompile(`var (bits(\d+)) = `)
	vectors   = regexp.MustCompile(`vec\d<u32>`)
	wordLines = regexp.MustCompile(`(?s)\n\t+(let word0a.*)`)
)

// procedure is a function of the text, or its end.
type procedure struct {
	parameters []string
	body       []ast.Stmt
}

func parseProcedure(t *testing.T, parameters, body string) procedure {
	body = strings.NewReplacer("let ", "", "var ", "", " = ", " := ", "~", "^", "select(",
		"choose(").Replace(suffix.ReplaceAllString(vectors.ReplaceAllString(body, "vector"), "$1"))
	body = forLoop.ReplaceAllString(body, "for $1 =$2 {")
	file, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc f() {\n"+body+"\n}\n", 0)
	require.NoError(t, err, body)
	p := procedure{body: file.Decls[0].(*ast.FuncDecl).Body.List}
	for _, m := range regexp.MustCompile(`(\w+): u32`).FindAllStringSubmatch(parameters, -1) {
		p.parameters = append(p.parameters, m[1])
	}
	return p
}

// workgroup runs the end of a shader, from the first word on.
type workgroup struct {
	*testing.T
	shader    Shader
	width     int // of vectors
	functions map[string]procedure
	outputs   map[string][2]string // row and vector of outputs, by the names of their values

	// Threads run one after the other, once for each phase: the part up to a barrier. Their actions in other
	// phases have no effect.
	phase, now, thread int

	memory map[string]access // last writes to workgroup memory
	reads  map[string]access // and last reads
	c      map[int]int       // stored words
	times  map[int]int       // how often each element was stored
	exists func(at int) bool
}

type access struct{ value, phase, thread int }

func (w *workgroup) run(p procedure, env map[string]int) {
	for _, s := range p.body {
		w.statement(s, env)
	}
}

func (w *workgroup) statement(s ast.Stmt, env map[string]int) {
	switch s := s.(type) {
	case *ast.BlockStmt:
		w.run(procedure{body: s.List}, env)
	case *ast.IfStmt:
		if w.value(s.Cond, env) != 0 {
			w.statement(s.Body, env)
		} else if s.Else != nil {
			w.statement(s.Else, env)
		}
	case *ast.ForStmt:
		for w.statement(s.Init, env); w.value(s.Cond, env) != 0; w.statement(s.Post, env) {
			w.statement(s.Body, env)
		}
	case *ast.AssignStmt:
		if name, ok := s.Lhs[0].(*ast.Ident); ok {
			env[name.Name] = w.value(s.Rhs[0], env)
		} else if w.now == w.phase {
			values := []ast.Expr{s.Rhs[0]}
			if x, ok := s.Rhs[0].(*ast.CallExpr); ok && x.Fun.(*ast.Ident).Name == "vector" {
				values = x.Args
			}
			for i, x := range values {
				w.tell(w.place(s.Lhs[0], i, env), w.value(x, env))
			}
		}
	case *ast.ExprStmt:
		w.call(s.X.(*ast.CallExpr), env)
	default:
		w.Fatalf("unexpected %T", s)
	}
}

func (w *workgroup) call(x *ast.CallExpr, env map[string]int) {
	name := x.Fun.(*ast.Ident).Name
	switch {
	case name == "workgroupBarrier":
		w.now++
	case strings.HasPrefix(name, "atomic"):
		if w.now == w.phase {
			at := x.Args[0].(*ast.UnaryExpr).X.(*ast.IndexExpr).Index
			w.atomic(name, w.value(at, env), w.value(x.Args[1], env))
		}
	default:
		w.run(w.called(x, env))
	}
}

// called returns a function, and its arguments.
func (w *workgroup) called(x *ast.CallExpr, env map[string]int) (procedure, map[string]int) {
	name, inner := x.Fun.(*ast.Ident).Name, map[string]int{}
	p := w.functions[name]
	require.NotEmpty(w, p.body, name)
	for i, parameter := range p.parameters {
		inner[parameter] = w.value(x.Args[i], env)
	}
	return p, inner
}

// atomic executes one operation on a word of C. It must not change bits of other tiles.
func (w *workgroup) atomic(name string, at, value int) {
	if _, ok := w.c[at]; !ok {
		w.c[at] = wrapped(canary<<16 | canary)
	}
	changed := value
	switch name {
	case "atomicStore":
		changed, w.c[at] = -1, value
	case "atomicAnd":
		changed, w.c[at] = ^value, w.c[at]&value
	case "atomicOr":
		w.c[at] |= value
	default:
		w.Fatal(name)
	}
	for half := range 2 {
		if changed>>(16*half)&0xffff != 0 {
			if !w.exists(2*at + half) {
				w.Fatalf("thread %d changes half %d of word %d by %s", w.thread, half, at, name)
			}
			if name != "atomicOr" {
				w.times[2*at+half]++
			}
		}
	}
}

// tell writes a word. No thread may still read elements of B or words there.
func (w *workgroup) tell(place string, value int) {
	if w.phase == 0 {
		w.Fatal("the memory is in use before a barrier")
	}
	if last, ok := w.memory[place]; ok && last.phase == w.phase {
		w.Fatalf("place %s is written twice", place)
	}
	if last, ok := w.reads[place]; ok && last.phase == w.phase && last.thread != w.thread {
		w.Fatalf("thread %d writes what %d may not have read yet", w.thread, last.thread)
	}
	w.memory[place] = access{value, w.phase, w.thread}
}

// told reads a word.
func (w *workgroup) told(place string) int {
	found, ok := w.memory[place]
	if w.now == w.phase {
		if !ok {
			w.Fatalf("thread %d reads %s, which has no word", w.thread, place)
		}
		if found.phase == w.phase && found.thread != w.thread {
			w.Fatalf("thread %d reads before a barrier", w.thread)
		}
		w.reads[place] = access{0, w.phase, w.thread}
	}
	return found.value
}

// place returns the component that many after an expression, within workgroup memory.
func (w *workgroup) place(e ast.Expr, behind int, env map[string]int) string {
	var indexes []int
	for {
		x, ok := e.(*ast.IndexExpr)
		if !ok {
			break
		}
		indexes, e = append([]int{w.value(x.Index, env)}, indexes...), x.X
	}
	g := w.shader.geometry
	limits := []int{g.B.Rows, g.Groups * g.B.Pitch, g.B.Element}
	if e.(*ast.Ident).Name == "words" { // of a fix-up
		limits = []int{fixupVectors(&g.Tile)}
	}
	if len(indexes) < len(limits) { // the whole vector
		indexes = append(indexes, behind)
	}
	for i, limit := range limits {
		if indexes[i] >= limit {
			w.Fatalf("thread %d accesses workgroup memory at %v, of %v", w.thread, indexes, limits)
		}
	}
	return fmt.Sprint(indexes)
}

func (w *workgroup) value(e ast.Expr, env map[string]int) int {
	return evaluate(e, env, func(e ast.Expr) int {
		switch x := e.(type) {
		case *ast.CallExpr:
			if x.Fun.(*ast.Ident).Name == "pair" {
				return w.number(x.Args[0], env) | w.number(x.Args[1], env)<<16
			}
			p, inner := w.called(x, env)
			last := len(p.body) - 1
			w.run(procedure{body: p.body[:last]}, inner)
			return w.value(p.body[last].(*ast.ReturnStmt).Results[0], inner)
		case *ast.IndexExpr:
			if name, ok := x.X.(*ast.Ident); ok && name.Name == "indices" {
				return scattered(w.value(x.Index, env))
			}
			return w.told(w.place(x, 0, env))
		case *ast.SelectorExpr: // in an element of workgroup memory
			return w.told(w.place(x.X, strings.Index("xyzw", x.Sel.Name), env))
		}
		panic(fmt.Sprintf("unexpected %T", e))
	})
}

// scattered maps rows of a tile: two are swapped, and some go nowhere.
func scattered(row int) int {
	if row%7 == 5 {
		return 1 << 20
	}
	return row ^ 1
}

// number identifies an element of the tile.
func (w *workgroup) number(e ast.Expr, env map[string]int) int {
	x := e.(*ast.SelectorExpr)
	names := w.outputs[x.X.(*ast.Ident).Name]
	return w.id(env[names[0]], w.width*env[names[1]]+strings.Index("xyzw", x.Sel.Name))
}

func (w *workgroup) id(row, col int) int { return row*w.shader.geometry.Tile.TN + col + 1 }

// checkWords checks that each element of the tile in the matrix is written once in C of 16 bits, and that no
// other bit of C changes, not even briefly.
func checkWords(t *testing.T, s Shader, width int) {
	source := strings.ReplaceAll(s.Source, "worker.y", "piece")
	names := lets(t, source, `place|group|part|lane|tx|ty|row\d+|vector\d*|to\d+|kept\d+|atC\d+`)
	w := &workgroup{T: t, shader: s, width: width, functions: map[string]procedure{},
		outputs: map[string][2]string{}}
	for _, m := range function.FindAllStringSubmatch(source, -1) {
		w.functions[m[1]] = parseProcedure(t, m[2], m[3])
	}
	for _, m := range bitsOf.FindAllStringSubmatch(source, -1) {
		w.outputs[m[1]] = [2]string{"row" + m[2], "vector" + m[2]}
	}
	text, depth := wordLines.FindStringSubmatch(source)[1], 0
	for i, c := range text { // up to the end of the block
		depth += strings.Count("{", string(c)) - strings.Count("}", string(c))
		if depth < 0 {
			text = text[:i]
			break
		}
	}
	end := parseProcedure(t, "", text)
	tile := s.geometry.Tile
	for i, size := range [][2]int{{tile.TM, tile.TN}, {tile.TM - 1, tile.TN - 1}, {tile.TM, tile.TN - 2},
		{1, 1}, {2, 3}} {
		for _, ld := range []int{tile.TN, tile.TN + 1} {
			for off := range 2 {
				if i == 0 || off != ld%2 || tile.TM < 64 {
					w.check(names, end, map[string]int{"offC": 10 + off, "ldC": ld, "rows": size[0],
						"cols": size[1]})
				}
			}
		}
	}
}

func (w *workgroup) check(names []let, end procedure, item map[string]int) {
	off, ld, rows, cols := item["offC"], item["ldC"], item["rows"], item["cols"]
	item["scatterAt"], item["scatterRows"] = 0, w.shader.geometry.Tile.TM
	to := func(row int) int { return row }
	if strings.Contains(w.shader.Source, "scatterAt") {
		to = scattered
	}
	stored := map[int]bool{} // positions
	w.c, w.times = map[int]int{}, map[int]int{}
	w.exists = func(at int) bool { return stored[at] }
	for row := range rows {
		for col := range cols {
			stored[off+to(row)*ld+col] = to(row) < item["scatterRows"]
		}
	}
	turns, each := w.shader.turns()
	for i := range w.shader.Pieces * turns {
		w.memory, w.reads = map[string]access{}, map[string]access{}
		threads := make([]map[string]int, w.shader.Threads)
		for t := range threads {
			threads[t] = thread(t, i%turns*each, nil)
			maps.Copy(threads[t], item)
			threads[t]["piece"] = i / turns
			for _, l := range names {
				threads[t][l.name] = w.value(l.value.Expr, threads[t])
			}
		}
		for w.phase = 0; w.phase <= w.now; w.phase++ {
			for w.thread = range threads {
				w.now = 0
				w.run(end, threads[w.thread])
			}
		}
	}
	for row := range rows {
		for col := range cols {
			at := off + to(row)*ld + col
			if !stored[at] {
				continue
			}
			if got := w.c[at/2] >> (16 * (at % 2)) & 0xffff; got != w.id(row, col) || w.times[at] != 1 {
				w.Fatalf("row %d, column %d has %#x, stored %d times, in %v", row, col, got,
					w.times[at], item)
			}
		}
	}
}

// TestStoresOfWordsAreFew: kernels have no more accesses of C of 16 bits than of fp32, except for the ends
// of rows, and counting those of functions that they call. Lavapipe makes each a loop over its lanes, which
// takes it longest to compile.
func TestStoresOfWordsAreFew(t *testing.T) {
	for _, k := range slices.Concat(typed(kernels()), packedKernels(), fixups()) {
		if k.TypeC == element.F32 || k.Loop {
			continue
		}
		words, err := Render(k, adapters["lavapipe"])
		require.NoError(t, err)
		k.TypeC = element.F32
		numbers, err := Render(k, adapters["lavapipe"])
		require.NoError(t, err)
		few, all := accessesOfC(words.Source, encoding.EntryPoint), accessesOfC(numbers.Source,
			encoding.EntryPoint)
		require.Positive(t, few)
		require.LessOrEqual(t, few, all+4, k)
	}
}

var (
	bodies = regexp.MustCompile(`(?ms)^fn (\w+)\([^\n]*\{$(.*?)^\}`)
	ofC    = regexp.MustCompile(`\bC\[`)
	called = regexp.MustCompile(`\b(load\w+|store\w+)\(`)
)

// accessesOfC counts the accesses in a function.
func accessesOfC(source, name string) (n int) {
	for _, m := range bodies.FindAllStringSubmatch(source, -1) {
		if m[1] == name {
			n += len(ofC.FindAllString(m[2], -1))
			for _, c := range called.FindAllStringSubmatch(m[2], -1) {
				n += accessesOfC(source, c[1])
			}
		}
	}
	return n
}
