package planner_test

import (
	"flag"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/internal/workload"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

var few = flag.Bool("few", false, "choose the few tile shapes anew, and print their regret (minutes)")

// fewSlower and fewWorst bound the predicted time with the few shapes, relative to all: the geometric mean
// over all batches, and the worst.
const fewSlower, fewWorst = 1.03, 1.155

// fewCase is a batch on a device, with its time by all shapes.
type fewCase struct {
	name    string
	planner *planner.Planner
	groups  []planner.KernelGroup
	batch   planner.Batch
	options planner.Options
	best    float64
}

// TestFewShapes: the few tile shapes of WebGPU serve all kinds of batches nearly as well as all of them.
func TestFewShapes(t *testing.T) {
	shapes := 0
	for _, name := range []string{"h200-webgpu", "webgpu-default", "lavapipe"} {
		groups, err := planner.New(lookup(t, name)).Kernels(planner.Options{}, planner.Transposition{}, true)
		require.NoError(t, err)
		shapes = max(shapes, len(groups))
	}
	require.LessOrEqual(t, shapes, 8)
	var cases []fewCase
	for _, name := range []string{"h200-webgpu", "webgpu-default", "lavapipe"} {
		for _, o := range []planner.Options{{}, {TypeA: element.BF16, TypeC: element.BF16}} {
			cases = append(cases, fewCases(t, name, o)...)
			if testing.Short() {
				break
			}
		}
	}
	chosen := func(name string) bool {
		shape, err := tile.ByName(name)
		require.NoError(t, err)
		return shape.Few
	}
	mean, worst, at := regret(t, cases, chosen)
	t.Logf("%d shapes: mean %.4f, worst %.3f (%s)", shapes, mean, worst, at)
	if *few {
		chooseFew(t, cases)
	}
	require.LessOrEqual(t, mean, fewSlower)
	require.LessOrEqual(t, worst, fewWorst, at)
}

// chooseFew adds shapes one by one, each the best for those before it: by the mean, and a little by the worst
// batch. The few are eight of the first nine: the one that the worst batch needs least is left out.
func chooseFew(t *testing.T, cases []fewCase) {
	var names, kept []string
	for _, g := range cases[0].groups {
		names = append(names, g.Kernels[0].Tile.Name)
	}
	for len(kept) < 12 {
		var next, line string
		least := math.Inf(1)
		for _, name := range names {
			if slices.Contains(kept, name) {
				continue
			}
			mean, worst, at := regret(t, cases, func(s string) bool {
				return s == name || slices.Contains(kept, s)
			})
			if score := math.Log(mean) + math.Log(worst)/10; score < least {
				least, next = score, name
				line = fmt.Sprintf("| %d | %s | %.1f %% | %.0f %% | %s |", len(kept)+1, name, 100*(mean-1),
					100*(worst-1), at)
			}
		}
		kept = append(kept, next)
		fmt.Println(line)
	}
	for i, name := range kept[:9] {
		eight := slices.Delete(slices.Clone(kept[:9]), i, i+1)
		mean, worst, at := regret(t, cases, func(s string) bool { return slices.Contains(eight, s) })
		fmt.Printf("| 9 without %s | | %.1f %% | %.0f %% | %s |\n", name, 100*(mean-1), 100*(worst-1), at)
	}
}

// regret compares the predicted times with some shapes to those with all.
func regret(t *testing.T, cases []fewCase, has func(shape string) bool) (mean, worst float64, at string) {
	sum := 0.0
	for i := range cases {
		c := &cases[i]
		r := c.cost(t, has) / c.best
		sum += math.Log(r)
		if r > worst {
			worst, at = r, c.name
		}
	}
	return math.Exp(sum / float64(len(cases))), worst, at
}

func (c *fewCase) cost(t *testing.T, has func(shape string) bool) float64 {
	o := c.options
	o.Kernels = new(planner.KernelSet)
	for _, g := range c.groups {
		if has(g.Kernels[0].Tile.Name) {
			o.Kernels = o.Kernels.With(g)
		}
	}
	plan, err := c.planner.Plan(t.Context(), c.batch, o)
	require.NoError(t, err)
	return plan.Cost
}

// fewCases returns the batches: the 72 of Zhang et al., layers of Inception, few rows, experts, tall and tiny
// ones, single products, deep ones and random ones.
func fewCases(t *testing.T, device string, o planner.Options) (all []fewCase) {
	p := planner.New(lookup(t, device))
	groups, err := p.Kernels(o, planner.Transposition{}, false)
	require.NoError(t, err)
	load := func(name string) {
		w, err := workload.Load(name, nil)
		require.NoError(t, err)
		c := fewCase{name: device + " " + name, planner: p, groups: groups, batch: w.Batch, options: o}
		c.best = c.cost(t, func(string) bool { return true })
		all = append(all, c)
	}
	add := func(count int, m, n, k int) {
		b, err := planner.Pack(slices.Repeat([]planner.Problem{planner.GEMM(m, n, k)}, count)...)
		require.NoError(t, err)
		c := fewCase{name: fmt.Sprintf("%s %d of %d x %d x %d", device, count, m, n, k), planner: p,
			groups: groups, batch: b, options: o}
		c.best = c.cost(t, func(string) bool { return true })
		all = append(all, c)
	}
	for _, name := range workload.Names() {
		if strings.HasPrefix(name, "zhang") || strings.HasPrefix(name, "inception") {
			load(name)
		}
	}
	for _, tokens := range []int{16, 64, 256, 1024} {
		load(fmt.Sprintf("moe:experts=128,top=8,tokens=%d,n=1536,k=2048,skew=0.3,seed=1", tokens))
	}
	for i, mn := range []int{32, 128, 512} {
		load(fmt.Sprintf("random:mn=%d,k=%d,batch=16,seed=%d", mn, 2*mn, i+1))
		load(fmt.Sprintf("random:mn=%d,k=%d,batch=200,seed=%d", mn, 2*mn, i+1))
	}
	for _, count := range []int{1, 8, 64} {
		for _, m := range []int{1, 4, 8, 16, 24} {
			add(count, m, 256, 256)
			add(count, m, 1536, 2048)
		}
	}
	for _, count := range []int{1, 8} {
		for _, s := range [][3]int{{4096, 32, 32}, {4096, 16, 256}, {10000, 8, 8}, {5000, 64, 64},
			{32, 4096, 64}} {
			add(count, s[0], s[1], s[2])
		}
	}
	for _, count := range []int{64, 512, 2048} {
		for _, size := range []int{4, 8, 12, 16, 32} {
			add(count, size, size, size)
		}
	}
	for _, size := range []int{32, 64, 128, 200, 256, 512, 1024, 2048} {
		add(1, size, size, size)
		add(1, size, size, 8192)
	}
	return all
}
