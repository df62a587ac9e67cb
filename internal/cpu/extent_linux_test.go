package cpu

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/drivertest"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
)

// TestExtentGuardPages: operands end with a protected page, before the limit of the program.
func TestExtentGuardPages(t *testing.T) {
	const groups, bound, side, there = 7, 48, 8, 41
	rows := planner.Ragged{Form: planner.EndsOfRows, Groups: groups, M: bound, N: side, K: side, Beta: 1,
		StrideB: side * side}
	depth := planner.Ragged{Form: planner.EndsOfDepth, Groups: groups, M: side, N: side, K: bound, Beta: 1,
		TransA: true, StrideC: side * side}
	lens := map[planner.RaggedForm][3]int{
		planner.EndsOfRows:  {there * side, groups * side * side, there * side},
		planner.EndsOfDepth: {there * side, there * side, groups * side * side},
	}
	d := openDevice(t)
	at := func(data []float32, n int) driver.Buffer {
		return d.At(uintptr(unsafe.Pointer(unsafe.SliceData(data))), n)
	}
	memory := [3]guarded{newGuarded(t, 1), newGuarded(t, 1), newGuarded(t, 1)}
	for _, r := range []planner.Ragged{rows, depth} {
		r.A.LD, r.B.LD, r.C.LD = side, side, side
		for _, r.Rest = range []planner.Rest{planner.RestKept, planner.RestZero, planner.RestNaN} {
			plan, err := planner.New(&d.info.Planner).PlanRagged(r, planner.Options{})
			require.NoError(t, err)
			p, err := d.Prepare(t.Context(), plan)
			require.NoError(t, err)
			for name, sizes := range drivertest.RaggedEnds(there) {
				t.Run(fmt.Sprintf("%s/%d/%s", r.Form.Name(), r.Rest, name), func(t *testing.T) {
					rng := rand.New(rand.NewPCG(1, 2))
					var host [3][]float32
					for i, n := range lens[r.Form] {
						host[i] = memory[i].part(n, true)
						reference.Integers(rng, host[i], 8)
					}
					before := slices.Clone(host[2])
					run := driver.Run{Program: p, A: at(host[0], plan.ExtentA), B: at(host[1], plan.ExtentB),
						C:     at(host[2], plan.ExtentC),
						Sizes: at(backend.Words(sizes), groups), Extent: there}
					require.NoError(t, d.SubmitOn(t.Context(), 0, []driver.Run{run}))
					within := r.Within(there)
					b, refused := within.Batch(nil, sizes, planner.Options{})
					group, err := p.Status(t.Context())
					require.NoError(t, err)
					require.Equal(t, refused, group)
					require.NoError(t, reference.CheckExact(b, host[0], host[1], before, host[2]))
				})
			}
			require.NoError(t, p.Close())
		}
	}
}
