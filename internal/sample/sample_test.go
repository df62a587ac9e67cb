package sample

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// drawn returns the selected cases of 4000, at one of 4.
func drawn(x *Text) (names []string) {
	for i := range 4000 {
		if name := strconv.Itoa(i); x.Drawn(name, 4) {
			names = append(names, name)
		}
	}
	return names
}

func of(name, text string) *Text {
	return &Text{name: name, hash: func() []byte { return []byte(text) }}
}

// For a changed text about one of n is selected, always the same ones, and others once it changes again. For
// an unchanged text few are. Both variables override this.
func TestDrawn(t *testing.T) {
	one, other, same := of("one", "text"), of("one", "texts"), of("same", "text")
	before := green
	t.Cleanup(func() { green = before })
	green = same.line()
	few := 4000 / 4 / fewer
	for mode, want := range map[string][2]int{"": {1000, few}, "changed": {4000, few}, "all": {4000, 4000}} {
		t.Run(mode, func(t *testing.T) {
			t.Setenv(Variable, mode)
			require.InDelta(t, want[0], len(drawn(one)), 150, "5 standard deviations")
			require.InDelta(t, want[1], len(drawn(same)), 20)
			require.Equal(t, drawn(one), drawn(one))
		})
	}
	t.Setenv(Variable, "")
	require.NotEqual(t, drawn(one), drawn(other))
}

func TestSkip(t *testing.T) {
	ran := 0
	run := func(t *testing.T) {
		for i := range 64 {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				of("text", "text").Skip(t, 4)
				ran++
			})
		}
	}
	t.Setenv(Variable, "")
	t.Run("some", run)
	require.Positive(t, ran)
	require.Less(t, ran, 64)
	ran = 0
	t.Setenv(Variable, "all")
	t.Run("all", run)
	require.Equal(t, 64, ran)
}

// Of a text in green.txt fewer parts run, and one of some jobs, in order.
func TestFewer(t *testing.T) {
	one, same := of("one", "text"), of("same", "text")
	before := green
	t.Cleanup(func() { green = before })
	green = same.line()
	t.Setenv(Variable, "")
	parts := map[*Text]int{}
	for i := range 4000 {
		for _, x := range []*Text{one, same} {
			if x.PartDrawn(strconv.Itoa(i), 4) {
				parts[x]++
			}
		}
	}
	require.InDelta(t, 1000, parts[one], 150)
	require.InDelta(t, 1000/fewerParts, parts[same], 80)
	jobs := make([]int, 4*few+1)
	for i := range jobs {
		jobs[i] = i
	}
	require.Equal(t, jobs, Jobs(t, one, jobs))
	some := Jobs(t, same, jobs)
	require.Contains(t, []int{4, 5}, len(some))
	require.Equal(t, few, some[1]-some[0])
	require.Len(t, Jobs(t, same, jobs[:1]), 1)
	require.Empty(t, Jobs(t, same, jobs[:0]))
	t.Setenv(Variable, "all")
	require.Equal(t, jobs, Jobs(t, same, jobs))
}

// A text has all files of its patterns, which exist, and no tests.
func TestTexts(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("go.mod", "module x")
	write("a/one.go", "1")
	t.Chdir(filepath.Join(dir, "a"))
	now := func() string { return text("a", "a/*.go").line() }
	before := now()
	write("a/one_test.go", "2")
	require.Equal(t, before, now())
	write("a/two.go", "2")
	with := now()
	require.NotEqual(t, before, with)
	write("a/two.go", "  2  // two\n/* a\nb */")
	require.Equal(t, with, now(), "comments and layout")
	write("a/two.go", `"2 // two"`)
	require.NotEqual(t, with, now(), "a string")
	write("internal/tile/table.go", "2")
	require.NotEqual(t, before, now())
}

// Every text has existing files, and green.txt says when each was green.
func TestGreen(t *testing.T) {
	root, err := Root()
	require.NoError(t, err)
	for _, x := range texts {
		require.NotEmpty(t, x.patterns)
		for _, pattern := range x.patterns {
			found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
			require.NoError(t, err)
			require.NotEmpty(t, found, pattern)
		}
		require.Contains(t, green, "\n"+x.name+" ", "make green")
	}
	require.Equal(t, len(texts), strings.Count(green, "\n")-1)
}

// A single text can be recorded by name.
func TestRecord(t *testing.T) {
	before := green
	t.Cleanup(func() { green = before })
	green = "# head\nplanner old\ncpu old\n"
	text, err := Record("cpu")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(text, "# head\nplanner old\n"), text)
	require.Contains(t, text, "\n"+CPU.line())
	text, err = Record()
	require.NoError(t, err)
	require.Contains(t, text, "\n"+Planner.line())
	_, err = Record("none")
	require.EqualError(t, err, `no text "none"`)
}
