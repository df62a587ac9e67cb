package arch

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTags: a build without WebGPU needs nothing of its library, which is 130 MB, and
// one without CUDA and HIP none of their kernels.
func TestTags(t *testing.T) {
	for _, c := range []struct{ tags, packages, without string }{
		{"nowebgpu", "./dispatch ./cmd/batchgemm ./capi", "github.com/rajveermalviya/go-webgpu/"},
		{"nocuda,nohip", "./dispatch ./capi", module + "internal/dl\n"},
		{"nocuda,nohip", "./dispatch ./capi", module + "native/products\n"},
	} {
		list := func(tags string) string {
			cmd := exec.Command("go", append([]string{"list", "-deps", "-tags", tags}, strings.Fields(c.packages)...)...)
			cmd.Dir, cmd.Env = "../..", append(cmd.Environ(), "CGO_ENABLED=1", "GOOS=linux", "GOARCH=amd64")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			return "\n" + string(out)
		}
		require.Contains(t, list(""), "\n"+c.without)
		require.False(t, strings.Contains(list(c.tags), "\n"+c.without), "%s still needs %s", c.tags, c.without)
	}
}
