//go:build !nowebgpu && (js || (cgo && ((linux && amd64) || darwin || (windows && amd64))))

package webgpu

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// targets is a program that adds a product to any of many C.
type targets struct {
	*device
	task
	program *program
	a, b    *buffer
	cs      []*buffer
	want    [][]float32
}

func newTargets(t *testing.T, n int) *targets {
	d := open(t, webgpuDriver{})
	k := newTask(t, planner.Problem{M: 9, N: 7, K: 300, Beta: 1})
	facts := d.info.Planner
	facts.ComputeUnits = 64 // splits the tile: two launches
	plan, err := planner.New(&facts).Plan(t.Context(), k.batch,
		planner.Options{Schedule: planner.ScheduleSplitK})
	require.NoError(t, err)
	require.Len(t, plan.Launches, 2)
	p, err := d.Prepare(t.Context(), plan)
	require.NoError(t, err)
	s := &targets{d, k, p.(*program), upload(t, d, k.a), upload(t, d, k.b), nil, nil}
	for i := range n {
		c := integers(len(k.c), uint64(i))
		s.cs, s.want = append(s.cs, upload(t, d, c)), append(s.want, c)
	}
	return s
}

func (s *targets) run(i int) driver.Run {
	s.want[i] = reference(s.batch, s.task.a, s.task.b, s.want[i])
	return driver.Run{Program: s.program, A: s.a, B: s.b, C: s.cs[i]}
}

func (s *targets) check(t *testing.T) {
	t.Helper()
	for i, c := range s.cs {
		requireEqual(t, s.want[i], download(t, c, len(s.want[i])))
	}
}

// A submission may have more sets of operands than a program keeps bind groups for. Releasing a recorded
// bind group aborts the process.
func TestMoreSetsThanAreKept(t *testing.T) {
	s := newTargets(t, 3*backend.Remembered)
	for range 2 { // each set twice in a submission; the second submission finds some kept
		var runs []driver.Run
		for range 2 {
			for i := range s.cs {
				runs = append(runs, s.run(i))
			}
		}
		require.NoError(t, s.Submit(t.Context(), runs))
		require.Equal(t, backend.Remembered, s.program.sets.Len())
	}
	s.check(t)
}

// One submission after another, without waits.
func TestSetsAreDroppedOneByOne(t *testing.T) {
	s := newTargets(t, backend.Remembered+10)
	for i := range s.cs {
		require.NoError(t, s.Submit(t.Context(), []driver.Run{s.run(0), s.run(i)}))
		require.Equal(t, min(i+1, backend.Remembered), s.program.sets.Len())
	}
	require.NotNil(t, s.program.sets.Get(operands{s.program.now,
		buffers{s.a.part(), s.b.part(), s.cs[0].part()}}, s.recording), "used by each")
	require.Nil(t, s.program.sets.Get(operands{s.program.now,
		buffers{s.a.part(), s.b.part(), s.cs[10].part()}}, s.recording))
	s.check(t)
	for _, c := range s.cs {
		require.NoError(t, c.Close())
	}
	require.Zero(t, s.program.sets.Len(), "closed buffers are forgotten")
}

// Submissions that fail while they are recorded leave nothing.
func TestSetsOfFailedSubmissions(t *testing.T) {
	s := newTargets(t, 2*backend.Remembered)
	foreign := alloc(t, open(t, webgpuDriver{}), len(s.task.c))
	for range 3 {
		var bad []driver.Run
		for _, c := range s.cs {
			bad = append(bad, driver.Run{Program: s.program, A: s.a, B: s.b, C: c})
		}
		bad = append(bad, driver.Run{Program: s.program, A: s.a, B: s.b, C: foreign})
		require.ErrorIs(t, s.Submit(t.Context(), bad), invalid.Err)
		require.Equal(t, backend.Remembered, s.program.sets.Len())
	}
	var runs []driver.Run
	for i := range s.cs {
		runs = append(runs, s.run(i))
	}
	require.NoError(t, s.Submit(t.Context(), runs))
	s.check(t)
}

// Buffers and programs may be closed while queued work uses them.
func TestCloseAfterSubmission(t *testing.T) {
	s := newTargets(t, backend.Remembered+1)
	var runs []driver.Run
	for i := range s.cs {
		runs = append(runs, s.run(i))
	}
	require.NoError(t, s.Submit(t.Context(), runs))
	gone := len(s.cs) - 1
	require.NoError(t, s.cs[gone].Close())
	s.cs, s.want = s.cs[:gone], s.want[:gone]
	require.NoError(t, s.Submit(t.Context(), []driver.Run{s.run(0), s.run(gone - 1)}))
	require.NoError(t, s.b.Close())
	require.NoError(t, s.program.Close())
	s.check(t)
}

// A window that WebGPU would not bind is an error before it reaches the library.
func TestWindowMistakes(t *testing.T) {
	d := open(t, webgpuDriver{maxBinding: 4 << 10})
	align := int(d.limits.MinStorageBufferOffsetAlignment) / 4
	b := alloc(t, d, 8<<10)
	for name, c := range map[string]struct {
		of             element.Type
		base, elements int
		valid          bool
	}{
		"from the start":           {element.F32, 0, 1024, true},
		"at the alignment":         {element.F32, align, 1024, true},
		"up to the end":            {element.F32, 7 << 10, 1024, true},
		"not aligned":              {element.F32, align - 4, 16, false},
		"aligned to 16 bytes only": {element.F32, align + 4, 16, false},
		"longer than a binding":    {element.F32, align, 1028, false},
		"beyond the end":           {element.F32, 8<<10 - align, align + 4, false},
		"two a word":               {element.BF16, 2 * align, 2048, true},
		"two a word, not aligned":  {element.F16, align, 2048, false},
		"two a word, too long":     {element.F16, 2 * align, 2056, false},
		"two a word, to the end":   {element.F16, 14 << 10, 2048, true},
		"two a word, beyond":       {element.BF16, 16<<10 - 2*align, 2*align + 8, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := d.window(b.part(), c.of, c.base, c.elements)
			if !c.valid {
				require.ErrorContains(t, err, "do not make a binding (limit 4096 bytes, from multiples of ")
				return
			}
			require.NoError(t, err)
			size := uint64(c.of.Bytes())
			require.Equal(t, window{b, span{size * uint64(c.base), size * uint64(c.elements)}}, got)
		})
	}
	require.True(t, slices.Contains([]uint32{32, 64, 128, 256}, d.limits.MinStorageBufferOffsetAlignment))
}
