package native

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/drivertest"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// raggedJob has the sizes of consecutive launches of a kernel, and the memory of the plan before and after
// them.
type raggedJob struct {
	name         string
	kernel       encoding.Kernel
	makers       int
	order        uint32 // of threads
	extent       int
	sets         [][]int32
	before, want []uint32
}

func (f *jobFile) raggedJob(j *raggedJob) {
	sizes := slices.Concat(j.sets...)
	f.put(j.order, uint32(32), uint32(0), uint32(len(j.sets)), uint32(len(sizes)), uint32(0), uint32(0),
		uint32(len(j.before)), uint32(0), [3]uint32{})
	at := 0
	for _, set := range j.sets {
		f.launch(Arch{}, &encoding.Launch{Kernel: j.kernel, Count: j.makers, Table: at, BaseA: j.extent})
		at += len(set)
	}
	f.put(sizes, j.before)
}

// runRagged runs the jobs and compares all memory of each plan.
func (e emulator) runRagged(dir string, jobs []*raggedJob) error {
	results, err := e.results(dir, func(in *jobFile) {
		in.put(uint32(len(jobs)))
		for _, j := range jobs {
			in.raggedJob(j)
		}
	})
	if err != nil {
		return err
	}
	for _, j := range jobs {
		got := make([]uint32, len(j.want))
		n, err := binary.Decode(results, binary.NativeEndian, got)
		if err != nil {
			return err
		}
		results = results[n:]
		for i, want := range j.want {
			if got[i] != want {
				return fmt.Errorf("%s: word %d of %d is %#x, not %#x", j.name, i, len(got), got[i], want)
			}
		}
	}
	return nil
}

// untouched fills memory that no kernel has written.
const untouched = 0xdeadbeef

// alwaysFew is a fill with which all groups take the second kernel.
const alwaysFew = math.MaxUint32

// newRaggedJob plans, and draws how many thread groups make items, and for how many workers.
func newRaggedJob(t *testing.T, rng *rand.Rand, r planner.Ragged, entries uint16, name string,
	sets ...[]int32) *raggedJob {
	t.Helper()
	return newEpilogueJob(t, rng, r, planner.Epilogue{}, entries, name, sets...)
}

// newEpilogueJob is newRaggedJob with an epilogue.
func newEpilogueJob(t *testing.T, rng *rand.Rand, r planner.Ragged, e planner.Epilogue, entries uint16,
	name string, sets ...[]int32) *raggedJob {
	t.Helper()
	return newJobWithin(t, rng, r, e, drawExtent(rng, &r), 0, entries, name, sets...)
}

// newJobWithin is newEpilogueJob with an extent, and with panels of so many rows, or 0.
func newJobWithin(t *testing.T, rng *rand.Rand, r planner.Ragged, e planner.Epilogue, extent, panel int,
	entries uint16, name string, sets ...[]int32) *raggedJob {
	t.Helper()
	d := device(t, "mi210")
	d.ComputeUnits = 16
	o := planner.Options{Epilogue: e}
	if e.ScaleA != "" || e.ScaleB != "" {
		d.Types, d.Blocks, o.TypeA = narrow, true, element.Int8
	}
	switch {
	case e.ScaleA == planner.PerBlock:
		o.TypeA = element.E4M3
	case e.ScaleB.Group() > 0:
		d.Types = append(slices.Clone(narrow), elemtype.Types4()...)
		o.TypeA, o.TypeB, o.TypeC = element.BF16, e.ScaleB.TypeB(element.BF16), element.BF16
	}
	plan, err := planner.New(d).PlanRagged(r, o)
	require.NoError(t, err)
	j := &raggedJob{
		kernel: encoding.Kernel{Ragged: encoding.RaggedPlan, Form: r.Form, Entries: entries,
			Epilogue: plan.Launches[0].Epilogue},
		makers: 1 + rng.IntN(2), order: uint32(rng.IntN(3)), extent: extent, sets: sets,
	}
	there := r.Within(extent)
	require.LessOrEqual(t, plan.Launches[0].Entries, entries)
	require.Equal(t, r.Form, plan.Launches[0].Form)
	j.before = slices.Concat(plan.Encode(nil), slices.Repeat([]uint32{untouched},
		plan.Words-encoding.RaggedHead))
	b := j.before
	b[encoding.BoundMakers] = uint32(j.makers)
	if fill := rng.IntN(3); fill < 2 {
		b[encoding.BoundFill] = uint32(fill) * alwaysFew
	}
	b[encoding.BoundFlags] = encoding.ItemFloatC * rng.Uint32N(2)
	b[encoding.BoundVector] = [...]uint32{3, 7, math.MaxUint32}[j.order]
	for i := range b[encoding.BoundKernels] {
		k := b[int(encoding.BoundTile)+int(i)*encoding.KernelWords:]
		k[encoding.KernelChunk] = rng.Uint32N(2) * (1 + uint32(j.makers%3))
		k[encoding.KernelWorkers] = min(k[encoding.KernelWorkers],
			[...]uint32{1, 3, 16, 1 << 20}[rng.IntN(4)])
	}
	j.name = fmt.Sprintf("%s: %s%s, %d kernels", name, Arch{}.KernelName(j.kernel), j.kernel.Epilogue,
		b[encoding.BoundKernels])
	j.want = slices.Clone(b)
	for _, set := range sets {
		batch, refused := there.Batch(nil, set, planner.Options{Epilogue: e})
		if refused >= 0 && j.want[encoding.StatusWord] == 0 {
			j.want[encoding.StatusWord] = uint32(refused + 1)
		}
		drivertest.DealPanels(j.want, batch, e, panel).Put(j.want)
	}
	return j
}

// drawExtent returns the whole bound for most jobs.
func drawExtent(rng *rand.Rand, r *planner.Ragged) int {
	bound := map[planner.RaggedForm]int{planner.EndsOfRows: r.M, planner.EndsOfDepth: r.K}[r.Form]
	if bound == 0 || rng.IntN(3) > 0 {
		return 0
	}
	return 1 + rng.IntN(bound)
}

func refusedOf(r *planner.Ragged, sizes []int32) int {
	_, refused := r.Batch(nil, sizes, planner.Options{})
	return refused
}

var raggedForms = []planner.RaggedForm{planner.EndsOfRows, planner.EndsOfDepth, planner.Records}

// fewGroups are sizes of 7 groups, right and wrong, for the kernels of some numbers of entries.
// Transpositions alternate.
func fewGroups(t *testing.T, entries ...uint16) (jobs []*raggedJob) {
	t.Helper()
	for _, form := range raggedForms {
		for _, n := range entries {
			rng := rand.New(rand.NewPCG(uint64(form), uint64(n)))
			batch := func() planner.Ragged {
				r := drivertest.RaggedBatches(rng.IntN(2) == 0, rng.IntN(2) == 0)[form]
				r.Beta = 3
				if form != planner.Records {
					r.Rest = planner.Rest(rng.IntN(3))
				}
				return r
			}
			r := batch()
			all := drivertest.RaggedSizes(t, &r)
			names := slices.Sorted(maps.Keys(all))
			for _, name := range names {
				r := batch()
				jobs = append(jobs, newRaggedJob(t, rng, r, n, name, drivertest.RaggedSizes(t, &r)[name]))
			}
			// The order matters: the first refused group decides what is reported.
			rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			var sets [][]int32
			for _, name := range names[:4] {
				sets = append(sets, all[name])
			}
			jobs = append(jobs, newRaggedJob(t, rng, r, n, fmt.Sprint(names[:4]), sets...))
			for draw := range 5 {
				bad := slices.Clone(all[[]string{"some", "good"}[form/planner.Records]])
				for range 1 + rng.IntN(3) {
					bad[rng.IntN(len(bad))] = int32(rng.Uint32() >> rng.IntN(32))
				}
				jobs = append(jobs, newRaggedJob(t, rng, r, n, fmt.Sprint("any bits ", draw), bad))
			}
			if form == planner.Records {
				jobs = append(jobs, tallRecords(t, rng, n))
			}
		}
	}
	return jobs
}

// wrongEnds are ends of 7 groups, right and wrong, with extents from 1 to the bound, with each rest.
func wrongEnds(t *testing.T, entries ...uint16) (jobs []*raggedJob) {
	t.Helper()
	const bound = 40
	for _, form := range []planner.RaggedForm{planner.EndsOfRows, planner.EndsOfDepth} {
		for _, n := range entries {
			rng := rand.New(rand.NewPCG(uint64(form), uint64(n)+6))
			for extent := range bound + 1 { // 0 is the bound
				transA, transB := rng.IntN(2) == 0, rng.IntN(2) == 0
				r := drivertest.RaggedBatches(transA, transB)[form]
				if form == planner.EndsOfRows {
					r.M = bound
				} else {
					r.K = bound
				}
				r.Rest, r.Beta = planner.Rest(extent%3), float64(rng.IntN(2))
				for name, sizes := range drivertest.RaggedEnds(int32(cmp.Or(extent, bound))) {
					name = fmt.Sprintf("%s, extent %d, rest %d", name, extent, r.Rest)
					jobs = append(jobs,
						newJobWithin(t, rng, r, planner.Epilogue{}, extent, 0, n, name, sizes))
				}
			}
		}
	}
	return jobs
}

// epilogueGroups are sizes of 7 groups for the kernels with an epilogue of some numbers of entries: for the
// fewest entries with any epilogue, for others with the largest epilogues.
func epilogueGroups(t *testing.T, entries ...uint16) (jobs []*raggedJob) {
	t.Helper()
	for _, form := range raggedForms {
		for _, n := range entries {
			rng := rand.New(rand.NewPCG(uint64(form), uint64(n)+4))
			epilogues := func(transA bool) []planner.Epilogue {
				return append(drivertest.RaggedEpilogues(transA, true), drivertest.ScaledEpilogues(transA)...)
			}
			for i, some := range epilogues(false) {
				if n != encoding.RaggedEntries[0] && !(some.Gated && some.Bias) {
					continue
				}
				transA, transB := rng.IntN(2) == 0, rng.IntN(2) == 0
				e := epilogues(transA)[i]
				r := drivertest.RaggedWithEpilogue(drivertest.RaggedBatches(transA, transB)[form], e)
				all := drivertest.EpilogueSizes(t, &r, e)
				for _, name := range slices.Sorted(maps.Keys(all)) {
					jobs = append(jobs, newEpilogueJob(t, rng, r, e, n, name, all[name]))
				}
				for draw := range 5 {
					bad := slices.Clone(all[[]string{"some", "good"}[form/planner.Records]])
					for range 1 + rng.IntN(3) {
						bad[rng.IntN(len(bad))] = int32(rng.Uint32() >> rng.IntN(32))
					}
					jobs = append(jobs, newEpilogueJob(t, rng, r, e, n, fmt.Sprint("any bits ", draw), bad))
				}
			}
		}
	}
	return jobs
}

// blockGroups are sizes of groups with scales of blocks, and with B of 4 bits, for the kernels of some
// numbers of entries: ends of up to 150 rows, and records, right and wrong.
func blockGroups(t *testing.T, entries ...uint16) (jobs []*raggedJob) {
	t.Helper()
	block := planner.PerBlock
	for i, e := range []planner.Epilogue{{ScaleA: block, ScaleB: block},
		{ScaleA: block, ScaleB: block, Gated: true, Bias: true},
		{ScaleA: block, ScaleB: block, GatherRows: 60}, {ScaleB: planner.PerGroup32},
		{ScaleB: planner.PerGroup16, Gated: true, Bias: true}, {ScaleB: planner.PerGroup16}} {
		for _, n := range entries {
			rng, make := rand.New(rand.NewPCG(uint64(i), uint64(n)+5)), drivertest.RaggedOfBlocks
			if e.ScaleA == "" {
				make = drivertest.RaggedOfGroups
			}
			rows, records, good := make(t, e)
			for _, sizes := range drivertest.RaggedEnds(150) {
				jobs = append(jobs, newEpilogueJob(t, rng, rows, e, n, "ends", sizes[:5]))
			}
			for name, sizes := range drivertest.ChangedRecords(rng, good) {
				jobs = append(jobs,
					newEpilogueJob(t, rng, records, e, n, fmt.Sprint("records ", name), sizes))
			}
			jobs = append(jobs, newEpilogueJob(t, rng, records, e, n, "records", good))
		}
	}
	return jobs
}

// tallRecords have more rows than fit in 16 bits, and one too many with the second.
func tallRecords(t *testing.T, rng *rand.Rand, kernel uint16) *raggedJob {
	t.Helper()
	const rows = 70_000
	batch, err := planner.Pack(planner.GEMM(rows, 1, 1), planner.GEMM(rows, 1, 1))
	require.NoError(t, err)
	r := planner.Ragged{Form: planner.Records, Groups: 2, M: 2*rows - 1, N: 1, K: 1}
	need := batch.Lengths(planner.Epilogue{})
	r.LenA, r.LenB, r.LenC = need.A, need.B, need.C
	sizes, err := planner.AppendRecords(nil, batch, planner.Options{})
	require.NoError(t, err)
	require.Equal(t, 1, refusedOf(&r, sizes))
	return newRaggedJob(t, rng, r, kernel, "tall", sizes)
}

// manyGroups are sizes of that many entries, and the same with a last group that does not fit.
func manyGroups(t *testing.T, entries int, kernel uint16) (jobs []*raggedJob) {
	t.Helper()
	for _, form := range raggedForms {
		rng := rand.New(rand.NewPCG(uint64(form), uint64(entries)+2))
		r := drivertest.RaggedBatches(form == planner.EndsOfDepth, false)[form]
		if r.Groups = min(entries, planner.MaxGroups); form == planner.EndsOfRows {
			r.Groups = entries - 1
		}
		var sizes, beyond []int32
		if form == planner.Records {
			sizes = dealtRecords(t, rng, &r)
			beyond = slices.Clone(sizes)
			beyond[encoding.RecordM]++ // with the last there are too many rows
		} else {
			bound := 10 * entries
			if form == planner.EndsOfRows { // many and few take different tiles
				bound *= 10
				r.M, r.N = bound, 60
			} else {
				r.M, r.N, r.K = 20, 10, bound
			}
			for range r.Groups {
				sizes = append(sizes, int32(rng.IntN(bound)))
			}
			slices.Sort(sizes)
			beyond = slices.Clone(sizes)
			beyond[r.Groups-1] = int32(bound) + 1
		}
		require.Equal(t, r.Groups-1, refusedOf(&r, beyond))
		jobs = append(jobs, newRaggedJob(t, rng, r, kernel, fmt.Sprint(entries, " entries"), sizes),
			newRaggedJob(t, rng, r, kernel, fmt.Sprint(entries, " entries, the last wrong"), beyond))
	}
	return jobs
}

// dealtRecords are right for a batch, and use up its bounds.
func dealtRecords(t *testing.T, rng *rand.Rand, r *planner.Ragged) []int32 {
	t.Helper()
	problems := make([]planner.Problem, r.Groups)
	r.M = 0
	for i := range problems {
		problems[i] = planner.Problem{M: 1 + rng.IntN(30), N: 1 + rng.IntN(30),
			K: rng.IntN(1 + rng.IntN(r.K)), Beta: float64(rng.IntN(2))}
		r.M += problems[i].M
	}
	r.M, problems[r.Groups-1].M = r.M-problems[r.Groups-1].M+1, 1 // its own row is one too many
	batch, err := planner.Pack(problems...)
	require.NoError(t, err)
	need := batch.Lengths(planner.Epilogue{})
	r.LenA, r.LenB, r.LenC = need.A, need.B, need.C
	sizes, err := planner.AppendRecords(nil, batch, planner.Options{})
	require.NoError(t, err)
	return sizes
}

// panelGroups are groups of all forms of up to some thousands of rows, as kernels of CUDA deal them. Their
// panels end with the rows, in a tile or before.
func panelGroups(t *testing.T) (jobs []*raggedJob) {
	t.Helper()
	const panel = 2048 // kPanelRows
	rng := rand.New(rand.NewPCG(17, 18))
	add := func(r planner.Ragged, e planner.Epilogue, sizes []int32) {
		jobs = append(jobs, newJobWithin(t, rng, r, e, 0, panel, encoding.RaggedEntries[0],
			"panels of "+r.Form.Name(), sizes))
	}
	for i, e := range []planner.Epilogue{{}, {Bias: true}, {Bias: true, Gated: true}} {
		all := drivertest.RaggedBatches(false, false)
		rows, depth := all[planner.EndsOfRows], all[planner.EndsOfDepth]
		rows.M, depth.M, depth.StrideC = 3*panel+70, 2*panel+100*i, 80*3*panel
		if e != (planner.Epilogue{}) {
			rows, depth = drivertest.RaggedWithEpilogue(rows, e), drivertest.RaggedWithEpilogue(depth, e)
		}
		add(rows, e, []int32{1, panel + 1, panel + 1, 3*panel + 5, 3*panel + 5, 3*panel + 66, 3*panel + 70})
		add(rows, e, []int32{panel, panel + 130, 2*panel + 131, 2*panel + 133, 3*panel + 70, 0, 0})
		add(depth, e, []int32{20, 20, 50, 300, 400, 500, 650})
	}
	batch, err := planner.Pack(planner.GEMM(2*panel+1, 90, 3), planner.GEMM(40, 200, 9),
		planner.GEMM(panel, 64, 2))
	require.NoError(t, err)
	r := planner.Ragged{Form: planner.Records, Groups: len(batch), M: 3*panel + 41, N: 200, K: 9}
	need := batch.Lengths(planner.Epilogue{})
	r.LenA, r.LenB, r.LenC = need.A, need.B, need.C
	sizes, err := planner.AppendRecords(nil, batch, planner.Options{})
	require.NoError(t, err)
	add(r, planner.Epilogue{}, sizes)
	return jobs
}

// TestRowPanels runs kernels that make items in panels.
func TestRowPanels(t *testing.T) {
	compiled(t)
	require.NoError(t, runRagged(t, mutant{}, asCUDA, sample.Jobs(t, sample.Kernels, panelGroups(t))))
}

// testRagged runs kernels that make items in an emulator, with a sample of the jobs.
func testRagged(t *testing.T, s sanitizer, jobs func(*testing.T) []*raggedJob) {
	compiled(t)
	require.NoError(t, runRagged(t, mutant{}, s, slices.DeleteFunc(jobs(t), func(j *raggedJob) bool {
		return !sample.Kernels.PartDrawn(fmt.Sprint(j.name, sm90a.KernelName(j.kernel)), 2)
	})))
}

// runRagged runs jobs with a mistake.
func runRagged(t *testing.T, m mutant, s sanitizer, jobs []*raggedJob) error {
	t.Helper()
	e, source := buildMutant(t, m, s, map[string]string{"lists/hip.inc": ""})
	return e.runRagged(source, jobs)
}

// TestRaggedEmulated runs each of these kernels in several orders of its threads, and compares everything
// that they may write.
func TestRaggedEmulated(t *testing.T) {
	testRagged(t, plain, func(t *testing.T) []*raggedJob {
		jobs := slices.Concat(fewGroups(t, encoding.RaggedEntries[:]...),
			wrongEnds(t, encoding.RaggedEntries[:]...), epilogueGroups(t, encoding.RaggedEntries[:]...),
			blockGroups(t, encoding.RaggedEntries[:]...))
		for _, n := range encoding.RaggedEntries {
			for _, entries := range []int{33, int(n)} {
				jobs = append(jobs, manyGroups(t, entries, n)...)
			}
		}
		kernels := map[uint32]bool{}
		for _, j := range jobs {
			kernels[j.before[encoding.BoundKernels]] = true
		}
		require.Len(t, kernels, 2, "plans of one kernel and of two")
		return jobs
	})
}

// TestRaggedInBounds runs a sample of them with AddressSanitizer, which sees sizes and the memory of the
// plan as separate arrays. It takes several times as long.
func TestRaggedInBounds(t *testing.T) {
	testRagged(t, address, func(t *testing.T) []*raggedJob {
		jobs := slices.Concat(fewGroups(t, encoding.RaggedEntries[0]),
			wrongEnds(t, encoding.RaggedEntries[0]), epilogueGroups(t, encoding.RaggedEntries[0]),
			blockGroups(t, encoding.RaggedEntries[0]))
		for _, n := range encoding.RaggedEntries {
			jobs = append(jobs, manyGroups(t, int(n), n)...)
		}
		return slices.DeleteFunc(jobs, func(j *raggedJob) bool {
			return !sample.Kernels.PartDrawn(fmt.Sprint(j.name, sm90a.KernelName(j.kernel)), 6)
		})
	})
}

// TestRaggedWithoutRaces runs the smallest and the most general of them with ThreadSanitizer.
func TestRaggedWithoutRaces(t *testing.T) {
	testRagged(t, thread, func(t *testing.T) []*raggedJob {
		return slices.Concat(fewGroups(t, 256), manyGroups(t, 256, 256),
			manyGroups(t, planner.MaxGroups+1, planner.MaxGroups+1))
	})
}
