package hostgemm

import (
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/hostmem/memtest"
	"github.com/batchgemm/batchgemm/planner"
)

// Memory of results is reused by the next call, and returns to the system if none comes.
func TestStagingIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s staging
		const n = 4 * maxKept
		before := memtest.Resident(t)
		require.Equal(t, n, s.more(n))
		first, err := s.take(n)
		require.NoError(t, err)
		require.Greater(t, memtest.Resident(t), before+3*n)
		at := unsafe.SliceData(first)
		s.give(first)
		require.Zero(t, s.more(n-5))
		for range 5 {
			time.Sleep(keepFor - time.Millisecond)
			again, err := s.take(n - 5)
			require.NoError(t, err)
			require.Same(t, at, unsafe.SliceData(again))
			s.give(again)
		}
		other, err := s.take(2 * n)
		require.NoError(t, err)
		require.NotSame(t, at, unsafe.SliceData(other))
		s.give(other)
		again, err := s.take(n - 5)
		require.NoError(t, err)
		require.Same(t, at, unsafe.SliceData(again), "the least that is enough")
		other, err = s.take(n + 5)
		require.NoError(t, err)
		s.give(again)
		time.Sleep(3 * keepFor)
		synctest.Wait()
		require.Equal(t, n, s.more(n))
		require.Empty(t, s.idle)
		s.give(other)
		time.Sleep(3 * keepFor)
		synctest.Wait()
		require.Empty(t, s.idle)
		require.Less(t, memtest.Resident(t), before+2*n)
	})
}

// A call takes new memory, and the pages of C that it will write and that do not exist.
func TestWhatACallTakes(t *testing.T) {
	const side = 3000
	one, err := planner.Pack(planner.GEMM(side, side, 1))
	require.NoError(t, err)
	two, err := planner.Pack(planner.GEMM(side/2, side, 1), planner.GEMM(side/2, side, 1))
	require.NoError(t, err)
	memory, err := syscall.Mmap(-1, 0, 4*side*side, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_PRIVATE|syscall.MAP_ANON)
	require.NoError(t, err)
	defer func() { require.NoError(t, syscall.Munmap(memory)) }()
	c := unsafe.Slice((*float32)(unsafe.Pointer(&memory[0])), side*side)
	a := make([]float32, 2*side)
	for range 2 {
		staged.free() // memory of other tests
	}
	for _, fresh := range []bool{true, false} {
		for _, k := range []struct {
			name    string
			batch   planner.Batch
			inPlace bool
			bytes   int // of results
		}{
			{"one part", one, false, side * side},
			{"parts", two, false, side * side},
			{"in place", two, true, 0},
		} {
			d, _ := openHost(t)
			parts, err := cut(t.Context(), k.batch, &bare, everything(k.batch))
			require.NoError(t, err)
			require.Len(t, parts, len(k.batch))
			e := &entry{batch: k.batch, parts: [][]*part{parts}, extents: k.batch.Lengths(bare),
				results: side * side, inPlace: k.inPlace}
			bytes, touched := d.session.takes(e, &task{batch: k.batch, Operands: Operands{A: a, B: a, C: c}})
			require.InDelta(t, 4*k.bytes, bytes, 1<<16, k.name)
			if fresh {
				require.InDelta(t, 4*side*side, touched, 4096, k.name)
			} else {
				require.Zero(t, touched, k.name)
			}
		}
		for i := range c {
			c[i] = 1
		}
	}
}
