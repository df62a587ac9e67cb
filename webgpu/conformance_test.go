package webgpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/drivertest"
	"github.com/batchgemm/batchgemm/planner/element"
	"github.com/batchgemm/batchgemm/planner/encoding"
	"github.com/batchgemm/batchgemm/planner/tile"
	"github.com/batchgemm/batchgemm/wgsl"
)

func TestConformance(t *testing.T) { drivertest.Run(t, Driver(), drivertest.Text(shaderText(t))) }

// shaderText has what shaders are made of, the same on every device.
func shaderText(t *testing.T) (text []byte) {
	t.Helper()
	for _, s := range tile.Of(tile.FMA) {
		for _, k := range []encoding.Kernel{
			{Tile: s}, {Tile: s, Fixup: true}, {Tile: s, TransA: true, Loop: true, Split: true}, {Tile: s, TransB: true, InTurn: true},
			{Tile: s, Wide: true, Type: element.BF16, TypeC: element.BF16, Epilogue: encoding.Epilogue{Bias: true, Gated: true}},
		} {
			shader, err := wgsl.Render(k, wgsl.Limits{Threads: 256, SharedBytes: 32 << 10})
			require.NoError(t, err)
			text = append(text, shader.Source...)
		}
	}
	return text
}
