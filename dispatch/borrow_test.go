package dispatch

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
)

// Only a ragged program whose sizes are ends has an extent, at most its bound.
func TestRunAtExtent(t *testing.T) {
	d, err := Open(t.Context(), WithBackend("cpu"))
	require.NoError(t, err)
	rows := planner.Ragged{Form: planner.EndsOfRows, Groups: 2, M: 6, N: 2, K: 2, A: planner.Matrix{LD: 2},
		B: planner.Matrix{LD: 2}, C: planner.Matrix{LD: 2}}
	records := planner.Ragged{Form: planner.Records, Groups: 2, M: 6, N: 2, K: 2, LenA: 12, LenB: 4, LenC: 12}
	depth := rows
	depth.Form, depth.K, depth.A.LD, depth.StrideC = planner.EndsOfDepth, 4, 4, 12
	whole := program(t, d, small(t))
	for _, c := range []struct {
		of     *planner.Ragged
		extent int
		want   string
	}{
		{nil, 1, "extent 1 is not 0: the program is not ragged, its plan has the sizes"},
		{&rows, 7, "ragged batch: extent 7 is not in [0, 6]"},
		{&rows, -1, "ragged batch: extent -1 is not in [0, 6]"},
		{&rows, 6, "A is 0"},
		{&depth, 5, "ragged batch: extent 5 is not in [0, 4]"},
		{&records, 1, "ragged batch: extent 1 is not 0: records have sizes of their own"},
	} {
		p := whole
		if c.of != nil {
			p, err = d.PrepareRagged(t.Context(), *c.of, planner.Options{})
			require.NoError(t, err)
		}
		err := d.RunAt(t.Context(), 0, RunOn{Program: p, Extent: c.extent})
		require.ErrorIs(t, err, ErrInvalid)
		require.EqualError(t, err, "run 0: "+c.want)
	}
	routing, err := d.PrepareStep(t.Context(), planner.Routing{Choices: planner.Choices{Tokens: 10, TopK: 3,
		Experts: 65}})
	require.NoError(t, err)
	for _, extent := range []int{-1, 11} {
		require.EqualError(t, d.RunAt(t.Context(), 0, RunOn{Program: routing, Extent: extent}),
			fmt.Sprintf("run 0: extent %d is not in [0, 10], the tokens that there may be", extent))
	}
	require.EqualError(t, d.RunAt(t.Context(), 0, RunOn{Program: routing, Extent: 10}), "run 0: A is 0")
	require.NoError(t, d.Close())
}

// All runs are checked before the first is queued, and each sees what those before it wrote.
func TestRunAtAll(t *testing.T) {
	d, err := Open(t.Context(), WithBackend("cpu"))
	require.NoError(t, err)
	p := program(t, d, small(t))
	plan := p.Plan()
	var all [][]float32
	at := func(n int, value float32) ([]float32, uintptr) { // of a multiple of 16 bytes
		mapped := slices.Repeat([]float32{value}, n+4)
		all = append(all, mapped)
		skip := (16 - uintptr(unsafe.Pointer(&mapped[0]))%16) % 16 / 4
		return mapped[skip:][:n], uintptr(unsafe.Pointer(&mapped[skip]))
	}
	defer func() { runtime.KeepAlive(all) }()
	_, a := at(plan.ExtentA, 1)
	_, b := at(plan.ExtentB, 2)
	c, first := at(max(plan.ExtentA, plan.ExtentC), -1)
	e, second := at(plan.ExtentC, -1)
	runs := []RunOn{{Program: p, A: a, B: b, C: first}, {Program: p, A: first, B: b, C: second}}
	require.NoError(t, d.RunAt(t.Context(), 0, runs...))
	require.NoError(t, d.Wait(t.Context()))
	require.NotEqual(t, float32(-1), c[0])
	require.NotEqual(t, float32(-1), e[0])
	require.NotEqual(t, c[0], e[0])
	require.NoError(t, d.RunAt(t.Context(), 0))

	c[0] = -1
	runs[1].C += 4
	require.ErrorContains(t, d.RunAt(t.Context(), 0, runs...), "run 1: C 0x")
	runs[1].Program = nil
	require.ErrorContains(t, d.RunAt(t.Context(), 0, runs...), "run 1: the program is nil")
	other, err := Open(t.Context(), WithBackend("cpu"))
	require.NoError(t, err)
	runs[1].Program = program(t, other, small(t))
	require.ErrorContains(t, d.RunAt(t.Context(), 0, runs...), "run 1: program: belongs to another device")
	require.NoError(t, d.Wait(t.Context()))
	require.Equal(t, float32(-1), c[0])
	require.NoError(t, other.Close())
	require.NoError(t, d.Close())
}
