package overlap

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// matrix is a region with the arguments of Add.
type matrix struct{ start, rows, cols, ld int }

func (m matrix) several() bool { return m.rows > 1 && m.cols < m.ld }
func (m matrix) end() int      { return m.start + (m.rows-1)*m.ld + m.cols }

func find(f *Finder, all []matrix) *Conflict {
	f.Reset(len(all))
	for i, m := range all {
		f.Add(i, m.start, m.rows, m.cols, m.ld)
	}
	return f.Find()
}

// shared marks every element, and returns the pairs that share one.
func shared(all []matrix) map[[2]int]bool {
	owners, found := map[int][]int{}, map[[2]int]bool{}
	for i, m := range all {
		for row := range m.rows {
			for col := range m.cols {
				at := m.start + row*m.ld + col
				for _, j := range owners[at] {
					found[[2]int{j, i}] = true
				}
				owners[at] = append(owners[at], i)
			}
		}
	}
	return found
}

// check compares Find with marking every element. No shared element passes. A refused pair shares an
// element, or has two leading dimensions and ranges that meet.
func check(t *testing.T, f *Finder, all []matrix) *Conflict {
	t.Helper()
	want, c := shared(all), find(f, all)
	if c == nil {
		require.Empty(t, want, "%+v", all)
		return nil
	}
	if c.FirstLD == c.SecondLD {
		require.True(t, want[[2]int{c.First, c.Second}], "%+v of %+v", *c, all)
		return c
	}
	x, y := all[c.First], all[c.Second]
	require.Less(t, c.First, c.Second)
	require.Equal(t, Conflict{c.First, c.Second, x.ld, y.ld}, *c)
	require.True(t, x.several() && y.several() && x.start < y.end() && y.start < x.end(), "%+v of %+v", *c,
		all)
	return c
}

// draw derives matrices that lie near each other, in [0, 2000), from data. They have one leading dimension
// or several.
func draw(data []byte) (all []matrix) {
	next := func() int {
		if len(data) == 0 {
			return 0
		}
		b := data[0]
		data = data[1:]
		return int(b)
	}
	unit, kind, span := 1+next()%12, next()%3, 1+next()*(1+next()%3)
	for range 2 + next()%7 {
		ld := unit
		switch kind {
		case 1:
			ld *= 1 + next()%4
		case 2:
			ld = 1 + next()%24
		}
		m := matrix{next() * (1 + next()%3) % span, 1 + next()%8, 1 + next()%ld, ld}
		if next()%2 == 0 {
			m.cols = min(m.cols, 2)
		}
		if next()%4 == 0 { // a row that may be longer than ld
			m = matrix{m.start, 1, m.cols + next()%20, 40}
		}
		all = append(all, m)
	}
	return all
}

func randomBytes(rng *rand.Rand) []byte {
	data := make([]byte, 90)
	for i := range data {
		data[i] = byte(rng.Uint32() >> (rng.IntN(2) * 5)) // small ones too
	}
	return data
}

// Random layouts cover all answers of Find.
func TestFind(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	const count = 20000
	var f Finder
	said := map[string]int{}
	for range count {
		switch c := check(t, &f, draw(randomBytes(rng))); {
		case c == nil:
			said["none"]++
		case c.FirstLD == c.SecondLD:
			said["overlap"]++
		default:
			said["not known"]++
		}
	}
	require.Len(t, said, 3)
	for what, n := range said {
		require.Greater(t, n, count/20, what)
	}
}

func FuzzFind(f *testing.F) {
	rng := rand.New(rand.NewPCG(7, 7))
	for range 100 {
		f.Add(randomBytes(rng))
	}
	f.Fuzz(func(t *testing.T, data []byte) { check(t, new(Finder), draw(data)) })
}

// layouts have n matrices that share no element.
var layouts = []struct {
	name string
	of   func(n int) []matrix
}{
	{"packed", func(n int) (all []matrix) {
		for i := range n {
			all = append(all, matrix{i * 64, 8, 8, 8})
		}
		return all
	}},
	{"with gaps", func(n int) (all []matrix) {
		for i := range n {
			all = append(all, matrix{i * 80, 8, 8, 9 + i%2})
		}
		return all
	}},
	{"blocks of a matrix", func(n int) (all []matrix) {
		const across = 16
		for i := range n {
			all = append(all, matrix{i/across*32*across*32 + i%across*32, 32, 32, across * 32})
		}
		return all
	}},
	{"columns of a matrix", func(n int) (all []matrix) {
		for i := range n {
			all = append(all, matrix{i, 32, 1, n})
		}
		return all
	}},
	{"staircase of columns", func(n int) (all []matrix) {
		for i, at := range rand.New(rand.NewPCG(1, 1)).Perm(n) {
			all = append(all, matrix{i*n + at, n, 1, n})
		}
		return all
	}},
	{"blocks around the end of a row", func(n int) (all []matrix) {
		for i := range n {
			all = append(all, matrix{i*50 + 8, 5, 7, 10}, matrix{i*50 + 15, 4, 3, 10},
				matrix{i*50 + 5, 1, 3, 10})
		}
		return all[:n]
	}},
}

// Layouts of many matrices pass in any order. With one more element anywhere they do not.
func TestLayouts(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	var f Finder
	for _, l := range layouts {
		t.Run(l.name, func(t *testing.T) {
			for _, n := range []int{60, 64, 300, 1000} {
				all := l.of(n)
				require.Nil(t, find(&f, all))
				rng.Shuffle(n, func(i, j int) { all[i], all[j] = all[j], all[i] })
				require.Nil(t, find(&f, all))
				for range 20 {
					i := rng.IntN(n)
					at := all[i].start + rng.IntN(all[i].rows)*all[i].ld + rng.IntN(all[i].cols)
					require.Equal(t, &Conflict{First: i, Second: n},
						find(&f, append(all, matrix{at, 1, 1, 1})))
				}
			}
		})
	}
}

func BenchmarkFind(b *testing.B) {
	var f Finder
	for _, l := range layouts {
		for _, n := range []int{16, 1000, 16000, 1_000_000} {
			if l.name == "staircase of columns" && n > 1<<15 { // 2^40 elements, beyond 32 bits
				continue
			}
			all := l.of(n)
			rand.New(rand.NewPCG(1, 1)).Shuffle(n, func(i, j int) { all[i], all[j] = all[j], all[i] })
			b.Run(fmt.Sprintf("%s/%d", l.name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if find(&f, all) != nil {
						b.Fatal("a conflict")
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/matrix")
			})
		}
	}
}
