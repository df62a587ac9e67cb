package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/browser"
)

// TestRun runs a program in Chromium. It skips without Chromium, unless BATCHGEMM_REQUIRE has "chromium".
func TestRun(t *testing.T) {
	if _, err := browser.Find(); err != nil && !browser.Required() {
		t.Skip(err)
	}
	program := filepath.Join(t.TempDir(), "hello.wasm")
	build := exec.Command("go", "build", "-buildmode=exe", "-o", program, "./testdata/hello")
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	t.Setenv("BATCHGEMM_HELLO", "to you")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for _, c := range []struct {
		name, argument string
		status         int
		want           string
	}{
		{"success", "0", 0, "grüße [0] to you true\n"},
		{"failure", "3", 3, "grüße [3] to you true\n"},
		{"panic", "x", 2, "panic: no status"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var output bytes.Buffer
			status, err := run(ctx, []string{program, c.argument}, &output)
			require.NoError(t, err)
			require.Equal(t, c.status, status, output.String())
			require.Contains(t, output.String(), c.want)
		})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = run(ended, []string{program, "0"}, new(bytes.Buffer))
	require.ErrorIs(t, err, context.Canceled)
}

func TestMisuse(t *testing.T) {
	_, err := run(t.Context(), nil, nil)
	require.ErrorContains(t, err, "usage: ")
	t.Setenv("CHROMIUM", "/nowhere/chromium")
	_, err = run(t.Context(), []string{"x.wasm"}, nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}
