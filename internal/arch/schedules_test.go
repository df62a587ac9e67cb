package arch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
)

// TestSchedulesInDocs: the documents list all schedules, in the planner's order.
func TestSchedulesInDocs(t *testing.T) {
	for path, quote := range map[string]string{"capi/batchgemm.h": `"`, "README.md": "`",
		"ARCHITECTURE.md": "`"} {
		raw, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(path)))
		require.NoError(t, err)
		text := strings.Join(strings.Fields(strings.ReplaceAll(string(raw), "\n *", "\n")), " ")
		var list []string
		for _, s := range planner.Schedules() {
			list = append(list, quote+string(s)+quote)
		}
		all := strings.Join(list, ", ")
		_, after, found := strings.Cut(text, all)
		require.True(t, found, "%s does not list %s", path, all)
		require.NotRegexp(t, `^, *`+quote, after, "%s lists one more", path)
	}
}
