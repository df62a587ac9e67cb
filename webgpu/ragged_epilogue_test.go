//go:build !nowebgpu && (js || (cgo && ((linux && amd64) || darwin || (windows && amd64))))

package webgpu

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/drivertest"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// epilogueRun is a prepared ragged plan with an epilogue, and a run of it.
type epilogueRun struct {
	*device
	plan    *planner.Plan
	program *program
	run     driver.Run
}

func prepareEpilogue(t *testing.T, d *device, r planner.Ragged, o planner.Options) *epilogueRun {
	t.Helper()
	facts := d.info.Planner
	facts.ComputeUnits = 16
	plan, err := planner.New(&facts).PlanRagged(r, o)
	require.NoError(t, err)
	p, err := d.Prepare(t.Context(), plan)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	e := &o.Epilogue
	x := &epilogueRun{device: d, plan: plan, program: p.(*program), run: driver.Run{Program: p}}
	for _, o := range []struct {
		to   *driver.Buffer
		n    int
		used bool
	}{{&x.run.A, plan.ExtentA, true}, {&x.run.B, plan.ExtentB, true}, {&x.run.C, plan.ExtentC, true},
		{&x.run.Sizes, plan.ExtentSizes, true},
		{&x.run.B2, plan.ExtentB2, e.Gated}, {&x.run.Bias, plan.ExtentBias, e.Bias},
		{&x.run.Rows, plan.ExtentRows, e.UsesRows()}} {
		if o.used {
			b := upload(t, d, make([]float32, max(o.n, 1)))
			t.Cleanup(func() { require.NoError(t, b.Close()) })
			*o.to = b
		}
	}
	return x
}

// check runs sizes and checks tables, items and the status. Items here have no addresses.
func (x *epilogueRun) check(t *testing.T, sizes []int32) {
	t.Helper()
	require.NoError(t, x.run.Sizes.Write(t.Context(), 0, backend.Words(sizes)))
	require.NoError(t, x.Submit(t.Context(), []driver.Run{x.run}))
	e := x.plan.Options.Epilogue
	batch, refused := x.plan.Ragged.Batch(nil, sizes, planner.Options{Epilogue: e})
	want := drivertest.DealEpilogue(x.plan.Encode(nil), batch, e)
	words := (&raggedRun{plan: x.plan, program: x.program}).words(t)
	for i, table := range want.Tables {
		l := &x.plan.Launches[2+i]
		require.Equal(t, table, words[l.Table:][:l.Count+1], "table %d", i)
		for at := 0; at < len(want.Items); at += l.ItemWords() {
			require.Equal(t, want.Items[at:][:encoding.PointersAt], words[l.Items+at:][:encoding.PointersAt],
				"item at %d", at)
			if l.Epilogue.Scaled() {
				scales := at + int(encoding.ScaleAAt)
				require.Equal(t, want.Items[scales:][:2], words[l.Items+scales:][:2], "item at %d", at)
			}
		}
	}
	for _, want := range []int{refused, -1} {
		group, err := x.program.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, group)
	}
}

// Shaders make the items of a batch with an epilogue as its sizes describe it, for all sizes.
func TestRaggedEpilogues(t *testing.T) {
	plain := func(transA bool) []planner.Epilogue { return drivertest.RaggedEpilogues(transA, false) }
	t.Run("f32", func(t *testing.T) { testRaggedEpilogues(t, element.F32, plain) })
	t.Run("scales", func(t *testing.T) { testRaggedEpilogues(t, element.Int8, drivertest.ScaledEpilogues) })
}

func testRaggedEpilogues(t *testing.T, of element.Type, epilogues func(transA bool) []planner.Epilogue) {
	d := open(t, webgpuDriver{})
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range epilogues(false) {
		transA, transB := i%2 == 1, i%3 == 1
		e := epilogues(transA)[i]
		for form, r := range drivertest.RaggedBatches(transA, transB) {
			t.Run(fmt.Sprintf("%d/%d", i, form), func(t *testing.T) {
				drivertest.Sampled(t, d, 2)
				r := drivertest.RaggedWithEpilogue(r, e)
				x, all := prepareEpilogue(t, d, r, planner.Options{TypeA: of, Epilogue: e}),
					drivertest.EpilogueSizes(t, &r, e)
				for _, name := range slices.Sorted(maps.Keys(all)) {
					t.Run(name, func(t *testing.T) { x.check(t, all[name]) })
				}
				for range 10 {
					sizes := slices.Clone(all[[]string{"some", "good"}[form/planner.Records]])
					for range 1 + rng.IntN(3) {
						sizes[rng.IntN(len(sizes))] = int32(rng.Uint32() >> rng.IntN(32))
					}
					x.check(t, sizes)
				}
			})
		}
	}
}

// The same with scales of groups, whose number follows from leading dimensions. Records that break their
// rules are refused.
func TestRaggedGroups(t *testing.T) {
	for i, e := range []planner.Epilogue{{ScaleB: planner.PerGroup128},
		{ScaleB: planner.PerGroup64, Gated: true, Bias: true}} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			rows, records, good := drivertest.RaggedOfGroups(t, e)
			testRaggedOf(t, element.BF16, e, rows, records, good)
		})
	}
}

// The same with scales of blocks, whose number follows from K.
func TestRaggedBlocks(t *testing.T) {
	block := planner.PerBlock
	for i, e := range []planner.Epilogue{{ScaleA: block, ScaleB: block},
		{ScaleA: block, ScaleB: block, Gated: true, Bias: true},
		{ScaleA: block, ScaleB: block, GatherRows: 60}} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			rows, records, good := drivertest.RaggedOfBlocks(t, e)
			testRaggedOf(t, element.E4M3, e, rows, records, good)
		})
	}
}

// testRaggedOf takes ends of up to 150 rows in 5 groups, and records that fit or may not fit.
func testRaggedOf(t *testing.T, of element.Type, e planner.Epilogue, rows, records planner.Ragged,
	good []int32) {
	d := open(t, webgpuDriver{})
	rng := rand.New(rand.NewPCG(7, 8))
	o := planner.Options{TypeA: of, TypeB: e.ScaleB.TypeB(of), TypeC: element.BF16, Epilogue: e}
	t.Run("ends", func(t *testing.T) {
		drivertest.Sampled(t, d, 1)
		x := prepareEpilogue(t, d, rows, o)
		for _, sizes := range drivertest.RaggedEnds(150) {
			x.check(t, sizes[:5])
		}
	})
	t.Run("records", func(t *testing.T) {
		drivertest.Sampled(t, d, 1)
		x := prepareEpilogue(t, d, records, o)
		x.check(t, good)
		for _, sizes := range drivertest.ChangedRecords(rng, good) {
			x.check(t, sizes)
		}
	})
}
