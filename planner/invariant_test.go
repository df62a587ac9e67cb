package planner_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/devices"
	"github.com/batchgemm/batchgemm/planner/element"
)

// TestInvariant: the tile shape depends on neither the bound of rows nor the rows of a run. Without the
// option it does on some devices.
func TestInvariant(t *testing.T) {
	varies := 0
	for _, name := range devices.Names() {
		d := lookup(t, name)
		for _, of := range append([]element.Type{element.F32}, d.Types...) {
			if elemtype.Bits4(of) || elemtype.Scaled(of) {
				continue
			}
			t.Run(name+"/"+of.String(), func(t *testing.T) {
				require.Len(t, shapesOf(t, d, planner.Options{TypeA: of, TypeC: of, Invariant: true}), 1)
			})
			if len(shapesOf(t, d, planner.Options{TypeA: of, TypeC: of})) > 1 {
				varies++
			}
		}
	}
	require.Positive(t, varies)
	p := planner.New(lookup(t, "h200"))
	_, err := p.Plan(context.Background(), nil, planner.Options{Invariant: true})
	require.ErrorIs(t, err, planner.ErrInvalid)
	require.ErrorContains(t, err, "PlanRagged")
}

// TestInvariantRecords: with records there is one shape, too, and the plan says which, for those who plan
// again.
func TestInvariantRecords(t *testing.T) {
	r := planner.Ragged{Form: planner.Records, Groups: 16, M: 8192, N: 384, K: 1024, TransB: true,
		LenA: 8192 * 1024, LenB: 16 * 384 * 1024, LenC: 8192 * 384}
	p := planner.New(lookup(t, "h200"))
	for invariant, shapes := range map[bool]int{false: 2, true: 1} {
		plan, err := p.PlanRagged(r, planner.Options{Invariant: invariant})
		require.NoError(t, err)
		named := map[string]bool{}
		for _, l := range plan.Launches {
			if l.Ragged == 0 {
				named[l.Tile.Name] = true
			}
		}
		require.Len(t, named, shapes)
		require.Equal(t, invariant, named[plan.Options.Tile])
	}
}

// shapesOf returns the tile shapes of plans for few and many rows.
func shapesOf(t *testing.T, d *planner.Device, o planner.Options) map[string]bool {
	t.Helper()
	shapes, p := map[string]bool{}, planner.New(d)
	for _, m := range []int{1, 8, 64, 1000, 32768} {
		r := planner.Ragged{Form: planner.EndsOfRows, Groups: 16, M: m, N: 384, K: 1024, TransB: true,
			A: planner.Matrix{LD: 1024}, B: planner.Matrix{LD: 1024}, C: planner.Matrix{LD: 384},
			StrideB: 384 * 1024}
		plan, err := p.PlanRagged(r, o)
		require.NoError(t, err)
		for _, l := range plan.Launches {
			if l.Ragged == 0 {
				shapes[l.Tile.Name] = true
			}
		}
	}
	return shapes
}
