package drivertest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// manyUnits makes a device look large, so that schedules split few tiles into many partials.
func manyUnits(d *planner.Device) { d.ComputeUnits = 1024 }

// oneUnit makes plans put several tiles on one worker.
func oneUnit(d *planner.Device) { d.ComputeUnits, d.MaxGroups = 1, 1 }

// leastTrips allows threads the fewest loop iterations that planning accepts.
func leastTrips(d *planner.Device) { d.MaxTrips = 96 }

// testTiles runs every tile under every schedule.
func (s *suite) testTiles(t *testing.T) {
	facts := s.device.Info().Planner
	for i := range facts.Kernels {
		k := &facts.Kernels[i]
		if i > 0 && s.oneTile != "" {
			t.Log("one tile:", s.oneTile)
			break
		}
		if s.tile() != "" && k.Tile.Name != "tiny-k4" &&
			(k.Tile.Name != "thin-8x64" || s.of != element.BF16) {
			continue // those with vectors of 4 elements and K groups, or with B in registers, do
		}
		if k.Tile.Boxes {
			continue // see testBoxes
		}
		if own := s.alongK(k.Tile); own.fits(&facts, k.Tile) {
			own.testTile(t, &facts, k, uint64(i))
		}
	}
}

// tileCase is a case for a tile under a schedule.
type tileCase struct {
	schedule planner.Schedule
	spacings []spacing
	depths   func(step int) []int
	edit     func(*planner.Device)
}

// testTile runs a tile under every schedule. All problems of a case are one batch, because kernels take long
// to make: one for each transposition.
func (s *suite) testTile(t *testing.T, facts *planner.Device, k *planner.KernelFacts, seed uint64) {
	cases := []tileCase{
		{planner.ScheduleDataParallel, []spacing{narrow, wide}, around, func(*planner.Device) {}},
		{planner.ScheduleBatched, []spacing{narrow}, around, func(*planner.Device) {}},
		{planner.ScheduleSplitK, []spacing{wide}, long, manyUnits},
		{planner.ScheduleStreamK, []spacing{narrow}, long, manyUnits},
		{planner.ScheduleLPT, []spacing{narrow}, around, oneUnit},
		{planner.ScheduleDynamic, []spacing{narrow}, around, fewPlaces},
		{planner.ScheduleCluster, []spacing{narrow}, long, func(*planner.Device) {}},
	}
	require.Len(t, cases, len(planner.Schedules()), "one for each schedule")
	if s.of != element.F32 { // schedules move no elements: each is whole, or a partial that a fix-up sums
		cases = slices.DeleteFunc(cases, func(c tileCase) bool {
			return c.schedule != planner.ScheduleDataParallel && c.schedule != planner.ScheduleSplitK
		})
	}
	shape := k.Tile
	computes := []planner.Compute{planner.ComputeF32Emulated}
	if shape.Unit.Tensor() && s.of == element.F32 {
		computes = append(computes, planner.ComputeTF32)
	}
	for _, c := range cases {
		if c.schedule == planner.ScheduleCluster && !k.Clusters {
			continue // same as data-parallel
		}
		edit := func(d *planner.Device) { *d = *facts; c.edit(d) }
		for _, how := range c.spacings {
			if s.lines && how == narrow {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s/%v", shape.Name, c.schedule, how), func(t *testing.T) {
				s.sampled(t, 3)
				rng := newRand(seed)
				var b planner.Batch
				for _, trans := range [][2]bool{{false, false}, {false, true}, {true, false}, {true, true}} {
					b = append(b, covering(rng, around(shape.TM), around(shape.TN), c.depths(shape.TK),
						trans[0], trans[1])...)
				}
				for _, compute := range computes {
					j := s.prepare(t, b, how, planner.Options{Compute: compute, Tile: shape.Name,
						Schedule: c.schedule}, edit)
					requireKernels(t, j, c.schedule, how)
					j.check(t, seed)
				}
			})
		}
	}
}

// requireKernels fails if a plan does not use what its case is meant to test.
func requireKernels(t *testing.T, j *job, schedule planner.Schedule, how spacing) {
	t.Helper()
	split := schedule == planner.ScheduleSplitK || schedule == planner.ScheduleStreamK
	require.Equal(t, split, j.some(isSplit), j)
	require.Equal(t, split, j.some(sumsPartials), j)
	require.Equal(t, schedule == planner.ScheduleCluster, j.some(func(l encoding.Launch) bool {
		return l.Cluster > 0
	}), j)
	if schedule == planner.ScheduleBatched || schedule == planner.ScheduleLPT {
		require.True(t, j.some(isLoop), j)
	}
	requireTurns(t, j, schedule)
	for _, l := range j.plan.Launches {
		require.True(t, l.Fixup || l.Vector == (how == wide), j)
	}
}

// testMixed lets the planner choose for random batches.
func (s *suite) testMixed(t *testing.T) {
	for name, o := range map[string]planner.Options{
		"cost":      {Tile: s.tile()},
		"zhang2025": {Tile: s.tile(), Rule: planner.RuleZhang2025},
	} {
		if o.Rule == planner.RuleZhang2025 && !s.small() {
			continue // their tiles are plain fp32
		}
		t.Run(name, func(t *testing.T) {
			Sampled(t, s.device, 1)
			for seed := range uint64(3) {
				b := irregular(newRand(seed), 40, 150, 100)
				s.prepare(t, b, spacing(seed%2), o, nil).check(t, seed)
			}
		})
	}
}

// cutDepth reports whether a tile is cut along K, and its later pieces add to C.
func cutDepth(p *planner.Plan) bool {
	return slices.ContainsFunc(p.Segments, func(s encoding.Segment) bool { return s.Accumulate })
}

// testWindows lowers the device's limits, so that plans cut launches.
func (s *suite) testWindows(t *testing.T) {
	sized := func(m, n, k int, transA, transB bool) planner.Problem {
		return planner.Problem{M: m, N: n, K: k, TransA: transA, TransB: transB, Beta: -0.5}
	}
	cutWorkers := func(p *planner.Plan) bool {
		return slices.ContainsFunc(p.Launches, func(l encoding.Launch) bool {
			return l.Kernel == p.Launches[0].Kernel && l.First > 0
		})
	}
	cutBuffers := func(p *planner.Plan) bool {
		return slices.ContainsFunc(p.Launches, func(l encoding.Launch) bool {
			return l.BaseA > 0 && l.BaseB > 0 && l.BaseC > 0
		})
	}
	bind := func(d *planner.Device) { d.MaxBinding = s.of.Bytes() << 14 }
	cases := []struct {
		name  string
		batch planner.Batch
		edit  func(*planner.Device)
		cut   func(*planner.Plan) bool // whether the plan has what the case is for
		sums  bool                     // pieces add to C
	}{
		{
			name:  "many workers",
			batch: planner.Batch{sized(70, 70, 20, false, false), sized(33, 90, 9, false, false)},
			edit:  func(d *planner.Device) { d.MaxWorkers = 3 },
			cut:   cutWorkers,
		},
		{
			name:  "buffers beyond a binding",
			batch: irregular(newRand(1), 60, 60, 60),
			edit:  bind,
			cut:   cutBuffers,
		},
		{
			// Rows of 1040 elements: 16 of them nearly fill the binding of 16384.
			name: "tile beyond a binding",
			batch: planner.Batch{sized(17, 5, 1040, false, true), sized(40, 20, 700, true, false),
				sized(1, 1, 1, false, false)},
			edit: bind,
			cut:  cutDepth,
			sums: true,
		},
		{
			name:  "K beyond the loop limit",
			batch: planner.Batch{sized(9, 20, 400, false, false), sized(20, 9, 1600, true, true)},
			edit:  leastTrips,
			cut:   cutDepth,
			sums:  true,
		},
	}
	for _, c := range cases {
		if c.sums && (!s.sumsInC() || !s.small()) {
			continue // it would be rounded in between, or no tile is flat enough
		}
		t.Run(c.name, func(t *testing.T) {
			j := s.prepare(t, c.batch, narrow, planner.Options{Tile: "small"}, c.edit)
			require.True(t, c.cut(j.plan), j)
			j.check(t, 7)
		})
	}
}

// testNonFinite puts NaN and Inf among the operands.
func (s *suite) testNonFinite(t *testing.T) {
	if s.finiteOnly != "" {
		t.Skip(s.finiteOnly)
	}
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, tile := range append(s.tensorTiles(), s.tile()) {
		for _, x := range []float32{inf, -inf, nan} {
			t.Run(fmt.Sprintf("%v/%s", x, tile), func(t *testing.T) {
				b := irregular(newRand(3), 20, 40, 40)
				j := s.prepare(t, b, narrow, planner.Options{Tile: tile}, nil)
				count := 0
				values := uniform(3)
				o := s.typed(fill(b, j.lens, func(row []float32) {
					values(row)
					for i := range row {
						switch count++; count % 151 { // a prime, to reach all columns
						case 0:
							row[i] = x
						case 75:
							row[i] = 0 // 0*Inf is NaN
						}
					}
				}))
				_, err := reference.CheckIn(j.arithmetic(), b, o.a, o.b, o.c, j.run(t, o))
				require.NoError(t, err, j)
			})
		}
	}
}

// testSubnormals takes operands, products and results near the smallest normal number. The device must treat
// subnormals as it says.
func (s *suite) testSubnormals(t *testing.T) {
	for _, c := range []struct {
		name        string
		a, b, c     float32 // magnitudes of the elements
		alpha, beta float32
	}{
		{"A", 0x1p-127, 0x1p100, 0, 1, 0},
		{"B", 0x1p100, 0x1p-127, 0, 1, 0},
		{"A and B", 0x1p-127, 0x1p-127, 0, 0x1p100, 0},
		{"products", 0x1p-60, 0x1p-72, 0, 1, 0},
		{"sums to scale", 0x1p-60, 0x1p-72, 1, 0x1p90, 1},
		{"C", 0x1p-60, 0x1p-80, 0x1p-127, 1, -0.5},
		{"C to scale", 0x1p-60, 0x1p-80, 0x1p-127, 1, 0x1p90},
		{"alpha", 0x1p60, 0x1p60, 1, 0x1p-128, 1},
		{"beta", 0x1p-60, 0x1p-60, 0x1p30, 1, 0x1p-128},
		{"results", 0x1p-60, 0x1p-40, 0x1p-90, 0x1p-30, 0x1p-38},
	} {
		for _, tile := range append(s.tensorTiles(), "small") {
			for _, schedule := range []planner.Schedule{planner.ScheduleDataParallel,
				planner.ScheduleSplitK} {
				t.Run(fmt.Sprintf("%s/%s/%s", c.name, tile, schedule), func(t *testing.T) {
					b := planner.Batch{{M: 9, N: 20, K: 7}, {M: 17, N: 5, K: 500, TransA: true},
						{M: 5, N: 7, K: 300, TransB: true}}
					for i := range b {
						b[i].Alpha, b[i].Beta = planner.Scale(float64(c.alpha)), float64(c.beta)
					}
					j := s.prepare(t, b, narrow, planner.Options{Tile: tile, Schedule: schedule}, manyUnits)
					o := fill(b, j.lens, uniform(8))
					types := []element.Type{s.of, s.of, s.ofC}
					for i, size := range []float32{c.a, c.b, c.c} {
						// Finite in all types: if alpha were taken for 0, infinities would give NaN.
						size = float32(min(float64(size), elemtype.Overflow(types[i])/2))
						operand := [][]float32{o.a, o.b, o.c}[i]
						for at := range operand {
							if operand[at] != canary {
								operand[at] *= size
							}
						}
					}
					o = s.typed(o)
					_, err := reference.CheckIn(j.arithmetic(), b, o.a, o.b, o.c, j.run(t, o))
					require.NoError(t, err, j)
				})
			}
		}
	}
}

// testScalars takes alpha and beta that are not finite, and signed zeros. beta = -0 does not read C, alpha
// has no effect without a product, and everything else follows IEEE.
func (s *suite) testScalars(t *testing.T) {
	if s.finiteOnly != "" {
		t.Skip(s.finiteOnly)
	}
	inf, nan, minus := float32(math.Inf(1)), float32(math.NaN()), float32(math.Copysign(0, -1))
	full := math.Float32frombits(1<<31 - 1) // the NaN that NVIDIA's GPUs produce
	special := []float32{0, minus, 1, -0.5, inf, -inf, nan, full}
	for _, c := range []struct {
		name     string
		schedule planner.Schedule
		depth    int
		edit     func(*planner.Device)
		cut      func(*planner.Plan) bool // whether the plan has what the case is for
	}{
		{"whole tiles", planner.ScheduleDataParallel, 9, nil, func(p *planner.Plan) bool {
			return p.Workspace == 0
		}},
		{"split tiles", planner.ScheduleSplitK, 400, manyUnits, func(p *planner.Plan) bool {
			return p.Workspace > 0
		}},
		{"shared tiles", planner.ScheduleStreamK, 400, manyUnits, func(p *planner.Plan) bool {
			return p.Workspace > 0
		}},
		{"parts that add to C", "", 1100, leastTrips, cutDepth},
	} {
		if c.edit != nil && c.schedule == "" && !s.sumsInC() {
			continue // it would be rounded in between
		}
		for _, tile := range append(s.tensorTiles(), "small") {
			t.Run(c.name+"/"+tile, func(t *testing.T) {
				var b planner.Batch
				for _, alpha := range special {
					for _, beta := range special {
						for _, depth := range []int{0, c.depth} {
							b = append(b, planner.Problem{M: 7, N: 18, K: depth,
								Alpha: planner.Scale(float64(alpha)),
								Beta:  float64(beta)})
						}
					}
				}
				j := s.prepare(t, b, narrow, planner.Options{Tile: tile, Schedule: c.schedule}, c.edit)
				require.True(t, c.cut(j.plan), j)
				values := integers(11)
				o := s.typed(fill(b, j.lens, func(row []float32) {
					values(row)
					// of one sign: alpha of Inf times pieces of both signs gives NaN only in some orders
					for i, v := range row {
						row[i] = max(v, -v)
					}
				}))
				require.NoError(t, reference.CheckRounded(s.ofC, b, o.a, o.b, o.c, j.run(t, o)), j)
			})
		}
	}
}

// tensorTiles returns the device's tiles of tensor cores. They split numbers, which fails at the ends of
// their range unless it is handled.
func (s *suite) tensorTiles() []string { return s.tensorTilesWith(planner.Epilogue{}) }

// tensorTilesWith returns those with kernels for an epilogue.
func (s *suite) tensorTilesWith(e planner.Epilogue) (names []string) {
	device := s.device.Info().Planner
	for i := range device.Kernels {
		if shape := device.Kernels[i].Tile; shape.Unit.Tensor() && s.fitsWith(&device, shape, e) {
			names = append(names, shape.Name)
		}
	}
	return names
}

// testExtremes takes operands near the ends of fp32's range: small enough that a low part would be
// subnormal, too large to be split, and with equally large sums.
func (s *suite) testExtremes(t *testing.T) {
	for _, tile := range s.tensorTiles() {
		for _, c := range []struct {
			name string
			a, b float32
		}{
			{"small A", 0x1p-116, 0x1p20}, {"small B", 0x1p20, 0x1p-116},
			{"large A", 0x1p116, 0x1p-20}, {"large B", 0x1p-20, 0x1p116},
			{"large sums", 0x1p60, 0x1p58},
		} {
			t.Run(tile+"/"+c.name, func(t *testing.T) {
				b := irregular(newRand(4), 12, 70, 90)
				for i := range b {
					b[i].Beta = 0 // C would hide small sums
				}
				j := s.prepare(t, b, narrow, planner.Options{Tile: tile}, nil)
				o := fill(b, j.lens, uniform(4))
				for i := range o.a {
					o.a[i] *= c.a
				}
				for i := range o.b {
					o.b[i] *= c.b
				}
				_, err := reference.CheckIn(j.arithmetic(), b, o.a, o.b, o.c, j.run(t, o))
				require.NoError(t, err, j)
			})
		}
	}
}

// testEmpty runs batches without work.
func (s *suite) testEmpty(t *testing.T) {
	nan := float32(math.NaN())
	for name, b := range map[string]planner.Batch{
		"no problems": {},
		"no elements": {{M: 0, N: 5, K: 3}, {M: 5, N: 0, K: 3}},
		"no products": {{M: 5, N: 6, K: 0, Beta: -0.5}, {M: 7, N: 3, K: 0,
			Alpha: planner.Scale(float64(nan))},
			{M: 1, N: 1, K: 9, Alpha: planner.Scale(0)}},
		"nothing to add": {{M: 5, N: 6, K: 0, Beta: 1}, {M: 1, N: 1, K: 4, Alpha: planner.Scale(0), Beta: 1}},
	} {
		t.Run(name, func(t *testing.T) { s.prepare(t, b, narrow, planner.Options{}, nil).check(t, 5) })
	}
}
