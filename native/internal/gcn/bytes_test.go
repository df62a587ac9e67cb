package gcn

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/native"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// TestWholeSums: sums of int8 on matrix cores are exact.
func TestWholeSums(t *testing.T) {
	for name := range arches {
		arch, err := native.HIP(name)
		require.NoError(t, err)
		d := device(t, arch, 1024)
		for _, shape := range shapesOf(arch) {
			if !shape.Epilogues || perWord(t, arch, shape, element.Int8) != 4 {
				continue
			}
			t.Run(name+"/"+shape.Name, func(t *testing.T) {
				o := readProduct(t, name)
				t.Parallel()
				for transposition := range 4 {
					b := reference.OfWholeSums(transposition/2 == 1, transposition%2 == 1)
					j := newJob(t, d, b, planner.Options{Tile: shape.Name, Type: element.Int8}, 1, rand.New(rand.NewPCG(1, 2)))
					reference.WholeSums(j.plan.Batch, j.a, j.b)
					j.exact = true
					_, err := j.run(o, arch, false, nil)
					require.NoError(t, err)
				}
			})
		}
	}
}

// TestBytes: all numbers of 8 bits become what they are, in either half of a word, along K and across it.
func TestBytes(t *testing.T) {
	for name := range arches {
		arch, err := native.HIP(name)
		require.NoError(t, err)
		for _, shape := range shapesOf(arch) {
			if device(t, arch, 1).Kernel(shape).Bytes == 0 {
				continue
			}
			t.Run(name+"/"+shape.Name, func(t *testing.T) {
				o := readProduct(t, name)
				t.Parallel()
				for _, of := range []element.Type{element.E4M3, element.Int8} {
					for transposition := range 4 {
						b := reference.OfAllNumbers(transposition/2 == 1, transposition%2 == 1)
						j := newJob(t, device(t, arch, 1024), b, planner.Options{Tile: shape.Name, Type: of}, 1, rand.New(rand.NewPCG(1, 2)))
						reference.AllNumbers(of, j.plan.Batch, j.a, j.b)
						j.exact = true
						_, err := j.run(o, arch, transposition%2 == 1, nil)
						require.NoError(t, err)
					}
				}
			})
		}
	}
}
