//go:build cgo && linux

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/bench"
	"github.com/batchgemm/batchgemm/internal/sample"
)

// benchOpenBLAS runs the command with a fake of OpenBLAS.
func benchOpenBLAS(t *testing.T, flags ...string) (r bench.Report) {
	t.Helper()
	sample.Command.Whole(t)
	dir := t.TempDir()
	fake := filepath.Join(dir, "libopenblasp.so.0")
	args := append(flags, "-shared", "-fPIC", "-O1", "-o", fake, "../../internal/openblas/testdata/fake.c")
	out, err := exec.Command("cc", args...).CombinedOutput()
	require.NoError(t, err, string(out))
	for _, other := range []string{"libopenblas.so.0", "libopenblas.so"} { // before installed ones
		require.NoError(t, os.Link(fake, filepath.Join(dir, other)))
	}
	cmd := exec.Command(os.Args[0], "bench", "-", "inception-1", "--backend", "cpu", "--vs", "openblas",
		"--repeat", "2", "--cold", "--json")
	cmd.Env = append(os.Environ(), asCommand+"=1", "LD_LIBRARY_PATH="+dir)
	cmd.Stdin, cmd.Stderr = strings.NewReader(tiny), os.Stderr
	text, err := cmd.Output()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &r))
	require.Len(t, r.Cases, 2)
	return r
}

func TestBenchOpenBLAS(t *testing.T) {
	r := benchOpenBLAS(t)
	require.Empty(t, r.Notes)
	threads, err := cpuThreads(t.Context())
	require.NoError(t, err)
	require.Regexp(t, `^OpenBLAS 0\.3\.21 MAX_THREADS=64 timeout \d+, threads: \d+$`, r.Library)
	require.True(t, strings.HasSuffix(r.Library, ", threads: "+strconv.Itoa(threads)), r.Library)
	for _, c := range r.Cases {
		require.Len(t, c.Rows, 2)
		row := c.Rows[1]
		require.Equal(t, [2]string{"openblas", "calls"}, [2]string{row.Method, row.Timed})
		require.Empty(t, row.Wrong)
		require.Equal(t, c.Problems, row.Checked)
		require.Positive(t, row.Device.Min)
		require.Nil(t, row.Host)
	}
	require.Len(t, r.Speedups, 1)
}

// Without OpenBLAS, the bench says what to install and continues.
func TestBenchWithoutOpenBLAS(t *testing.T) {
	r := benchOpenBLAS(t, "-DNO_SET_NUM_THREADS")
	require.Len(t, r.Notes, 1)
	require.Contains(t, r.Notes[0], "no comparison with OpenBLAS: unavailable: install "+
		"libopenblas0-pthread (Debian, Ubuntu)")
	require.Empty(t, r.Library)
	require.Len(t, r.Cases[0].Rows, 1)
}
