package wgsl

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner/element"
	"github.com/batchgemm/batchgemm/planner/encoding"
	"github.com/batchgemm/batchgemm/planner/tile"
)

// Every weight of a tile is loaded once, with the word of its group, and stored to the place in workgroup memory where the K
// groups look for it.
func TestPackedStageCoversTile(t *testing.T) {
	scalings := []encoding.Scaling{encoding.PerGroup64, encoding.PerGroup128}
	for name, lim := range adapters {
		t.Run(name, func(t *testing.T) {
			for i, s := range tile.Of(tile.FMA) {
				k := encoding.Kernel{Tile: s, Type: element.BF16, TypeC: element.F32, TransB: true, Epilogue: encoding.Epilogue{ScaleB: scalings[i%2]}}
				if i/2%2 == 0 {
					k.TypeC = k.Type
				}
				if shader, fits := renderFor(t, k, lim); fits {
					t.Run(s.Name, func(t *testing.T) { checkPacked(t, shader, k.Epilogue.ScaleB.Group()) })
				}
			}
		})
	}
}

var (
	packedLoad   = regexp.MustCompile(`^next(Group)?B(\d+) = (?:B|indices)\[(.*)\];$`)
	packedNumber = regexp.MustCompile(`^let (even|odd)(\d) = scale \* weights\(nextB(\d+)(?:\.([xyzw]))?( >> 16u)?, zeros\);$`)
	packedStore  = regexp.MustCompile(`^sharedB\[(.*?)\]\[(.*?)\](?:\[(.*?)\])? = (?:bitcast<u32>\()?(even\d|odd\d)\.([xyzw])\)?;$`)
)

func checkPacked(t *testing.T, s Shader, group int) {
	const steps, first = 1 << 10, 5 // loads of a column, and of the word of the first group
	g, unit := s.geometry, 8*s.geometry.B.Words
	names := lets(t, s.Source, `alongB|acrossB`)
	begins := lets(t, s.Source, `startB|groupsB|scalesB`)
	source, _, _ := strings.Cut(s.Source, "workgroupBarrier();")
	type weight struct{ col, k int }
	type loaded struct{ weight, group int }
	placed := map[[3]int]weight{}
	for i := range s.Threads {
		env := thread(i, names)
		env["offB"], env["ldB"], env["scaleBAt"], env["atB"] = 0, steps, first, env["alongB"]
		for _, l := range begins {
			env[l.name] = l.value.in(env)
		}
		registers, numbers, skip := map[string]loaded{}, map[string]weight{}, false
		for _, line := range strings.Split(source, "\n") {
			line = strings.TrimSpace(line)
			guard, load, made, store := guardLine.FindStringSubmatch(line), packedLoad.FindStringSubmatch(line), packedNumber.FindStringSubmatch(line), packedStore.FindStringSubmatch(line)
			switch {
			case guard != nil && strings.Contains(guard[1], "acrossB"):
				skip = parse(t, guard[1]).in(env) == 0
			case line == "}":
				skip = false
			case skip:
			case load != nil:
				r := registers[load[2]]
				if at := parse(t, load[3]).in(env); load[1] == "" {
					r.weight = at
				} else {
					r.group = at - first
				}
				registers[load[2]] = r
			case made != nil:
				r := registers[made[3]]
				w := weight{r.weight / steps, r.weight%steps*unit + 8*max(0, strings.Index("xyzw", made[4])) + btoi(made[1] == "odd")}
				require.Equal(t, w.col*(steps*unit/group)+w.k/group, r.group)
				require.Equal(t, made[1] == "odd", made[5] != "")
				numbers[made[1]+made[2]] = w
			case store != nil:
				place := [3]int{parse(t, store[1]).in(env), parse(t, store[2]).in(env)}
				if store[3] != "" {
					place[2] = parse(t, store[3]).in(env)
				}
				w := numbers[store[4]]
				w.k += 2 * strings.Index("xyzw", store[5])
				require.NotContains(t, placed, place)
				placed[place] = w
			}
		}
	}
	for k := range g.Tile.TK {
		for col := range g.Tile.TN {
			place := [3]int{k / g.Groups, k%g.Groups*g.B.Pitch + col/g.B.Element, col % g.B.Element}
			if got := placed[place]; got != (weight{col, k}) {
				require.Equal(t, weight{col, k}, got, "place %v", place)
			}
		}
	}
	require.Len(t, placed, g.Tile.TK*g.Tile.TN)
}
