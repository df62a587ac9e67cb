//go:build linux

// Package memtest is for tests of memory: it runs them in processes that may take little, and says what one
// has.
package memtest

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// env tells a test that it is in a process of its own.
const env = "BATCHGEMM_TEST_LIMITED"

// AddressSpace runs the test once more in a process whose address space may grow
// by so many bytes (RLIMIT_AS), and there calls f.
func AddressSpace(t *testing.T, room uint64, f func()) {
	t.Helper()
	if os.Getenv(env) == t.Name() {
		limit := syscall.Rlimit{Cur: size(t) + room, Max: size(t) + room}
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_AS, &limit))
		f()
		return
	}
	cmd := exec.Command("/proc/self/exe", "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), env+"="+t.Name())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
}

// size is the address space of the process in bytes.
func size(t *testing.T) uint64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(text), "VmSize:")
	kB, err := strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
	require.NoError(t, err)
	return kB << 10
}

// Resident is the memory of the process in bytes, without what was never touched.
func Resident(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	require.NoError(t, err)
	return pages * os.Getpagesize()
}
