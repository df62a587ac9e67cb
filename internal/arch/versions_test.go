package arch

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFixedVersions: modules are at least as new as the fixes of known vulnerabilities. scripts/vulncheck.sh
// finds these and new ones, but only if it reaches its database.
func TestFixedVersions(t *testing.T) {
	modules, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	require.NoError(t, err)
	for module, minor := range map[string]int{
		"golang.org/x/image": 45, // GO-2026-4815 (38), GO-2026-5062 (43), GO-2026-6222 (45)
	} {
		line := regexp.MustCompile(`(?m)^\s+` + regexp.QuoteMeta(module) +
			` v0\.(\d+)\.`).FindSubmatch(modules)
		require.NotNil(t, line, module)
		var have int
		_, err := fmt.Sscan(string(line[1]), &have)
		require.NoError(t, err)
		require.GreaterOrEqual(t, have, minor, module)
	}
}
