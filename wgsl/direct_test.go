package wgsl

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

var (
	directStart  = regexp.MustCompile(`^atB = (.*);$`)
	directLoad   = regexp.MustCompile(`^nextB(\d+) = B\[(.*)\];$`)
	directHand   = regexp.MustCompile(`^let words(\d+) = nextB(\d+);$`)
	directColumn = regexp.MustCompile(`^let (column\d) = (?:four\()?words(\d+)(?:\.([xyzw]+))?\)?;$`)
	directRow    = regexp.MustCompile(`^let b0 = (?:four\()?words(\d+)\)?;$`)
	directGuard  = regexp.MustCompile(`^if \((.*) < left\) \{$`)
)

// directThread is what a thread has of B in its registers at a K step.
type directThread struct {
	*geometry
	env       map[string]int
	registers map[string]int // first element of each register
	words     map[string]int
	columns   map[string]int
	all       [4]int // elements of b0
}

const directLD = 1 << 12

// does executes a line, if it matters.
func (x *directThread) does(t *testing.T, line string) {
	unit := 4
	if x.B.AlongK {
		unit = x.B.Together
	}
	if load := directLoad.FindStringSubmatch(line); load != nil {
		x.registers[load[1]] = parse(t, load[2]).in(x.env) * unit
	} else if hand := directHand.FindStringSubmatch(line); hand != nil {
		x.words[hand[1]] = x.registers[hand[2]]
	} else if column := directColumn.FindStringSubmatch(line); column != nil {
		first := 0
		if part := column[3]; part != "" {
			first = strings.Index("xyzw", part[:1]) * 4 / len(part)
		}
		x.columns[column[1]] = x.words[column[2]] + first
	} else if row := directRow.FindStringSubmatch(line); row != nil {
		for c := range x.all {
			x.all[c] = x.words[row[1]] + c
		}
	} else if b := directB.FindStringSubmatch(line); b != nil {
		for c := range x.all {
			x.all[c] = x.columns[b[1+2*c]] + strings.Index("xyzw", b[2+2*c])
		}
	}
}

// B that goes to registers: the threads multiply every element of it once, by the k of A that it belongs to,
// for whole and last steps and all numbers of rows.
func TestDirectCoversTiles(t *testing.T) {
	type key struct {
		of     element.Type
		transB bool
		tile   string
		groups int
	}
	kernels, covered := map[key]bool{}, map[key]bool{} // for all numbers of threads
	eachShader(t, func(k encoding.Kernel, g geometry) any {
		if !g.B.Direct || k.TypeB() == element.Int4 {
			return nil
		}
		x := key{k.TypeA, k.TransB, g.Tile.Name, g.Groups}
		kernels[x], covered[key{of: k.TypeA, transB: k.TransB}] = true, true
		return x
	}, func(t *testing.T, s Shader) {
		if !s.geometry.B.Direct {
			return
		}
		for _, steps := range []int{0, 1, 13} {
			checkDirectB(t, s, steps)
		}
	})
	if len(some(t, fixups())) < len(fixups()) {
		return // some shaders did not run
	}
	require.Len(t, covered, 6, "elements of 32, 16 and 8 bits, along K and across: %v", kernels)
}

// checkDirectB checks the K step after that many steps.
func checkDirectB(t *testing.T, s Shader, steps int) {
	g := s.geometry
	first, loop, _ := strings.Cut(s.Source, "loop {")
	names := lets(t, s.Source, `place|group|part|lane|ty|tx|alongB|acrossB|readA0`)
	var start, advance string
	for i, text := range []string{first, loop} {
		for _, line := range strings.Split(text, "\n") {
			if m := directStart.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
				*[]*string{&start, &advance}[i] = m[1]
			}
		}
	}
	type product struct{ col, k int }
	seen, variants := map[product]int{}, 0
	for i := range s.Threads {
		x := &directThread{geometry: &g, env: thread(i, 0, names), registers: map[string]int{},
			words: map[string]int{}, columns: map[string]int{}}
		group, ld := x.env["group"], directLD/4
		if g.B.AlongK {
			ld = directLD / g.B.Together
		}
		require.Equal(t, group*g.A.Pitch, x.env["readA0"])
		x.env["offB"], x.env["ldB"] = 0, ld
		x.env["atB"] = parse(t, start).in(x.env)
		for range steps {
			x.env["atB"] = parse(t, advance).in(x.env)
		}
		for _, line := range strings.Split(first, "\n") {
			x.does(t, strings.TrimSpace(line))
		}
		guard, guarded, at := "", 0, map[string]int{"group": group}
		variants = 0
		for _, line := range strings.Split(loop, "\n") {
			line = strings.TrimSpace(line)
			if m := directGuard.FindStringSubmatch(line); m != nil {
				guard = m[1]
			}
			if !directLoad.MatchString(line) { // loads of the step after it
				x.does(t, line)
			}
			a := directA.FindStringSubmatch(line)
			if a == nil {
				continue
			}
			row, near := number(a[1]), g.B.Together
			k := row/near*near*g.Groups + group*near + row%near
			if guard != "" {
				require.Equal(t, k, parse(t, guard).in(at), "whether it exists")
				guard = ""
				guarded++
			}
			if row == 0 {
				variants++
			}
			for c, element := range x.all {
				got := product{element % directLD, element / directLD}
				if g.B.AlongK {
					got = product{got.k, got.col}
				}
				require.Equal(t, product{4*x.env["tx"] + c, steps*g.Tile.TK + k}, got)
				seen[got]++
			}
		}
		require.Equal(t, g.GroupSteps, guarded, "of the last step")
	}
	require.Len(t, seen, g.Tile.TK*g.Tile.TN)
	for p, n := range seen {
		require.Equal(t, variants, n, "%v", p)
	}
	least := 2
	if strings.Contains(s.Source, "if (left <= ") { // a short text
		least = 1
	}
	require.GreaterOrEqual(t, variants, least, "the last step, and whole ones")
}

// Only shapes whose kernels load B to registers have rates for that in the tile table.
func TestDirectRates(t *testing.T) {
	known := 0
	for _, s := range tile.Of(tile.FMA) {
		if s.Rates.Direct == 0 {
			continue
		}
		known++
		for of := element.F32; elemtype.Known(of); of++ {
			require.True(t, isDirect(encoding.Kernel{Tile: s, TypeA: of, Vector: true}, s), "%s %s", s, of)
		}
	}
	require.Positive(t, known)
}

// A step of int4 is in one group, whose scale multiplies its sums. It has 128 k if groups have 128.
func TestDirectGroups(t *testing.T) {
	s, err := tile.ByName("thin-8x64")
	require.NoError(t, err)
	for scaling, steps := range map[encoding.Scaling]int{encoding.PerGroup64: 64, encoding.PerGroup128: 128} {
		k := encoding.Kernel{Tile: s, TypeA: element.BF16, TypeC: element.BF16,
			Epilogue: encoding.Epilogue{ScaleB: scaling}}
		g, err := newGeometry(k, Limits{Threads: 256, SharedBytes: 16384, Subgroup: 32})
		require.NoError(t, err)
		require.True(t, g.B.Direct)
		require.Equal(t, steps, g.Tile.TK, scaling)
	}
}
