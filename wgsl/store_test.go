package wgsl

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

var (
	toC       = regexp.MustCompile(`^C\[(.*?)\] = \w+(?:\.([xyzw]))?;$`)
	oneLine   = regexp.MustCompile(`^if \((.*)\) \{ (.*) \}$`)
	owner     = regexp.MustCompile(`^if \((group .*)\) \{$`)
	allStores = regexp.MustCompile(`^if \((rows == |row0 < rows)`)
)

// store is an element of C that the text writes, the vector component that goes there, and the conditions
// around it.
type store struct {
	at        expression
	component int
	when      []condition
}

type condition struct {
	expression
	otherwise bool // the else branch
}

// stores reads the end of a shader, from the condition for whole tiles on, or from the first row on if there
// is none.
func stores(t *testing.T, source string) []store {
	var all []store
	var open []condition
	var heads []string // of the blocks around the current line
	inside := false
	for _, line := range strings.Split(source, "\n") {
		line = strings.TrimSpace(line)
		if !inside && allStores.MatchString(line) {
			inside = true
			for _, head := range heads {
				if m := owner.FindStringSubmatch(head); m != nil {
					open = append(open, condition{parse(t, m[1]), false})
				}
			}
		}
		if !inside {
			if strings.HasPrefix(line, "}") {
				heads = heads[:len(heads)-1]
			}
			if strings.HasSuffix(line, "{") {
				heads = append(heads, line)
			}
			continue
		}
		one, guard := oneLine.FindStringSubmatch(line), guardLine.FindStringSubmatch(line)
		when := open
		if one != nil {
			when, line = append(when[:len(when):len(when)], condition{parse(t, one[1]), false}), one[2]
		}
		switch m := toC.FindStringSubmatch(line); {
		case m != nil:
			all = append(all, store{parse(t, m[1]), max(0, strings.Index("xyzw", m[2])), when})
		case guard != nil:
			open = append(open[:len(open):len(open)], condition{parse(t, guard[1]), false})
		case line == "} else {":
			last := open[len(open)-1]
			open = append(open[:len(open)-1:len(open)-1], condition{last.expression, true})
		case line == "}" && len(open) > 0:
			open = open[:len(open)-1]
		}
	}
	require.NotEmpty(t, all)
	return all
}

func (s *store) runs(env map[string]int) bool {
	for _, c := range s.when {
		if (c.in(env) == 0) != c.otherwise {
			return false
		}
	}
	return true
}

// The threads write each element of the tile that is in the matrix once, and nothing else. WGSL only drops
// writes beyond a binding, and beside a tile are other tiles or matrices.
func TestStoresStayInTile(t *testing.T) {
	type key struct {
		tile                                    tile.Shape
		patchRows, vector, apartRows, apartCols int
		narrow                                  bool
	}
	of := func(k encoding.Kernel, g geometry) any {
		return key{g.Tile, g.PatchRows, g.B.Element, g.A.Apart, g.B.Apart, k.TypeC != element.F32}
	}
	eachShader(t, of, func(t *testing.T, s Shader) { checkStores(t, s, s.geometry.B.Element) })
	for _, k := range some(t, fixups()) {
		if k.TypeC == element.F16 {
			continue // same as BF16
		}
		t.Run(k.String(), func(t *testing.T) {
			s, err := Render(k, adapters["nvidia"])
			require.NoError(t, err)
			checkStores(t, s, 4)
		})
	}
}

func checkStores(t *testing.T, s Shader, width int) {
	if strings.Contains(s.Source, "atomic<u32>") {
		checkWords(t, s, width)
		return
	}
	const ld = 1 << 20
	source := strings.ReplaceAll(s.Source, "worker.y", "piece")
	names := lets(t, source, `place|group|part|lane|tx|ty|row\d+|vector\d*|atC\d+`)
	all := stores(t, source)
	tile := s.geometry.Tile
	turns, each := s.turns()
	for _, edge := range [][2]int{{tile.TM, tile.TN}, {tile.TM - 1, tile.TN},
		{tile.TM, tile.TN - 1}, {1, 1}} {
		written := make([]int, edge[0]*edge[1])
		for piece := range s.Pieces {
			for i := range s.Threads * turns {
				env := map[string]int{"t": i / turns, "done": i % turns * each, "piece": piece,
					"offC": 0, "ldC": ld, "rows": edge[0], "cols": edge[1]}
				for _, l := range names {
					env[l.name] = l.value.in(env)
				}
				for _, x := range all {
					if !x.runs(env) {
						continue
					}
					at := x.at.in(env)
					row, col := at/ld, at%ld
					if row >= edge[0] || col >= edge[1] || s.componentOf(col, width) != x.component {
						t.Fatalf("thread %d writes component %d to row %d, column %d of a tile with %d "+
							"rows and %d columns", i/turns, x.component, row, col, edge[0], edge[1])
					}
					written[row*edge[1]+col]++
				}
			}
		}
		for i, n := range written {
			if n != 1 {
				t.Fatalf("row %d, column %d is written %d times", i/edge[1], i%edge[1], n)
			}
		}
	}
}

// componentOf returns the component, in vectors of that width, of a column of the tile.
func (s *Shader) componentOf(col, width int) int {
	if fixup := strings.Contains(s.Source, "var at = ("); fixup {
		return col % width
	}
	_, component := s.geometry.B.elementOf(col)
	return component
}

// TestFixupThreads: as many threads as the adapter has, at most one set for each group of slots.
func TestFixupThreads(t *testing.T) {
	narrow, long := &tile.Shape{TM: 8, TN: 8}, &tile.Shape{TM: 8, TN: 128}
	for limit, want := range map[int]int{1024: 128, 128: 128, 127: 64, 64: 64, 16: 16} {
		threads, err := fixupThreads(narrow, Limits{Threads: limit})
		require.NoError(t, err)
		require.Equal(t, want, threads, "of %d", limit)
	}
	_, err := fixupThreads(narrow, Limits{Threads: 15})
	require.ErrorContains(t, err, "fix-ups need 16 threads, the adapter allows 15")
	_, err = fixupThreads(long, Limits{Threads: 31})
	require.ErrorContains(t, err, "fix-ups need 32 threads, the adapter allows 31")
}
