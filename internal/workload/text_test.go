package workload

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       []planner.Problem
	}{
		{"sizes only", "2 3 4\n", []planner.Problem{{M: 2, N: 3, K: 4}}},
		{"no newline at the end", "2 3 4", []planner.Problem{{M: 2, N: 3, K: 4}}},
		{"all fields", "2 3 4 t n -0.5 2",
			[]planner.Problem{{M: 2, N: 3, K: 4, TransA: true, Alpha: planner.Scale(-0.5), Beta: 2}}},
		{"other words for trans", "1 1 1 0 1\n1 1 1 False TRUE\n1 1 1 T N", []planner.Problem{
			{M: 1, N: 1, K: 1, TransB: true},
			{M: 1, N: 1, K: 1, TransB: true},
			{M: 1, N: 1, K: 1, TransA: true},
		}},
		{"fields left out from the end", "1 2 3 t\n1 2 3 n n 3", []planner.Problem{
			{M: 1, N: 2, K: 3, TransA: true},
			{M: 1, N: 2, K: 3, Alpha: planner.Scale(3)},
		}},
		{"comments, blank lines, tabs, DOS line ends", "# head\r\n\r\n\t2\t3 4 # tail\r\n#end",
			[]planner.Problem{{M: 2, N: 3, K: 4}}},
		{"zero and largest sizes", "0 2147483647 0", []planner.Problem{{M: 0, N: math.MaxInt32}}},
		{"infinite scalars", "1 1 1 n n inf -inf",
			[]planner.Problem{{M: 1, N: 1, K: 1, Alpha: planner.Scale(math.Inf(1)),
				Beta: math.Inf(-1)}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parse(strings.NewReader(tc.text), "f")
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestParseNaN(t *testing.T) {
	got, err := parse(strings.NewReader("1 1 1 n n NaN"), "f")
	require.NoError(t, err)
	require.True(t, math.IsNaN(float64(got[0].Alpha.Value())))
}

func TestParseErrors(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"empty", "", `f: no problems`},
		{"comments only", "# 1 2 3\n", `f: no problems`},
		{"one size", "1", `f:1: N is missing, want M N K [transA transB alpha beta]`},
		{"two sizes", "1 2 3\n\n4 5\n", `f:3: K is missing, want M N K [transA transB alpha beta]`},
		{"word", "1 2 x", `f:1: K "x" is not a whole number`},
		{"fraction", "1.5 2 3", `f:1: M "1.5" is not a whole number`},
		{"negative", "1 -2 3", `f:1: N "-2" is negative`},
		{"very negative", "1 2 -99999999999999999999", `f:1: K "-99999999999999999999" is negative`},
		{"above int32", "2147483648 1 1", `f:1: M "2147483648" is above the limit 2147483647`},
		{"above int64", "1 99999999999999999999 1",
			`f:1: N "99999999999999999999" is above the limit 2147483647`},
		{"transA", "1 1 1 x", `f:1: transA "x" is not n, t, 0, 1, false or true`},
		{"transB", "1 1 1 n 2", `f:1: transB "2" is not n, t, 0, 1, false or true`},
		{"alpha", "1 1 1 n n one", `f:1: alpha "one" is not a number`},
		{"beta out of range", "1 1 1 n n 1 1e309", `f:1: beta "1e309" is outside the range of float64`},
		{"junk at the end", "1 1 1 n n 1 0 7", `f:1: unexpected "7" after beta`},
		{"binary", "\x7fELF\x00\x01 a b", `f:1: M "\x7fELF\x00\x01" is not a whole number`},
		{"long word is shortened", strings.Repeat("z", 1000) + " 1 1", `f:1: M "` + strings.Repeat("z", 40) +
			`" is not a whole number`},
		{"endless line", "1 1 1\n" + strings.Repeat(" ", 1<<17), `f:2: line of more than 65536 bytes`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := parse(strings.NewReader(tc.text), "f")
			require.EqualError(t, err, tc.want)
		})
	}
}

// FuzzParse: the parser never panics. What it accepts has valid sizes, and errors have one line.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"1 2 3", "0 0 0 t t nan -inf # x", "-1 2 3", "1 2 3 n n 1e99", "\x00",
		"1 2\n", "9999999999999999999 1 1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		problems, err := parse(strings.NewReader(text), "f")
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		require.NotEmpty(t, problems)
		for _, p := range problems {
			for _, size := range []int{p.M, p.N, p.K} {
				require.GreaterOrEqual(t, size, 0)
				require.LessOrEqual(t, size, planner.MaxDim)
			}
		}
	})
}
