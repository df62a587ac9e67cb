package planner

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckOverlap(t *testing.T) {
	at := func(off, m, n, ld int) Problem {
		return Problem{M: m, N: n, B: Matrix{LD: n}, C: Matrix{off, ld}}
	}
	cases := []struct {
		name  string
		batch Batch
		bad   bool
	}{
		{"side by side in one matrix", Batch{at(0, 4, 5, 10), at(5, 4, 5, 10)}, false},
		{"side by side, one column shared", Batch{at(0, 4, 6, 10), at(5, 4, 5, 10)}, true},
		{"quadrants", Batch{at(0, 2, 5, 10), at(5, 2, 5, 10), at(20, 2, 5, 10), at(25, 2, 5, 10)}, false},
		{"quadrants, corner shared", Batch{at(0, 3, 6, 10), at(25, 2, 5, 10), at(6, 2, 4, 10)}, true},
		{"block that wraps around the row end", Batch{at(8, 3, 4, 10), at(2, 3, 6, 10)}, false},
		{"wrapped block meets a neighbour", Batch{at(8, 3, 4, 10), at(11, 1, 3, 10)}, true},
		{"other leading dimension, disjoint", Batch{at(0, 3, 2, 10), at(2, 2, 3, 20)}, false},
		{"other leading dimension, shared", Batch{at(0, 3, 2, 10), at(2, 3, 9, 20)}, true},
		{"same element", Batch{at(7, 1, 1, 1), at(7, 1, 1, 1)}, true},
		{"unsorted", Batch{at(100, 2, 2, 2), at(0, 10, 10, 10), at(103, 2, 2, 2)}, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			err := c.batch.Check(1000, 1000, 1000)
			require.Equal(t, c.bad, err != nil, "%v", err)
		})
	}
}

// randomLayout draws regions of C that lie near each other, of one leading dimension, of
// multiples of one, or of any, in [0, 2000).
func randomLayout(t *tape) (b Batch) {
	unit, kind, span := 1+t.byte()%12, t.byte()%4, 1+t.byte()*(1+t.byte()%3)
	for range 2 + t.byte()%7 {
		ld := unit
		switch kind {
		case 1:
			ld *= 1 + t.byte()%4
		case 2:
			ld = 1 + t.byte()%24
		case 3:
			ld *= 1 << (t.byte() % 4)
		}
		m, n := 1+t.byte()%8, 1+t.byte()%ld
		if t.byte()%2 == 0 {
			n = min(n, 2)
		}
		b = append(b, placed(t.byte()*(1+t.byte()%3)%span, m, n, ld))
	}
	return b
}

// overlapping marks every element, and returns what Check may say.
func overlapping(b Batch) map[string]bool {
	owners, found := map[int][]int{}, map[string]bool{}
	for i := range b {
		for row := range b[i].M {
			for col := range b[i].N {
				at := b[i].C.Offset + row*b[i].C.LD + col
				for _, j := range owners[at] {
					found[fmt.Sprintf("problem %d: C overlaps C of problem %d", i, j)] = true
				}
				owners[at] = append(owners[at], i)
			}
		}
	}
	return found
}

// checkLayout compares Check, and each of the ways in which it compares regions of any
// kind, with what marking every element says.
func checkLayout(t *testing.T, b Batch) (legal bool) {
	t.Helper()
	want := overlapping(b)
	agrees := func(way string, err error) {
		if err == nil {
			require.Empty(t, want, "%s: %+v", way, b)
			return
		}
		require.Contains(t, want, err.Error(), "%s: %+v", way, b)
	}
	agrees("Check", b.Check(0, 0, math.MaxInt))
	regions := func() (*overlaps, []region) {
		o := new(overlaps)
		_ = b.check(t.Context(), &Lengths{C: math.MaxInt}, o, &Epilogue{})
		o.arrange(o.regions, byStart)
		return o, o.regions
	}
	o, r := regions()
	extent := 0
	for i := range r {
		extent = max(extent, r[i].end-r[0].start)
	}
	agrees("mark", o.mark(r, extent, minWindow))
	o, r = regions()
	agrees("mark in small windows", o.mark(r, extent, 6))
	o, r = regions()
	_, err := o.compareSets(r, math.MaxInt)
	agrees("compareSets", err)
	return len(want) == 0
}

// TestCheckOverlapRandom compares with marking every element.
func TestCheckOverlapRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	legal := 0
	const count = 20000
	for range count {
		if checkLayout(t, randomLayout(randomTape(rng, 80))) {
			legal++
		}
	}
	require.Greater(t, min(legal, count-legal), count/10, "both outcomes are tested")
}

func FuzzCheckOverlap(f *testing.F) {
	rng := rand.New(rand.NewPCG(7, 7))
	for range 100 {
		f.Add(randomTape(rng, 80).data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkLayout(t, randomLayout(&tape{data})) })
}

// TestCheckLayouts: layouts of many problems are legal, and are not with one element
// more, wherever that is.
func TestCheckLayouts(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	for _, l := range layouts {
		t.Run(l.name, func(t *testing.T) {
			for _, n := range []int{60, 64, 300, 1000} {
				b := l.of(n)
				require.NoError(t, b.Check(0, 0, math.MaxInt))
				rng.Shuffle(n, func(i, j int) { b[i], b[j] = b[j], b[i] })
				require.NoError(t, b.Check(0, 0, math.MaxInt))
				for range 20 {
					i, more := rng.IntN(n), placed(0, 1, 1, 1)
					more.C.Offset = b[i].C.Offset + rng.IntN(b[i].M)*b[i].C.LD + rng.IntN(b[i].N)
					require.EqualError(t, append(b, more).Check(0, 0, math.MaxInt), fmt.Sprintf("problem %d: C overlaps C of problem %d", n, i))
				}
			}
		})
	}
}

// TestCheckContext: what takes long can be ended. What need not take long does not, and
// is done before it asks whether to end.
func TestCheckContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, l := range layouts {
		if !l.mixed {
			require.NoError(t, l.of(1000).CheckContext(ctx, 0, 0, math.MaxInt), l.name)
		}
	}
	var b Batch
	for i := range 100 { // leading dimensions that have nothing in common
		b = append(b, placed(i, 2, 1, 100+i))
	}
	require.NoError(t, b.Check(0, 0, math.MaxInt))
	require.ErrorIs(t, b.CheckContext(ctx, 0, 0, math.MaxInt), context.Canceled)
	require.NoError(t, b.Check(0, 0, math.MaxInt), "nothing is left of it")
}

func TestFirstBelow(t *testing.T) {
	for m := 1; m < 24; m++ {
		for a := range m + 3 {
			for b := range m + 2 {
				for below := 1; below <= m; below++ {
					want := -1
					for x := m; x >= 0; x-- {
						if (b+a*x)%m < below {
							want = x
						}
					}
					require.EqualValues(t, want, firstBelow(int64(a), int64(b), int64(m), int64(below)), "%d + %d*x mod %d < %d", b, a, m, below)
				}
			}
		}
	}
}

func TestRankSet(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	for _, n := range []int{1, 2, 63, 64, 65, 4096, 4097, 300_000} {
		var s rankSet
		s.reset(n)
		in := make([]bool, n)
		for range 2000 {
			i := rng.IntN(n)
			if in[i] = rng.IntN(3) > 0; in[i] {
				s.add(i)
			} else {
				s.remove(i)
			}
			at := rng.IntN(n)
			next, prev := at+1, at-1
			for next < n && !in[next] {
				next++
			}
			if next == n {
				next = -1
			}
			for prev >= 0 && !in[prev] {
				prev--
			}
			require.Equal(t, [2]int{next, prev}, [2]int{s.next(at), s.prev(at)}, "around %d of %d", at, n)
		}
	}
}
