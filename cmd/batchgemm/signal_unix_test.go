//go:build unix

package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSignals: one signal ends the command, whatever it is doing.
func TestSignals(t *testing.T) {
	for _, tc := range []struct {
		name    string
		signal  syscall.Signal
		code    int
		prepare func(t *testing.T, dir string, cmd *exec.Cmd) (busy func())
	}{
		{"opening a pipe", syscall.SIGINT, 130, openingPipe},
		{"reading a pipe", syscall.SIGTERM, 143, readingPipe},
		{"reading standard input", syscall.SIGINT, 130, readingStdin},
		{"computing", syscall.SIGINT, 130, computing},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			var stdout, stderr bytes.Buffer
			cmd := exec.Command(os.Args[0])
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			cmd.Env = append(os.Environ(), asCommand+"=1", "BATCHGEMM_BACKEND=cpu")
			busy := tc.prepare(t, dir, cmd)
			require.NoError(t, cmd.Start())
			busy()
			require.NoError(t, cmd.Process.Signal(tc.signal))
			killer := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() }) // a failure
			_ = cmd.Wait()
			killer.Stop()
			require.Equal(t, tc.code, cmd.ProcessState.ExitCode(), stderr.String())
			require.Equal(t, "batchgemm: interrupted\n", stderr.String())
			require.Empty(t, stdout.String())
			left, err := filepath.Glob(filepath.Join(dir, ".*.tmp"))
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

func newPipe(t *testing.T, dir string) (path string) {
	t.Helper()
	path = filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	return path
}

// openingPipe: the workload is a pipe that has no writer and never opens. The process has reached that point
// when it has opened another pipe before it.
func openingPipe(t *testing.T, dir string, cmd *exec.Cmd) func() {
	path := newPipe(t, dir)
	first := filepath.Join(dir, "first")
	require.NoError(t, syscall.Mkfifo(first, 0o600))
	cmd.Args = append(cmd.Args, "bench", first, path)
	return func() {
		w, err := os.OpenFile(first, os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = io.WriteString(w, "1 2 3\n")
		require.NoError(t, err)
		require.NoError(t, w.Close())
	}
}

// readingPipe: the workload is open and never ends.
func readingPipe(t *testing.T, dir string, cmd *exec.Cmd) func() {
	path := newPipe(t, dir)
	cmd.Args = append(cmd.Args, "plan", path, "--device", "mi210")
	return func() {
		w, err := os.OpenFile(path, os.O_WRONLY, 0) // returns when there is a reader
		require.NoError(t, err)
		t.Cleanup(func() { w.Close() })
	}
}

func readingStdin(t *testing.T, _ string, cmd *exec.Cmd) func() {
	cmd.Args = append(cmd.Args, "run", "-")
	w, err := cmd.StdinPipe()
	require.NoError(t, err)
	return func() {
		const pipeSize = 64 << 10 // on Linux: when this returns, more than fits has been read
		_, err := w.Write(bytes.Repeat([]byte("# nothing yet\n"), 2*pipeSize/14))
		require.NoError(t, err)
		t.Cleanup(func() { w.Close() })
	}
}

// computing: the temporary file exists before the work starts, which takes many seconds on most machines.
func computing(t *testing.T, dir string, cmd *exec.Cmd) func() {
	sizes := filepath.Join(dir, "sizes")
	require.NoError(t, os.WriteFile(sizes, []byte("3072 3072 3072\n3072 3072 3072\n"), 0o600))
	cmd.Args = append(cmd.Args, "run", sizes, "-o", filepath.Join(dir, "out.npz"))
	return func() {
		require.Eventually(t, func() bool {
			found, err := filepath.Glob(filepath.Join(dir, ".*.tmp"))
			return err == nil && len(found) == 1
		}, time.Minute, 10*time.Millisecond)
		time.Sleep(300 * time.Millisecond) // for the work to start; earlier is no failure
	}
}
