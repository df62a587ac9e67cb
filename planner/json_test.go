package planner

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// TestPlanJSON: reading a plan back gives the plan that was written.
func TestPlanJSON(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	tuned := device(t, "h200")
	tuned.Kernels[1].Rate.Efficiency = 0.3
	for _, c := range []struct {
		name string
		d    *Device
		b    Batch
		o    Options
	}{
		{"none", device(t, "mi210"), nil, Options{}},
		{"random", device(t, "h200"), randomBatch(t, rand.New(rand.NewPCG(1, 9)), 40, 0, 200), Options{}},
		{"options", device(t, "h200"), randomBatch(t, rand.New(rand.NewPCG(2, 9)), 9, 0, 90),
			Options{Compute: ComputeTF32, Schedule: ScheduleStreamK, Tile: "tensor-32x32"}},
		{"rule", device(t, "mi210"), mustPack(t, GEMM(90, 80, 70)), Options{Rule: RuleZhang2025, TLP: 3,
			Threshold: 1e4}},
		{"measured rates", tuned, mustPack(t, GEMM(9, 8, 7)), Options{}},
		{"scalars", device(t, "lavapipe"),
			mustPack(t, Problem{M: 1, N: 2, K: 3, Alpha: Scale(0.1), Beta: 1e-40},
				Problem{M: 1, N: 2, K: 3, Alpha: Scale(float64(inf)), Beta: float64(nan)},
				Problem{M: 4, N: 4, K: 4, TransA: true, TransB: true, Alpha: Scale(0)}), Options{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := New(c.d).Plan(t.Context(), c.b, c.o)
			require.NoError(t, err)
			text, err := json.Marshal(p)
			require.NoError(t, err)
			var read Plan
			require.NoError(t, json.Unmarshal(text, &read))
			again, err := json.Marshal(&read)
			require.NoError(t, err)
			require.Equal(t, string(text), string(again))
			require.Equal(t, p.Encode(nil), read.Encode(nil))
			require.Equal(t, p.Launches, read.Launches)
			require.Equal(t, p.Explain(), read.Explain())
			require.Equal(t, p.Device.Fingerprint(), read.Device.Fingerprint())
		})
	}
}

func TestPlanJSONErrors(t *testing.T) {
	p, err := New(device(t, "mi210")).Plan(t.Context(), mustPack(t, GEMM(9, 9, 9)),
		Options{Custom: oneTileAWorker})
	require.NoError(t, err)
	_, err = json.Marshal(p)
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorContains(t, err, "a plan of the custom schedule one-tile cannot be written")

	good, err := New(device(t, "mi210")).Plan(t.Context(), mustPack(t, GEMM(9, 9, 9)), Options{})
	require.NoError(t, err)
	text, err := json.Marshal(good)
	require.NoError(t, err)
	for _, c := range []struct{ name, text, want string }{
		{"no object", `7`, "cannot unmarshal number"},
		{"no device", `{"batch": [{"m": 1}]}`, "a plan of 1 problems without a device"},
		{"a device that is none", `{"device": {"name": "x"}, "batch": []}`,
			"plan: device x: unknown occupancy rule"},
		{"unknown tile", `{"device": {"kernels": [{"tile": "huge"}]}}`, `unknown tile "huge"`},
		{"no number", `{"batch": [{"alpha": "one"}]}`, `"one" is no number`},
		{"bad batch", string(text[:len(text)-2]) + `, {"m": -1, "alpha": 1, "beta": 0}]}`,
			"plan: problem 1: M -1 is negative"},
	} {
		t.Run(c.name, func(t *testing.T) {
			read := *good
			require.ErrorContains(t, json.Unmarshal([]byte(c.text), &read), c.want)
			require.Equal(t, *good, read, "nothing changes")
		})
	}
	none := Plan{}
	text, err = json.Marshal(&none)
	require.NoError(t, err)
	read := *good
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, none, read)
	require.Zero(t, none.Explain().Workers)
	require.Empty(t, none.Encode(nil))
}

func TestFactor(t *testing.T) {
	var none Factor
	require.Equal(t, 1.0, none.Value())
	require.Equal(t, none, Scale(1))
	require.Equal(t, "1", none.String())
	for _, x := range []float64{0, math.Copysign(0, -1), -1, 0.1, 1e-45, math.MaxFloat32, 1e300,
		math.Inf(1), math.NaN()} {
		require.Equal(t, math.Float64bits(x), math.Float64bits(Scale(x).Value()), x)
	}
	require.True(t, Problem{M: 1, N: 1, K: 1} == GEMM(1, 1, 1), "a literal without scalars computes A*B")
	nan := Scale(math.NaN())
	require.True(t, nan == Scale(math.NaN()), "as an argument it is the same one")
}

// Devices without kernels for a type say so.
func TestTypesOfDevices(t *testing.T) {
	d := *device(t, "mi300x")
	d.Types = d.Types[:2]
	for _, of := range []element.Type{element.E4M3, element.Int8} {
		_, err := New(&d).Plan(t.Context(), nil, Options{TypeA: of, TypeC: element.BF16})
		require.EqualError(t, err, "device mi300x has no kernels for elements of "+of.String())
		require.ErrorIs(t, err, ErrInvalid)
	}
}

// TestTilesOfBytes: on AMD's GPUs, 8-bit elements have kernels for the tile shapes with epilogues.
func TestTilesOfBytes(t *testing.T) {
	for _, name := range []string{"mi100", "mi210", "mi300x"} {
		d := device(t, name)
		for i := range d.Kernels {
			k := &d.Kernels[i]
			require.Equal(t, k.Epilogues && k.Tile.Unit == tile.FMA,
				d.Fits(k.Tile, Options{TypeA: element.E4M3}), "%s %s", name, k.Tile)
		}
		small, err := tile.ByName("small")
		require.NoError(t, err)
		_, err = New(d).Plan(t.Context(), mustPack(t, GEMM(8, 8, 8)),
			Options{TypeA: element.Int8, Tile: small.Name})
		require.EqualError(t, err, fmt.Sprintf("tile %v: device %s has no kernels for 8-bit "+
			"elements", small, name))
		d.Kernels[0].Bytes = mostNarrow + 1
		require.ErrorContains(t, d.Check(), "for elements of 8 bits cannot be 65 times as fast")
	}
}

func TestOptionsCheck(t *testing.T) {
	require.NoError(t, Options{}.Check())
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Compute: "half"}, `unknown compute mode "half" (known: f32-emulated, f32, tf32)`},
		{Options{Rule: "best"}, `unknown rule "best" (known: cost, zhang2025)`},
		{Options{Schedule: "fifo"}, `unknown schedule "fifo" (known: data-parallel, `},
		{Options{Tile: "huge"}, `unknown tile "huge" (known: small, `},
		{Options{TypeA: 99}, "unknown element types 99, 0 and 0"},
		{Options{TypeA: element.F16, TypeB: element.BF16},
			"elements of B cannot be bf16 if those of A are f16 (but f16, or int4, mxfp4 or nvfp4)"},
		{Options{TypeA: element.F16, TypeC: element.BF16},
			"elements of C cannot be bf16 if those of A and B are f16 (but f16 or f32)"},
		{Options{TypeA: element.E4M3, TypeC: element.E4M3},
			"elements of C cannot be e4m3 if those of A and B are e4m3 (but bf16, f16 or f32)"},
		{Options{TypeA: element.Int8, TypeC: element.Int8},
			"elements of C cannot be int8 if those of A and B are int8 (but bf16, f16 or f32)"},
		{Options{TypeC: element.BF16}, "elements of C cannot be bf16 if those of A and B are f32 (but " +
			"f32)"},
		{Options{TypeA: element.BF16, Compute: ComputeTF32},
			"compute mode tf32 is for operands of f32, not bf16"},
		{Options{TLP: 5}, "unknown TLP equation 5 (known: 3, 4)"},
		{Options{Threshold: -1}, "threshold -1 is not a finite number from 0 on"},
		{Options{Threshold: math.NaN()}, "threshold NaN is not a finite number from 0 on"},
		{Options{Threshold: math.Inf(1)}, "threshold +Inf is not a finite number from 0 on"},
		{Options{Custom: &CustomSchedule{Name: "mine"}}, "custom schedule mine: Deal is nil"},
		{Options{Custom: oneTileAWorker, Schedule: ScheduleLPT},
			"custom schedule one-tile: the options also have schedule lpt"},
	} {
		t.Run(c.want, func(t *testing.T) {
			err := c.o.Check()
			require.ErrorContains(t, err, c.want)
			require.ErrorIs(t, err, ErrInvalid)
			_, planned := New(device(t, "mi210")).Plan(t.Context(), nil, c.o)
			require.Equal(t, err, planned)
		})
	}
}
