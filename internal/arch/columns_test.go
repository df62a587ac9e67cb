package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// columns is the largest length of a line of code or of a comment. A tab counts 4.
const columns = 110

// wide are folders with longer lines. No folder may be added.
var wide = []string{"examples/browser/page/"}

var generated = regexp.MustCompile(`(?m)^(//|#) Code generated .* DO NOT EDIT\.$`)

func TestColumns(t *testing.T) {
	files := 0
	for _, file := range sources(t, ".go", ".cuh", ".h", ".py", ".c", ".js") {
		if slices.ContainsFunc(wide, func(folder string) bool { return strings.HasPrefix(file, folder) }) {
			continue
		}
		raw, err := os.ReadFile(filepath.Join("..", "..", file))
		require.NoError(t, err)
		if generated.Match(raw) {
			continue
		}
		files++
		for n, line := range strings.Split(string(raw), "\n") {
			long := utf8.RuneCountInString(line) + 3*strings.Count(line, "\t")
			require.LessOrEqual(t, long, columns, "%s:%d: %s", file, n+1, line)
		}
	}
	require.Greater(t, files, 300)
}
