package planner

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/occupancy"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

func TestCheckDevice(t *testing.T) {
	for _, d := range known() {
		require.NoError(t, d.Check(), d.Name)
	}
	for _, c := range []struct {
		edit func(*Device)
		want string
	}{
		{func(d *Device) { *d = Device{Name: "none"} },
			`device none: unknown occupancy rule "" (known: cdna, rdna, nvidia, limits)`},
		{func(d *Device) { d.ComputeUnits = 0 }, "device mi210: compute_units 0 is not in [1, 8192]"},
		{func(d *Device) { d.WaveSize = 0 }, "device mi210: wave_size 0 is not in [1, 1024]"},
		{func(d *Device) { d.SIMDs = 0 }, "device mi210: simds 0 is not in [1, 65536]"},
		{func(d *Device) { d.MaxWaves = -1 }, "device mi210: max_waves -1 is not in [1, 65536]"},
		{func(d *Device) { d.MaxGroups = math.MaxInt },
			fmt.Sprintf("device mi210: max_groups %d is not in [1, 65536]", math.MaxInt)},
		{func(d *Device) { d.Registers = 0 }, "device mi210: registers 0 is not in [1, 268435456]"},
		{func(d *Device) { d.RegisterGranule = 0 },
			"device mi210: register_granule 0 is not in [1, 268435456]"},
		{func(d *Device) { d.MaxRegisters = -1 }, "device mi210: max_registers -1 is not in [0, 268435456]"},
		{func(d *Device) { d.Shared = 100 }, "device mi210: shared 100 is not in [8192, 268435456]"},
		{func(d *Device) { d.SharedGranule = -1 },
			"device mi210: shared_granule -1 is not in [0, 268435456]"},
		{func(d *Device) { d.SharedReserved = mostMemory + 1 },
			"device mi210: shared_reserved 268435457 is not in [0, 268435456]"},
		{func(d *Device) { d.MaxThreads = 0 }, "device mi210: max_threads 0 is not in [1, 65536]"},
		{func(d *Device) { d.GroupShared = 0 }, "device mi210: group_shared 0 is not in [8192, 268435456]"},
		{func(d *Device) { d.MaxWorkers = -1 }, "device mi210: max_workers -1 is not 0, nor 1 or more"},
		{func(d *Device) { d.MaxBinding = 16 }, "device mi210: max_binding 16 is not 0, nor 16384 or more"},
		{func(d *Device) { d.MaxTrips = 2 }, "device mi210: max_trips 2 is not 0, nor 96 or more"},
		{func(d *Device) { d.TFLOPS = math.NaN() }, "device mi210: tflops NaN is not in [1e-06, 1e+06]"},
		{func(d *Device) { d.TFLOPS = 1e-300 }, "device mi210: tflops 1e-300 is not in [1e-06, 1e+06]"},
		{func(d *Device) { d.LaunchMicros = -1 }, "device mi210: launch_micros -1 is not in [0, 1e+07]"},
		{func(d *Device) { d.LaunchMicros = math.Inf(1) },
			"device mi210: launch_micros +Inf is not in [0, 1e+07]"},
		{func(d *Device) { d.MemoryRate = math.NaN() },
			"device mi210: memory_rate NaN is not 0, nor in [1, 1e+12]"},
		{func(d *Device) { d.MemoryRate = math.Inf(1) },
			"device mi210: memory_rate +Inf is not 0, nor in [1, 1e+12]"},
		{func(d *Device) { d.MemoryRate = 1e-300 },
			"device mi210: memory_rate 1e-300 is not 0, nor in [1, 1e+12]"},
		{func(d *Device) { d.Cache = -1 }, "device mi210: cache -1 is negative"},
		{func(d *Device) { d.KernelKind = "metal" },
			`device mi210: unknown kind of kernels "metal" (known: wgsl, native, cpu)`},
		{func(d *Device) { d.Kernels = nil }, "device mi210: 0 kernels are not in [1, 64]"},
		{func(d *Device) { d.Kernels[1].Tile = nil }, "device mi210: kernel 1 has no tile"},
		{func(d *Device) { d.Kernels[1].Tile = d.Kernels[0].Tile },
			"device mi210: tile small has two kernels"},
		{func(d *Device) { d.Kernels[1].Tile = &tile.Shape{Name: "odd", TM: 12} },
			"device mi210: tile odd: size 12 is no power of two in [4, 128]"},
		{func(d *Device) {
			d.Kernels[1].Tile = &tile.Shape{Name: "new", TM: 8, TN: 16, TK: 16, Threads: 64, RM: 1, RN: 2,
				Rates: tile.Rates{WGSL: tile.Rate{Efficiency: 1}}}
		}, "device mi210: tile new has no rate of native kernels for compute mode f32 in the tile table, " +
			"and none was measured"},
		{func(d *Device) { d.Kernels[2].Registers = -1 },
			"device mi210: the kernel of tile medium cannot have the resources {Registers:-1 " +
				"ScalarRegisters:76 Shared:9216}"},
		{func(d *Device) { d.Kernels[0].Halves = math.NaN() },
			"device mi210: the kernels of tile small for elements of 16 bits cannot be NaN times as fast"},
		{func(d *Device) { d.Kernels[0].Halves = 0.5 },
			"device mi210: the kernels of tile small for elements of 16 bits cannot be 0.5 times as fast"},
		{func(d *Device) { d.Kernels[0].Rate = tile.Rate{Efficiency: 1, Worker: 1e308} },
			"device mi210: tile small cannot have the rate {Efficiency:1 Step:0 Fixed:0 Worker:1e+308 " +
				"Stream:0 Along:0 Rounds:0}"},
		{func(d *Device) { d.Kernels[0].Rate = tile.Rate{Efficiency: 1, Step: math.NaN()} },
			"device mi210: tile small cannot have the rate {Efficiency:1 Step:NaN Fixed:0 Worker:0 " +
				"Stream:0 Along:0 Rounds:0}"},
		{func(d *Device) { d.Kernels[0].Rate = tile.Rate{Efficiency: 1, Along: -1} },
			"device mi210: tile small cannot have the rate {Efficiency:1 Step:0 Fixed:0 Worker:0 Stream:0 " +
				"Along:-1 Rounds:0}"},
		{func(d *Device) { d.Kernels[0].Rate = tile.Rate{Efficiency: 1, Rounds: 1.5} },
			"device mi210: tile small cannot have the rate {Efficiency:1 Step:0 Fixed:0 Worker:0 Stream:0 " +
				"Along:0 Rounds:1.5}"},
	} {
		t.Run(c.want, func(t *testing.T) {
			bad := device(t, "mi210")
			c.edit(bad)
			err := bad.Check()
			require.EqualError(t, err, c.want)
			require.ErrorIs(t, err, ErrInvalid)
			maker := New(bad)
			for range 2 {
				_, err := maker.Plan(t.Context(), Batch{}, Options{})
				require.EqualError(t, err, c.want)
			}
			require.True(t, math.IsInf(maker.Costs(mustPack(t, GEMM(1, 1, 1)), nil)[0], 1))
			bad.Resident(0, occupancy.Resources{}) // does not panic, here and below
			bad.Fingerprint()
			if good := device(t, "mi210"); len(bad.Kernels) > 0 && bad.Kernels[1].Tile != nil {
				bad.Kernels = good.Kernels
				bad.Predict(mustPack(t, GEMM(1, 1, 1)), &good.Kernels[0], "", ComputeF32)
			}
		})
	}
}

// A planner copies its device, so later changes of the original have no effect.
func TestPlannerKeepsItsDevice(t *testing.T) {
	d := device(t, "mi210")
	maker := New(d)
	b := mustPack(t, GEMM(100, 100, 100))
	first, err := maker.Plan(t.Context(), b, Options{})
	require.NoError(t, err)
	d.ComputeUnits, d.Kernels[0].Registers = 0, -1
	again, err := maker.Plan(t.Context(), b, Options{})
	require.NoError(t, err)
	require.Equal(t, first, again)
}

// odd gives facts of a device values that no device has, or hardly any.
func (t *tape) odd(d *Device) {
	floats := []float64{0, -1, 1, leastTFLOP, mostTFLOP, tile.MaxMicros, 1e-300, 1e300, math.Inf(1),
		math.NaN(), 67}
	ints := []int{0, -1, 1, 2, 3, 7, 16, 31, 33, leastTrips, 1000, leastShared, leastBinding, 1 << 16,
		1 << 20, 1 << 30, math.MaxInt}
	for range 1 + t.byte()%4 {
		n, x := pick(t, ints...), pick(t, floats...)
		rate := pick(t, tile.Rate{Efficiency: tile.MinEfficiency}, tile.Rate{Efficiency: 1, Step: x},
			tile.Rate{Efficiency: 1, Fixed: x},
			tile.Rate{Efficiency: 1, Worker: x}, tile.Rate{Efficiency: x, Step: 1, Fixed: 1, Worker: 1})
		k := &KernelFacts{}
		if len(d.Kernels) > 0 {
			k = &d.Kernels[t.byte()%len(d.Kernels)]
		}
		pick(t,
			func() { d.ComputeUnits = n }, func() { d.TFLOPS = x }, func() { d.LaunchMicros = x },
			func() { d.MaxWaves = n }, func() { d.MemoryRate = x }, func() { d.Cache = n },
			func() { d.MaxGroups = n }, func() { d.Shared = n }, func() { d.GroupShared = n },
			func() { d.MaxThreads = n },
			func() { d.MaxWorkers = n }, func() { d.MaxBinding = n }, func() { d.MaxTrips = n },
			func() { d.WaveSize = n },
			func() { d.SIMDs = n }, func() { d.Registers = n }, func() { d.RegisterGranule = n },
			func() { d.SharedGranule = n },
			func() { k.Rate = rate }, func() { k.TF32 = rate }, func() { k.Halves = x },
			func() { k.Registers = n }, func() { k.Shared = n },
			func() { d.Kernels = d.Kernels[:min(len(d.Kernels), t.byte()%20)] },
			func() { d.PeakGuessed = !d.PeakGuessed }, func() { *d = Device{} },
		)()
	}
}

// TestOddDevices: for all facts and options there is an error that says what is wrong, or a complete plan
// with a finite time.
func TestOddDevices(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	plans, refused := 0, 0
	for range 30000 {
		in := randomTape(rng, 100)
		d := clone(known()[rng.IntN(len(known()))])
		in.odd(d)
		b := mustPack(t, GEMM(rng.IntN(200), rng.IntN(200), rng.IntN(1000)),
			GEMM(rng.IntN(50), rng.IntN(50), rng.IntN(50)))
		o := in.options()
		if len(d.Types) > 0 && rng.IntN(3) == 0 {
			if o.TypeA = d.Types[0]; o.TypeC == element.F64 {
				o.TypeC = element.F32
			}
		}
		p, err := New(d).Plan(t.Context(), b, o)
		if err != nil {
			if wrong := d.Check(); wrong != nil && err.Error() == wrong.Error() {
				refused++
			} else {
				require.True(t, explained(err), "%v", err)
			}
			continue
		}
		plans++
		if plans%4 == 0 {
			checkPlan(t, p)
			checkCost(t, p)
			checkTrips(t, p)
		}
	}
	require.Greater(t, min(plans, refused), 1000, "both outcomes are tested")
}

// TestNarrowRates: tensor cores have their own rates for 16-bit and 8-bit elements, and for aligned rows.
func TestNarrowRates(t *testing.T) {
	d := device(t, "h200")
	for i := range d.Kernels {
		k := &d.Kernels[i]
		if !k.Tile.Unit.Tensor() || k.Tile.Boxes { // boxes have the rate of aligned rows alone
			continue
		}
		of := &k.Tile.Rates
		for c, want := range map[arithmetic]tile.Rate{arithmetic{bits: 16}: of.Bits16,
			arithmetic{bits: 16, aligned: true}: of.Aligned16, arithmetic{bits: 8}: of.Bits8,
			arithmetic{bits: 8, aligned: true}: of.Aligned8, arithmetic{bits: 4}: of.Int4} {
			require.Equal(t, want, d.rate(k, c), "%s %+v", k.Tile, c)
			require.Equal(t, want.Efficiency > 0, k.takes(c), "%s %+v", k.Tile, c)
		}
	}
}
