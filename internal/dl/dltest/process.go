package dltest

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/drivertest"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/planner"
)

// childEnv makes a test run as its own child process.
const childEnv = "BATCHGEMM_TEST_CHILD"

// child starts this test in another process and waits for its first line.
func child(t *testing.T, role string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
	c.Env = append(os.Environ(), childEnv+"="+role)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	return c
}

// Signals checks that the driver preserves Go's signal handlers: Ctrl-C reaches the program, or ends it, and
// nil pointers are panics. It restarts its test in other processes, as TwoProcesses and IllegalAddress do.
func Signals(t *testing.T, on driver.Driver) {
	if role := os.Getenv(childEnv); role != "" {
		signalChild(t, on, role == "notify")
		return
	}
	require.NoError(t, drivertest.Open(t, on).Wait(t.Context()))
	c := child(t, "notify")
	require.NoError(t, c.Process.Signal(syscall.SIGINT))
	require.NoError(t, c.Wait())
	c = child(t, "default")
	require.NoError(t, c.Process.Signal(syscall.SIGINT))
	require.Error(t, c.Wait())
	require.Equal(t, syscall.SIGINT, c.ProcessState.Sys().(syscall.WaitStatus).Signal())
}

// signalChild works until a signal ends its context or the process.
func signalChild(t *testing.T, on driver.Driver, notify bool) {
	d := drivertest.Open(t, on)
	k := newTask(t, d, planner.Options{}, gemm(64, 64, 64))
	ctx := context.Background()
	if notify {
		var stop func()
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGINT)
		defer stop()
	}
	require.NoError(t, d.Submit(ctx, []driver.Run{k.run()}))
	k.check(t)
	require.Panics(t, func() {
		var none *task
		_ = *none
	})
	fmt.Println("ready")
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); {
		if err := d.Submit(ctx, []driver.Run{k.run()}); err != nil {
			require.ErrorIs(t, err, context.Canceled)
			require.NoError(t, d.Wait(context.Background()))
			return
		}
		if err := d.Wait(ctx); err != nil {
			require.ErrorIs(t, err, context.Canceled)
			return
		}
	}
	t.Fatal("no signal arrived")
}

// TwoProcesses checks that processes share the GPU.
func TwoProcesses(t *testing.T, on driver.Driver) {
	if os.Getenv(childEnv) != "" {
		d := drivertest.Open(t, on)
		fmt.Println("ready")
		for seed := range uint64(5) {
			require.NoError(t, checkRandom(t.Context(), d, seed, 50))
		}
		return
	}
	require.NoError(t, drivertest.Open(t, on).Wait(t.Context()))
	first, second := child(t, "compute"), child(t, "compute")
	require.NoError(t, first.Wait())
	require.NoError(t, second.Wait())
}

// IllegalAddress checks a kernel that reads beyond its memory. It ends the process's use of the GPU, with
// errors that all contain the result's name, but not that of other processes.
func IllegalAddress(t *testing.T, on driver.Driver, result string) {
	if os.Getenv(childEnv) == "" {
		d := drivertest.Open(t, on)
		require.NoError(t, child(t, "illegal").Wait())
		require.NoError(t, checkRandom(t.Context(), d, 1, 10))
		return
	}
	d, err := on.Open(t.Context(), 0)
	require.NoError(t, err)
	fmt.Println("ready")
	p := gemm(4, 4, 4)
	p.A, p.B, p.C = planner.Matrix{Offset: min(1<<38, math.MaxInt/8), LD: 4}, planner.Matrix{LD: 4},
		planner.Matrix{LD: 4}
	info := d.Info()
	plan, err := planner.New(&info.Planner).Plan(t.Context(), planner.Batch{p}, planner.Options{})
	require.NoError(t, err)
	program, err := d.Prepare(t.Context(), plan)
	require.NoError(t, err)
	short, err := d.Alloc(64)
	require.NoError(t, err)
	require.NoError(t, d.Submit(t.Context(), []driver.Run{{Program: program, A: short, B: short, C: short}}))
	require.ErrorIs(t, d.Wait(t.Context()), hardware.ErrDeviceLost)
	_, err = d.Alloc(1)
	require.ErrorIs(t, err, hardware.ErrDeviceLost)
	require.ErrorContains(t, d.Close(), result)
	require.NoError(t, short.Close())
	require.NoError(t, program.Close())
	_, err = on.Open(t.Context(), 0)
	require.ErrorIs(t, err, hardware.ErrDeviceLost)
}
