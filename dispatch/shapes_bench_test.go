package dispatch

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/bench"
	"github.com/batchgemm/batchgemm/internal/cublas"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// shapeMost is the largest side of a product of BenchmarkShapes.
const shapeMost = 8192

// BenchmarkShapes repeats the evaluation of Stream-K by Osama et al. with 1,000 of its 32,824 shapes: single
// fp32 products with M, N and K drawn log-uniformly from 128 to 8192, as nodes of a CUDA graph. On one tile
// of plain fp32 and one of tensor cores, it measures Stream-K and the planner's schedule against
// data-parallel. It measures the planner's choice of both against cuBLAS SGEMM. It logs and reports
// speed-ups: geometric mean, least and most, and how many are below 1. Run it once, -benchtime 1x; -short
// takes 50 shapes.
func BenchmarkShapes(b *testing.B) {
	x := newShapes(b)
	count := 1000
	if testing.Short() {
		count = 50
	}
	for _, c := range []struct {
		name    string
		options planner.Options
		rivals  []planner.Schedule // with a tile
	}{
		{"large-8x4", planner.Options{Compute: planner.ComputeF32, Tile: "large-8x4"},
			[]planner.Schedule{planner.ScheduleStreamK, ""}},
		{"wgmma-128x64", planner.Options{Tile: "wgmma-128x64"},
			[]planner.Schedule{planner.ScheduleStreamK, ""}},
		{"f32", planner.Options{Compute: planner.ComputeF32}, nil},
		{"default", planner.Options{}, nil},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				found := map[string]*shapeRatios{}
				rng := rand.New(rand.NewPCG(1000, 1))
				for range count {
					x.draw(rng)
					for name, ratio := range x.ratios(b, c.options, c.rivals) {
						if found[name] == nil {
							found[name] = &shapeRatios{}
						}
						found[name].add(ratio, x.String())
					}
				}
				for _, name := range slices.Sorted(maps.Keys(found)) {
					found[name].report(b, name)
				}
			}
		})
	}
}

// shapes has memory for the largest product, with random numbers, and the current shape.
type shapes struct {
	device  *Device
	stream  *cublas.Stream
	rival   *cublas.Handle
	at      RunOn
	m, n, k int
}

func newShapes(b *testing.B) *shapes {
	d, stream := openTimed(b)
	rival, err := stream.CuBLAS()
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, rival.Close()) })
	const most = shapeMost * shapeMost
	alloc := allocRandom(b, d, stream)
	return &shapes{device: d, stream: stream, rival: rival, at: RunOn{A: alloc(element.F32, most),
		B: alloc(element.F32, most), C: alloc(element.F32, most)}}
}

func (x *shapes) String() string { return fmt.Sprintf("%dx%dx%d", x.m, x.n, x.k) }

func (x *shapes) draw(rng *rand.Rand) {
	for _, side := range []*int{&x.m, &x.n, &x.k} {
		*side = drawSide(rng, 128, shapeMost)
	}
}

// drawSide draws log-uniformly from least to most.
func drawSide(rng *rand.Rand, least, most float64) int {
	return int(least * math.Pow(most/least, rng.Float64()))
}

// ratios returns the speed-up of schedules over data-parallel, or without schedules that of the planner's
// choice over cuBLAS.
func (x *shapes) ratios(b *testing.B, o planner.Options, schedules []planner.Schedule) map[string]float64 {
	batch, err := planner.Pack(planner.GEMM(x.m, x.n, x.k))
	require.NoError(b, err)
	if schedules == nil {
		rival, err := x.rival.Batch(batch, element.F32, x.at.A, x.at.B, x.at.C)
		require.NoError(b, err)
		defer func() { require.NoError(b, rival.Close()) }()
		ours, copies := x.ours(b, batch, o)
		return map[string]float64{"over-cublas": x.time(b, copies, rival.Loop) / ours}
	}
	o.Schedule = planner.ScheduleDataParallel
	base, _ := x.ours(b, batch, o)
	all := map[string]float64{}
	for _, o.Schedule = range schedules {
		us, _ := x.ours(b, batch, o)
		name := string(o.Schedule)
		if name == "" {
			name = "planner"
		}
		all[name] = base / us
	}
	return all
}

// ours is planned for a plan with the options.
func (x *shapes) ours(b *testing.B, batch planner.Batch, o planner.Options) (micros float64, copies int) {
	plan, err := x.device.Plan(b.Context(), batch, o)
	require.NoError(b, err)
	return x.planned(b, plan)
}

// planned returns the time of a plan, and how many copies were timed together, about a millisecond's worth.
func (x *shapes) planned(b *testing.B, plan *planner.Plan) (micros float64, copies int) {
	p, err := x.device.Prepare(b.Context(), plan)
	require.NoError(b, err)
	defer func() { require.NoError(b, p.Close()) }()
	require.NoError(b, x.device.Wait(b.Context()))
	copies = int(min(max(1000/plan.Cost, 2), 50))
	at := x.at
	at.Program = p
	return x.time(b, copies, func() error {
		return x.device.RunAt(b.Context(), x.stream.Native(), at)
	}), copies
}

// time returns the median of a few samples, for one of the copies, in µs.
func (x *shapes) time(b *testing.B, copies int, run func() error) float64 {
	graph, err := x.stream.Capture(copies, func(int) error { return run() })
	require.NoError(b, err)
	defer graph.Close()
	var samples []time.Duration
	for range 3 {
		t, err := graph.Time()
		require.NoError(b, err)
		samples = append(samples, t)
	}
	slices.Sort(samples)
	return float64(samples[len(samples)/2].Nanoseconds()) / 1e3
}

// shapeRatios are ratios and their shapes.
type shapeRatios struct {
	all    []float64
	shapes []string
}

func (r *shapeRatios) add(ratio float64, shape string) {
	r.all, r.shapes = append(r.all, ratio), append(r.shapes, shape)
}

func (r *shapeRatios) report(b *testing.B, name string) {
	sum, slower, least, most := 0.0, 0, 0, 0
	for i, x := range r.all {
		sum += x
		if x < 1 {
			slower++
		}
		if x < r.all[least] {
			least = i
		}
		if x > r.all[most] {
			most = i
		}
	}
	mean := bench.GeoMean(r.all)
	b.Logf("%s: mean %.3f, geometric mean %.3f, least %.3f (%s), most %.3f (%s), slower in %d of %d", name,
		sum/float64(len(r.all)), mean,
		r.all[least], r.shapes[least], r.all[most], r.shapes[most], slower, len(r.all))
	b.ReportMetric(mean, name)
}
