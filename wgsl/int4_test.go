package wgsl

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// packedKernels returns some kernels of each tile shape with B of Int4.
func packedKernels() (all []encoding.Kernel) {
	for _, s := range tile.Of(tile.FMA) {
		e := encoding.Epilogue{ScaleB: encoding.PerGroup64}
		all = append(all, encoding.Kernel{Tile: s, TypeA: element.BF16, Epilogue: e},
			encoding.Kernel{Tile: s, TypeA: element.F16, Loop: true, Dynamic: true, Epilogue: e})
		e.Gated, e.Gather = true, true
		all = append(all, encoding.Kernel{Tile: s, TypeA: element.F16, Loop: true, Epilogue: e})
	}
	return all
}

// Every weight of a tile is loaded once, with its group word. It is stored to the place in workgroup memory
// where the K groups look for it, or multiplied at once.
func TestPackedStages(t *testing.T) {
	scalings := []encoding.Scaling{encoding.PerGroup64, encoding.PerGroup128}
	// a thread has several elements of it
	several := &tile.Shape{Name: "several", TM: 32, TN: 64, TK: 32, Threads: 32, RM: 8, RN: 8}
	seen := map[string]bool{}
	for name, lim := range adapters {
		t.Run(name, func(t *testing.T) {
			for i, s := range append(tile.Of(tile.FMA), several) {
				k := encoding.Kernel{Tile: s, TypeA: element.BF16, TypeC: element.F32,
					Epilogue: encoding.Epilogue{ScaleB: scalings[i%2]}}
				if i/2%2 == 0 {
					k.TypeC = k.TypeA
				}
				shader, fits := renderFor(t, k, lim)
				if !fits || seen[shader.Source] {
					continue
				}
				seen[shader.Source] = true
				t.Run(s.Name, func(t *testing.T) {
					sample.Shaders.Skip(t, 1)
					facts, _ := describe(s, lim)
					require.LessOrEqual(t, shader.SharedBytes, facts.Shared,
						"devices list what a tile shape takes at most")
					for _, steps := range []int{0, 1, 13} {
						if shader.geometry.B.Direct {
							checkDirect(t, shader, k.Epilogue.ScaleB.Group(), steps)
						} else {
							checkPacked(t, shader, k.Epilogue.ScaleB.Group(), steps)
						}
					}
				})
			}
		})
	}
}

var (
	packedLoad   = regexp.MustCompile(`^next(Group)?B(\d+) = (?:B|indices)\[(.*)\];$`)
	packedNumber = regexp.MustCompile(
		`^let (even|odd)(\d) = scale(\d) \* weights\(nextB(\d+)( >> 16u)?, zeros(\d)\);$`)
	directNumber = regexp.MustCompile(
		`^let (even|odd)(\d) = weights\(words(\d)(?:\.([xyzw]))?( >> 16u)?, zeros(\d)\);$`)
	packedGroup = regexp.MustCompile(
		`let (?:scale(\d) = bitcast<f32>\(|zeros(\d) = zerosOf\()nextGroupB(\d+)(?: & 0xfffffff0u)?\);`)
	directSum   = regexp.MustCompile(`c(\d) = fma\(scales, part(\d), c(\d)\);`)
	packedStore = regexp.MustCompile(`^sharedB\[(.*?)\]\[(.*?)\] = (.*);$`)
	oneNumber   = regexp.MustCompile(`(even\d|odd\d)\.([xyzw])`)
	directB     = regexp.MustCompile(
		`^let b0 = vec4<f32>\((\w+)\.(\w), (\w+)\.(\w), (\w+)\.(\w), (\w+)\.(\w)\);$`)
	directA = regexp.MustCompile(`^let a0 = sharedA\[(\d+)u\]\[readA0\];$`)
)

// packedLine is a line of the text about B: its kind, the parts that an expression above finds, and the
// parsed expressions among these.
type packedLine struct {
	kind  byte // g, }, l, c, n, s, b, a
	parts []string
	at    []expression
}

// packedLines returns the lines of a part of the text.
func packedLines(t *testing.T, source string) (all []packedLine) {
	for _, line := range strings.Split(source, "\n") {
		line = strings.TrimSpace(line)
		if guard := guardLine.FindStringSubmatch(line); guard != nil &&
			strings.Contains(guard[1], "acrossB") {
			all = append(all, packedLine{'g', guard, []expression{parse(t, guard[1])}})
		} else if line == "}" {
			all = append(all, packedLine{kind: '}'})
		} else if load := packedLoad.FindStringSubmatch(line); load != nil {
			all = append(all, packedLine{'l', load, []expression{parse(t, load[3])}})
		} else if made := packedNumber.FindStringSubmatch(line); made != nil {
			require.Equal(t, made[3], made[6], "%s: the zero point of another column", line)
			all = append(all, packedLine{'n', []string{made[0], made[1], made[2], made[4], "", made[5],
				made[3]}, nil})
		} else if of := packedGroup.FindStringSubmatch(line); of != nil {
			all = append(all, packedLine{'c', of, nil})
		} else if made := directNumber.FindStringSubmatch(line); made != nil {
			require.Equal(t, made[3], made[6], "%s: the zero point of another column", line)
			all = append(all, packedLine{'n', made[:6], nil})
		} else if store := packedStore.FindStringSubmatch(line); store != nil {
			l := packedLine{'s', nil, []expression{parse(t, store[1]), parse(t, store[2])}}
			for _, m := range oneNumber.FindAllStringSubmatch(store[3], -1) {
				l.parts = append(l.parts, m[1], m[2])
			}
			all = append(all, l)
		} else if b := directB.FindStringSubmatch(line); b != nil {
			all = append(all, packedLine{'b', b, nil})
		} else if a := directA.FindStringSubmatch(line); a != nil {
			all = append(all, packedLine{'a', a, nil})
		}
	}
	return all
}

// packedThread is what a thread has of B at a K step.
type packedThread struct {
	env       map[string]int
	registers map[string]packedWord
	groups    map[string]string // the register from which the scale and zero point of a column were made
	numbers   map[string]weight // even0 and so on, with the first weight of each
	skip      bool              // only other threads load this
	group     int
	unit      int // k of a load
}

type weight struct{ col, k int }

// packedWord is a load of a column, and the place of its group word.
type packedWord struct{ at, group int }

const packedLD, packedGroups = 1 << 10, 5 // columns of B, and the first group word

// packedThreads returns all threads of a workgroup, that many K steps after the first.
func packedThreads(t *testing.T, s Shader, group, steps int) (all []*packedThread) {
	names, begins := lets(t, s.Source, `place|group|part|lane|ty|tx|readA0|alongB|acrossB`), lets(t, s.Source,
		`startB|panelB|scalesB`)
	for i := range s.Threads {
		x := &packedThread{env: thread(i, 0, names), registers: map[string]packedWord{},
			groups: map[string]string{}, numbers: map[string]weight{}, group: group,
			unit: 8 * s.geometry.B.Words}
		x.env["offB"], x.env["ldB"], x.env["scaleBAt"], x.env["atB"] = 0, packedLD, packedGroups,
			x.env["alongB"]+steps*s.geometry.Tile.TK/x.unit
		for _, l := range begins {
			x.env[l.name] = l.value.in(x.env)
		}
		all = append(all, x)
	}
	return all
}

// does executes a line on registers, if it matters.
func (x *packedThread) does(t *testing.T, l packedLine) {
	switch {
	case l.kind == 'g':
		x.skip = l.at[0].in(x.env) == 0
	case l.kind == '}':
		x.skip = false
	case x.skip:
	case l.kind == 'l':
		r := x.registers[l.parts[2]]
		if at := l.at[0].in(x.env); l.parts[1] == "" {
			r.at = at
		} else {
			r.group = at - packedGroups
		}
		x.registers[l.parts[2]] = r
	case l.kind == 'c':
		x.groups[l.parts[1]+l.parts[2]] += l.parts[3] + " "
	case l.kind == 'n':
		if len(l.parts) > 6 { // with the column of its scale and zero point
			require.True(t, strings.HasSuffix(x.groups[l.parts[6]], l.parts[3]+" "+l.parts[3]+" "),
				"%s: the scale or zero point of another column", l.parts[0])
		}
		made, r := l.parts, x.registers[l.parts[3]]
		word := r.at*x.unit/8 + max(0, strings.Index("xyzw", made[4]))
		w := weight{word / 8 % packedLD, word/8/packedLD*64 + word%8*8 + btoi(made[1] == "odd")}
		if at := w.k/x.group*packedLD + w.col; at != r.group || (made[1] == "odd") != (made[5] != "") {
			require.Fail(t, "another group or half of a word", "%s: group at %d, not %d",
				made[0], r.group, at)
		}
		x.numbers[made[1]+made[2]] = w
	}
}

// number returns a component of a number.
func (x *packedThread) number(name, component string) weight {
	w := x.numbers[name]
	w.k += 2 * strings.Index("xyzw", component)
	return w
}

func checkPacked(t *testing.T, s Shader, group, steps int) {
	g := s.geometry
	source, _, _ := strings.Cut(s.Source, "workgroupBarrier();")
	lines, placed := packedLines(t, source), map[[3]int]weight{}
	for _, x := range packedThreads(t, s, group, steps) {
		for _, l := range lines {
			x.does(t, l)
			if l.kind != 's' || x.skip {
				continue
			}
			place := [3]int{l.at[0].in(x.env), l.at[1].in(x.env), 0}
			for i := 0; i < len(l.parts); i += 2 {
				if _, twice := placed[place]; twice {
					require.Fail(t, "stored twice", "place %v", place)
				}
				placed[place] = x.number(l.parts[i], l.parts[i+1])
				place[2]++
			}
		}
	}
	for k := range g.Tile.TK {
		for col := range g.Tile.TN {
			place := [3]int{k / g.Groups, k%g.Groups*g.B.Pitch + col/g.B.Element, col % g.B.Element}
			if want, got := (weight{col, steps*g.Tile.TK + k}), placed[place]; got != want {
				require.Equal(t, want, got, "place %v", place)
			}
		}
	}
	require.Len(t, placed, g.Tile.TK*g.Tile.TN)
}

// checkDirect checks that the threads multiply every weight once, by the k of A that it belongs to, for all
// numbers of rows.
func checkDirect(t *testing.T, s Shader, group, steps int) {
	g := s.geometry
	checkStage(t, s, "A", g.A, 0, 1<<20, 2)
	checkStage(t, s, "A", g.A, 1, 1<<20+1, 2)
	first, loop, _ := strings.Cut(s.Source, "loop {")
	_, loop, _ = strings.Cut(loop, "if (rows > ")
	loop, _, _ = strings.Cut(loop, "if (left == 0u)")
	lines, seen := append(packedLines(t, first), packedLines(t, loop)...), map[weight]int{}
	for _, x := range packedThreads(t, s, group, steps) {
		require.Equal(t, x.env["group"]*g.A.Pitch, x.env["readA0"])
		var all []weight // of one k
		for _, l := range lines {
			x.does(t, l)
			switch l.kind {
			case 'b':
				all = all[:0]
				for c := range 4 {
					all = append(all, x.number(l.parts[1+2*c], l.parts[2+2*c]))
				}
			case 'a':
				for c, got := range all {
					if want := (weight{4*x.env["tx"] + c, steps*g.Tile.TK + x.env["group"]*g.GroupSteps +
						number(l.parts[1])}); got != want {
						require.Equal(t, want, got)
					}
					seen[got]++
				}
			}
		}
	}
	require.Len(t, seen, g.Tile.TK*g.Tile.TN)
	for w, n := range seen {
		require.Equal(t, 3, n, "%v: once for one row, for four and for all", w)
	}
	checkDirectScales(t, s)
}

// checkDirectScales checks that the sums of a step are added to the others times the scales of their
// columns, from the loaded words, and the same for zero points.
func checkDirectScales(t *testing.T, s Shader) {
	const scales, zeros = 1, 2
	made := map[int]int{}
	for _, m := range packedGroup.FindAllStringSubmatch(s.Source, -1) {
		require.Equal(t, m[3], m[scales]+m[zeros], m[0])
		made[btoi(m[zeros] != "")]++
	}
	require.Equal(t, map[int]int{0: 4, 1: 4}, made, "a scale and a zero point of each column")
	require.Equal(t, 3, strings.Count(s.Source, "let scales = vec4<f32>(scale0, scale1, scale2, scale3);"))
	sums := directSum.FindAllStringSubmatch(s.Source, -1)
	require.Len(t, sums, s.geometry.Tile.RM+s.geometry.A.Element+1, "of all rows, of four and of one")
	for _, m := range sums {
		require.Equal(t, [2]string{m[1], m[1]}, [2]string{m[2], m[3]}, m[0])
	}
}
