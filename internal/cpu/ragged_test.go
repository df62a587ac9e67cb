package cpu

import (
	"context"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// readyRagged prepares a ragged batch with operands of ones and room for sizes.
func readyRagged(t testing.TB, d *device, r planner.Ragged) driver.Run {
	t.Helper()
	plan, err := planner.New(&d.info.Planner).PlanRagged(r, planner.Options{})
	require.NoError(t, err)
	program, err := d.Prepare(context.Background(), plan)
	require.NoError(t, err)
	run := driver.Run{Program: program}
	for to, n := range map[*driver.Buffer]int{&run.A: plan.ExtentA, &run.B: plan.ExtentB,
		&run.C: plan.ExtentC, &run.Sizes: plan.ExtentSizes} {
		b, err := d.Alloc(n)
		require.NoError(t, err)
		for i := range b.(*buffer).data {
			b.(*buffer).data[i] = 1
		}
		*to = b
	}
	return run
}

// sizesOf returns the words of a run's sizes.
func sizesOf(r driver.Run) []int32 {
	words := r.Sizes.(*buffer).data
	return unsafe.Slice((*int32)(unsafe.Pointer(&words[0])), len(words))
}

func rows(groups, rows, n, k int) planner.Ragged {
	return planner.Ragged{Form: planner.EndsOfRows, Groups: groups, M: rows, N: n, K: k,
		A: planner.Matrix{LD: k}, B: planner.Matrix{LD: n}, C: planner.Matrix{LD: n}, StrideB: n * k}
}

// Planning is always the work of a crew, even for a small run.
func TestRaggedIsNeverAtOnce(t *testing.T) {
	d := openDevice(t)
	require.Greater(t, amount(t, readyRagged(t, d, rows(1, 1, 1, 1))), atOnce)
}

// Groups without depth are planned for B of any type: C is then zero.
func TestRaggedOfNoDepth(t *testing.T) {
	d := openDevice(t)
	for of, o := range map[element.Type]planner.Options{
		element.F32: {}, element.Int4: {TypeA: element.BF16, TypeB: element.Int4,
			Epilogue: planner.Epilogue{ScaleB: planner.PerGroup64}},
	} {
		r := rows(2, 5, 3, 0)
		r.B.LD = 8
		plan, err := planner.New(&d.info.Planner).PlanRagged(r, o)
		require.NoError(t, err)
		made := newRagged(plan)
		require.Equal(t, -1, made.read(backend.Words([]int32{2, 5}), 0), "%s", of)
		require.NoError(t, made.draw(&image{}, made.batch), "%s", of)
	}
}

// Problems whose C overlap run one after the other, in order.
func TestRaggedOverlap(t *testing.T) {
	for name, c := range map[string]struct {
		change func(b planner.Batch)
		want   []float32 // C is all ones before
		status int
	}{
		"same C": {func(b planner.Batch) { b[0].C = b[2].C }, []float32{1, 1, 2, 2, 3, 3}, -1},
		"part":   {func(b planner.Batch) { b[2].C.Offset-- }, []float32{1, 1, 2, 3, 3, 1}, -1},
		"no room": {func(b planner.Batch) { b[0].C = b[2].C; b[1].C.Offset = 6 }, []float32{1, 1, 1, 1, 1, 1},
			1},
	} {
		t.Run(name, func(t *testing.T) {
			d := openDevice(t)
			r := planner.Ragged{Form: planner.Records, Groups: 3, M: 3, N: 2, K: 3, LenA: 10,
				LenB: 10, LenC: 6}
			run := readyRagged(t, d, r)
			b := planner.Batch{planner.GEMM(1, 2, 1), planner.GEMM(1, 2, 2), planner.GEMM(1, 2, 3)}
			for i := range b {
				b[i].A.LD, b[i].B.LD, b[i].C.LD, b[i].C.Offset = 3, 2, 2, 2*i
			}
			c.change(b)
			words, err := planner.AppendRecords(nil, b, planner.Options{})
			require.NoError(t, err)
			copy(sizesOf(run), words)
			require.NoError(t, d.Submit(t.Context(), []driver.Run{run}))
			group, err := run.Program.Status(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.status, group)
			require.Equal(t, c.want, run.C.(*buffer).data)
		})
	}
}

// Closed objects stay for the runs queued before.
func TestRaggedClosedAfterQueuedRuns(t *testing.T) {
	d := openDevice(t)
	run := readyRagged(t, d, rows(2, 4, 3, 5))
	copy(sizesOf(run), []int32{1, 3})
	require.NoError(t, d.take(t.Context()))
	require.NoError(t, d.Submit(t.Context(), []driver.Run{run, run}))
	for _, o := range []interface{ Close() error }{run.A, run.B, run.Sizes, run.Program} {
		require.NoError(t, o.Close())
	}
	d.release()
	got := make([]float32, 12)
	require.NoError(t, run.C.Read(t.Context(), 0, got))
	require.Equal(t, []float32{5, 5, 5, 5, 5, 5, 5, 5, 5, 1, 1, 1}, got)
	require.Len(t, d.live, 1, "the memory of what was closed is freed")
}
