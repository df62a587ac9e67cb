package element

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNumbers(t *testing.T) {
	for _, tc := range []struct {
		name   string
		x      float32
		bf16   BFloat16
		f16    Float16
		e4m3   Float8E4M3
		ofBF16 float32
		ofF16  float32
		ofE4M3 float32
	}{
		{"one", 1, 0x3f80, 0x3c00, 0x38, 1, 1, 1},
		{"between", 1 + 0x1p-9, 0x3f80, 0x3c02, 0x38, 1, 1 + 0x1p-9, 1},
		{"negative", -2.5, 0xc020, 0xc100, 0xc2, -2.5, -2.5, -2.5},
		{"large", 1 << 20, 0x4980, 0x7c00, 0x7e, 1 << 20, float32(math.Inf(1)), 448},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.bf16, Nearest[BFloat16](tc.x))
			require.Equal(t, tc.f16, Nearest[Float16](tc.x))
			require.Equal(t, tc.ofBF16, tc.bf16.Float32())
			require.Equal(t, tc.ofF16, tc.f16.Float32())
			require.Equal(t, tc.e4m3, Nearest[Float8E4M3](tc.x))
			require.Equal(t, tc.ofE4M3, tc.e4m3.Float32())
		})
	}
}
