package hostgemm

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
)

// If no device is idle, callers wait for different devices.
func TestCallersShareBusyDevices(t *testing.T) {
	g, _ := openGroup(t, 2)
	for _, h := range g.hosts {
		h.turn <- struct{}{}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	got := make(chan int, 2)
	for i := range 2 {
		go func() {
			at, err := g.idle(ctx)
			if err != nil {
				at = -1
			}
			got <- at
		}()
		for int(g.waited.Load()) <= i {
			runtime.Gosched()
		}
	}
	for _, h := range g.hosts {
		h.turn.give()
	}
	first, second := <-got, <-got
	require.ElementsMatch(t, []int{0, 1}, []int{first, second})
	for _, h := range g.hosts {
		h.turn.give()
	}
}

// job is a batch with its operands.
type job struct {
	batch   planner.Batch
	a, b, c []float32
}

// random returns n problems of all kinds with sizes up to most, and small integers as operands, so results
// are exact. C has gaps.
func random(t *testing.T, seed uint64, n, most int) job {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	problems := make([]planner.Problem, n)
	for i := range problems {
		p := planner.GEMM(1+rng.IntN(most), 1+rng.IntN(most), rng.IntN(most+1))
		p.TransA, p.TransB = rng.IntN(2) == 1, rng.IntN(2) == 1
		p.Beta = [...]float64{0, 1, -2}[i%3]
		problems[i] = p
	}
	batch, err := planner.Pack(problems...)
	require.NoError(t, err)
	end := 3
	for i := range batch {
		p := &batch[i]
		p.C = planner.Matrix{Offset: end, LD: p.N + 2}
		end += p.M*p.C.LD + 5
	}
	need := batch.Lengths(planner.Epilogue{})
	k := job{batch, make([]float32, need.A), make([]float32, need.B), make([]float32, end)}
	for _, s := range [][]float32{k.a, k.b, k.c} {
		reference.Integers(rng, s, 8)
	}
	return k
}

func (k job) gemm(ctx context.Context, g interface {
	GEMM(context.Context, planner.Batch, planner.Options, Operands) error
}) error {
	c := slices.Clone(k.c)
	if err := g.GEMM(ctx, k.batch, planner.Options{}, Operands{A: k.a, B: k.b, C: c}); err != nil {
		if !slices.Equal(k.c, c) {
			return fmt.Errorf("C changed in spite of: %w", err)
		}
		return err
	}
	return reference.CheckExact(k.batch, k.a, k.b, k.c, c)
}

func TestGroupGEMM(t *testing.T) {
	for devices := 1; devices <= 3; devices++ {
		t.Run(fmt.Sprint(devices), func(t *testing.T) {
			g, fakes := openGroup(t, devices)
			for range 2 { // the second round finds the plans
				for seed := range uint64(4) {
					require.NoError(t, random(t, seed, 60, 90).gemm(t.Context(), g))
				}
			}
			for _, f := range fakes {
				require.EqualValues(t, 4, f.Prepared.Load())
				require.EqualValues(t, 3, f.Buffers.Load())
			}
		})
	}
}

// Every device gets the operands of its own problems, once, and about the same work.
func TestGroupSplits(t *testing.T) {
	g, fakes := openGroup(t, 3)
	k := random(t, 1, 200, 100)
	for i := range k.batch {
		k.batch[i].Beta = 0
	}
	require.NoError(t, k.gemm(t.Context(), g))
	costs := g.hosts[0].planner.Costs(k.batch, nil)
	shares := make([]float64, 3)
	for i, own := range g.split.entries[0].parts {
		for _, p := range own {
			for _, r := range p.results {
				at := slices.IndexFunc(k.batch, func(q planner.Problem) bool {
					return q.C.Offset == r.offset
				})
				shares[i] += costs[at]
			}
		}
	}
	var written int64
	for i := range shares {
		require.InEpsilon(t, sum(shares)/3, shares[i], 0.1)
		written += fakes[i].Written.Load()
		require.Less(t, fakes[i].Written.Load(), int64(len(k.a)+len(k.b))*4/10)
	}
	require.InEpsilon(t, len(k.a)+len(k.b), written, 0.03, "nothing travels twice")
}

func TestGroupSmallBatchesStayTogether(t *testing.T) {
	g, fakes := openFast(t, 2, 60) // like a GPU: copies dominate
	const k, n = 3000, 2000
	shared := planner.Batch{} // little data beside the B that all problems share
	for i := range 4 {
		shared = append(shared, planner.Problem{M: 1, N: n, K: k,
			A: operand(k*i, k), B: operand(0, n), C: operand(n*i, n)})
	}
	for name, k := range map[string]job{
		"small":       random(t, 1, 5, 30),
		"no problems": {},
		"one problem": random(t, 2, 1, 500),
		"shared B":    {shared, make([]float32, 4*k), make([]float32, k*n), make([]float32, 4*n)},
	} {
		require.NoError(t, k.gemm(t.Context(), g), name)
		require.Zero(t, fakes[1].Prepared.Load(), name)
	}
	require.EqualValues(t, 3, fakes[0].Prepared.Load())
}

// Small batches run on different devices at the same time.
func TestGroupSmallBatchesSideBySide(t *testing.T) {
	g, fakes := openGroup(t, 2)
	inside, leave := make(chan struct{}), make(chan struct{})
	for _, f := range fakes {
		f.OnSubmit = func() error { inside <- struct{}{}; <-leave; return nil }
	}
	done := make(chan error, 3)
	for seed := range uint64(3) {
		k := random(t, seed, 3, 20)
		go func() { done <- k.gemm(context.Background(), g) }()
	}
	<-inside
	<-inside // both wait inside their device
	go func() { <-inside }()
	close(leave)
	for range 3 {
		require.NoError(t, <-done)
	}
}

func TestGroupRefuses(t *testing.T) {
	g, fakes := openGroup(t, 2)
	k := random(t, 1, 60, 90)
	for name, call := range map[string]func(k *job){
		"problem 59: C needs":                func(k *job) { k.c = k.c[:len(k.c)-50] },
		"problem 7: M -1 is negative":        func(k *job) { k.batch[7].M = -1 },
		"problem 5: C overlaps C of problem": func(k *job) { k.batch[5].C = k.batch[3].C },
	} {
		bad := job{slices.Clone(k.batch), k.a, k.b, k.c}
		call(&bad)
		err := bad.gemm(t.Context(), g)
		require.ErrorContains(t, err, name)
		var problem *planner.ProblemError
		require.ErrorAs(t, err, &problem)
	}
	require.NoError(t, k.gemm(t.Context(), g))
	k.a = k.a[:len(k.a)-100]
	require.ErrorContains(t, k.gemm(t.Context(), g), "A needs elements", "also where the batch is remembered")
	require.EqualValues(t, 1, fakes[0].Prepared.Load())
}

func TestGroupFailureLeavesC(t *testing.T) {
	for _, name := range []string{"submit", "read", "prepare", "out of memory", "cancel before",
		"cancel in submit", "cancel in read"} {
		t.Run(name, func(t *testing.T) {
			g, fakes := openGroup(t, 2)
			k := random(t, 1, 60, 90)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f, want := fakes[1], errBroken
			fail := func() error { return errBroken }
			switch name {
			case "submit":
				f.OnSubmit = fail
			case "read":
				f.OnRead = fail
			case "prepare":
				f.OnPrepare = fail
			case "out of memory":
				f.OnAlloc, want = func() error { return hardware.ErrOutOfMemory }, hardware.ErrOutOfMemory
			case "cancel before":
				cancel()
				want = context.Canceled
			case "cancel in submit":
				f.OnSubmit, want = func() error { cancel(); return nil }, context.Canceled
			case "cancel in read":
				f.OnRead, want = func() error { cancel(); return nil }, context.Canceled
			}
			err := k.gemm(ctx, g)
			require.ErrorIs(t, err, want)
			require.NotContains(t, err.Error(), "C changed")
			if !strings.Contains(name, "cancel") {
				require.ErrorContains(t, err, "device 1 (fake1): ")
			}
			f.OnSubmit, f.OnRead, f.OnPrepare, f.OnAlloc = nil, nil, nil, nil
			require.NoError(t, k.gemm(t.Context(), g), "the group works on")
		})
	}
}

func TestGroupConcurrent(t *testing.T) {
	g, _ := openGroup(t, 2)
	var group sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		k := random(t, uint64(i%4), []int{60, 3}[i%2], 60) // split ones and small ones
		target := interface {
			GEMM(context.Context, planner.Batch, planner.Options, Operands) error
		}(g)
		if i == 5 {
			target = g.hosts[1]
		}
		group.Go(func() {
			for range 5 {
				if errs[i] = k.gemm(context.Background(), target); errs[i] != nil {
					return
				}
			}
		})
	}
	group.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

// large returns a batch with several parts for each device, of problems with little computation and exact
// results.
func large(t *testing.T) job {
	t.Helper()
	var problems []planner.Problem
	for i := range 400 {
		problems = append(problems, planner.GEMM(1, 4, 20000+16*i))
	}
	batch, err := planner.Pack(problems...)
	require.NoError(t, err)
	need := batch.Lengths(planner.Epilogue{})
	k := job{batch, make([]float32, need.A), make([]float32, need.B), make([]float32, need.C)}
	for i := range k.a {
		k.a[i] = float32(i%3 - 1)
	}
	for i := range k.b {
		k.b[i] = float32(i%5 - 2)
	}
	return k
}

// The parts of a large batch alternate on the buffers of the lanes.
func TestLargeBatchInParts(t *testing.T) {
	if testing.Short() {
		t.Skip("200 MB of operands")
	}
	k := large(t)
	for _, devices := range []int{1, 2} {
		g, fakes := openGroup(t, devices)
		lanes := min(maxLanes, max(1, runtime.GOMAXPROCS(0)/devices))
		for range 2 {
			require.NoError(t, k.gemm(t.Context(), g))
		}
		for _, f := range fakes {
			parts := (len(k.a) + len(k.b)) / devices / partSize
			require.InDelta(t, parts, f.Prepared.Load(), 2)
			require.LessOrEqual(t, f.Buffers.Load(), int32(3*lanes))
			// A part is slightly larger than partSize; buffers are powers of two.
			require.Less(t, f.Most.Load(), int64(3*partSize*lanes))
		}
		for _, h := range g.split.hosts {
			for i := range h.lanes {
				require.LessOrEqual(t, cap(h.lanes[i].piece), 2*maxPiece)
			}
		}
		// A failure in a late part.
		calls := 0
		var mu sync.Mutex
		last := fakes[devices-1]
		last.OnRead = func() error {
			mu.Lock()
			defer mu.Unlock()
			if calls++; calls == 3 {
				return errBroken
			}
			return nil
		}
		err := k.gemm(t.Context(), g)
		require.ErrorIs(t, err, errBroken)
		require.NotContains(t, err.Error(), "C changed")
	}
}

func TestGroupRemembersTheLastBatches(t *testing.T) {
	g, fakes := openGroup(t, 2)
	k := random(t, 1, 40, 90)
	for alpha := 1; alpha <= maxPrograms+2; alpha++ {
		k.batch[0].Alpha = planner.Scale(float64(alpha))
		require.NoError(t, k.gemm(t.Context(), g))
	}
	for _, f := range fakes {
		require.EqualValues(t, maxPrograms, f.Prepared.Load())
		require.EqualValues(t, 2, f.Updated.Load())
		require.EqualValues(t, maxPrograms, f.Programs.Load())
	}
}
