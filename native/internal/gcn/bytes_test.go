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
						p := planner.Problem{M: 256, N: 1, K: 2, TransA: transposition/2 == 1, TransB: transposition%2 == 1}
						q := p
						q.M, q.N = 1, 256
						j := newJob(t, device(t, arch, 1024), planner.Batch{p, q}, planner.Options{Tile: shape.Name, Type: of}, 1, rand.New(rand.NewPCG(1, 2)))
						for _, operand := range [][]float32{j.a, j.b} {
							for i := range operand {
								operand[i] = 1
							}
						}
						reference.AllNumbers(of, j.a, j.plan.Batch[0].A, !p.TransA)
						reference.AllNumbers(of, j.b, j.plan.Batch[1].B, p.TransB)
						j.exact = true
						_, err := j.run(o, arch, transposition%2 == 1, nil)
						require.NoError(t, err)
					}
				}
			})
		}
	}
}
