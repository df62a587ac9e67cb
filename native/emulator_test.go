package native

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/drivertest"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/occupancy"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/internal/tile"
	builds "github.com/batchgemm/batchgemm/native/internal/kernels"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// narrow are the 16-bit and 8-bit types.
var narrow = sm90a.Types

// emulatorJob is a plan with operands, and how to run it.
type emulatorJob struct {
	plan    *planner.Plan
	words   []uint32    // the encoding, where a device would make items; nil: the plan's
	shape   *tile.Shape // of plain fp32: the tile of all problems
	a, b, c []float32
	// internal/emulator/runner.cpp: order of threads (bg_shim_order), lanes of a wave
	how     [2]uint32
	matrix  bool               // use the kernels for matrix cores, if there are any
	exact   bool               // results are exact
	workers int                // with dynamic tiles, at most three at a time; 0: as in the plan
	e       reference.Epilogue // with its operands
	far     uint32             // internal/emulator/far.h: 0, farRows, or the elements of a slot

	doubles *reference.Doubles // of F64: operands in place of those above

	packedB, packedB2 []uint32 // words of B and B2 of 4 bits; b and e.B2 have their numbers
}

func (j *emulatorJob) String() string {
	p, o := &j.plan.Batch[0], &j.plan.Options
	return fmt.Sprintf("tile %s, schedule %s, %s, %s, C of %s, epilogue %+v, first problem %dx%dx%d, "+
		"transA %v, transB %v, run as %d, matrix cores %v, far %d",
		o.Tile, o.Schedule, o.Compute, o.TypeA, o.TypeC, o.Epilogue, p.M, p.N, p.K, p.TransA, p.TransB, j.how,
		j.matrix, j.far)
}

// dynamic reports whether tiles are dynamic.
func (j *emulatorJob) dynamic() bool {
	return slices.ContainsFunc(j.plan.Launches, func(l encoding.Launch) bool { return l.Dynamic })
}

// jobFile writes what internal/emulator/job.h reads, up to a gigabyte.
type jobFile struct{ *bufio.Writer }

func (f *jobFile) put(values ...any) {
	for _, v := range values {
		if err := binary.Write(f, binary.NativeEndian, v); err != nil {
			panic(err) // a type without a size, or a full disk
		}
	}
}

func (f *jobFile) launch(a Arch, l *encoding.Launch) {
	var name [40]byte
	copy(name[:len(name)-1], a.KernelName(l.Kernel))
	threads, shared := Geometry(l.Kernel)
	f.put(name, uint32(l.Count), uint32(Pieces(l)), uint32(threads), uint32(shared), uint32(l.Items),
		uint32(l.Table), uint32(l.TableMark()),
		uint32(l.BaseA), uint32(l.BaseB), uint32(l.BaseC), uint32(l.BaseB2), l.Kernel.Word())
}

func (f *jobFile) job(j *emulatorJob) {
	words := slices.Clone(j.words)
	if words == nil {
		words = j.plan.Encode(nil)
	}
	launches, workspace := slices.Clone(j.plan.Launches), j.plan.Workspace
	for i := range launches {
		if l := &launches[i]; l.Dynamic && j.workers > 0 {
			l.Count, l.Table = j.workers, len(words)
			tiles, turn := len(j.plan.Segments), 1+l.Count%3
			words = append(words, 0, uint32(tiles), uint32(l.Count*turn), uint32(turn),
				uint32((tiles-1)/turn))
			workspace = max(workspace, l.Count*l.Kernel.Kept())
		}
	}
	o := &j.plan.Options
	var a, c, bias []float32
	if j.doubles == nil {
		a, c, bias = wordsOf(o.TypeA, j.a), wordsOf(o.TypeC, j.c), wordsOf(o.TypeC, j.e.Biases)
	}
	b, b2 := j.packedB, j.packedB2
	if !elemtype.Bits4(o.TypeB) && j.doubles == nil {
		b, b2 = bitsOf(wordsOf(o.TypeA, j.b)), bitsOf(wordsOf(o.TypeA, j.e.B2))
	}
	if x := j.doubles; x != nil {
		a, c, bias = backend.DoubleWords(x.A), backend.DoubleWords(x.C), backend.DoubleWords(x.Bias)
		b, b2 = bitsOf(backend.DoubleWords(x.B)), bitsOf(backend.DoubleWords(x.B2))
	}
	f.put(j.how, j.far, uint32(len(j.plan.Launches)), uint32(len(words)),
		uint32(len(a)), uint32(len(b)), uint32(len(c)), uint32(workspace), uint32(len(b2)), uint32(len(bias)),
		uint32(len(j.e.Rows)))
	for _, l := range launches {
		f.launch(Arch{Arch: builds.Arch{Matrix: j.matrix}}, &l)
	}
	f.put(words, a, b, c, b2, bias, j.e.Rows)
}

// wordsOf returns numbers as words of memory. A word of gaps only is the gap.
func wordsOf(of element.Type, numbers []float32) []float32 {
	words := backend.ToWords(of, numbers)
	if of == element.F32 {
		return words
	}
	per := 4 / of.Bytes()
	for i := range words {
		if !slices.ContainsFunc(numbers[per*i:min(per*(i+1), len(numbers))],
			func(x float32) bool { return !isGap(x) }) {
			words[i] = gap
		}
	}
	return words
}

// bitsOf returns numbers as words.
func bitsOf(numbers []float32) []uint32 {
	words := make([]uint32, len(numbers))
	for i, x := range numbers {
		words[i] = math.Float32bits(x)
	}
	return words
}

func isGap(x float32) bool { return math.Float32bits(x) == math.Float32bits(gap) }

// allC runs the jobs and returns the bytes of every C.
func (e emulator) allC(dir string, jobs []*emulatorJob) ([]byte, error) {
	return e.results(dir, func(in *jobFile) {
		in.put(uint32(len(jobs)))
		for _, j := range jobs {
			in.job(j)
		}
	})
}

// run runs the jobs and compares every C with the reference. The error is from the emulator or the
// comparison.
func (e emulator) run(dir string, jobs []*emulatorJob) error {
	results, err := e.allC(dir, jobs)
	if err != nil {
		return err
	}
	for _, j := range jobs {
		o := &j.plan.Options
		if j.doubles != nil {
			after := make([]float64, len(j.doubles.C))
			n, err := binary.Decode(results, binary.NativeEndian, after)
			if err == nil {
				_, err = reference.CheckF64(j.plan.Batch, o.Epilogue, *j.doubles, after)
			}
			if err != nil {
				return fmt.Errorf("%v: %w", j, err)
			}
			results = results[n:]
			continue
		}
		words := make([]float32, len(wordsOf(o.TypeC, j.c)))
		n, err := binary.Decode(results, binary.NativeEndian, words)
		if err != nil {
			return err
		}
		results = results[n:]
		after := backend.FromWords(o.TypeC, words, len(j.c))
		switch {
		case o.Epilogue != planner.Epilogue{}:
			j.e.Epilogue = o.Epilogue
			_, err = reference.CheckIn(reference.Arithmetic{Compute: o.Compute,
				NarrowSums: reference.NarrowSums(j.plan), TypeC: o.TypeC, Epilogue: j.e}, j.plan.Batch, j.a,
				j.b, j.c, after)
		case j.exact:
			err = reference.CheckRounded(o.TypeC, j.plan.Batch, j.a, j.b, j.c, after)
		default:
			_, err = reference.CheckIn(reference.Arithmetic{Compute: o.Compute,
				NarrowSums: reference.NarrowSums(j.plan), TypeC: o.TypeC}, j.plan.Batch, j.a, j.b, j.c, after)
		}
		if err != nil {
			return fmt.Errorf("%v: %w", j, err)
		}
	}
	return nil
}

// results runs jobs and returns their C.
func (e emulator) results(dir string, write func(*jobFile)) ([]byte, error) {
	from, to := filepath.Join(dir, "jobs"), filepath.Join(dir, "results")
	file, err := os.Create(from)
	if err != nil {
		return nil, err
	}
	in := jobFile{bufio.NewWriterSize(file, 1<<20)}
	write(&in)
	if err := errors.Join(in.Flush(), file.Close()); err != nil {
		return nil, err
	}
	cmd := exec.Command(e.path, from, to)
	cmd.Env = append(os.Environ(), "TSAN_OPTIONS=halt_on_error=1", "ASAN_OPTIONS=detect_leaks=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, errors.Join(err, errors.New(string(out)))
	}
	return os.ReadFile(to)
}

// gap fills the memory between matrices: a NaN that no operand has and that internal/emulator/warpgroup.cpp
// recognises.
var gap = math.Float32frombits(0x7fc0dead)

// newJob plans a batch for a device. Matrices have gaps between them and after rows. They start at multiples
// of unit, and so do rows (1: odd). The last row of the last matrix ends its buffer.
func newJob(t *testing.T, device *planner.Device, b planner.Batch, options planner.Options, unit int,
	rng *rand.Rand) *emulatorJob {
	t.Helper()
	j := &emulatorJob{exact: rng.IntN(2) == 0}
	values := func(s []float32) { reference.UniformOf(options.TypeA, rng, s) }
	if j.exact {
		values = func(s []float32) { reference.Integers(rng, s, 8) }
	}
	o := reference.Operands{Unit: unit, Gap: gap, Canary: 1.5e30, Rand: rng, Values: values}
	for i := range b {
		o.Add(&b[i], &options.Epilogue)
	}
	j.a, j.b, j.c, j.e, j.packedB, j.packedB2 = o.A, o.B, o.C, o.E, o.PackedB, o.PackedB2
	var err error
	j.plan, err = planner.New(device).Plan(t.Context(), b, options)
	require.NoError(t, err)
	return j
}

// newFMAJob plans a batch for one tile, which the options need not name, on a GPU with matrix cores. wide
// aligns matrices for 16-byte copies. finishes: kernels sum partials themselves.
func newFMAJob(t *testing.T, b planner.Batch, shape *tile.Shape, o planner.Options, wide, finishes bool,
	rng *rand.Rand) *emulatorJob {
	t.Helper()
	unit := 1
	if wide {
		unit = 16 / o.TypeA.Bytes()
	}
	d := deviceFor(t, "mi210", o.Schedule)
	if d.Kernel(shape) == nil {
		d = drivertest.WithTile(d, shape)
	}
	d.Finishes = finishes
	o.Tile = shape.Name
	j := newJob(t, d, b, o, unit, rng)
	j.how[1], j.shape = 64, shape
	round(o.TypeA, j.a)
	round(o.TypeC, j.c)
	round(o.TypeC, j.e.Biases)
	if !elemtype.Bits4(o.TypeB) {
		round(o.TypeA, j.b)
		round(o.TypeA, j.e.B2)
	}
	return j
}

func round(of element.Type, numbers []float32) {
	for i, x := range numbers {
		if of != element.F32 && !isGap(x) {
			numbers[i] = elemtype.Float(of, elemtype.Bits(of, x))
		}
	}
}

// deviceFor returns a device on which schedules split few tiles for many units, or combine many tiles for
// one.
func deviceFor(t *testing.T, name string, schedule planner.Schedule) *planner.Device {
	t.Helper()
	d := device(t, name)
	d.ComputeUnits = 1024
	switch schedule {
	case planner.ScheduleBatched, planner.ScheduleLPT:
		d.ComputeUnits = 1
	case planner.ScheduleDynamic:
		d.ComputeUnits, d.MaxGroups = 1, 3
		if d.Occupancy == occupancy.CDNA {
			d.MaxWaves = 3
		}
	}
	return d
}

// tileJobs are plans of one tile with all schedules, one for each transposition, and problems with the given
// rows and columns of C. K, alpha and beta vary, and with narrow elements the type of C.
func tileJobs(t *testing.T, tile *tile.Shape, of element.Type, rows, cols []int) []*emulatorJob {
	t.Helper()
	var jobs []*emulatorJob
	for i, c := range []struct {
		schedule planner.Schedule
		wide     bool
		depths   []int
	}{
		{planner.ScheduleDataParallel, false, []int{37, 0, 1, 15, 16, 17, 64}},
		{planner.ScheduleDataParallel, true, []int{33, 80, 0, 3, 16, 31}},
		{planner.ScheduleBatched, true, []int{35, 16, 0, 5}},
		{planner.ScheduleDynamic, false, []int{17, 0, 35, 16, 5, 3 * tile.TK}},
		{planner.ScheduleSplitK, true, []int{4*tile.TK + 1, 16, 5 * tile.TK, 40*tile.TK - 1, 3, 2*tile.TK + 1,
			1}},
		{planner.ScheduleStreamK, false, []int{4*tile.TK + 1, 11 * tile.TK, 0, 1}},
		{planner.ScheduleDataParallel, true, []int{65, 127, 2, 30, 96, 1}}, // 16-bit steps are longer
	} {
		split := c.schedule == planner.ScheduleSplitK || c.schedule == planner.ScheduleStreamK
		for variant := range 8 {
			transposition, finishes := variant%4, variant >= 4
			if finishes && (!split || of != element.F32) {
				break
			}
			rng := rand.New(rand.NewPCG(uint64(i), uint64(transposition)))
			var b planner.Batch
			for _, m := range rows {
				for _, n := range cols {
					b = append(b, planner.Problem{M: m, N: n, K: c.depths[len(b)%len(c.depths)],
						TransA: transposition/2 == 1, TransB: transposition%2 == 1,
						Alpha: planner.Scale([...]float64{1, -0.5, 1, -0.5, 0}[rng.IntN(5)]),
						Beta:  [...]float64{0, 1, -0.5}[rng.IntN(3)]})
				}
			}
			for c.schedule == planner.ScheduleDynamic && len(b) < 5 { // more tiles than workers
				b = append(b, b...)
			}
			b[0].Alpha, b[len(b)-1].Alpha = planner.Scale(2), planner.Scale(2) // have products
			o := planner.Options{TypeA: of, Schedule: c.schedule}
			if (i+transposition)%3 != 0 {
				o.TypeC = reference.NarrowC(of, i)
			}
			j := newFMAJob(t, b, tile, o, c.wide, finishes, rng)
			some := func(is func(encoding.Launch) bool) bool {
				return slices.ContainsFunc(j.plan.Launches, is)
			}
			require.Equal(t, split, some(func(l encoding.Launch) bool { return l.Fixup || l.Partials }), j)
			require.True(t, finishes || !some(func(l encoding.Launch) bool { return l.Partials }), j)
			if c.schedule == planner.ScheduleBatched && len(b) > 4 {
				require.True(t, some(func(l encoding.Launch) bool { return l.Loop }), j)
			}
			require.Equal(t, c.schedule == planner.ScheduleDynamic, j.dynamic(), j)
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// partJobs compute the same sums by fix-ups and by the worker of the last partial, in all orders of groups.
func partJobs(t *testing.T, tile *tile.Shape) []*emulatorJob {
	t.Helper()
	var jobs []*emulatorJob
	for order := range uint32(4) {
		rng := rand.New(rand.NewPCG(11, 0))
		var b planner.Batch
		for _, parts := range []int{2, 5, 8} {
			b = append(b, planner.Problem{M: tile.TM - 1, N: tile.TN - 3, K: 4 * parts * tile.TK,
				Alpha: planner.Scale(0.3), Beta: 0.7})
		}
		j := newFMAJob(t, b, tile, planner.Options{Schedule: planner.ScheduleSplitK}, false, order < 3, rng)
		require.Equal(t, order < 3, j.plan.Launches[0].Partials, j)
		j.setFractions(rng)
		j.how = [2]uint32{order % 3, 64}
		jobs = append(jobs, j)
	}
	return jobs
}

// setFractions sets A, B and C to numbers whose sums depend on the order of additions.
func (j *emulatorJob) setFractions(rng *rand.Rand) {
	for _, operand := range [][]float32{j.a, j.b, j.c} {
		for i, x := range operand {
			if !isGap(x) {
				operand[i] = rng.Float32()
			}
		}
	}
}

// sameBits runs jobs that must all give the same bits of C.
func (e emulator) sameBits(dir string, jobs []*emulatorJob) error {
	results, err := e.allC(dir, jobs)
	if err != nil {
		return err
	}
	size := len(results) / len(jobs)
	for i := range jobs {
		if !bytes.Equal(results[:size], results[i*size:(i+1)*size]) {
			return fmt.Errorf("%v: other bits than %v", jobs[i], jobs[0])
		}
	}
	return nil
}

// TestPartsInOrder: sums have the same bits, whichever thread group adds up the partials.
func TestPartsInOrder(t *testing.T) {
	compiled(t)
	for _, s := range []sanitizer{plain, asCUDA} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			e := newEmulator(t, s)
			for _, tile := range s.tiles() {
				require.NoError(t, e.sameBits(t.TempDir(), partJobs(t, tile)))
			}
		})
	}
}

// farRows: the rows of a job's only tile are nearly 2^31 elements apart.
const farRows = 1

// farJobs are plans of one tile with more than 2^32 elements of rows, or of slots of the workspace.
func farJobs(t *testing.T, tile *tile.Shape) []*emulatorJob {
	t.Helper()
	var jobs []*emulatorJob
	for transposition := range 4 {
		rng := rand.New(rand.NewPCG(9, uint64(transposition)))
		for _, wide := range []bool{false, true} {
			p := planner.Problem{M: tile.TM - 1, N: tile.TN - 1, K: 2*tile.TK + 5,
				TransA: transposition/2 == 1, TransB: transposition%2 == 1, Alpha: planner.Scale(2),
				Beta: float64(transposition % 2)}
			rows := newFMAJob(t, planner.Batch{p}, tile,
				planner.Options{Schedule: planner.ScheduleDataParallel}, wide, false, rng)
			require.Len(t, rows.plan.Segments, 1)
			rows.far = farRows
			p.K *= 8
			slots := newFMAJob(t, planner.Batch{p, p}, tile,
				planner.Options{Schedule: planner.ScheduleSplitK}, wide, wide == (transposition%2 == 1), rng)
			require.Greater(t, slots.plan.Workspace, 2*tile.TM*tile.TN)
			slots.far = uint32(tile.TM * tile.TN)
			jobs = append(jobs, rows, slots)
		}
	}
	return jobs
}

// withKernels returns the jobs with FMAs and, if the tile has such kernels, with matrix cores. They
// alternate between the given orders of threads, and so do those of each kernel.
func withKernels(jobs []*emulatorJob, orders ...uint32) []*emulatorJob {
	var all []*emulatorJob
	for i, j := range jobs {
		order := orders[i%len(orders)]
		scalar, matrix := *j, *j
		scalar.how = [2]uint32{order, 32 << (order % 2)}
		matrix.how[0], matrix.matrix = order, true
		all = append(all, &scalar)
		if builds.HasMatrix(j.shape) {
			all = append(all, &matrix)
		}
	}
	return all
}

// testTiles runs the kernels of an emulator's tiles.
func testTiles(t *testing.T, s sanitizer, jobs func(*testing.T, *tile.Shape) []*emulatorJob) {
	compiled(t)
	e := newEmulator(t, s)
	var all []*emulatorJob
	for _, tile := range s.tiles() {
		all = append(all, jobs(t, tile)...)
	}
	require.NoError(t, e.run(t.TempDir(), sample.Jobs(t, sample.Kernels, all)))
}

// TestKernelsEmulated runs every kernel in three orders of its threads, with the sizes at which masks
// change, and with memory that lies far apart.
func TestKernelsEmulated(t *testing.T) {
	testTiles(t, plain, func(t *testing.T, tile *tile.Shape) []*emulatorJob {
		rows, cols := []int{tile.TM, 0, 1, tile.TM - 1, tile.TM + 3}, []int{tile.TN, 1, tile.TN + 5}
		jobs := append(withKernels(tileJobs(t, tile, element.F32, rows, cols), 0, 1, 2),
			withKernels(farJobs(t, tile), 2)...)
		return append(jobs, withKernels(typedJobs(t, tile, narrow, rows, cols), 0, 1, 2)...)
	})
}

// typedJobs are tileJobs for all types for which the tile has kernels.
func typedJobs(t *testing.T, tile *tile.Shape, types []element.Type, rows, cols []int) (jobs []*emulatorJob) {
	for _, of := range types {
		if of.Bytes() > 1 || builds.HasBytes(tile) {
			jobs = append(jobs, tileJobs(t, tile, of, rows, cols)...)
		}
	}
	return jobs
}

// someTypes are types whose kernels read and write like those of all others.
var someTypes = []element.Type{element.F32, element.BF16, element.E4M3, element.Int8}

// TestKernelsInBounds runs them with AddressSanitizer, which sees each operand and the shared memory of a
// group as separate arrays, and with that for undefined behaviour.
func TestKernelsInBounds(t *testing.T) {
	testTiles(t, address, func(t *testing.T, tile *tile.Shape) []*emulatorJob {
		rows, cols := []int{tile.TM + 3}, []int{tile.TN + 5}
		return withKernels(typedJobs(t, tile, someTypes, rows, cols), 2)
	})
}

// TestKernelsWithoutRaces runs them with ThreadSanitizer.
func TestKernelsWithoutRaces(t *testing.T) {
	testTiles(t, thread, func(t *testing.T, tile *tile.Shape) []*emulatorJob {
		rows, cols := []int{tile.TM - 1, 5}, []int{tile.TN - 2}
		return withKernels(typedJobs(t, tile, someTypes, rows, cols), 2)
	})
}
