package planner

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckDevice(t *testing.T) {
	for _, d := range known {
		require.NoError(t, d.Check(), d.Name)
	}
	for _, c := range []struct {
		edit func(*Device)
		want string
	}{
		{func(d *Device) { *d = Device{Name: "none"} }, `device none: unknown model "" (known: cdna, nvidia, webgpu)`},
		{func(d *Device) { d.ComputeUnits = 0 }, "device mi210: compute_units 0 is not in [1, 8192]"},
		{func(d *Device) { d.WaveSize = 0 }, "device mi210: wave_size 0 is not in [1, 1024]"},
		{func(d *Device) { d.SIMDs = 0 }, "device mi210: simds 0 is not in [1, 65536]"},
		{func(d *Device) { d.MaxWaves = -1 }, "device mi210: max_waves -1 is not in [1, 65536]"},
		{func(d *Device) { d.MaxGroups = math.MaxInt }, fmt.Sprintf("device mi210: max_groups %d is not in [1, 65536]", math.MaxInt)},
		{func(d *Device) { d.Registers = 0 }, "device mi210: registers 0 is not in [1, 268435456]"},
		{func(d *Device) { d.RegisterGranule = 0 }, "device mi210: register_granule 0 is not in [1, 268435456]"},
		{func(d *Device) { d.MaxRegisters = -1 }, "device mi210: max_registers -1 is not in [0, 268435456]"},
		{func(d *Device) { d.Shared = 100 }, "device mi210: shared 100 is not in [8192, 268435456]"},
		{func(d *Device) { d.SharedGranule = -1 }, "device mi210: shared_granule -1 is not in [0, 268435456]"},
		{func(d *Device) { d.SharedReserved = mostMemory + 1 }, "device mi210: shared_reserved 268435457 is not in [0, 268435456]"},
		{func(d *Device) { d.MaxThreads = 0 }, "device mi210: max_threads 0 is not in [1, 65536]"},
		{func(d *Device) { d.GroupShared = 0 }, "device mi210: group_shared 0 is not in [8192, 268435456]"},
		{func(d *Device) { d.MaxWorkers = -1 }, "device mi210: max_workers -1 is not 0, nor 1 or more"},
		{func(d *Device) { d.MaxBinding = 16 }, "device mi210: max_binding 16 is not 0, nor 16384 or more"},
		{func(d *Device) { d.MaxTrips = 2 }, "device mi210: max_trips 2 is not 0, nor 67 or more"},
		{func(d *Device) { d.TFLOPS = math.NaN() }, "device mi210: tflops NaN is not in [1e-06, 1e+06]"},
		{func(d *Device) { d.TFLOPS = 1e-300 }, "device mi210: tflops 1e-300 is not in [1e-06, 1e+06]"},
		{func(d *Device) { d.LaunchMicros = -1 }, "device mi210: launch_micros -1 is not in [0, 1e+07]"},
		{func(d *Device) { d.LaunchMicros = math.Inf(1) }, "device mi210: launch_micros +Inf is not in [0, 1e+07]"},
		{func(d *Device) { d.Kernels[2].Registers = -1 }, "device mi210: the kernel of tile medium cannot have the resources {Registers:-1 ScalarRegisters:67 Shared:9216}"},
		{func(d *Device) { d.Rates = &Rates{Tiles: [NumTiles]Rate{{Efficiency: 1, Worker: 1e308}}} },
			"device mi210: tile small cannot have the rate {Efficiency:1 Step:0 Fixed:0 Worker:1e+308}"},
		{func(d *Device) { d.Rates = &Rates{Tiles: [NumTiles]Rate{{Efficiency: 1, Step: math.NaN()}}} },
			"device mi210: tile small cannot have the rate {Efficiency:1 Step:NaN Fixed:0 Worker:0}"},
	} {
		t.Run(c.want, func(t *testing.T) {
			good := device(t, "mi210")
			p := new(Plan)
			require.NoError(t, p.Build(good, Batch{}, Options{}))
			bad := *good
			c.edit(&bad)
			require.EqualError(t, bad.Check(), c.want)
			for range 2 {
				require.EqualError(t, p.Build(&bad, Batch{}, Options{}), c.want)
			}
			require.NoError(t, p.Build(good, Batch{}, Options{}), "nothing is left of it")
			require.True(t, math.IsInf(Costs(&bad, mustPack(t, GEMM(1, 1, 1)), nil)[0], 1))
			bad.Occupancy(0, Resources{}) // does not panic, and so below
			bad.Predict(mustPack(t, GEMM(1, 1, 1)), 0, ScheduleAuto, ComputeF32)
		})
	}
}

// odd changes some facts of a device to what none has, or hardly any.
func (t *tape) odd(d *Device) {
	floats := []float64{0, -1, 1, leastTFLOP, mostTFLOP, mostMicros, 1e-300, 1e300, math.Inf(1), math.NaN(), 67}
	ints := []int{0, -1, 1, 2, 3, 7, 16, 31, 33, leastTrips, 1000, leastShared, leastBinding, 1 << 16, 1 << 20, 1 << 30, math.MaxInt}
	for range 1 + t.byte()%4 {
		n, x := pick(t, ints...), pick(t, floats...)
		rates := Rates{Tiles: [NumTiles]Rate{{Efficiency: MinEfficiency}, {1, x, 0, 0}, {1, 0, x, 0}, {1, 0, 0, x}, {x, 1, 1, 1}}}
		pick(t,
			func() { d.ComputeUnits = n }, func() { d.TFLOPS = x }, func() { d.LaunchMicros = x }, func() { d.MaxWaves = n },
			func() { d.MaxGroups = n }, func() { d.Shared = n }, func() { d.GroupShared = n }, func() { d.MaxThreads = n },
			func() { d.MaxWorkers = n }, func() { d.MaxBinding = n }, func() { d.MaxTrips = n }, func() { d.WaveSize = n },
			func() { d.SIMDs = n }, func() { d.Registers = n }, func() { d.RegisterGranule = n }, func() { d.SharedGranule = n },
			func() { d.Rates = &rates }, func() { d.Kernels[0].Registers = n }, func() { d.MMA = !d.MMA }, func() { *d = Device{} },
		)()
	}
}

// TestOddDevices: whatever the facts and options are, there is an error, which says
// what is wrong, or a plan that computes everything, in a finite time.
func TestOddDevices(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	plans, refused := 0, 0
	for range 20000 {
		in := randomTape(rng, 100)
		d := known[rng.IntN(len(known))]
		in.odd(&d)
		b := mustPack(t, GEMM(rng.IntN(200), rng.IntN(200), rng.IntN(1000)), GEMM(rng.IntN(50), rng.IntN(50), rng.IntN(50)))
		p, err := New(&d, b, in.options())
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
