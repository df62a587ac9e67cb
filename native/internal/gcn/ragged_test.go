package gcn

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/drivertest"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/native"
	"github.com/batchgemm/batchgemm/native/internal/kernels"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/devices"
	"github.com/batchgemm/batchgemm/planner/element"
)

// raggedJob has the sizes from which a kernel makes items, and the memory of the plan before and after it.
type raggedJob struct {
	name         string
	kernel       encoding.Kernel
	makers       int
	extent       int
	sizes        []int32
	before, want []uint32
}

// fill is how many tiles all groups have, relative to the number that counts as few.
type fill int

const (
	drawn  fill = iota
	few         // fewer: all groups take the second kernel, if there is one
	enough      // exactly as many
)

// newRaggedJob plans, and draws how many workgroups make items, and for how many workers.
func newRaggedJob(t *testing.T, arch native.Arch, rng *rand.Rand, r planner.Ragged, e planner.Epilogue,
	entries uint16, name string, sizes []int32, filled fill) *raggedJob {
	t.Helper()
	plan := planRagged(t, arch, r, e)
	extent := 0
	if bound := map[planner.RaggedForm]int{planner.EndsOfRows: r.M,
		planner.EndsOfDepth: r.K}[r.Form]; bound > 0 && filled == drawn && rng.IntN(3) == 0 {
		extent = 1 + rng.IntN(bound)
	}
	there := r.Within(extent)
	batch, refused := there.Batch(nil, sizes, planner.Options{Epilogue: e})
	j := &raggedJob{
		name: name,
		kernel: encoding.Kernel{Ragged: encoding.RaggedPlan, Form: r.Form, Entries: entries,
			Epilogue: plan.Launches[0].Epilogue},
		makers: 1 + rng.IntN(2), extent: extent, sizes: sizes,
		before: slices.Concat(plan.Encode(nil), slices.Repeat([]uint32{garbage},
			plan.Words-encoding.RaggedHead)),
	}
	b := j.before
	b[encoding.BoundMakers] = uint32(j.makers)
	if n := rng.IntN(3); filled == few {
		b[encoding.BoundFill] = math.MaxUint32 // more than any group has
	} else if filled == enough {
		b[encoding.BoundFill] = 0
		d := drivertest.DealEpilogue(b, batch, e)
		b[encoding.BoundFill] = uint32(d.Tiles(0) + d.Tiles(1))
	} else if n < 2 {
		b[encoding.BoundFill] = uint32(n%2) * math.MaxUint32
	}
	for i := range b[encoding.BoundKernels] {
		k := b[int(encoding.BoundTile)+int(i)*encoding.KernelWords:]
		k[encoding.KernelChunk] = rng.Uint32N(2) * (1 + uint32(j.makers%3))
		k[encoding.KernelWorkers] = min(k[encoding.KernelWorkers],
			[...]uint32{1, 3, 16, 1 << 20}[rng.IntN(4)])
	}
	j.want = slices.Clone(b)
	if refused >= 0 {
		j.want[encoding.StatusWord] = uint32(refused + 1)
	}
	drivertest.DealEpilogue(j.want, batch, e).Put(j.want)
	return j
}

// planRagged plans for fp32, or with scales for elements that have them. Another device may be needed for
// that; the kernel that makes items is the same.
func planRagged(t *testing.T, arch native.Arch, r planner.Ragged, e planner.Epilogue) *planner.Plan {
	t.Helper()
	on, o := device(t, arch, 16), planner.Options{Epilogue: e}
	switch {
	case e.ScaleB.Group() > 0:
		other, err := devices.Lookup("a100")
		require.NoError(t, err)
		on, o.TypeA, o.TypeB, o.TypeC = other, element.BF16, element.Int4, element.BF16
	case e.ScaleA != "" || e.ScaleB != "":
		o.TypeA, o.TypeC = element.Int8, element.BF16
	}
	plan, err := planner.New(on).PlanRagged(r, o)
	require.NoError(t, err)
	return plan
}

// scaledGroups are sizes for a kernel with scales of groups.
func scaledGroups(t *testing.T, arch native.Arch, k encoding.Kernel) (jobs []*raggedJob) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(k.Form), 1))
	if k.Epilogue == (encoding.Epilogue{}) || k.Form == planner.EndsOfDepth {
		return nil
	}
	for _, e := range []planner.Epilogue{{ScaleB: planner.PerGroup128},
		{ScaleB: planner.PerGroup64, Gated: true, Bias: true}} {
		rows, records, good := drivertest.RaggedOfGroups(t, e)
		// If a gated problem has no product, the second item has the place of B2's scales, which are not
		// read.
		good[5*encoding.ScaledRecordWords+int(encoding.RecordAlpha)] = int32(math.Float32bits(1))
		add := func(r planner.Ragged, sizes []int32) {
			jobs = append(jobs, newRaggedJob(t, arch, rng, r, e, k.Entries,
				fmt.Sprintf("%s %d", e.ScaleB, len(jobs)), sizes, drawn))
		}
		if k.Form == planner.EndsOfRows {
			add(rows, []int32{30, 30, 60, 149, 150})
			continue
		}
		add(records, good)
		for _, sizes := range drivertest.ChangedRecords(rng, good) {
			add(records, sizes)
		}
	}
	return jobs
}

// fewGroups are sizes of 7 groups, right and wrong. Kernels with an epilogue get different epilogues.
func fewGroups(t *testing.T, arch native.Arch, k encoding.Kernel) (jobs []*raggedJob) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(k.Form), uint64(k.Entries)))
	for i := 0; ; i++ {
		transA, transB := rng.IntN(2) == 0, rng.IntN(2) == 0
		r, e := drivertest.RaggedBatches(transA, transB)[k.Form], planner.Epilogue{}
		r.Beta = 3
		if k.Form != planner.Records {
			r.Rest = planner.Rest(rng.IntN(3))
		}
		if k.Epilogue != (encoding.Epilogue{}) {
			all := append(drivertest.RaggedEpilogues(transA, true), drivertest.ScaledEpilogues(transA)...)
			e = all[i%len(all)]
			r = drivertest.RaggedWithEpilogue(r, e)
		}
		sizes := drivertest.EpilogueSizes(t, &r, e)
		names := slices.Sorted(maps.Keys(sizes))
		if i >= len(names) { // records have fewer with some epilogues
			return jobs
		}
		jobs = append(jobs, newRaggedJob(t, arch, rng, r, e, k.Entries, fmt.Sprint(names[i], k.Epilogue),
			sizes[names[i]], drawn))
	}
}

// manyGroups are sizes of that many entries, and the same with a last group that does not fit.
func manyGroups(t *testing.T, arch native.Arch, k encoding.Kernel, entries int,
	seed uint64) (jobs []*raggedJob) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(k.Form), seed))
	r, e := drivertest.RaggedBatches(k.Form == planner.EndsOfDepth, false)[k.Form], planner.Epilogue{}
	if k.Epilogue != (encoding.Epilogue{}) {
		e = planner.Epilogue{Gated: seed%2 == 0, Bias: true, Weights: true}
		r = drivertest.RaggedWithEpilogue(r, e)
	}
	if r.Groups = min(entries, planner.MaxGroups); r.Rest != planner.RestKept &&
		k.Form == planner.EndsOfRows {
		r.Groups = entries - 1
	}
	var sizes []int32
	last := 0 // the word that is too large with one more
	if k.Form == planner.Records {
		problems := make([]planner.Problem, r.Groups)
		r.M = 0
		for i := range problems {
			problems[i] = planner.Problem{M: 1 + rng.IntN(30), N: 1 + rng.IntN(30),
				K: rng.IntN(1 + rng.IntN(r.K)), Beta: float64(rng.IntN(2))}
			if e.Gated {
				problems[i].Beta = 0
			}
			r.M += problems[i].M
		}
		batch, err := planner.Pack(problems...)
		require.NoError(t, err)
		need := batch.Lengths(planner.Epilogue{})
		r.LenA, r.LenB, r.LenC = need.A, need.B, need.C
		if r.LenB2 = r.LenB; k.Epilogue != (encoding.Epilogue{}) {
			for i := range batch {
				batch[i].B2 = batch[i].B
				batch[i].Bias, batch[i].Weights = rng.IntN(900), rng.IntN(900)
			}
		}
		sizes, err = planner.AppendRecords(nil, batch, planner.Options{Epilogue: e})
		require.NoError(t, err)
		last = len(sizes)/r.Groups*(r.Groups-1) + int(encoding.RecordM)
	} else {
		bound := 10 * r.Groups
		if k.Form == planner.EndsOfRows { // with 60 columns, many and few take different tiles
			bound *= 10
			r.M, r.N = bound, 60+10*int(seed/2%2)
		} else {
			r.M, r.N, r.K = 20+70*int(seed%2), 10+60*int(seed%2), bound
		}
		for range r.Groups {
			sizes = append(sizes, int32(rng.IntN(bound)))
		}
		slices.Sort(sizes)
		last = r.Groups - 1
		sizes[last] = int32(bound)
	}
	beyond := slices.Clone(sizes)
	beyond[last]++
	return []*raggedJob{
		newRaggedJob(t, arch, rng, r, e, k.Entries, "many groups", sizes, few),
		newRaggedJob(t, arch, rng, r, e, k.Entries, "many groups of enough tiles", sizes, enough),
		newRaggedJob(t, arch, rng, r, e, k.Entries, "many groups, the last wrong", beyond, drawn),
	}
}

// run runs the kernel and compares all memory of the plan.
func (j *raggedJob) run(k *Kernel, contrary bool, ran []bool) (instructions int, err error) {
	threads, _ := native.Geometry(j.kernel)
	sizes, plan := newBuffer("the sizes", 1, j.sizes), newBuffer("the plan", 2, j.before)
	plan.Writable = true
	l := Launch{Kernel: k, Groups: [2]int{j.makers, 1}, Threads: threads, Contrary: contrary, Ran: ran,
		Arguments: []uint64{plan.Address, sizes.Address, uint64(j.extent), 0, 0, plan.Address},
		Memory:    []*Buffer{sizes, plan}}
	if j.kernel.Epilogue != (encoding.Epilogue{}) {
		l.Arguments = append(l.Arguments, 0, 0, 0, uint64(j.kernel.Epilogue.Word()))
	}
	instructions, err = l.Run()
	if err != nil {
		return instructions, fmt.Errorf("%s: %w", j.name, err)
	}
	got := make([]uint32, len(j.want))
	if _, err := binary.Decode(plan.Data, binary.LittleEndian, got); err != nil {
		return instructions, err
	}
	for i, want := range j.want {
		if got[i] != want {
			return instructions, fmt.Errorf("%s, %d makers: word %d of %d is %#x, not %#x", j.name, j.makers,
				i, len(got), got[i], want)
		}
	}
	return instructions, nil
}

// TestRagged runs every kernel that makes items.
func TestRagged(t *testing.T) {
	for name := range arches {
		arch, err := native.HIP(name)
		require.NoError(t, err)
		for _, k := range kernels.Ragged() {
			t.Run(arch.Name()+"/"+arch.KernelName(k), func(t *testing.T) {
				sample.Products.Skip(t, 6)
				if testing.Short() && (k.Entries > 256 || k.Form != encoding.EndsOfRows) {
					t.Skip("takes long")
				}
				kernel := kernelOf(t, readProduct(t, name), arch.KernelName(k))
				t.Parallel()
				ran := make([]bool, len(kernel.code))
				total := 0
				jobs := append(append(fewGroups(t, arch, k), scaledGroups(t, arch, k)...),
					manyGroups(t, arch, k, int(k.Entries), 1)...)
				for seed := range 4 {
					jobs = append(jobs, manyGroups(t, arch, k, 33, uint64(seed))...)
				}
				for i, j := range jobs {
					n, err := j.run(kernel, i%2 == 1, ran)
					require.NoError(t, err)
					total += n
				}
				n, all := 0, 0
				for i, r := range ran {
					if kernel.code[i].name != "s_nop" { // padding
						all++
						if r {
							n++
						}
					}
				}
				// Never: the second tile shape of EndsOfDepth, which the planner does not use, and
				// remainders of loops that have none.
				require.Greater(t, 10*n, 9*all, "%d of %d instructions ran", n, all)
				t.Log(total, "instructions")
			})
		}
	}
}
