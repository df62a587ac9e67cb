//go:build linux

// Package memtest is for tests of memory: it runs them in processes with limited memory, and measures
// memory.
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

// env tells a test that it is in such a process.
const env = "BATCHGEMM_TEST_LIMITED"

// AddressSpace runs the test again in a process whose address space may grow by that many bytes (RLIMIT_AS),
// and calls f there.
func AddressSpace(t *testing.T, room uint64, f func()) {
	t.Helper()
	if os.Getenv(env) == t.Name() {
		most := size(t) + room // read once: it changes
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: most, Max: most}))
		f()
		return
	}
	cmd := exec.Command("/proc/self/exe", "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), env+"="+t.Name())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
}

// size returns the address space of the process in bytes.
func size(t *testing.T) uint64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(text), "VmSize:")
	kB, err := strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
	require.NoError(t, err)
	return kB << 10
}

// Resident returns the memory of the process in bytes, without memory that was never touched.
func Resident(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	require.NoError(t, err)
	return pages * os.Getpagesize()
}
