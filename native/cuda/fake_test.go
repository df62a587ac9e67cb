//go:build cgo && linux && (amd64 || arm64)

package cuda

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/drivertest"
	"github.com/batchgemm/batchgemm/planner"
)

// buildFake compiles testdata/fakecuda.c, which says what it does.
func buildFake(t testing.TB, flags ...string) (path string) {
	t.Helper()
	var tiles strings.Builder
	for _, tile := range planner.Tiles() {
		fmt.Fprintf(&tiles, `{"%s", %d, %d},`, strings.ReplaceAll(tile.Name, "-", "_"), tile.TM, tile.TN)
	}
	path = filepath.Join(t.TempDir(), "libfakecuda.so")
	args := append([]string{"-O1", "-shared", "-fPIC", "-DTILES=" + tiles.String(), "-o", path, "testdata/fakecuda.c", "-lm", "-lpthread"}, flags...)
	out, err := exec.Command("cc", args...).CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

// fakeOnce is one library for all tests, because a library is never unloaded.
var fakeOnce struct {
	sync.Once
	library *library
}

// fake is a driver of one GPU that the CPU plays.
func fake(t testing.TB) cudaDriver {
	t.Helper()
	fakeOnce.Do(func() {
		l, err := load([]string{buildFake(t)})
		require.NoError(t, err)
		fakeOnce.library = l
	})
	require.NotNil(t, fakeOnce.library)
	return cudaDriver{func() (*library, error) { return fakeOnce.library, nil }}
}

func openFake(t *testing.T) *device {
	t.Helper()
	return drivertest.Open(t, fake(t)).(*device)
}

// counter names an object that the fake counts.
type counter int

const (
	allocations counter = iota
	pinned
	contexts
	modules
	streams
	events
	graphs
	launches
	graphLaunches
	copies
)

func (l *library) counted(t testing.TB, c counter) int {
	t.Helper()
	n, err := l.attribute(0, 10000+int(c))
	require.NoError(t, err)
	return n
}

// fail makes a call of the fake fail with a result of CUDA, until the test ends.
func fail(t *testing.T, call string, result int) {
	t.Setenv("FAKECUDA_FAIL", fmt.Sprintf("%s=%d", call, result))
}

func succeed(t *testing.T) { t.Setenv("FAKECUDA_FAIL", "") }

// The fake computes what the plan says, so that the suite tests everything but
// the kernels.
func TestConformanceOfFake(t *testing.T) { drivertest.Run(t, fake(t)) }
