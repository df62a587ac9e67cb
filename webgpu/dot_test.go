//go:build !nowebgpu && (js || (cgo && ((linux && amd64) || darwin || (windows && amd64))))

package webgpu

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// TestLongSums: the longest sums of Int8 are right. All partial sums are exact in fp32.
func TestLongSums(t *testing.T) {
	sample.Shaders.Skip(t, 1)
	d := open(t, webgpuDriver{})
	const k, ld = 131071, 131072
	for _, trans := range []bool{false, true} {
		p := planner.Problem{M: 1, N: 1, K: k, TransB: trans, A: planner.Matrix{LD: ld},
			B: planner.Matrix{LD: 16}, C: planner.Matrix{LD: 1}}
		if trans {
			p.B.LD = ld
		}
		_, program := prepare(t, d, planner.Batch{p}, planner.Options{Tile: "small", TypeA: element.Int8,
			TypeC: element.F32, Schedule: planner.ScheduleDataParallel})
		least := slices.Repeat([]float32{math.Float32frombits(0x80808080)}, 4*ld) // -128
		a, b, c := upload(t, d, least), upload(t, d, least), alloc(t, d, 1)
		require.NoError(t, d.Submit(t.Context(), []driver.Run{{Program: program, A: a, B: b, C: c}}))
		require.Equal(t, []float32{k * 128 * 128}, download(t, c, 1))
	}
}
