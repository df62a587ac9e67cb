package arch

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTags: a build without WebGPU needs nothing of its library, which is 130 MB. A build without CUDA and
// HIP, such as that for browsers, has none of their kernels.
func TestTags(t *testing.T) {
	for _, c := range []struct{ tags, packages, without string }{
		{"nowebgpu", "./dispatch ./cmd/batchgemm ./capi", "github.com/rajveermalviya/go-webgpu/"},
		{"nocuda,nohip", "./dispatch ./capi", module + "internal/dl\n"},
		{"nocuda,nohip", "./dispatch ./capi", module + "native/products\n"},
	} {
		require.Contains(t, needs(t, "", c.packages), "\n"+c.without)
		require.False(t, strings.Contains(needs(t, c.tags, c.packages), "\n"+c.without), "%s still needs %s",
			c.tags, c.without)
	}
	require.NotContains(t, needs(t, "", "./dispatch", "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0"), "\n"+module+
		"native/products\n")
}

// needs lists what packages need, one on each line.
func needs(t *testing.T, tags, packages string, env ...string) string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-buildmode=default", "-deps", "-tags", tags},
		strings.Fields(packages)...)...)
	cmd.Dir, cmd.Env = "../..", append(append(cmd.Environ(), "CGO_ENABLED=1", "GOOS=linux", "GOARCH=amd64"),
		env...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return "\n" + string(out)
}
