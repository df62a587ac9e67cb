package drivertest

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// split is a plan with a workspace and two passes, with which overlapping runs can do the most damage.
var split = planner.Options{Tile: "small", Schedule: planner.ScheduleSplitK}

func splitBatch() planner.Batch {
	b := planner.Batch{{M: 30, N: 40, K: 300}, {M: 17, N: 16, K: 500}, {M: 1, N: 70, K: 64}}
	for i := range b {
		b[i].Beta = -0.5
	}
	return b
}

// testReuse runs one program again, with other buffers and other values. The same values give the same bits.
func (s *suite) testReuse(t *testing.T) {
	j := s.prepare(t, splitBatch(), narrow, split, manyUnits)
	require.True(t, j.some(sumsPartials), j)
	first := s.typed(fill(j.batch, j.lens, uniform(1)))
	want := j.run(t, first)
	j.check(t, 2)
	j.buffers = j.allocate(t)
	for range 5 {
		require.True(t, sameBits(want, j.run(t, first)), "the same run gave different bits")
	}
}

// testChain submits two runs at once. The second multiplies the result of the first by itself transposed.
func (s *suite) testChain(t *testing.T) {
	ctx := context.Background()
	first := s.prepare(t, planner.Batch{{M: 20, N: 30, K: 40}}, narrow, planner.Options{Tile: "small"}, nil)
	q := first.batch[0]
	second := s.prepare(t, planner.Batch{{M: q.M, N: q.K, K: q.N, TransB: true, Beta: 1}}, narrow,
		planner.Options{Tile: "small"}, nil)
	// C of the first run is A of the second; both use the same B.
	p := second.batch[0]
	p.A, p.B = q.C, q.B
	chained, err := planner.New(second.plan.Device).Plan(ctx, planner.Batch{p},
		planner.Options{Tile: "small"})
	require.NoError(t, err)
	program, err := s.device.Prepare(ctx, chained)
	require.NoError(t, err)
	defer func() { require.NoError(t, program.Close()) }()

	o := fill(first.batch, first.lens, integers(4))
	last := fill(second.batch, second.lens, integers(5))
	for b, src := range map[driver.Buffer][]float32{
		first.buffers[0]: o.a, first.buffers[1]: o.b, first.buffers[2]: o.c, second.buffers[2]: last.c,
	} {
		require.NoError(t, b.Write(ctx, 0, src))
	}
	require.NoError(t, s.device.Submit(ctx, []driver.Run{
		{Program: first.program, A: first.buffers[0], B: first.buffers[1], C: first.buffers[2]},
		{Program: program, A: first.buffers[2], B: first.buffers[1], C: second.buffers[2]},
	}))
	require.NoError(t, s.device.Wait(ctx))
	between, after := make([]float32, first.lens[2]), make([]float32, second.lens[2])
	require.NoError(t, first.buffers[2].Read(ctx, 0, between))
	require.NoError(t, second.buffers[2].Read(ctx, 0, after))
	require.NoError(t, reference.CheckExact(first.batch, o.a, o.b, o.c, between))
	require.NoError(t, reference.CheckExact(planner.Batch{p}, between, o.b, last.c, after))
}

// testFollowing submits runs of each kernel at once. Each run moves the rows of the previous result, which
// shows rows that are read or written too early.
func (s *suite) testFollowing(t *testing.T) {
	facts := s.device.Info().Planner
	few := s.oneTile != "" || s.slow() || testing.Short()
	for _, of := range []element.Type{element.F32, element.BF16} {
		typed := *s
		typed.of, typed.ofC = of, of
		for i := range facts.Kernels {
			shape := facts.Kernels[i].Tile
			if (few && shape.Name != "small") || !typed.fits(&facts, shape) {
				continue
			}
			for _, problems := range []int{facts.ComputeUnits / 2, 5 * facts.ComputeUnits / 2} {
				t.Run(fmt.Sprintf("%v/%s/%d", of, shape.Name, problems), func(t *testing.T) {
					typed.testMoved(t, shape, max(problems, 2))
				})
			}
		}
	}
}

// testMoved multiplies by an A that moves the rows of B up by one, in problems of a tile each, to another
// buffer and back.
func (s *suite) testMoved(t *testing.T, shape *tile.Shape, problems int) {
	ctx := context.Background()
	// to and back: 46 rows, not a multiple of any tile's rows, so unmoved rows show
	const runs = 23
	rows, cols := shape.TM, shape.TN
	b := make(planner.Batch, problems)
	moves := make([]float32, problems*rows*rows)
	numbers, want := make([]float32, problems*rows*cols), make([]float32, problems*rows*cols)
	for i := range b {
		b[i] = planner.Problem{M: rows, N: cols, K: rows,
			A: planner.Matrix{Offset: i * rows * rows, LD: rows}}
		b[i].B = planner.Matrix{Offset: i * rows * cols, LD: cols}
		b[i].C = b[i].B
		for r := range rows {
			moves[b[i].A.Offset+r*rows+(r+1)%rows] = 1
			for c := range cols {
				numbers[b[i].B.Offset+r*cols+c] = float32((7*i + 5*r + 3*c) % 251)
				want[b[i].B.Offset+r*cols+c] = float32((7*i + 5*((r+2*runs)%rows) + 3*c) % 251)
			}
		}
	}
	facts := s.device.Info().Planner
	plan, err := planner.New(&facts).Plan(ctx, b, planner.Options{TypeA: s.of, TypeC: s.ofC, Tile: shape.Name,
		Schedule: planner.ScheduleDataParallel})
	require.NoError(t, err)
	program, err := s.device.Prepare(ctx, plan)
	require.NoError(t, err)
	defer func() { require.NoError(t, program.Close()) }()
	a, x, y := s.alloc(t, wordsOf(s.of, len(moves))), s.alloc(t, wordsOf(s.of, len(numbers))), s.alloc(t,
		wordsOf(s.of, len(numbers)))
	require.NoError(t, a.Write(ctx, 0, backend.ToWords(s.of, moves)))
	require.NoError(t, x.Write(ctx, 0, backend.ToWords(s.of, numbers)))
	forth, back := driver.Run{Program: program, A: a, B: x, C: y}, driver.Run{Program: program,
		A: a, B: y, C: x}
	require.NoError(t, s.device.Submit(ctx, slices.Repeat([]driver.Run{forth, back}, runs)))
	words := make([]float32, x.Len())
	require.NoError(t, x.Read(ctx, 0, words))
	require.Equal(t, want, backend.FromWords(s.of, words, len(want)))
}

// testQueued submits half a second of work. Submit returns before it is done, and a call of Wait ends with
// its context. A Read waits, and sees all results.
func (s *suite) testQueued(t *testing.T) {
	ctx := context.Background()
	const side, enough = 256, 250 * time.Millisecond
	j := s.prepare(t, planner.Batch{{M: side, N: side, K: side, Beta: 1}}, narrow, planner.Options{}, nil)
	o := fill(j.batch, j.lens, integers(1))
	j.run(t, o)
	start := time.Now()
	j.run(t, o)
	some := 1 + min(int(enough/time.Since(start)), 31) // clocks may tick each 0.1 ms, like Dawn's
	run := driver.Run{Program: j.program, A: j.buffers[0], B: j.buffers[1], C: j.buffers[2]}
	taken, err := s.device.Time(ctx, slices.Repeat([]driver.Run{run}, some))
	require.NoError(t, err)
	runs := slices.Repeat([]driver.Run{run}, 1+min(int(time.Duration(some)*enough/taken.Wall), 1000))
	require.NoError(t, j.buffers[2].Write(ctx, 0, o.c))
	require.NoError(t, s.device.Submit(ctx, runs))
	if time.Duration(len(runs))*taken.Device > time.Duration(some)*enough/2 { // it may be done already
		short, cancel := context.WithTimeout(ctx, enough/50)
		defer cancel()
		require.ErrorIs(t, s.device.Wait(short), context.DeadlineExceeded)
	}
	c := make([]float32, len(o.c))
	require.NoError(t, j.buffers[2].Read(ctx, 0, c))
	j.batch[0].Alpha = planner.Scale(float64(len(runs))) // each run adds the product to C
	require.NoError(t, reference.CheckExact(j.batch, o.a, o.b, o.c, c))
}

// testConcurrent runs one program from two goroutines with separate buffers.
func (s *suite) testConcurrent(t *testing.T) {
	j := s.prepare(t, splitBatch(), narrow, split, manyUnits)
	const goroutines, rounds = 2, 4
	type round struct {
		operands operands
		c        []float32
		err      error
	}
	var results [goroutines][rounds]round
	done := make(chan struct{}, goroutines)
	for g := range results {
		buffers := j.allocate(t)
		go func() {
			defer func() { done <- struct{}{} }()
			for i := range results[g] {
				r := &results[g][i]
				r.operands = fill(j.batch, j.lens, uniform(uint64(10*g+i)))
				r.c, r.err = s.compute(j.program, buffers, r.operands)
			}
		}()
	}
	for range results {
		<-done
	}
	for _, rounds := range results {
		for _, r := range rounds {
			require.NoError(t, r.err)
			_, err := reference.Check(j.batch, r.operands.a, r.operands.b, r.operands.c, r.c)
			require.NoError(t, err)
		}
	}
}

func (s *suite) testTime(t *testing.T) {
	j := s.prepare(t, splitBatch(), narrow, split, manyUnits)
	j.run(t, fill(j.batch, j.lens, uniform(1)))
	run := driver.Run{Program: j.program, A: j.buffers[0], B: j.buffers[1], C: j.buffers[2]}
	timing, err := s.device.Time(context.Background(), []driver.Run{run, run})
	require.NoError(t, err)
	require.Positive(t, timing.Device)
	require.GreaterOrEqual(t, timing.Wall, timing.Device)
	require.Contains(t, []string{"timestamp", "event", "wall"}, timing.Clock)
}

// testBuffers writes and reads parts of buffers at every alignment.
func (s *suite) testBuffers(t *testing.T) {
	ctx := context.Background()
	for _, n := range []int{1, 2, 3, 4, 5, 1023, 70001} {
		b, err := s.device.Alloc(n)
		require.NoError(t, err)
		want := make([]float32, n)
		uniform(uint64(n))(want)
		require.NoError(t, b.Write(ctx, 0, want))
		for i := range min(n, 5) {
			part := want[i : i+(n-i+1)/2]
			uniform(uint64(i))(part)
			require.NoError(t, b.Write(ctx, i, part))
			got := make([]float32, n-i)
			require.NoError(t, b.Read(ctx, i, got))
			require.True(t, sameBits(want[i:], got), "%d elements, offset %d", n, i)
		}
		all := make([]float32, n)
		require.NoError(t, b.Read(ctx, 0, all))
		require.True(t, sameBits(want, all))
		require.NoError(t, b.Close())
	}
}

// testOutOfMemory asks for 4 TiB, and continues with the existing buffers.
func (s *suite) testOutOfMemory(t *testing.T) {
	if bits.UintSize < 64 {
		t.Skip("the system may have all that addresses of 32 bits reach")
	}
	j := s.prepare(t, splitBatch(), narrow, split, nil)
	_, err := s.device.Alloc(min(1<<40, math.MaxInt/4))
	require.ErrorIs(t, err, hardware.ErrOutOfMemory)
	j.check(t, 6)
}

// testCancelled makes all calls with a context that has ended. C is then unchanged and the device works.
func (s *suite) testCancelled(t *testing.T) {
	j := s.prepare(t, splitBatch(), narrow, split, nil)
	o := fill(j.batch, j.lens, uniform(1))
	j.run(t, o)
	require.NoError(t, j.buffers[2].Write(context.Background(), 0, o.c))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	run := []driver.Run{{Program: j.program, A: j.buffers[0], B: j.buffers[1], C: j.buffers[2]}}
	for name, call := range map[string]func() error{
		"Open":    func() error { _, err := s.driver.Open(ctx, 0); return err },
		"Prepare": func() error { _, err := s.device.Prepare(ctx, j.plan); return err },
		"Submit":  func() error { return s.device.Submit(ctx, run) },
		"Time":    func() error { _, err := s.device.Time(ctx, run); return err },
		"Wait":    func() error { return s.device.Wait(ctx) },
		"Write":   func() error { return j.buffers[2].Write(ctx, 0, []float32{1}) },
		"Read":    func() error { return j.buffers[2].Read(ctx, 0, make([]float32, 1)) },
		"StartRead": func() error {
			_, err := j.buffers[2].StartRead(ctx, 0, make([]float32, 1))
			return err
		},
		"Copy": func() error { return s.device.Copy(ctx, j.buffers[2], j.buffers[0], 4) },
	} {
		require.ErrorIs(t, call(), context.Canceled, name)
	}
	c := make([]float32, len(o.c))
	require.NoError(t, j.buffers[2].Read(context.Background(), 0, c))
	require.True(t, sameBits(o.c, c), "a cancelled call wrote to C")
	j.check(t, 2)
}

func (s *suite) testOpen(t *testing.T) {
	infos, err := s.driver.Devices(context.Background())
	require.NoError(t, err)
	require.Equal(t, s.device.Info(), infos[0])
	for i, info := range infos {
		require.Equal(t, s.driver.Name(), info.Backend)
		require.Equal(t, i, info.Index)
		require.NotEmpty(t, info.Name)
	}
	for _, index := range []int{-1, len(infos)} {
		_, err := s.driver.Open(context.Background(), index)
		require.ErrorIs(t, err, invalid.Err)
		require.NotErrorIs(t, err, hardware.ErrUnavailable)
	}
}

// testForeign submits runs that name objects of another device, or nil, which a driver around this one may
// do by mistake. No run of the submission is queued.
func (s *suite) testForeign(t *testing.T) {
	ctx := context.Background()
	device, err := s.driver.Open(ctx, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, device.Close()) }()
	other := &suite{driver: s.driver, device: device, leave: true}
	j, foreign := s.prepare(t, splitBatch(), narrow, split, nil), other.prepare(t, splitBatch(),
		narrow, split, nil)
	o := fill(j.batch, j.lens, uniform(1))
	j.run(t, o)
	require.NoError(t, j.buffers[2].Write(ctx, 0, o.c))
	good := driver.Run{Program: j.program, A: j.buffers[0], B: j.buffers[1], C: j.buffers[2]}
	for name, change := range map[string]func(*driver.Run){
		"no program":      func(r *driver.Run) { r.Program = nil },
		"foreign program": func(r *driver.Run) { r.Program = foreign.program },
		"other program":   func(r *driver.Run) { r.Program = struct{ driver.Program }{} },
		"no buffer":       func(r *driver.Run) { r.A = nil },
		"foreign buffer":  func(r *driver.Run) { r.B = foreign.buffers[1] },
		"other buffer":    func(r *driver.Run) { r.C = struct{ driver.Buffer }{} },
	} {
		bad := good
		change(&bad)
		require.ErrorIs(t, s.device.Submit(ctx, []driver.Run{good, bad}), invalid.Err, name)
		_, err := s.device.Time(ctx, []driver.Run{good, bad})
		require.ErrorIs(t, err, invalid.Err, name)
	}
	for name, buffers := range map[string][2]driver.Buffer{
		"foreign dst": {foreign.buffers[2], j.buffers[0]},
		"foreign src": {j.buffers[2], foreign.buffers[0]},
		"other dst":   {struct{ driver.Buffer }{}, j.buffers[0]},
		"no src":      {j.buffers[2], nil},
	} {
		require.ErrorIs(t, s.device.Copy(ctx, buffers[0], buffers[1], 4), invalid.Err, name)
	}
	c := make([]float32, len(o.c))
	require.NoError(t, j.buffers[2].Read(ctx, 0, c))
	require.True(t, sameBits(o.c, c), "a run of a submission that was refused wrote to C")
	j.check(t, 3)
}

// testClose opens a second device, and closes it with open objects and queued work.
func (s *suite) testClose(t *testing.T) {
	device, err := s.driver.Open(context.Background(), 0)
	require.NoError(t, err)
	other := &suite{driver: s.driver, device: device, leave: true}
	j := other.prepare(t, splitBatch(), narrow, split, nil)
	j.check(t, 1)
	require.NoError(t, j.buffers[0].Close())
	j.buffers[0] = other.alloc(t, j.lens[0])
	run := driver.Run{Program: j.program, A: j.buffers[0], B: j.buffers[1], C: j.buffers[2]}
	require.NoError(t, device.Submit(context.Background(), []driver.Run{run, run}))
	require.NoError(t, device.Close())
}
