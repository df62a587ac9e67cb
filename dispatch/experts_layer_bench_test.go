package dispatch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// BenchmarkExpertsSteps compares a layer of experts with the sum of its two products, on the device that
// BATCHGEMM_BACKEND names. It reports medians of the device's time of one layer, and their ratio. The layer
// has Qwen3-30B's sizes and 64 of its experts; with -short it is small.
func BenchmarkExpertsSteps(b *testing.B) {
	d, err := Open(b.Context())
	if err != nil {
		b.Skip(err)
	}
	b.Cleanup(func() { require.NoError(b, d.Close()) })
	of := planner.Experts{Choices: planner.Choices{TopK: 8, Experts: 64}, Hidden: 2048, Intermediate: 768,
		TransB: true, Gated: true, Activation: planner.SiLU}
	tokens := []int{1, 64, 1024, 4096}
	if testing.Short() {
		of.Experts, of.Hidden, of.Intermediate, tokens = 8, 64, 48, []int{1, 16}
	}
	for _, to := range []element.Type{element.F32, element.BF16} {
		for _, of.Tokens = range tokens {
			b.Run(fmt.Sprintf("%s/%s/tokens=%d", d.Info().Backend, to, of.Tokens), func(b *testing.B) {
				benchmarkSteps(b, d, of, to)
			})
		}
	}
}

func benchmarkSteps(b *testing.B, d *Device, of planner.Experts, to element.Type) {
	x, err := d.PrepareExperts(b.Context(), of, planner.Options{TypeA: to})
	require.NoError(b, err)
	defer func() { require.NoError(b, x.Close()) }()
	rng := rand.New(rand.NewPCG(1, 2))
	n, h, i := of.Tokens*of.TopK, of.Hidden, of.Intermediate
	index := emptyBuffer(b, d, element.F32, n)
	choices := make([]int32, n)
	for i := range choices {
		choices[i] = rng.Int32N(int32(of.Choices.Experts))
	}
	require.NoError(b, Write(b.Context(), index, 0, choices))
	all := [operands]*Buffer{operandX: randomBuffer(b, d, rng, to, of.Tokens*h),
		emptyBuffer(b, d, to, of.Tokens*h), index, randomBuffer(b, d, rng, element.F32, n),
		randomBuffer(b, d, rng, to, of.Choices.Experts*2*i*h),
		randomBuffer(b, d, rng, to, of.Choices.Experts*i*h)}
	copy(all[:], x.own[:])
	var layer, products []Run
	eachStep(x, &all, func(s *step, o operandsOf[*Buffer]) {
		layer = append(layer, s.program.With(Operands(o)))
		if s.plan.Ragged != nil {
			products = append(products, layer[len(layer)-1])
		}
	})
	both := [2][]float64{} // of the layer, of its products
	for b.Loop() {
		for j, runs := range [...][]Run{layer, products} {
			t, err := d.Time(b.Context(), slices.Repeat(runs, 10)...)
			require.NoError(b, err)
			both[j] = append(both[j], float64(t.Device.Nanoseconds())/1e4)
		}
	}
	for j, name := range [...]string{"layer-us", "products-us"} {
		slices.Sort(both[j])
		b.ReportMetric(both[j][len(both[j])/2], name)
	}
	b.ReportMetric(both[0][len(both[0])/2]/both[1][len(both[1])/2], "ratio")
}

func emptyBuffer(b *testing.B, d *Device, of element.Type, n int) *Buffer {
	buffer, err := d.NewBuffer(of, n)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, buffer.Close()) })
	return buffer
}

// randomBuffer has random values.
func randomBuffer(b *testing.B, d *Device, rng *rand.Rand, of element.Type, n int) *Buffer {
	buffer := emptyBuffer(b, d, of, n)
	block := make([]float32, min(n, 1<<20))
	reference.UniformOf(of, rng, block)
	bits := make([]uint16, len(block))
	if of != element.F32 {
		element.Narrow(of, bits, block)
	}
	for i := 0; i < n; i += len(block) {
		m, err := min(len(block), n-i), error(nil)
		if of == element.F32 {
			err = Write(b.Context(), buffer, i, block[:m])
		} else {
			err = Write(b.Context(), buffer, i, bits[:m])
		}
		require.NoError(b, err)
	}
	return buffer
}
