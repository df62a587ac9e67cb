//go:build cgo && !nowebgpu && linux && amd64

package webgpu

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/hardware"
)

// Without a driver the library warns. Only the logger gets the warning.
func TestLogWithoutDriver(t *testing.T) {
	const inChild = "WEBGPU_LOG_CHILD"
	if os.Getenv(inChild) != "" {
		if os.Getenv(inChild) == "logger" {
			backend.SetLogger(slog.New(slog.NewTextHandler(os.Stdout, nil)))
		}
		_, err := Driver().Devices(t.Context())
		require.ErrorIs(t, err, hardware.ErrUnavailable)
		return
	}
	for child, want := range map[string]string{"logger": "level=WARN", "silent": ""} {
		t.Run(child, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestLogWithoutDriver$")
			cmd.Env = append(os.Environ(), inChild+"="+child, "VK_DRIVER_FILES=/nonexistent",
				"VK_ICD_FILENAMES=/nonexistent")
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			require.NoError(t, cmd.Run(), "%s%s", &stdout, &stderr)
			require.Empty(t, stderr.String())
			if want == "" {
				require.NotContains(t, stdout.String(), "level=")
				return
			}
			require.Contains(t, stdout.String(), want)
			require.Contains(t, stdout.String(), "backend=webgpu")
		})
	}
}
