package planner

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner/element"
)

// inDoubles are the options of a batch of fp64, and withDoubles a CPU that has it.
var inDoubles = Options{TypeA: element.F64, TypeC: element.F64}

func withDoubles() *Device {
	d := cpuDevice()
	d.Types, d.Epilogues = []element.Type{element.F64}, true
	return d
}

// TestGoldenDoubles shows every change of plans for fp64.
func TestGoldenDoubles(t *testing.T) {
	split := inDoubles
	split.Schedule = ScheduleSplitK
	many := withDoubles()
	many.ComputeUnits = 16
	golden(t, "double-random", withDoubles(), randomBatch(t, rand.New(rand.NewPCG(9, 9)), 24, 0, 150),
		inDoubles)
	h200 := device(t, "h200")
	golden(t, "double-h200", h200, randomBatch(t, rand.New(rand.NewPCG(9, 9)), 24, 0, 500), inDoubles)
	golden(t, "double-h200-split", h200, mustPack(t, GEMM(64, 64, 8192), GEMM(48, 80, 4000)), split)
	golden(t, "double-split", many, mustPack(t, GEMM(64, 64, 8192), GEMM(48, 80, 4000)), split)
}

// TestDoubleTiles: tiles that were the fastest of all on an H200.
func TestDoubleTiles(t *testing.T) {
	for _, c := range []struct {
		count, side int
		tile        string
	}{{2000, 23, "f64-32x32"}, {64, 256, "f64-128x128"}} {
		b := mustPack(t, slices.Repeat([]Problem{GEMM(c.side, c.side, c.side)}, c.count)...)
		p, err := New(device(t, "h200")).Plan(t.Context(), b, inDoubles)
		require.NoError(t, err)
		require.Equal(t, c.tile, p.Launches[0].Tile.Name, "%d of %d^3", c.count, c.side)
	}
}

// TestEncodeDoubles: alpha and beta have two words, in items, fix-ups and records, and partials too.
func TestEncodeDoubles(t *testing.T) {
	d, o := withDoubles(), inDoubles
	d.ComputeUnits, o.Schedule = 16, ScheduleSplitK
	b := mustPack(t, Problem{M: 16, N: 16, K: 5000, Alpha: Scale(0.1), Beta: 1. / 3})
	p, err := New(d).Plan(t.Context(), b, o)
	require.NoError(t, err)
	require.Len(t, p.Launches, 2)
	w, items, fixup := p.Encode(nil), &p.Launches[0], &p.Launches[1]
	require.Equal(t, encoding.EpilogueItemWords, items.ItemWords())
	require.Equal(t, encoding.EpilogueFixupWords, fixup.ItemWords())
	item := w[items.Items:]
	require.Equal(t, 0.1, encoding.Scalar64(item[encoding.Alpha], item[encoding.AlphaLow]))
	require.Equal(t, 1./3, encoding.Scalar64(item[encoding.Beta], item[encoding.BetaLow]))
	item = w[fixup.Items:]
	require.Equal(t, 0.1, encoding.Scalar64(item[encoding.FixupAlpha], item[encoding.FixupAlphaLow]))
	require.Equal(t, 1./3, encoding.Scalar64(item[encoding.FixupBeta], item[encoding.FixupBetaLow]))
	require.Equal(t, 2*items.Tile.TM*items.Tile.TN, items.SlotWords())
	require.Equal(t, items.Count*items.SlotWords(), p.Workspace)

	words, err := AppendRecords(nil, b, inDoubles)
	require.NoError(t, err)
	r := Ragged{Form: Records, Groups: 1, M: 16, N: 16, K: 5000, LenA: 80000, LenB: 80000, LenC: 256}
	plan, err := New(d).PlanRagged(r, inDoubles)
	require.NoError(t, err)
	require.Equal(t, len(words), plan.ExtentSizes)
	back, refused := r.Batch(nil, words, inDoubles)
	require.Equal(t, -1, refused)
	require.Equal(t, b, back)

	text, err := json.Marshal(p)
	require.NoError(t, err)
	var again Plan
	require.NoError(t, json.Unmarshal(text, &again))
	require.Equal(t, b, again.Batch)
}

// TestDoublesAddedToC: a part of K that adds to C has a beta of exactly 1.
func TestDoublesAddedToC(t *testing.T) {
	d := device(t, "h200")
	d.MaxTrips = leastTrips
	p, err := New(d).Plan(t.Context(), mustPack(t, Problem{M: 16, N: 16, K: 5000, Beta: 0.7}), inDoubles)
	require.NoError(t, err)
	w, added := p.Encode(nil), 0
	for i := range p.Launches {
		l := &p.Launches[i]
		for j, s := range p.Segments[p.Workers[l.First]:p.Workers[l.First+l.Count]] {
			item, want := w[l.Items+j*l.ItemWords():], 0.7
			if s.Accumulate {
				want = 1
				added++
			}
			require.Equal(t, want, encoding.Scalar64(item[encoding.Beta], item[encoding.BetaLow]))
		}
	}
	require.Positive(t, added)
}

// TestScalarsAreRounded: other types than fp64 have alpha and beta in fp32.
func TestScalarsAreRounded(t *testing.T) {
	p, err := New(cpuDevice()).Plan(t.Context(), mustPack(t, Problem{M: 1, N: 1, K: 1, Alpha: Scale(0.1),
		Beta: 1. / 3}), Options{})
	require.NoError(t, err)
	w := p.Encode(nil)
	require.Equal(t, math.Float32bits(0.1), w[encoding.Alpha])
	require.Equal(t, math.Float32bits(1./3), w[encoding.Beta])
}

// TestNoDoubles: devices without fp64 say so, before anything is written.
func TestNoDoubles(t *testing.T) {
	without := *device(t, "mi210")
	without.Types = slices.DeleteFunc(slices.Clone(without.Types),
		func(of element.Type) bool { return of == element.F64 })
	for want, d := range map[string]*Device{
		"has no kernels for elements of f64: WGSL has no such type, the cpu backend has": device(t,
			"webgpu-default"),
		"has no kernels for elements of f64": &without,
	} {
		_, err := New(d).Plan(t.Context(), nil, inDoubles)
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, want)
	}
	scaled := inDoubles
	scaled.Epilogue.ScaleA = PerRow
	_, err := New(withDoubles()).Plan(t.Context(), nil, scaled)
	require.ErrorContains(t, err, "scales are for elements of e4m3 or int8, not f64")
}
