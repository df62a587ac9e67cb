package reference

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/devices"
	"github.com/batchgemm/batchgemm/planner/element"
)

// What tensor cores drop beside a large term passes if sums are narrow, and nothing more. Each case is a
// product of one row and one column with mostly ones, and its result on an H200, except in the last cases.
func TestCutSums(t *testing.T) {
	for _, c := range []struct {
		name  string
		k     int
		large map[int]float32 // elements of the row
		small float32         // all others
		got   float32
		ok    bool
	}{
		{"nothing is cut beside 2^11", 32, map[int]float32{0: 1 << 11}, 0, 1 << 11, true},
		{"small ones beside 2^12", 32, map[int]float32{0: 1 << 12}, 0.765625, 1<<12 + 15.5, true},
		{"all of them beside 2^13", 32, map[int]float32{0: 1 << 13}, 0.765625, 1 << 13, true},
		{"more than is cut", 32, map[int]float32{0: 1 << 11}, 0.765625, 1<<11 + 14, false},
		{"beside what another instruction left", 64, map[int]float32{0: 1 << 12, 1: 1 << 12}, 0.25,
			1 << 13, true},
		{"not beside another group's", 160, map[int]float32{0: 1 << 13, 1: -(1 << 13)}, 0.25, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := planner.Pack(planner.GEMM(1, 1, c.k))
			require.NoError(t, err)
			x, y := make([]float32, c.k), make([]float32, c.k)
			for k := range x {
				x[k], y[k] = c.small, 1
				if large, ok := c.large[k]; ok {
					x[k] = large
				}
			}
			_, err = CheckIn(Arithmetic{NarrowSums: true}, b, x, y, []float32{0}, []float32{c.got})
			require.Equal(t, c.ok, err == nil, err)
			if c.small != 0 {
				_, err = CheckIn(Arithmetic{}, b, x, y, []float32{0}, []float32{c.got})
				require.Error(t, err, "of sums in fp32")
			}
		})
	}
}

// TestNarrowSums: only the tensor cores of 9.0 sum 8-bit elements in fewer bits.
func TestNarrowSums(t *testing.T) {
	aligned, err := planner.Pack(planner.GEMM(2048, 2048, 2048))
	require.NoError(t, err)
	quick := planner.Batch{aligned[0]}
	quick[0].TransB = true
	for _, c := range []struct {
		name, device, tile string
		of                 element.Type
		batch              planner.Batch
		want               bool
	}{
		{"tensor cores of 9.0", "h200", "aligned-64x64", element.E4M3, quick, true},
		{"the same across K", "h200", "wgmma-64x64", element.E4M3, aligned, true},
		{"in fp16", "h200", "tensor-64x64", element.E4M3, quick, false},
		{"halves", "h200", "aligned-64x64", element.BF16, quick, false},
		{"an older one", "a100", "tensor-64x64", element.E4M3, quick, false},
		{"WebGPU", "h200-webgpu", "large", element.E4M3, quick, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := devices.Lookup(c.device)
			require.NoError(t, err)
			plan, err := planner.New(d).Plan(t.Context(), c.batch, planner.Options{TypeA: c.of,
				TypeC: element.BF16, Tile: c.tile})
			require.NoError(t, err)
			require.Equal(t, c.want, NarrowSums(plan))
			require.Equal(t, c.of == element.E4M3 && c.device == "h200", MayNarrowSums(d, c.of))
		})
	}
	h200, err := devices.Lookup("h200")
	require.NoError(t, err)
	route, err := planner.New(h200).PlanStep(planner.Routing{Choices: planner.Choices{Tokens: 1, TopK: 1,
		Experts: 1}})
	require.NoError(t, err)
	require.False(t, NarrowSums(route), "a launch without a tile")
}
