package planner_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/devices"
	"github.com/batchgemm/batchgemm/planner/element"
)

// kernelOptions returns options that need different kernels.
func kernelOptions() map[string]planner.Options {
	return map[string]planner.Options{
		"default":       {},
		"f32":           {Compute: planner.ComputeF32},
		"tf32":          {Compute: planner.ComputeTF32},
		"data-parallel": {Schedule: planner.ScheduleDataParallel},
		"split-k":       {Schedule: planner.ScheduleSplitK},
		"stream-k":      {Schedule: planner.ScheduleStreamK},
		"lpt":           {Schedule: planner.ScheduleLPT},
		"dynamic":       {Schedule: planner.ScheduleDynamic},
		"batched":       {Schedule: planner.ScheduleBatched},
		"cluster":       {Schedule: planner.ScheduleCluster},
		"zhang":         {Rule: planner.RuleZhang2025},
		"tile":          {Tile: "medium"},
		"bf16":          {TypeA: element.BF16, TypeC: element.BF16},
		"bf16 to f32":   {TypeA: element.BF16},
		"bias":          {Epilogue: planner.Epilogue{Bias: true, Activation: planner.SiLU}},
		"scatter":       {Epilogue: planner.Epilogue{ScatterRows: 70, Weights: true}, TypeA: element.F16},
		"gated":         {Epilogue: planner.Epilogue{Gated: true, Activation: planner.SiLU}},
		"e4m3":          {TypeA: element.E4M3, TypeC: element.BF16},
		"int8":          {TypeA: element.Int8, TypeC: element.BF16},
		"scales": {TypeA: element.E4M3, Epilogue: planner.Epilogue{ScaleA: planner.PerRow,
			ScaleB: planner.PerTensor}},
		"zeros": {TypeA: element.Int8, Epilogue: planner.Epilogue{ScaleA: planner.PerTensor,
			ScaleB: planner.PerRow, ZeroA: true}},
	}
}

// batchOf returns problems of one transposition: some aligned, some few and long, some many.
func batchOf(rng *rand.Rand, t planner.Transposition, gated bool) planner.Batch {
	most := []int{8, 64, 300, 3000}[rng.IntN(4)]
	unit := []int{1, 8}[rng.IntN(2)]
	b := make([]planner.Problem, 1+rng.IntN(40))
	size := func(most int) int { return unit * (1 + rng.IntN(most/unit)) }
	for i := range b {
		b[i] = planner.Problem{M: size(most), N: size(most), K: size(min(4*most, 8000)), TransA: t.A,
			TransB: t.B}
	}
	batch, err := planner.Pack(b...)
	if err != nil {
		panic(err)
	}
	for i := range batch {
		if gated {
			batch[i].B2 = batch[i].B
		}
	}
	return batch
}

// Kernels lists every kernel of every plan.
func TestKernelsListAll(t *testing.T) {
	rounds := 16
	if testing.Short() {
		rounds = 2
	}
	for _, name := range []string{"h200", "a100", "mi210", "h200-webgpu", "lavapipe", "webgpu-default"} {
		d, err := devices.Lookup(name)
		require.NoError(t, err)
		p := planner.New(d)
		for label, o := range kernelOptions() {
			t.Run(name+"/"+label, func(t *testing.T) {
				sample.Planner.Skip(t, 6)
				rng := rand.New(rand.NewPCG(1, 2))
				var plan, live planner.Plan
				for round := range rounds {
					trans := planner.Transposition{A: round&1 != 0, B: round&2 != 0}
					groups, err := p.Kernels(o, trans, false)
					if err != nil {
						require.ErrorIs(t, err, planner.ErrInvalid)
						_, again := p.Plan(t.Context(), batchOf(rng, trans, o.Epilogue.Gated), o)
						require.EqualError(t, again, err.Error(), "what cannot be listed cannot be planned")
						return
					}
					listed, set := setOf(groups)
					require.Equal(t, len(groups), set.Len())
					b := batchOf(rng, trans, o.Epilogue.Gated)
					require.NoError(t, p.Replan(t.Context(), &plan, b, o))
					require.NoError(t, p.Renew(t.Context(), &live, b, o))
					for _, l := range slices.Concat(plan.Launches, live.Launches) {
						require.True(t, listed[l.Kernel], "%v\n%+v", l.Kernel, l.Kernel)
					}
					// With all of them in the set, the plan is the same.
					want := fmt.Sprint(plan.Launches, plan.Segments, plan.Workers)
					kept := o
					kept.Kernels = set
					require.NoError(t, p.Replan(t.Context(), &plan, b, kept))
					require.Equal(t, want, fmt.Sprint(plan.Launches, plan.Segments, plan.Workers))
					requireFew(t, p, b, o, trans)
				}
			})
		}
	}
}

// requireFew checks that plans restricted to few kernels have no others.
func requireFew(t *testing.T, p *planner.Planner, b planner.Batch, o planner.Options,
	trans planner.Transposition) {
	t.Helper()
	groups, err := p.Kernels(o, trans, true)
	require.NoError(t, err)
	listed, set := setOf(groups)
	o.Kernels = set
	var plan planner.Plan
	require.NoError(t, p.Replan(t.Context(), &plan, b, o))
	for i := range plan.Launches {
		require.True(t, listed[plan.Launches[i].Kernel], "%v", plan.Launches[i].Kernel)
		require.True(t, !plan.Launches[i].Split || plan.Workspace > 0)
	}
}

// TestKernelsListLongK: kernels of launches that add to C over windows of K are listed too.
func TestKernelsListLongK(t *testing.T) {
	d, err := devices.Lookup("lavapipe")
	require.NoError(t, err)
	d.MaxTrips = 150
	p, cut := planner.New(d), 0
	for label, o := range kernelOptions() {
		for bits := range 4 {
			trans := planner.Transposition{A: bits&1 != 0, B: bits&2 != 0}
			groups, err := p.Kernels(o, trans, false)
			if err != nil {
				continue // TestKernelsListAll covers options without plans
			}
			listed, _ := setOf(groups)
			b, err := planner.Pack(planner.Problem{M: 64, N: 64, K: 6000, TransA: trans.A, TransB: trans.B},
				planner.Problem{M: 5, N: 5, K: 5, TransA: trans.A, TransB: trans.B})
			require.NoError(t, err)
			b[0].B2, b[1].B2 = b[0].B, b[1].B
			plan, err := p.Plan(t.Context(), b, o)
			if err != nil {
				require.ErrorContains(t, err, "K is too large for", label)
				continue
			}
			whole := plan.Launches[len(plan.Launches)-1].Epilogue
			for k := range listed {
				part := k.Ragged == 0 && k.Epilogue == whole.OfPart() && k.Epilogue != whole
				require.False(t, part && (k.Loop || k.Split), "%s: %v, of which workers have one tile", label,
					k)
			}
			for _, l := range plan.Launches {
				require.True(t, listed[l.Kernel], "%s: %v", label, l.Kernel)
				if l.Epilogue != whole {
					cut++
				}
			}
		}
	}
	require.Positive(t, cut, "some launches have no epilogue yet")
}

// setOf returns the kernels of groups, and the set of the groups.
func setOf(groups []planner.KernelGroup) (listed map[encoding.Kernel]bool, set *planner.KernelSet) {
	listed, set = map[encoding.Kernel]bool{}, new(planner.KernelSet)
	for _, g := range groups {
		for _, k := range g.Kernels {
			listed[k] = true
		}
		set = set.With(g)
	}
	return listed, set
}

// raggedOf returns a ragged batch of a form.
func raggedOf(form planner.RaggedForm, groups, size int, t planner.Transposition) planner.Ragged {
	r := planner.Ragged{Form: form, Groups: groups, M: groups * size, N: size, K: size, TransA: t.A,
		TransB: t.B, StrideB: size * size}
	switch form {
	case planner.EndsOfDepth:
		r.M, r.K, r.StrideB, r.StrideC = size, groups*size, 0, size*size
	case planner.Records:
		r.StrideB, r.LenA, r.LenB, r.LenC = 0, groups*size*size, groups*size*size, groups*size*size
		return r
	}
	lda, ldb := r.K, r.N
	if t.A {
		lda = r.M
	}
	if t.B {
		ldb = r.K
	}
	r.A.LD, r.B.LD, r.C.LD = lda, ldb, r.N
	return r
}

// Kernels lists every kernel of every ragged plan. A plan restricted to these kernels is the same.
func TestKernelsListRagged(t *testing.T) {
	for _, name := range []string{"h200", "a100", "mi210", "lavapipe"} {
		d, err := devices.Lookup(name)
		require.NoError(t, err)
		p := planner.New(d)
		for label, o := range kernelOptions() {
			t.Run(name+"/"+label, func(t *testing.T) {
				planned := 0
				for bits := range 4 {
					trans := planner.Transposition{A: bits&1 != 0, B: bits&2 != 0}
					groups, err := p.Kernels(o, trans, false)
					if err != nil {
						return // TestKernelsListAll covers options without plans
					}
					listed, set := setOf(groups)
					groups, err = p.Kernels(o, trans, true)
					require.NoError(t, err)
					few, fewSet := setOf(groups)
					for form := planner.EndsOfRows; form <= planner.Records; form++ {
						for _, groups := range []int{3, 300, planner.MaxGroups} {
							r := raggedOf(form, groups, []int{17, 64}[bits%2], trans)
							r.B2 = r.B
							plan, err := p.PlanRagged(r, o)
							kept := o
							kept.Kernels = set
							again, errAgain := p.PlanRagged(r, kept)
							if err != nil {
								require.ErrorIs(t, err, planner.ErrInvalid)
								require.ErrorIs(t, errAgain, planner.ErrInvalid)
								continue
							}
							planned++
							require.NoError(t, errAgain)
							require.Equal(t, plan.Launches, again.Launches)
							kept.Kernels = fewSet
							again, err = p.PlanRagged(r, kept)
							require.NoError(t, err)
							for _, l := range again.Launches {
								require.True(t, few[l.Kernel], "%v\n%+v", l.Kernel, l.Kernel)
							}
							for _, l := range plan.Launches {
								require.True(t, listed[l.Kernel], "%v\n%+v", l.Kernel, l.Kernel)
							}
						}
					}
				}
				require.Equal(t, o.Schedule == "" && o.Rule == "", planned > 0, "others have no ragged plans")
			})
		}
	}
}

// Kernels lists every kernel of a layer of experts, by the options of its two products.
func TestKernelsListExperts(t *testing.T) {
	for _, name := range []string{"h200", "mi210", "lavapipe"} {
		d, err := devices.Lookup(name)
		require.NoError(t, err)
		p := planner.New(d)
		for _, of := range []element.Type{element.F32, element.BF16, element.F16} {
			for _, index64 := range []bool{false, true} {
				c := planner.Choices{Tokens: 40, TopK: 2, Experts: 4, Index64: index64}
				plans, err := p.PlanExperts(planner.Experts{Choices: c, Weights: of, Hidden: 32,
					Intermediate: 48, TransB: true, Gated: true, Activation: planner.SiLU},
					planner.Options{TypeA: of})
				require.NoError(t, err)
				listed := map[encoding.Kernel]bool{}
				for _, o := range []planner.Options{
					{TypeA: of, TypeC: of, Epilogue: planner.Epilogue{Gated: true, Activation: planner.SiLU,
						GatherRows: 40}},
					{TypeA: of, TypeC: of, Epilogue: planner.Epilogue{ScatterRows: 80, Weights: true}},
				} {
					groups, err := p.Kernels(o, planner.Transposition{B: true}, false)
					require.NoError(t, err)
					all, _ := setOf(groups)
					maps.Copy(listed, all)
				}
				for _, step := range plans.Steps {
					for _, l := range step.Launches {
						require.True(t, listed[l.Kernel], "%v\n%+v", l.Kernel, l.Kernel)
					}
				}
			}
		}
	}
}

// Plans avoid tile shapes with a missing kernel, and fail if no shape is left.
func TestOptionsKernels(t *testing.T) {
	d, err := devices.Lookup("lavapipe")
	require.NoError(t, err)
	p := planner.New(d)
	set := new(planner.KernelSet)
	none, trans := planner.Transposition{}, planner.Transposition{B: true}
	of := func(o planner.Options, t2 planner.Transposition, tiles ...string) {
		groups, err := p.Kernels(o, t2, false)
		require.NoError(t, err)
		for _, g := range groups {
			if slices.Contains(tiles, g.Kernels[0].Tile.Name) {
				set = set.With(g)
			}
		}
	}
	of(planner.Options{}, none, "small", "medium")
	of(planner.Options{}, trans, "medium", "large")
	of(planner.Options{Schedule: planner.ScheduleLPT}, none, "large")
	plain, err := planner.Pack(planner.GEMM(500, 500, 500), planner.GEMM(3, 3, 3))
	require.NoError(t, err)
	transposed, err := planner.Pack(planner.Problem{M: 70, N: 70, K: 70, TransB: true})
	require.NoError(t, err)
	both, err := planner.Pack(planner.GEMM(500, 500, 500), planner.Problem{M: 70, N: 70, K: 70, TransB: true})
	require.NoError(t, err)
	for _, c := range []struct {
		name    string
		batch   planner.Batch
		options planner.Options
		tiles   []string
		failure string
	}{
		{"two shapes", plain, planner.Options{}, []string{"small", "medium"}, ""},
		{"of another transposition", transposed, planner.Options{}, []string{"medium", "large"}, ""},
		{"of both", both, planner.Options{}, []string{"medium"}, ""},
		{"a schedule of all", plain, planner.Options{Schedule: planner.ScheduleDataParallel},
			[]string{"small", "medium"}, ""},
		{"a schedule of its own", plain, planner.Options{Schedule: planner.ScheduleLPT},
			[]string{"small", "medium", "large"}, ""},
		{"the rule of Zhang et al.", plain, planner.Options{Rule: planner.RuleZhang2025},
			[]string{"small", "medium"}, ""},
		{"a shape", plain, planner.Options{Tile: "small"}, []string{"small"}, ""},
		{"another shape", plain, planner.Options{Tile: "large"}, nil,
			"tile large 64x64x16/256: kernels for these options and transpositions are missing in " +
				"Options.Kernels, for device lavapipe"},
		{"another type", plain, planner.Options{TypeA: element.F16}, nil,
			"no tile: kernels for these options and transpositions are missing in Options.Kernels, " +
				"for device lavapipe"},
		{"an epilogue", plain, planner.Options{Epilogue: planner.Epilogue{Activation: planner.ReLU}}, nil,
			"no tile: kernels for these options and transpositions are missing in Options.Kernels, " +
				"for device lavapipe"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.options.Kernels = set
			for name, plan := range map[string]func() (*planner.Plan, error){
				"Plan": func() (*planner.Plan, error) { return p.Plan(t.Context(), c.batch, c.options) },
				"Renew": func() (*planner.Plan, error) {
					plan := new(planner.Plan)
					return plan, p.Renew(t.Context(), plan, c.batch, c.options)
				},
			} {
				plan, err := plan()
				if c.failure != "" {
					require.EqualError(t, err, c.failure, name)
					require.ErrorIs(t, err, planner.ErrInvalid)
					continue
				}
				require.NoError(t, err, name)
				for _, l := range plan.Launches {
					require.Contains(t, c.tiles, l.Tile.Name, name)
				}
			}
		})
	}
	ragged := raggedOf(planner.EndsOfRows, 4, 500, trans)
	layer, err := p.PlanRagged(ragged, planner.Options{Kernels: set})
	require.NoError(t, err)
	for _, l := range layer.Launches {
		require.True(t, l.Ragged > 0 || l.Tile.Name == "medium" || l.Tile.Name == "large", l)
	}
	ragged.TransA, ragged.A.LD = true, ragged.M
	_, err = p.PlanRagged(ragged, planner.Options{Kernels: set})
	require.ErrorContains(t, err, "no tile: kernels for these options")
	_, err = p.Plan(t.Context(), plain, planner.Options{Kernels: new(planner.KernelSet)})
	require.ErrorContains(t, err, "no tile: ")
	_, err = p.Kernels(planner.Options{TypeA: element.Type(9)}, none, false)
	require.ErrorIs(t, err, planner.ErrInvalid)
}

// Plans avoid kernels that a device refuses, from then on.
func TestRefusedKernels(t *testing.T) {
	d, err := devices.Lookup("h200-webgpu")
	require.NoError(t, err)
	d.Refused = new(atomic.Pointer[planner.KernelSet])
	p := planner.New(d)
	b, err := planner.Pack(planner.GEMM(500, 500, 500), planner.GEMM(3, 3, 3))
	require.NoError(t, err)
	refused := map[string]bool{}
	for {
		plan, err := p.Plan(t.Context(), b, planner.Options{})
		if err != nil {
			require.ErrorIs(t, err, planner.ErrInvalid)
			require.ErrorContains(t, err, "no tile: device h200-webgpu computed wrong results")
			break
		}
		name := plan.Tiles[0].Name
		require.False(t, refused[name], name)
		refused[name] = true
		o := planner.Options{Tile: name}
		groups, err := p.Kernels(o, planner.Transposition{}, false)
		require.NoError(t, err)
		d.Refused.Store(d.Refused.Load().With(groups[0]))
		_, err = p.Plan(t.Context(), b, o)
		if len(refused) < len(d.Kernels) {
			require.ErrorContains(t, err, "tile "+groups[0].Kernels[0].Tile.String()+": device h200-webgpu "+
				"computed wrong results")
		}
	}
	require.Len(t, refused, len(d.Kernels))
	_, err = p.Plan(t.Context(), b, planner.Options{TypeA: element.BF16})
	require.NoError(t, err, "other kernels")
}

// Plans restricted to a set allocate no more than others.
func TestOptionsKernelsAllocateNothing(t *testing.T) {
	d, err := devices.Lookup("h200-webgpu")
	require.NoError(t, err)
	p := planner.New(d)
	groups, err := p.Kernels(planner.Options{}, planner.Transposition{}, false)
	require.NoError(t, err)
	set := new(planner.KernelSet).With(groups[0]).With(groups[1])
	b := batchOf(rand.New(rand.NewPCG(3, 3)), planner.Transposition{}, false)
	var plan planner.Plan
	require.Zero(t, testing.AllocsPerRun(10, func() {
		if err := p.Renew(t.Context(), &plan, b, planner.Options{Kernels: set}); err != nil {
			t.Error(err)
		}
		if err := p.Replan(t.Context(), &plan, b, planner.Options{Kernels: set}); err != nil {
			t.Error(err)
		}
	}))
}
