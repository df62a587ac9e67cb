package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/internal/workload"
	"github.com/batchgemm/batchgemm/planner"
)

func TestVerify(t *testing.T) {
	checks := decode[[]check](t, "", "verify", "random:mn=70,k=90,batch=6", "--backend", "cpu")
	require.Len(t, checks, len(planner.Schedules()))
	for i, schedule := range planner.Schedules() {
		require.Equal(t, schedule, checks[i].Schedule)
		require.Equal(t, "cpu", checks[i].Backend)
		require.Equal(t, "f32-emulated", string(checks[i].Compute))
		require.Empty(t, checks[i].Failure)
		require.Positive(t, checks[i].Error)
		require.Less(t, checks[i].Error, 1.0)
	}
	require.Regexp(t, `(?m)^cpu +0 +.+ stream-k +\d+ +.+s +0\..+ ok$`,
		succeed(t, "3 4 5", "verify", "-", "--backend", "cpu"))
}

// TestVerifyCompute: errors are compared with the bound of the mode, which is larger for tf32. This backend
// computes alike in all modes.
func TestVerifyCompute(t *testing.T) {
	var worst []float64
	for _, mode := range []string{"f32", "tf32"} {
		checks := decode[[]check](t, "", "verify", "random:mn=70,k=90,batch=6", "--backend", "cpu",
			"--compute", mode)
		require.Equal(t, mode, string(checks[0].Compute))
		worst = append(worst, checks[0].Error)
	}
	require.Less(t, worst[1], worst[0]/1000)
}

// TestNothingToDo: sizes of 0, whose operands have no memory.
func TestNothingToDo(t *testing.T) {
	sample.Command.Whole(t)
	var all []string
	for sizes := range 8 {
		line := fmt.Sprintf("%d %d %d", 5*(sizes&1), 4*(sizes>>1&1), 3*(sizes>>2&1))
		succeed(t, line, "run", "-", "--verify")
		all = append(all, line, line+" t t 1 2", line+" n t 0 3")
	}
	workload := strings.Join(all, "\n")
	succeed(t, workload, "verify", "-", "--backend", "cpu")
	for _, data := range dataNames() {
		succeed(t, workload, "bench", "-", "--data", data, "--repeat", "1")
	}
	succeed(t, all[0], "bench", "-", "--data", "cancelling", "--repeat", "1")
}

func TestReport(t *testing.T) {
	skipped := check{Backend: "hip", Skipped: "unavailable: no driver"}
	good := check{Backend: "cpu", Device: "this one", Schedule: "batched", Launches: 1, Micros: 2, Error: 0.1}
	wrong := check{Backend: "webgpu", Index: 1, Device: "that one", Schedule: "batched",
		Failure: "C is wrong"}
	for _, tc := range []struct {
		name   string
		checks []check
		want   string
		err    string
	}{
		{"good", []check{skipped, good}, "cpu      0      this one  batched   1         2us   0.1          " +
			"ok\n\nhip: unavailable: no driver\n", ""},
		{"wrong", []check{good, wrong}, "webgpu   1      that one  batched   0         0us   -            " +
			"FAILED: C is wrong\n", "1 of 2 checks failed"},
		{"none", []check{skipped}, "\nhip: unavailable: no driver\n", "no device is available"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cmd := newVerify()
			var out bytes.Buffer
			cmd.SetOut(&out)
			err := reportChecks(cmd, tc.checks)
			require.True(t, strings.HasSuffix(out.String(), tc.want), out.String())
			if tc.err == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, tc.err)
			}
		})
	}
}

// TestRunTimes: results are the median and the least of several runs.
func TestRunTimes(t *testing.T) {
	device, err := dispatch.Open(t.Context(), dispatch.WithBackend("cpu"))
	require.NoError(t, err)
	defer device.Close()
	w, err := workload.Load("-", strings.NewReader("2 3 4\n"))
	require.NoError(t, err)
	ops, err := operands(w, new(planner.Options))
	require.NoError(t, err)
	j, err := newJob(t.Context(), device, w.Batch, ops, planner.Options{})
	require.NoError(t, err)
	defer j.close()
	us := time.Microsecond
	r := newRunResult(w, j, []dispatch.Timing{{Device: 5 * us, Wall: 9 * us}, {Device: 2 * us, Wall: 30 * us},
		{Device: 3 * us, Wall: 7 * us}})
	require.Equal(t, [4]float64{3, 3, 2, 9}, [4]float64{float64(r.Runs), r.DeviceMicros, r.DeviceLeast,
		r.HostMicros})
	require.InDelta(t, 2*2*3*4/3e-6/1e9, r.GFLOPS, 1e-9)
}

// TestVerifyCancelled: a cancelled command prints no table of failures.
func TestVerifyCancelled(t *testing.T) {
	w, err := workload.Load("-", strings.NewReader(tiny))
	require.NoError(t, err)
	ops, err := operands(w, new(planner.Options))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cmd := newVerify()
	cmd.SetContext(ctx)
	checks, err := verify(cmd, []check{{Backend: "cpu"}, {Backend: "cpu"}}, w, ops)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, checks)
}
