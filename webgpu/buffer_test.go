//go:build !nowebgpu && (js || (cgo && ((linux && amd64) || darwin || (windows && amd64))))

package webgpu

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/planner"
)

// On the first access of a buffer, wgpu clears what was never written. On NVIDIA that fill is wrong unless
// it starts at a multiple of 16 bytes, so these accesses start and end anywhere.
func TestBufferAccessAtAnyElement(t *testing.T) {
	d := open(t, webgpuDriver{})
	for _, n := range []int{1, 2, 3, 4, 5, 15, 16, 17, 1023, 1024, 1025, 5000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(n), 0))
			for range 8 {
				b := alloc(t, d, n)
				want := make([]float32, n)
				for range 6 {
					from := r.IntN(n)
					part := integers(1+r.IntN(n-from), r.Uint64())
					copy(want[from:], part)
					require.NoError(t, b.Write(t.Context(), from, part))
					from = r.IntN(n)
					got := make([]float32, 1+r.IntN(n-from))
					require.NoError(t, b.Read(t.Context(), from, got))
					// Elements that were never written are zeros.
					requireEqual(t, want[from:from+len(got)], got)
				}
				require.NoError(t, b.Close())
			}
		})
	}
}

// A partly written C keeps the written part for beta = 1.
func TestBufferPartlyWrittenThenRun(t *testing.T) {
	d := open(t, webgpuDriver{})
	k := newTask(t, planner.Problem{M: 50, N: 61, K: 7, Beta: 1})
	clear(k.c[:1001])
	_, p := prepare(t, d, k.batch, planner.Options{})
	a, b, c := upload(t, d, k.a), upload(t, d, k.b), alloc(t, d, len(k.c))
	require.NoError(t, c.Write(t.Context(), 1001, k.c[1001:]))
	require.NoError(t, d.Submit(t.Context(), []driver.Run{{Program: p, A: a, B: b, C: c}}))
	requireEqual(t, reference(k.batch, k.a, k.b, k.c), download(t, c, len(k.c)))
}

// Transfers of several pieces, at odd offsets.
func TestBufferLargeTransfers(t *testing.T) {
	d := open(t, webgpuDriver{})
	const n = 2*pieceBytes/4 + 12345
	want := integers(n, 1)
	for _, offset := range []int{0, 1, 3, pieceBytes/4 - 1} {
		b := alloc(t, d, n+offset)
		require.NoError(t, b.Write(t.Context(), offset, want))
		got := make([]float32, n)
		require.NoError(t, b.Read(t.Context(), offset, got))
		requireEqual(t, want, got)
		require.NoError(t, b.Close())
	}
}

// The binding takes a limit as large as NVIDIA's for "default", 256 MiB.
func TestBufferAboveTheDefaultLimit(t *testing.T) {
	d := open(t, webgpuDriver{})
	const n = 300 << 20 / 4
	b := alloc(t, d, n)
	require.NoError(t, b.Write(t.Context(), n-3, []float32{1, 2, 3}))
	got := make([]float32, 4)
	require.NoError(t, b.Read(t.Context(), n-4, got))
	require.Equal(t, []float32{0, 1, 2, 3}, got)
}

// Writes are copied into staging memory that is free only after a submission.
func TestBufferManyWritesWithoutSubmission(t *testing.T) {
	d := open(t, webgpuDriver{})
	b := alloc(t, d, 1000)
	before := d.submitted
	for i := range 1000 {
		require.NoError(t, b.Write(t.Context(), i, []float32{float32(i)}))
		require.Less(t, d.unsent, pieceBytes)
	}
	require.GreaterOrEqual(t, d.submitted-before, uint64(1000/(pieceBytes/writeBytes)),
		"each has a staging buffer until then")
	for i, v := range download(t, b, 1000) {
		require.Equal(t, float32(i), v)
	}
}

func TestAllocTooLarge(t *testing.T) {
	d := open(t, webgpuDriver{})
	b := upload(t, d, []float32{1, 2, 3})
	for _, n := range []int{1 << 45, backend.MaxLen} {
		_, err := d.Alloc(n)
		require.ErrorIs(t, err, hardware.ErrOutOfMemory, "%d elements", n)
	}
	require.Equal(t, []float32{1, 2, 3}, download(t, b, 3))
}

// Concurrent readers have a staging buffer each. Few of these are kept.
func TestStagingIsBounded(t *testing.T) {
	d := open(t, webgpuDriver{})
	want := integers(100, 1)
	b := upload(t, d, want)
	d.inFlight = maxInFlight // with lavapipe's limit they would wait
	var reads []driver.Reading
	got := make([][]float32, 2*idleStaging)
	for i := range got {
		got[i] = make([]float32, len(want))
		r, err := b.StartRead(t.Context(), 0, got[i])
		require.NoError(t, err)
		reads = append(reads, r)
	}
	require.Len(t, d.staging, len(reads))
	for i, r := range reads {
		require.NoError(t, r.Finish(t.Context()))
		requireEqual(t, want, got[i])
	}
	require.Len(t, d.staging, idleStaging)
}

// Reads without room in the queue wait for it, before later work.
func TestStartReadWaitsForRoom(t *testing.T) {
	d := open(t, webgpuDriver{})
	d.inFlight = 1
	n := pieceBytes/4 + 5 // two pieces
	first, second := integers(n, 1), integers(n, 2)
	b := upload(t, d, first)
	l := load(t, d)
	require.NoError(t, l.Submit(t.Context(), l.runs()))
	got, gone := make([]float32, n), make([]float32, n)
	start := time.Now()
	r, err := b.StartRead(t.Context(), 0, got)
	require.NoError(t, err)
	given, err := b.StartRead(t.Context(), 0, gone)
	require.NoError(t, err)
	t.Logf("StartRead took %v", time.Since(start))
	require.ErrorIs(t, given.Finish(cancelled(t)), context.Canceled)
	require.NoError(t, b.Write(t.Context(), 0, second), "after the read")
	require.NoError(t, r.Finish(t.Context()))
	requireEqual(t, first, got)
	require.Empty(t, d.waiting)
	requireEqual(t, make([]float32, n), gone)
	requireEqual(t, second, download(t, b, n))
	require.LessOrEqual(t, len(d.staging), idleStaging)
}
