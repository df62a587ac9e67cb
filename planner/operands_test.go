package planner

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner/element"
)

// TestOddRows: predictions know how many rows of A and B start at odd multiples of 16 bytes. Kernels for
// aligned rows take longer for them.
func TestOddRows(t *testing.T) {
	d := device(t, "h200")
	placed := func(q Problem, offA, offB int) Problem {
		q.A, q.B = Matrix{offA, q.K}, Matrix{offB, q.N}
		return q
	}
	even, oddA, odd := placed(GEMM(64, 64, 64), 0, 0), placed(GEMM(64, 64, 72), 0, 0),
		placed(GEMM(64, 72, 72), 0, 0)
	for _, c := range []struct {
		name string
		of   element.Type
		b    Batch
		want float64
	}{
		{"none", element.BF16, Batch{even, even}, 0},
		{"every other one of A", element.BF16, Batch{oddA}, 0.25},
		{"every other one", element.BF16, Batch{odd}, 0.5},
		{"all of B", element.BF16, Batch{placed(GEMM(64, 64, 64), 16, 8)}, 0.5},
		{"all", element.BF16, Batch{placed(GEMM(64, 64, 64), 8, 24)}, 1},
		{"by work", element.BF16, Batch{even, placed(GEMM(64, 72, 72*8), 0, 8)},
			0.25 * 72 * 72 / (64*8 + 72*72)},
		{"where C is not written", element.BF16, Batch{even, placed(GEMM(0, 72, 72), 0, 0)}, 0},
		{"nothing", element.BF16, Batch{}, 0},
		{"rows that begin anywhere", element.BF16, Batch{odd, placed(GEMM(64, 64, 63), 0, 0)}, 0},
		{"of fp32", element.F32, Batch{placed(GEMM(64, 68, 68), 0, 0)}, 0},
		{"of 8 bits", element.E4M3, Batch{{M: 64, N: 64, K: 80, TransB: true, A: Matrix{LD: 80},
			B: Matrix{LD: 96}}}, 0.25},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{TypeA: c.of}
			var m model
			require.NoError(t, m.set(d, o.arithmetic(d, o.allFast(d, c.b)), false, only{}))
			seen := m.operands(&o, c.b, 1)
			require.InDelta(t, c.want, seen.odd, 1e-9)
			for range 2 { // repeating changes nothing
				m.see(seen)
				for i := range m.tiles {
					tile, slower := &m.tiles[i], 1.0
					switch {
					case tile.shape.Boxes:
						slower += oddBoxes * c.want
					case tile.shape.Aligned:
						slower += oddLonger * c.want
					}
					require.InDelta(t, slower*tile.even.busy, tile.busy, 1e-9, tile.shape)
					require.InDelta(t, slower*tile.even.alone, tile.alone, 1e-9, tile.shape)
				}
			}
		})
	}
}

// TestOddRaggedRows: the same for sizes on the device.
func TestOddRaggedRows(t *testing.T) {
	experts := func(k, ldb int) float64 {
		r := Ragged{Form: EndsOfRows, Groups: 128, M: 32768, N: 1536, K: k, A: Matrix{LD: k},
			B: Matrix{LD: ldb}, C: Matrix{LD: 1536}, StrideB: ldb * k}
		var m model
		d, o := device(t, "h200"), Options{TypeA: element.BF16, TypeC: element.BF16}.filled()
		require.NoError(t, m.set(d, o.arithmetic(d, r.fast(d, &o)), false, only{}))
		b := raggedBuilder{Plan: &Plan{Device: d, Options: o, Ragged: &r}, typical: r, model: &m}
		require.NoError(t, b.choose())
		id, err := m.named("aligned-128x128")
		require.NoError(t, err)
		return m.tiles[id].busy / m.tiles[id].even.busy
	}
	require.Equal(t, 1.0, experts(2048, 1536))
	require.InDelta(t, 1+oddLonger/4, experts(2056, 1536), 1e-9)
	require.InDelta(t, 1+oddLonger/2, experts(2056, 1544), 1e-9)
	require.Equal(t, 1.0, experts(2051, 1536), "only of plans whose rows begin with 16 bytes")
}

// TestSampledOperands: some of the problems stand for all.
func TestSampledOperands(t *testing.T) {
	o := Options{TypeA: element.BF16}
	m := model{arithmetic: arithmetic{bits: 16, aligned: true}}
	b := mustPack(t, slices.Repeat([]Problem{GEMM(64, 72, 72)}, 64)...)
	all := m.operands(&o, b, 1)
	require.Equal(t, operands{elements: 64 * (64 + 72) * 72, size: 2, odd: 0.5}, all)
	require.Equal(t, all, m.operands(&o, b, 4))
}

// TestAlone: a step alone takes at least as long as on a full compute unit, except for rows that wait for
// the L2 cache there.
func TestAlone(t *testing.T) {
	d := device(t, "h200")
	for _, c := range []struct {
		tile   string
		by     arithmetic
		sooner bool
	}{
		{"aligned-128x128", arithmetic{bits: 16, aligned: true}, true},
		{"aligned-64x64", arithmetic{bits: 8, aligned: true}, true},
		{"int4-wgmma-64x128", arithmetic{bits: 4}, true},
		{"aligned-128x128", arithmetic{bits: 16}, false},
		{"wgmma-128x64", arithmetic{bits: 16, aligned: true}, false},
		{"wgmma-128x64", arithmetic{compute: ComputeTF32}, false},
		{"tensor-32x32", arithmetic{bits: 8, aligned: true}, false},
	} {
		k := d.Kernel(shape(t, c.tile))
		m := d.tileModel(k, c.by, false)
		if want := d.rate(k, c.by).Step; c.sooner {
			require.Equal(t, want, m.alone, c)
			require.Less(t, m.alone, m.busy, c)
		} else {
			require.Equal(t, max(want, m.busy), m.alone, c)
		}
	}
}

// TestPlansAreTheirOwn: a plan does not depend on the planner's earlier plans.
func TestPlansAreTheirOwn(t *testing.T) {
	d := device(t, "h200")
	cold := mustPack(t, slices.Repeat([]Problem{GEMM(3, 2056, 2056)}, 64)...)
	b := mustPack(t, slices.Repeat([]Problem{GEMM(512, 512, 512), GEMM(96, 512, 512)}, 40)...)
	plan := func(p *Planner, o Options) (*Plan, error) { return p.Plan(t.Context(), b, o) }
	ragged := Ragged{Form: EndsOfRows, Groups: 8, M: 800, N: 512, K: 512, A: Matrix{LD: 512},
		B: Matrix{LD: 512}, C: Matrix{LD: 512}, StrideB: 512 * 512}
	for _, c := range []struct {
		name string
		plan func(p *Planner, o Options) (*Plan, error)
		o    Options
	}{
		{"choice", plan, Options{}},
		{"tile", plan, Options{Tile: "wgmma-64x64"}},
		{"wide tile", plan, Options{Tile: "aligned-64x64", TypeA: element.BF16}},
		{"rule", plan, Options{Rule: RuleZhang2025, Compute: ComputeF32}},
		{"ragged tile", func(p *Planner, o Options) (*Plan, error) { return p.PlanRagged(ragged, o) },
			Options{Tile: "wgmma-64x64"}},
		{"renewed tile", func(p *Planner, o Options) (*Plan, error) {
			plan := new(Plan)
			return plan, p.Renew(t.Context(), plan, b, o)
		}, Options{Tile: "aligned-64x64", TypeA: element.BF16}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, err := c.plan(New(d), c.o)
			require.NoError(t, err)
			p := New(d)
			_, err = p.Plan(t.Context(), cold, Options{Compute: c.o.Compute, TypeA: c.o.TypeA})
			require.NoError(t, err)
			got, err := c.plan(p, c.o)
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}
