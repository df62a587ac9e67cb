//go:build cgo && !nowebgpu && linux && amd64

package webgpu

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/internal/sample"
)

// Environment variables of testdata/lost.c, and the operation of a child process.
const (
	lostEnv, lostDriver = "FAKE_VULKAN_LOST", "FAKE_VULKAN_DRIVER"
	lostChild           = "WEBGPU_LOST_CHILD"
)

// If a GPU is lost in the middle of its work, the call that notices it fails, and so do all later calls. The
// rest of the process is not affected, although the library panics, which would end the process.
func TestLostInDriver(t *testing.T) {
	if os.Getenv(lostChild) != "" {
		t.Skip("this is the child")
	}
	env := append(os.Environ(), fakeDriver(t)...)
	const submit, poll, idle = "vkQueueSubmit", "vkGetSemaphoreCounterValue", "vkWaitSemaphores"
	for _, c := range []struct{ function, operation string }{
		{submit, "Submit"}, {submit, "Time"}, {submit, "Read"}, {submit, "StartRead"}, {submit, "Copy"},
		{submit, "large Write"}, {submit, "small Write, Wait"},
		{poll, "Submit"}, {poll, "Time"}, {poll, "Read"}, {poll, "StartRead"}, {poll, "large Write"},
		{poll, "small Write, Wait"},
		{poll, "Submit before, Wait"}, {poll, "Submit before, Close"},
		{poll, "Submit before, Close of a buffer"},
		{idle, "Close"}, {"vkCreateDevice", "Open"},
	} {
		t.Run(c.function+"/"+c.operation, func(t *testing.T) {
			if c.operation != "Submit" {
				sample.WebGPU.Skip(t, 1)
			}
			cmd := exec.Command(os.Args[0], "-test.run=^TestLostInDriverChild$", "-test.v")
			cmd.Env = append(env, lostChild+"="+c.function+"/"+c.operation)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "--- PASS: TestLostInDriverChild", "the child did not run")
		})
	}
}

func TestLostInDriverChild(t *testing.T) {
	function, operation, found := strings.Cut(os.Getenv(lostChild), "/")
	if !found {
		t.Skip("a part of TestLostInDriver")
	}
	runtime.LockOSThread() // both losses on one thread
	for range 2 {
		os.Unsetenv(lostEnv)
		d := open(t, webgpuDriver{})
		broken, err := openDevice(t.Context(), d.info, 0)
		require.NoError(t, err)
		l := load(t, broken)
		extra := alloc(t, broken, 1)
		large := make([]float32, pieceBytes/4)
		to := upload(t, broken, large)
		long := newTask(t, gemm(500, 500, 500)) // some 30 ms
		_, p := prepare(t, broken, long.batch, l.plan.Options)
		work := []driver.Run{{Program: p, A: upload(t, broken, long.a), B: upload(t, broken, long.b),
			C: alloc(t, broken, len(long.c))}}
		require.NoError(t, l.Submit(t.Context(), work))
		require.NoError(t, l.Wait(t.Context()))
		before, then, _ := strings.Cut(operation, " before, ")
		if then == "" {
			then = operation
		} else {
			require.Equal(t, "Submit", before)
			require.NoError(t, l.Submit(t.Context(), work))
		}

		calls := l.calls(t.Context())
		calls["Close"] = l.Close
		calls["large Write"] = func() error { return to.Write(t.Context(), 0, large) }
		calls["small Write, Wait"] = func() error {
			require.NoError(t, l.a.Write(t.Context(), 0, l.task.a))
			return l.Wait(t.Context())
		}
		calls["Close of a buffer"] = func() error {
			require.NoError(t, extra.Close())
			return l.Wait(t.Context())
		}
		calls["Open"] = func() error { _, err := openDevice(t.Context(), d.info, 0); return err }
		require.Contains(t, calls, then)
		os.Setenv(lostEnv, function)
		err = calls[then]()
		os.Unsetenv(lostEnv)
		if operation == "Open" {
			require.ErrorIs(t, err, hardware.ErrUnavailable)
			require.NoError(t, broken.Close())
		} else {
			require.ErrorIs(t, err, hardware.ErrDeviceLost)
			l.requireLost(t, err.Error())
		}
		// Another device continues to work.
		got, _ := l.task.run(t, d, l.plan.Options)
		requireEqual(t, reference(l.task.batch, l.task.a, l.task.b, l.task.c), got)
	}
}

// fakeDriver builds testdata/lost.c. It returns an environment in which that is the only driver before
// lavapipe.
func fakeDriver(t *testing.T) (env []string) {
	t.Helper()
	manifests, err := filepath.Glob("/usr/share/vulkan/icd.d/lvp_icd*.json")
	require.NoError(t, err)
	if len(manifests) == 0 {
		t.Skip("Mesa's lavapipe is not installed")
	}
	text, err := os.ReadFile(manifests[0])
	require.NoError(t, err)
	var manifest struct {
		ICD struct {
			Library string `json:"library_path"`
		}
	}
	require.NoError(t, json.Unmarshal(text, &manifest))
	dir := t.TempDir()
	library := filepath.Join(dir, "liblost.so")
	out, err := exec.Command("cc", "-shared", "-fPIC", "-o", library, "testdata/lost.c",
		"-ldl").CombinedOutput()
	require.NoError(t, err, "%s", out)
	icd := filepath.Join(dir, "lost.json")
	require.NoError(t, os.WriteFile(icd, fmt.Appendf(nil,
		`{"file_format_version": "1.0.0", "ICD": {"library_path": %q, "api_version": "1.1.0"}}`, library),
		0o644))
	return []string{"VK_DRIVER_FILES=" + icd, "VK_ICD_FILENAMES=" + icd, lostDriver + "=" +
		manifest.ICD.Library}
}
