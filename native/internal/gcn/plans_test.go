package gcn

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/kernelfile"
	"github.com/batchgemm/batchgemm/internal/occupancy"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/native"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

func TestMain(m *testing.M) { os.Exit(sample.Main(m, Disassembler)) }

// readProduct returns the object of an architecture, read once.
func readProduct(t *testing.T, name string) *Object {
	t.Helper()
	if _, err := exec.LookPath(Disassembler); err != nil {
		if slices.Contains(strings.Split(os.Getenv("BATCHGEMM_REQUIRE"), ","), "clang") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	o, err := objects[name]()
	require.NoError(t, err)
	return o
}

// kernelOf returns a kernel of an object, decoded.
func kernelOf(t *testing.T, o *Object, name string) *Kernel {
	t.Helper()
	k, err := o.Kernel(name)
	require.NoError(t, err)
	return k
}

var objects = func() map[string]func() (*Object, error) {
	all := map[string]func() (*Object, error){}
	for name := range arches {
		all[name] = sync.OnceValues(func() (*Object, error) {
			code, err := kernelfile.New(os.DirFS("../../products")).Read(name + ".co")
			if err != nil {
				return nil, err
			}
			return Read(code)
		})
	}
	return all
}()

// job is a plan with operands.
type job struct {
	plan    *planner.Plan
	a, b, c []float32
	e       reference.Epilogue // with its operands
	exact   bool               // results are exact

	packedB, packedB2 []uint32           // words of B and B2 of Int4; b and e.B2 have their numbers
	doubles           *reference.Doubles // of F64: operands in place of those above
}

func (j *job) String() string {
	p, o := &j.plan.Batch[0], &j.plan.Options
	return fmt.Sprintf("tile %s, schedule %s, %v and C %v, epilogue %+v, first problem %dx%dx%d, transA "+
		"%v, transB %v",
		o.Tile, o.Schedule, o.TypeA, o.TypeC, o.Epilogue, p.M, p.N, p.K, p.TransA, p.TransB)
}

// gap fills the memory between matrices.
var gap = float32(math.NaN())

// newJob plans a batch. Matrices have gaps between them and after rows. They start at multiples of unit, and
// so do rows (1: odd). The last row of the last matrix ends its buffer.
func newJob(t *testing.T, d *planner.Device, b planner.Batch, options planner.Options, unit int,
	rng *rand.Rand) *job {
	t.Helper()
	j := &job{exact: rng.IntN(2) == 0}
	values := func(s []float32) { reference.UniformOf(options.TypeA, rng, s) }
	if j.exact {
		values = func(s []float32) { reference.Integers(rng, s, 8) }
	}
	// within the range of every type
	o := reference.Operands{Unit: unit, Gap: gap, Canary: 3e4, Rand: rng, Values: values}
	for i := range b {
		o.Add(&b[i], &options.Epilogue)
	}
	j.a, j.b, j.c, j.e, j.packedB, j.packedB2 = o.A, o.B, o.C, o.E, o.PackedB, o.PackedB2
	round(options.TypeA, j.a)
	round(options.TypeC, j.c)
	round(options.TypeC, j.e.Biases)
	if options.TypeB != element.Int4 {
		round(options.TypeA, j.b)
		round(options.TypeA, j.e.B2)
	}
	var err error
	j.plan, err = planner.New(d).Plan(t.Context(), b, options)
	require.NoError(t, err)
	return j
}

// round rounds numbers to a type. Subnormal 16-bit numbers become 0, as on gfx90a.
func round(of element.Type, numbers []float32) {
	if of == element.F32 {
		return
	}
	for i, x := range numbers {
		if numbers[i] = elemtype.Float(of, elemtype.Bits(of, x)); of.Bytes() > 1 &&
			math.Abs(float64(numbers[i])) < elemtype.Tiny(of)/elemtype.Unit(of)/2 {
			numbers[i] = 0
		}
	}
}

// device returns a device with the kernels of an architecture, and that many units.
func device(t *testing.T, arch native.Arch, units int) *planner.Device {
	t.Helper()
	d := planner.Device{Name: arch.Name(), Occupancy: occupancy.Limits, ComputeUnits: units, WaveSize: 64,
		TFLOPS: 20, LaunchMicros: 0.6,
		SIMDs: 4, MaxWaves: 32, MaxGroups: 16, Shared: 64 << 10, GroupShared: 64 << 10, MaxThreads: 1024,
		MaxWorkers: 1 << 20}
	if units < 1024 {
		d.MaxGroups = 1 // with one unit, one worker has all tiles
	}
	require.NoError(t, arch.Describe(&d))
	return &d
}

// manySteps are the K steps of a tile with so many partials that each thread of a fix-up has more than it
// loads at once, kSlotLoads.
const manySteps = 280

// tileJobs are plans of one tile with schedules that use all features of its kernels for a type. There are
// fewer for narrow types, which have many kernels.
func tileJobs(t *testing.T, arch native.Arch, shape *tile.Shape, of element.Type, transA,
	transB bool) (jobs []*job) {
	t.Helper()
	sizes := [][2]int{{shape.TM, shape.TN}, {shape.TM + 3, shape.TN - 1}, {1, shape.TN + 5},
		{shape.TM - 1, 5},
		{shape.TM / 2, shape.TN / 2}, {shape.TM, 1}, {shape.TM, shape.TN}}
	const parts = 4 * encoding.MaxPartials // steps of a tile with as many partials as are summed at once
	half, scaled := of != element.F32, elemtype.Scaled(of)
	ofC := reference.NarrowC(of, 0)
	for i, c := range []struct {
		use      bool
		schedule planner.Schedule
		units    int // few combine many tiles, many split tiles
		wide     bool
		typeC    element.Type
		depths   []int
	}{
		{true, planner.ScheduleDataParallel, 1024, false, ofC, []int{37, 1, 0, 2*shape.TK + 7, 16, 15}},
		{!half, planner.ScheduleDataParallel, 1024, true, ofC, []int{33, 82, 0, 3, 35, 17}},
		{true, planner.ScheduleDynamic, 3, half, element.F32, []int{29, 16, 0, 37, 34, 17, 7}},
		{true, planner.ScheduleBatched, 1, true, element.F32, []int{29, 83, 0, 37, 34, 17, 7}},
		{!half || transA != transB, planner.ScheduleStreamK, 1024, false, element.F32,
			[]int{4*shape.TK + 1, 3 * shape.TK, 0, 8 * shape.TK, 2*shape.TK + 3, 1}},
		{!half || transA == transB, planner.ScheduleSplitK, 1024, true, ofC,
			[]int{4*shape.TK + 1, 5 * shape.TK, 16, parts*shape.TK - 1, 3*shape.TK + 2, 0, 7}},
		// Some of the few workers have whole tiles beside partials.
		{!half, planner.ScheduleStreamK, 3, true, ofC, []int{4*shape.TK + 1, 3 * shape.TK, 16, 2 * shape.TK}},
		{!transA && !transB, planner.ScheduleSplitK, 1024, true, ofC, []int{manySteps * shape.TK}},
		{scaled, planner.ScheduleDataParallel, 1024, false, reference.NarrowC(of, 1),
			[]int{37, 41, 0, 2*shape.TK + 7, 18, 15}},
		{scaled, planner.ScheduleDataParallel, 1024, true, reference.NarrowC(of, 1),
			[]int{33, 82, 0, 3, 35, 17}},
	} {
		if !c.use {
			continue
		}
		rng := rand.New(rand.NewPCG(uint64(i), uint64(shape.TM)))
		var b planner.Batch
		for p, k := range c.depths {
			switch { // words of a step
			case scaled && perWord(t, arch, shape, of) == 4:
				k = 4*k - k%8
			case scaled:
				k = 2*k - k%4
			case half:
				k = 2*k - k%2
			}
			b = append(b, planner.Problem{M: sizes[p][0], N: sizes[p][1], K: k, TransA: transA,
				TransB: transB,
				Alpha:  planner.Scale([...]float64{2, -0.5, 0, 1, 1, -2, 1}[p]),
				Beta:   [...]float64{0, -0.5, 0, 1}[(p+i)%4]})
		}
		unit := 1
		if c.wide {
			unit = 16 / of.Bytes()
		}
		if i == 0 { // kernels round NaN to bf16 in a branch, which a wave takes if all its lanes have NaN
			b[5].Beta = float64(gap)
		}
		options := planner.Options{Tile: shape.Name, Schedule: c.schedule, TypeA: of, TypeC: c.typeC}
		jobs = append(jobs, newJob(t, device(t, arch, c.units), b, options, unit, rng))
	}
	return jobs
}

// perWord returns how many k a word of shared memory has in the kernels of a tile: two for 8 bits if they
// are multiplied as fp16.
func perWord(t *testing.T, arch native.Arch, shape *tile.Shape, of element.Type) int {
	t.Helper()
	d := device(t, arch, 1)
	switch {
	case of == element.F32:
		return 1
	case of.Bytes() == 1 && slices.Contains(d.Native, of) && d.Kernel(shape).Bytes > 1:
		return 4
	}
	return 2
}

// run runs the launches of a plan and compares C with the reference.
func (j *job) run(o *Object, arch native.Arch, contrary bool, ran map[string][]bool) (instructions int,
	err error) {
	of, typeC := j.plan.Options.TypeA, j.plan.Options.TypeC
	words := newBuffer("the plan", 1, j.plan.Encode(nil))
	a, b, c, b2, bias := j.operands()
	workspace := newBuffer("the workspace", 5, slices.Repeat([]uint32{garbage}, j.plan.Workspace))
	rows := newBuffer("rows", 8, j.e.Rows)
	c.Writable, workspace.Writable = true, true
	a.Bytes, b.Bytes, b2.Bytes = of.Bytes() == 1, of.Bytes() == 1, of.Bytes() == 1
	if j.plan.Options.Epilogue.Pointers.Any() {
		j.point(rows, a.Address, b.Address, c.Address, b2.Address)
	}
	for i := range j.plan.Launches {
		l := &j.plan.Launches[i]
		name := arch.KernelName(l.Kernel)
		threads, _ := native.Geometry(l.Kernel)
		arguments := []uint64{words.Address + 4*uint64(l.Items), 0, a.Address + uint64(of.Bytes()*l.BaseA),
			b.Address + uint64(l.TypeB().Size(l.BaseB)), c.Address + uint64(typeC.Bytes()*l.BaseC), 0}
		if l.Loop {
			arguments[1] = words.Address + uint64(4*l.Table+l.TableMark())
		}
		words.Counters = nil
		if l.Dynamic {
			words.Counters = []int{4 * (l.Table + encoding.DynamicNext)}
		}
		for tile := range l.Finishes {
			words.Counters = append(words.Counters,
				4*(l.Sums+l.Finishes*encoding.FixupWords+tile*l.Counters()))
		}
		if l.Split || l.Fixup || l.Epilogue.Gated {
			arguments[5] = workspace.Address
		}
		if l.Tails() {
			arguments = append(arguments, b2.Address+uint64(l.TypeB().Size(l.BaseB2)), bias.Address,
				rows.Address, uint64(l.Kernel.Word()))
		}
		k, err := o.Kernel(name)
		if err != nil {
			return instructions, err
		}
		if ran != nil && ran[name] == nil {
			ran[name] = make([]bool, len(k.code))
		}
		launch := Launch{Kernel: k, Ran: ran[name], Groups: [2]int{l.Count, native.Pieces(l)},
			Threads: threads, Arguments: arguments,
			Memory: []*Buffer{words, a, b, c, workspace, b2, bias, rows}, Contrary: contrary}
		n, err := launch.Run()
		instructions += n
		if err != nil {
			return instructions, fmt.Errorf("%v: %w", j, err)
		}
	}
	if !bytes.Equal(words.Data, newBuffer("", 1, j.plan.Encode(nil)).Data) {
		return instructions, fmt.Errorf("%v: the plan is another after a run", j)
	}
	if err := j.check(c); err != nil {
		return instructions, fmt.Errorf("%v: %w", j, err)
	}
	return instructions, nil
}

// operands returns A, B, C, B2 and biases in memory.
func (j *job) operands() (a, b, c, b2, bias *Buffer) {
	of, typeC := j.plan.Options.TypeA, j.plan.Options.TypeC
	if x := j.doubles; x != nil {
		in := func(name string, number uint64, numbers []float64) *Buffer {
			return newBuffer(name, number, backend.DoubleWords(numbers))
		}
		return in("A", 2, x.A), in("B", 3, x.B), in("C", 4, x.C), in("B2", 6, x.B2), in("biases", 7, x.Bias)
	}
	a, c = newBuffer("A", 2, backend.ToWords(of, j.a)), newBuffer("C", 4, backend.ToWords(typeC, j.c))
	b, b2 = newBuffer("B", 3, j.packedB), newBuffer("B2", 6, j.packedB2)
	if j.plan.Options.TypeB != element.Int4 {
		b, b2 = newBuffer("B", 3, backend.ToWords(of, j.b)),
			newBuffer("B2", 6, backend.ToWords(of, j.e.B2))
	}
	return a, b, c, b2, newBuffer("biases", 7, backend.ToWords(typeC, j.e.Biases))
}

// check compares C with the reference.
func (j *job) check(c *Buffer) error {
	typeC := j.plan.Options.TypeC
	if j.doubles != nil {
		after := make([]float64, len(c.Data)/8)
		if _, err := binary.Decode(c.Data, binary.LittleEndian, after); err != nil {
			return err
		}
		_, err := reference.CheckF64(j.plan.Batch, j.plan.Options.Epilogue, *j.doubles, after)
		return err
	}
	after := make([]float32, len(c.Data)/4)
	if _, err := binary.Decode(c.Data, binary.LittleEndian, after); err != nil {
		return err
	}
	after = backend.FromWords(typeC, after, len(j.c))
	e, in := j.plan.Options.Epilogue, reference.Arithmetic{TypeC: typeC}
	switch {
	case e != planner.Epilogue{}:
		j.e.Epilogue = e
		in.Epilogue = j.e
	case j.exact:
		return reference.CheckRounded(typeC, j.plan.Batch, j.a, j.b, j.c, after)
	}
	_, err := reference.CheckIn(in, j.plan.Batch, j.a, j.b, j.c, after)
	return err
}

// newBuffer places values in memory around an address whose low 32 bits overflow.
func newBuffer[T uint32 | int32 | float32](name string, number uint64, values []T) *Buffer {
	data, err := binary.Append(nil, binary.LittleEndian, values)
	if err != nil {
		panic(err) // only for a type without a size
	}
	return &Buffer{Name: name, Address: (number<<32 - uint64(len(data)/2)) &^ 255, Data: data}
}

// runAll runs jobs of all types for which a tile has kernels, and of all transpositions. It returns which
// instructions of each kernel ran, and how many in total.
func runAll(t *testing.T, o *Object, arch native.Arch, shape *tile.Shape,
	jobs func(of element.Type, transposition int) []*job) (ran map[string][]bool, total int) {
	t.Helper()
	ran = map[string][]bool{}
	for _, of := range elemtype.TypesA() {
		if of == element.F64 {
			continue // see TestDoubleProducts
		}
		if of.Bytes() == 1 && device(t, arch, 1).Kernel(shape).Bytes == 0 {
			continue
		}
		for transposition := range 4 {
			for i, j := range jobs(of, transposition) {
				n, err := j.run(o, arch, i%2 == 1, ran)
				require.NoError(t, err)
				total += n
			}
		}
	}
	return ran, total
}

// TestProducts runs every kernel that multiplies, and every fix-up.
func TestProducts(t *testing.T) {
	for name := range arches {
		arch, err := native.HIP(name)
		require.NoError(t, err)
		for _, shape := range shapesOf(arch) {
			t.Run(name+"/"+shape.Name, func(t *testing.T) {
				sample.Products.Skip(t, 6)
				if testing.Short() && shape.TM > 8 {
					t.Skip("takes long")
				}
				o := readProduct(t, name)
				t.Parallel()
				ran, total := runAll(t, o, arch, shape, func(of element.Type, transposition int) []*job {
					return tileJobs(t, arch, shape, of, transposition/2 == 1, transposition%2 == 1)
				})
				for _, k := range withoutEpilogue(arch.Variants(shape)) {
					requireRan(t, o, arch, k, ran)
				}
				t.Log(total, "instructions")
			})
		}
	}
}

// shapesOf returns the tiles of plain FMA for which an image has kernels.
func shapesOf(arch native.Arch) []*tile.Shape {
	return slices.DeleteFunc(tile.Of(tile.FMA), func(s *tile.Shape) bool { return !arch.Has(s) })
}

// withoutEpilogue leaves out kernels with an epilogue, which TestEpilogueProducts runs.
func withoutEpilogue(all []encoding.Kernel) []encoding.Kernel {
	return slices.DeleteFunc(all, func(k encoding.Kernel) bool { return k.Epilogue != encoding.Epilogue{} })
}
