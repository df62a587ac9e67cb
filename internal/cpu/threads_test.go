package cpu

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
)

func TestThreads(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		threads    int // 0: an error
	}{
		{"by default", "", ofQuota(runtime.GOMAXPROCS(0), os.DirFS("/"))},
		{"one", "1", 1},
		{"more than processors", "1024", 1024},
		{"none", "0", 0},
		{"negative", "-1", 0},
		{"too many", "1025", 0},
		{"a word", "all", 0},
		{"a fraction", "1.5", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv(ThreadsEnv, tc.text)
			d, err := Driver().Open(t.Context(), 0)
			infos, listed := Driver().Devices(t.Context())
			if tc.threads == 0 {
				text := fmt.Sprintf("BATCHGEMM_THREADS=%q is no number of threads from 1 to 1024", tc.text)
				require.EqualError(t, err, text)
				require.ErrorIs(t, err, invalid.Err)
				require.EqualError(t, listed, text)
				return
			}
			require.NoError(t, err)
			require.NoError(t, listed)
			require.Equal(t, tc.threads, d.Info().Planner.ComputeUnits)
			require.Equal(t, d.Info(), infos[0])
			require.NoError(t, d.Close())
		})
	}
}

// Go has at least two threads, even with a quota below one.
func TestThreadsOfQuota(t *testing.T) {
	for _, c := range []struct {
		name, quota, asked string
		threads, want      int
	}{
		{"half a processor", "50000 100000", "", 2, 1},
		{"one", "100000 100000", "", 2, 1},
		{"one and a half", "150000 100000", "", 2, 2},
		{"no quota", "max 100000", "", 2, 2},
		{"half, asked for two", "50000 100000", "2", 2, 2},
		{"half, of one that has one", "50000 100000", "", 1, 1},
		{"half, the program asked for more", "50000 100000", "", 8, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("GOMAXPROCS", c.asked)
			root := fstest.MapFS{
				"proc/self/mountinfo": {
					Data: []byte("30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n")},
				"proc/self/cgroup":      {Data: []byte("0::/\n")},
				"sys/fs/cgroup/cpu.max": {Data: []byte(c.quota + "\n")},
			}
			require.Equal(t, c.want, ofQuota(c.threads, root))
		})
	}
}

// openWith opens a device with that many threads.
func openWith(t *testing.T, threads int) *device {
	t.Helper()
	t.Setenv(ThreadsEnv, strconv.Itoa(threads))
	return openDevice(t)
}

// A plan gives the same bits with any number of threads.
func TestBitsOfThreads(t *testing.T) {
	problems := append(random(12, 90, 300), planner.GEMM(40, 50, 6000), planner.GEMM(3, 3, 9000))
	problems[1].Beta, problems[2].TransA, problems[3].TransB = 1, true, true
	for _, schedule := range planner.Schedules() {
		t.Run(string(schedule), func(t *testing.T) {
			planned := openWith(t, 3)
			run := ready(t, planned, planner.Options{Schedule: schedule}, problems...)
			batch, err := planner.Pack(problems...)
			require.NoError(t, err)
			plan, err := planner.New(&planned.info.Planner).Plan(t.Context(), batch,
				planner.Options{Schedule: schedule})
			require.NoError(t, err)
			before := slices.Clone(run.C.(*buffer).data)
			var want []float32
			for _, threads := range []int{1, 2, 3, 7} {
				d := openWith(t, threads)
				program, err := d.Prepare(t.Context(), plan)
				require.NoError(t, err)
				again := driver.Run{Program: program}
				for _, copied := range []struct {
					to   *driver.Buffer
					data []float32
				}{{&again.A, run.A.(*buffer).data}, {&again.B, run.B.(*buffer).data}, {&again.C, before}} {
					*copied.to, err = d.Alloc(len(copied.data))
					require.NoError(t, err)
					require.NoError(t, (*copied.to).Write(t.Context(), 0, copied.data))
				}
				got := make([]float32, len(before))
				for range 3 {
					require.NoError(t, again.C.Write(t.Context(), 0, before))
					require.NoError(t, d.Submit(t.Context(), []driver.Run{again}))
					require.NoError(t, again.C.Read(t.Context(), 0, got))
					if want == nil {
						want = slices.Clone(got)
					}
					require.Equal(t, want, got, "%d threads", threads)
				}
			}
		})
	}
}

// Concurrent devices together have no more threads than one device, except one each.
func TestDevicesShareThreads(t *testing.T) {
	const devices, threads = 8, 7
	before := runtime.NumGoroutine()
	for range devices {
		d := openWith(t, threads)
		require.NoError(t, d.Submit(t.Context(), long(t, d)))
	}
	for working.Load() < devices {
		time.Sleep(time.Millisecond)
	}
	for range 20 {
		require.LessOrEqual(t, runtime.NumGoroutine(), before+devices+threads)
		time.Sleep(100 * time.Microsecond)
	}
}

// A launch that started with few threads takes over a thread that another device releases.
func TestThreadsMoveOn(t *testing.T) {
	rest := func() { // also of devices of earlier tests
		for working.Load() > 0 {
			time.Sleep(time.Millisecond)
		}
	}
	rest()
	d := openWith(t, 2)
	j := &d.crew.job
	j.launch = &encoding.Launch{Count: 3, Kernel: encoding.Kernel{Tile: &tile.Shape{}, Loop: true}}
	j.words = make([]uint32, 4) // workers with nothing to do
	j.grain = 1
	working.Add(2)
	d.crew.launch(1)
	require.Zero(t, d.crew.joined)
	require.Len(t, j.absent, 1)
	working.Add(-2)
	j.places.Store(1)
	j.done.Add(1)
	j.next.Store(0)
	j.work(d.crew.own)
	j.done.Wait()
	require.Zero(t, j.places.Load())
	rest()
}

// Launches follow each other immediately: none begins before the previous one is done, and helpers of one
// take part in the next.
func TestManyLaunches(t *testing.T) {
	d := openWith(t, 5)
	run := ready(t, d, planner.Options{Tile: "small", Schedule: planner.ScheduleStreamK},
		planner.GEMM(30, 30, 300), planner.GEMM(20, 20, 2000))
	require.Greater(t, len(run.Program.(*program).now.launches), 1)
	require.Greater(t, amount(t, run), atOnce)
	var want []float32
	for range 20 {
		require.NoError(t, run.C.Write(t.Context(), 0, make([]float32, run.C.Len())))
		require.NoError(t, d.Submit(t.Context(), slices.Repeat([]driver.Run{run}, 50)))
		got := make([]float32, run.C.Len())
		require.NoError(t, run.C.Read(t.Context(), 0, got))
		if want == nil {
			want = got
		}
		require.Equal(t, want, got)
	}
	require.Positive(t, d.crew.joined)
}
