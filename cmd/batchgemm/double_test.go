package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/npz/npztest"
)

// TestDoubles: the device of --type f64 is the CPU, results of all parts of an epilogue are right, and those
// of a file have all bits.
func TestDoubles(t *testing.T) {
	for _, args := range [][]string{
		{"run", "inception-1", "--type", "f64", "--verify"},
		{"run", "inception-1", "--type", "f64", "--verify", "--epilogue",
			"bias,silu,gated,gather,scatter,weights"},
		{"verify", "zhang-128-128-8", "--backend", "cpu", "--type", "f64"},
		{"plan", "inception-1", "--type", "f64"},
	} {
		code, stdout, stderr := batchgemm(t, "", args...)
		require.Zero(t, code, stderr)
		require.Contains(t, stdout, "f64")
	}
	in := npztest.Write(t, npztest.Array{Name: "A0", Shape: []int{1, 2}, Data: []float64{1 << 40, 1}},
		npztest.Array{Name: "B0", Shape: []int{2, 1}, Data: []float64{1, 1}})
	out := filepath.Join(t.TempDir(), "out.npz")
	code, _, stderr := batchgemm(t, "", "run", in, "--type", "f64", "-o", out, "--verify")
	require.Zero(t, code, stderr)
	for _, args := range [][]string{
		{"run", in}, {"run", in, "--type", "f64", "--type-c", "f32"},
		{"run", in, "--type", "f64", "--backend", "webgpu"},
	} {
		code, _, _ := batchgemm(t, "", args...)
		require.NotZero(t, code, args)
	}
}
