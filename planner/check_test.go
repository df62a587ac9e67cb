package planner

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckMistakes(t *testing.T) {
	good := Problem{M: 2, N: 3, K: 4, A: Matrix{0, 4}, B: Matrix{0, 3}, C: Matrix{0, 3}}
	const lenA, lenB, lenC = 8, 12, 6
	require.NoError(t, Batch{good}.Check(t.Context(), Epilogue{}, Lengths{A: lenA, B: lenB, C: lenC}))

	above := func(arg string) string {
		return fmt.Sprintf("problem 1: %s %d is above the limit 2147483647", arg, math.MaxInt)
	}
	farther := map[string]string{"N": above("N"), "ldc": above("ldc")}
	if math.MaxInt == MaxDim { // int has 32 bits
		farther = map[string]string{"N": "problem 1: ldb 3 < row length 2147483647",
			"ldc": "problem 1: C does not fit: its last offset overflows"}
	}
	cases := []struct {
		name string
		edit func(*Problem)
		want string // "" when the batch is right
	}{
		{"negative M", func(p *Problem) { p.M = -1 }, "problem 1: M -1 is negative"},
		{"negative K", func(p *Problem) { p.K = -7 }, "problem 1: K -7 is negative"},
		{"N above int32", func(p *Problem) { p.N = math.MaxInt }, farther["N"]},
		{"lda", func(p *Problem) { p.A.LD = 3 }, "problem 1: lda 3 < row length 4"},
		{"lda transposed", func(p *Problem) { p.TransA, p.A.LD = true, 1 },
			"problem 1: lda 1 < row length 2"},
		{"ldb", func(p *Problem) { p.B.LD = 2 }, "problem 1: ldb 2 < row length 3"},
		{"ldb transposed", func(p *Problem) { p.TransB = true }, "problem 1: ldb 3 < row length 4"},
		{"ldc", func(p *Problem) { p.C.LD = 0 }, "problem 1: ldc 0 < row length 3"},
		{"ldc above int32", func(p *Problem) { p.C.LD = math.MaxInt }, farther["ldc"]},
		{"negative offset", func(p *Problem) { p.B.Offset = -4 }, "problem 1: B offset -4 is negative"},
		{"A past its buffer", func(p *Problem) { p.A.Offset = 1 },
			"problem 1: A needs elements [1, 9) of a buffer of 8"},
		{"C past its buffer", func(p *Problem) { p.C.LD = 4 },
			"problem 1: C needs elements [0, 7) of a buffer of 6"},
		{"offset overflows", func(p *Problem) { p.A.Offset = math.MaxInt - 2 },
			"problem 1: A does not fit: its last offset overflows"},
		{"overlap", func(p *Problem) {}, "problem 1: C overlaps C of problem 0"},
		{"A not read when alpha is 0", func(p *Problem) { p.Alpha, p.A.Offset, p.M = Scale(0), 99, 0 }, ""},
		{"nothing written when M is 0", func(p *Problem) { p.M, p.C.Offset = 0, 1000 }, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := good
			c.edit(&p)
			err := Batch{good, p}.Check(t.Context(), Epilogue{}, Lengths{A: lenA, B: lenB, C: lenC})
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, c.want)
			var pe *ProblemError
			require.ErrorAs(t, err, &pe)
		})
	}
}

// TestLargestSizes: sizes and leading dimensions may be up to MaxDim.
func TestLargestSizes(t *testing.T) {
	if math.MaxInt == MaxDim { // int has 32 bits
		t.Skip("no int is larger")
	}
	one := Problem{M: 1, N: 1, K: 1, A: Matrix{LD: MaxDim}, B: Matrix{LD: MaxDim}, C: Matrix{LD: MaxDim}}
	for arg, size := range map[string]func(*Problem) *int{
		"lda": func(p *Problem) *int { return &p.A.LD }, "ldb": func(p *Problem) *int { return &p.B.LD },
		"ldc": func(p *Problem) *int { return &p.C.LD }, "M": func(p *Problem) *int { return &p.M },
		"N": func(p *Problem) *int { return &p.N }, "K": func(p *Problem) *int { return &p.K },
	} {
		p, most := one, MaxDim
		*size(&p) = most
		require.NoError(t, Batch{p}.Check(t.Context(), Epilogue{}, endless), arg)
		*size(&p) = most + 1
		require.EqualError(t, Batch{p}.Check(t.Context(), Epilogue{}, endless),
			fmt.Sprintf("problem 0: %s 2147483648 is above the limit 2147483647", arg))
	}
}

// TestExtent: operands that are not read or written need no room, wherever they lie.
func TestExtent(t *testing.T) {
	far := Matrix{1000, 1000}
	for _, c := range []struct {
		name string
		p    Problem
		want [3]int
	}{
		{"all", Problem{M: 2, N: 3, K: 4}, [3]int{2004, 4003, 2003}},
		{"transposed", Problem{M: 2, N: 3, K: 4, TransA: true, TransB: true}, [3]int{4002, 3004, 2003}},
		{"no rows", Problem{N: 3, K: 4}, [3]int{}},
		{"no columns", Problem{M: 2, K: 4}, [3]int{}},
		{"no products", Problem{M: 2, N: 3}, [3]int{0, 0, 2003}},
		{"alpha 0", Problem{M: 2, N: 3, K: 4, Alpha: Scale(0)}, [3]int{0, 0, 2003}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.p.A, c.p.B, c.p.C = far, far, far
			need := Batch{c.p}.Lengths(Epilogue{})
			require.Equal(t, c.want, [3]int{need.A, need.B, need.C})
		})
	}
}

func TestPack(t *testing.T) {
	b := mustPack(t, GEMM(2, 3, 5), Problem{M: 3, N: 2, K: 1, TransA: true, TransB: true, Alpha: Scale(2)})
	require.Equal(t, Batch{
		{M: 2, N: 3, K: 5, A: Matrix{0, 5}, B: Matrix{0, 3}, C: Matrix{0, 3}},
		{M: 3, N: 2, K: 1, TransA: true, TransB: true, Alpha: Scale(2), A: Matrix{12, 3}, B: Matrix{16, 1},
			C: Matrix{8, 2}},
	}, b)
	need := b.Lengths(Epilogue{})
	require.Equal(t, Lengths{A: 15, B: 18, C: 14}, need)
	require.NoError(t, b.Check(t.Context(), Epilogue{}, need))

	_, err := Pack(GEMM(1, 1, 1), GEMM(-2, 1, 1))
	require.EqualError(t, err, "problem 1: M -2 is negative")
	side := 16<<10 - 1 // two such matrices fit in 32 bits
	if maxElements > MaxDim {
		side = MaxDim
	}
	_, err = Pack(GEMM(side, side, 1), GEMM(side, side, 1), GEMM(side, side, 1))
	require.EqualError(t, err, "problem 2: C does not fit: its last offset overflows")
}

// C of problems may interleave if all rows lie in one matrix. If leading dimensions differ, their ranges
// must be separate.
func TestCheckOverlap(t *testing.T) {
	at := func(off, m, n, ld int) Problem {
		return Problem{M: m, N: n, B: Matrix{LD: n}, C: Matrix{off, ld}}
	}
	const overlaps = "problem 1: C overlaps C of problem 0"
	for _, c := range []struct {
		name, want string
		batch      Batch
	}{
		{"side by side in one matrix", "", Batch{at(0, 4, 5, 10), at(5, 4, 5, 10)}},
		{"side by side, one column shared", overlaps, Batch{at(0, 4, 6, 10), at(5, 4, 5, 10)}},
		{"quadrants", "", Batch{at(0, 2, 5, 10), at(5, 2, 5, 10), at(20, 2, 5, 10), at(25, 2, 5, 10)}},
		{"quadrants, corner shared", overlaps, Batch{at(0, 3, 6, 10), at(25, 2, 5, 10), at(6, 2, 4, 10)}},
		{"block that wraps around the row end", "", Batch{at(8, 3, 4, 10), at(2, 3, 6, 10)}},
		{"wrapped block meets a neighbour", overlaps, Batch{at(8, 3, 4, 10), at(11, 1, 3, 10)}},
		{"same element", overlaps, Batch{at(7, 1, 1, 1), at(7, 1, 1, 1)}},
		{"unsorted", "problem 2: C overlaps C of problem 0", Batch{at(100, 2, 2, 2), at(0, 10, 10, 10),
			at(103, 2, 2, 2)}},
		{"a row between rows", "", Batch{at(0, 3, 2, 10), at(2, 1, 8, 8)}},
		{"a dense matrix between rows", "", Batch{at(0, 3, 2, 10), at(2, 4, 2, 2)}},
		{"other leading dimension, after", "", Batch{at(0, 3, 2, 10), at(22, 3, 2, 20)}},
		{"other leading dimension, between rows", "problem 1: C may overlap C of problem 0: " +
			"their ranges interleave, and leading dimensions 20 and 10 differ",
			Batch{at(0, 3, 2, 10), at(2, 2, 3, 20)}},
		{"the same, unsorted", "problem 1: C may overlap C of problem 0: " +
			"their ranges interleave, and leading dimensions 10 and 20 differ",
			Batch{at(2, 2, 3, 20), at(0, 3, 2, 10)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.batch.Check(t.Context(), Epilogue{}, Lengths{A: 1000, B: 1000, C: 1000})
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, c.want)
			require.ErrorIs(t, err, ErrInvalid)
		})
	}
}

func BenchmarkCheck(b *testing.B) {
	for _, l := range []struct {
		name string
		of   func(i, n int) Matrix // C is 8 x 8
	}{
		{"packed", func(i, n int) Matrix { return Matrix{i * 64, 8} }},
		{"blocks of a matrix", func(i, n int) Matrix { return Matrix{i/16*8*128 + i%16*8, 128} }},
		{"blocks of a row", func(i, n int) Matrix { return Matrix{i * 8, n * 8} }},
	} {
		for _, n := range []int{16, 1000, 400_000} {
			b.Run(fmt.Sprintf("%s/%d", l.name, n), func(b *testing.B) {
				batch := make(Batch, n)
				for i := range batch {
					batch[i] = Problem{M: 8, N: 8, B: Matrix{LD: 8}, C: l.of(i, n)}
				}
				b.ReportAllocs()
				for b.Loop() {
					if err := batch.Check(b.Context(), Epilogue{}, Lengths{C: math.MaxInt}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/problem")
			})
		}
	}
}
