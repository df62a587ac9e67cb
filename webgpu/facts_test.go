//go:build !nowebgpu && (js || (cgo && ((linux && amd64) || darwin || (windows && amd64))))

package webgpu

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNearest(t *testing.T) {
	for _, c := range []struct {
		name   string
		vendor uint32
		want   string
	}{
		{"NVIDIA H200", vendorNVIDIA, "h200-webgpu"},
		{"nvidia h200", vendorNVIDIA, "h200-webgpu"},
		{"NVIDIA GH200 480GB", vendorNVIDIA, "h200-webgpu"},
		{"NVIDIA H100 80GB HBM3", vendorNVIDIA, "h200-webgpu"},
		{"NVIDIA H100 PCIe", vendorNVIDIA, "webgpu-default"}, // fewer units
		{"llvmpipe (LLVM 15.0.6, 256 bits)", vendorMesa, "lavapipe"},
		{"AMD Radeon RX 7900 XTX", 0x1002, "webgpu-default"},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, nearest(c.name, c.vendor)) })
	}
}
