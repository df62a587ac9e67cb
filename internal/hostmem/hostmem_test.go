package hostmem

import (
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/hardware"
)

// machine is a ledger with that much memory, from which take allocates.
type machine struct {
	ledger
	mu    sync.Mutex
	left  int64
	looks int
}

func newMachine(left int64) *machine {
	m := &machine{left: left}
	m.look = func(home) []limit {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.looks++
		return []limit{{name: "plenty", left: math.MaxInt64}, {name: "the test", left: m.left}}
	}
	return m
}

func (m *machine) alloc(bytes int64) error {
	return m.take(mapped, demand{bytes, 0, 1}, func() error {
		m.mu.Lock()
		m.left -= bytes
		m.mu.Unlock()
		return nil
	})
}

func TestRefusal(t *testing.T) {
	m := newMachine(3 * gib)
	require.NoError(t, m.alloc(2*gib))
	err := m.alloc(2 * gib)
	require.ErrorIs(t, err, hardware.ErrOutOfMemory)
	require.EqualError(t, err, "out of memory: 2.0 GiB more are needed, the test leaves 1.0 GiB")
	require.NoError(t, m.alloc(gib), "a refusal takes nothing")
	require.EqualError(t, m.alloc(mib), "out of memory: 1.0 MiB more are needed, the test leaves 0.0 MiB")
	require.NoError(t, m.alloc(0))
}

func TestRefusalOfMoreThanHalf(t *testing.T) {
	half := func(m *machine, bytes int64) error {
		return m.take(heap, demand{bytes, 0, 2}, func() error { return nil })
	}
	m := newMachine(3 * gib)
	require.EqualError(t, half(m, 2*gib), "out of memory: 2.0 GiB more are needed, the test leaves 3.0 "+
		"GiB; half of it may be taken")
	require.EqualError(t, half(m, 4*gib), "out of memory: 4.0 GiB more are needed, the test leaves 3.0 GiB")
	require.ErrorIs(t, half(m, 2*gib), hardware.ErrOutOfMemory)
	require.NoError(t, half(m, 3*gib/2))
	require.ErrorIs(t, half(m, math.MaxInt64), hardware.ErrOutOfMemory)
}

// Touched memory counts for limits of memory, but not for those of the address space, which already has it.
func TestRefusalOfWhatIsTouched(t *testing.T) {
	var m ledger
	take := func(bytes, touched int64) error {
		m.granted.Store(0)
		return m.take(heap, demand{bytes, touched, 1}, func() error { return nil })
	}
	m.look = func(home) []limit { return []limit{{"memory", 3 * gib, false}, {"space", 2 * gib, true}} }
	require.NoError(t, take(gib, 2*gib))
	require.EqualError(t, take(gib, 3*gib), "out of memory: 4.0 GiB more are needed, memory leaves 3.0 GiB")
	require.EqualError(t, take(5*gib/2, gib/4),
		"out of memory: 2.5 GiB more are needed, space leaves 2.0 GiB")
	m.look = func(home) []limit { return []limit{{"space", gib, true}} }
	require.NoError(t, take(gib, 100*gib))
}

// Memory of garbage becomes free a moment after a look.
func TestRefusalCollectsFirst(t *testing.T) {
	m := newMachine(mib)
	m.patience = time.Minute
	used, freed := make([]byte, mib), make(chan struct{})
	runtime.AddCleanup(&used[0], func(struct{}) { close(freed) }, struct{}{})
	look := m.look
	m.look = func(from home) []limit {
		select {
		case <-freed:
			return []limit{{name: "the test", left: 2 * gib}}
		default:
			return look(from)
		}
	}
	require.NoError(t, m.alloc(gib))
}

// Small allocations need no look, until they add up.
func TestSmallAllocationsAddUp(t *testing.T) {
	m := newMachine(gib)
	n := 0
	for m.alloc(mib) == nil {
		n++
	}
	require.Equal(t, gib/mib, n, "all there is, and no more")
	require.Less(t, m.looks, 60)
	m = newMachine(100 * gib)
	for range 1 << 16 {
		require.NoError(t, m.alloc(64<<10)) // 4 GiB
	}
	require.LessOrEqual(t, m.looks, 4*gib/grant+1)
}

func TestConcurrentTakesShare(t *testing.T) {
	m := newMachine(gib)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for _, bytes := range []int64{math.MaxInt64, 100 * mib, mib, 10 * mib} {
				for range 20 {
					_ = m.alloc(bytes)
				}
			}
		})
	}
	group.Wait()
	require.GreaterOrEqual(t, m.left, int64(0))
	require.Less(t, m.left, int64(20*mib))
}

func TestFloats(t *testing.T) {
	for _, n := range []int{0, 1, 1000, leastMapped/4 - 1, leastMapped / 4, leastMapped/4 + 1, 1 << 20} {
		s, err := Floats(n)
		require.NoError(t, err)
		require.Len(t, s, n)
		for i := range s {
			if s[i] != 0 {
				t.Fatal(n, i)
			}
			s[i] = 1
		}
		Free(s)
	}
	for _, n := range []int{math.MaxInt / 4, math.MaxInt/4 + 1, math.MaxInt} {
		_, err := Floats(n)
		require.ErrorIs(t, err, hardware.ErrOutOfMemory)
		require.ErrorIs(t, Check(int64(n)), hardware.ErrOutOfMemory)
	}
}
