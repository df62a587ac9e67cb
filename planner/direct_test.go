package planner_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/workload"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// overVulkan returns the GPUs for which the tests below plan: an H200, and an unknown GPU of the same
// limits.
func overVulkan(t *testing.T) []*planner.Device {
	other := lookup(t, "webgpu-default")
	other.Name, other.Shared, other.GroupShared, other.MaxThreads, other.MaxBinding = "other", 48<<10, 48<<10,
		1024, 1<<31-16
	return []*planner.Device{lookup(t, "h200-webgpu"), other}
}

// without returns the device with kernels that gain nothing if B goes to registers.
func without(d *planner.Device) *planner.Device {
	plain := *d
	plain.Kernels = slices.Clone(d.Kernels)
	for i := range plain.Kernels {
		shape := *plain.Kernels[i].Tile
		shape.Rates.Direct = 0
		plain.Kernels[i].Tile = &shape
	}
	return &plain
}

// tilesOf returns the shapes of a plan's launches.
func tilesOf(p *planner.Plan) (names []string) {
	for _, l := range p.Launches {
		if l.Tile != nil && !l.Fixup { // not for sums, nor for launches that make the items of ragged plans
			names = append(names, l.Tile.Name)
		}
	}
	return names
}

// Few rows with aligned B take thin tiles. Problems unlike the measured ones take the tiles that they would
// take without the gain.
func TestDirect(t *testing.T) {
	const wide = "thin-8x64"
	half := planner.Options{TypeA: element.BF16, TypeC: element.BF16}
	bytes := planner.Options{TypeA: element.Int8, TypeC: element.BF16}
	gated := planner.Options{Epilogue: planner.Epilogue{Gated: true, Activation: planner.SiLU}}
	int4 := planner.Options{TypeA: element.BF16, TypeB: element.Int4, TypeC: element.BF16,
		Epilogue: planner.Epilogue{ScaleB: planner.PerGroup128}}
	tuned := func(d *planner.Device) {
		for i := range d.Kernels {
			k := &d.Kernels[i]
			k.Rate = k.Tile.Rates.WGSL
		}
	}
	transposed := func(p *planner.Problem) { p.TransB = true }
	oddB := func(p *planner.Problem) { p.B.LD++ }
	for _, c := range []struct {
		name  string
		rows  []int
		edit  func(*planner.Problem)
		o     planner.Options
		facts func(*planner.Device)
		want  string // "": as without the gain
		last  bool   // edit only the last problem
	}{
		{name: "fp32", rows: []int{1, 4, 8, 9, 16, 24}, want: wide},
		{name: "fp32, transposed", rows: []int{1, 4, 8, 16}, edit: transposed, want: wide},
		{name: "bf16", rows: []int{1, 4, 8, 16, 24}, o: half, want: wide},
		{name: "bf16, transposed", rows: []int{1, 4, 8, 16}, edit: transposed, o: half, want: wide},
		{name: "int8", rows: []int{1, 4, 8, 16}, o: bytes, want: wide},
		{name: "int4", rows: []int{1, 4, 8, 16}, o: int4, want: wide},
		{name: "int4, odd A", rows: []int{1, 4, 8, 16}, edit: func(p *planner.Problem) { p.A.LD++ }, o: int4,
			want: wide},
		{name: "gated", rows: []int{1, 4, 8, 16}, edit: func(p *planner.Problem) { p.B2 = p.B }, o: gated,
			want: wide},
		{name: "A of odd rows", rows: []int{1, 4, 8, 16}, edit: func(p *planner.Problem) { p.A.LD++ },
			want: wide},
		{name: "tuned", rows: []int{1, 4, 8, 16}, facts: tuned, want: wide},
		{name: "odd B", rows: []int{1, 4, 8, 16}, edit: oddB},
		{name: "odd B, bf16", rows: []int{1, 4, 8, 16}, edit: oddB, o: half},
		{name: "B of bf16 that begins with 8 bytes", rows: []int{16},
			edit: func(p *planner.Problem) { p.B.Offset += 4 }, o: half},
		{name: "odd B of one problem", rows: []int{16}, edit: oddB, last: true},
		{name: "odd B2", rows: []int{16},
			edit: func(p *planner.Problem) { p.B2 = planner.Matrix{LD: p.B.LD + 1} }, o: gated},
		{name: "A transposed, odd", rows: []int{16}, edit: func(p *planner.Problem) {
			p.TransA, p.A.LD = true,
				p.M+1
		}},
		{name: "more rows", rows: []int{25, 32, 40, 64, 128}},
		{name: "more rows, bf16", rows: []int{25, 32, 40, 64, 128}, o: half},
		{name: "more rows of one problem", rows: []int{16}, edit: func(p *planner.Problem) { p.M = 25 },
			last: true},
		{name: "half of K", rows: []int{1, 4, 8, 16}, edit: func(p *planner.Problem) { p.K = 512 },
			want: wide},
		{name: "short K", rows: []int{1, 4, 8, 16}, edit: func(p *planner.Problem) { p.K = 511 }},
	} {
		for _, d := range overVulkan(t) {
			for _, rows := range c.rows {
				t.Run(fmt.Sprintf("%s/%s/%d", c.name, d.Name, rows), func(t *testing.T) {
					d := *d
					d.Kernels = slices.Clone(d.Kernels)
					if c.facts != nil {
						c.facts(&d)
					}
					b, err := planner.Pack(slices.Repeat([]planner.Problem{planner.GEMM(rows, 4096, 4096)},
						16)...)
					require.NoError(t, err)
					for i := range b {
						if c.edit != nil && (i == len(b)-1 || !c.last) {
							c.edit(&b[i])
						}
						b[i].C.Offset = 128 * i * 4096
					}
					p, err := planner.New(&d).Plan(t.Context(), b, c.o)
					require.NoError(t, err)
					plain, err := planner.New(without(&d)).Plan(t.Context(), b, c.o)
					require.NoError(t, err)
					if c.want != "" {
						require.Equal(t, []string{c.want}, tilesOf(p))
						require.Equal(t, c.o.Epilogue.ScaleB != planner.PerGroup128, p.Launches[0].Vector)
						require.Less(t, p.Cost, plain.Cost)
						return
					}
					require.Equal(t, tilesOf(plain), tilesOf(p))
					require.Equal(t, plain.Cost, p.Cost)
				})
			}
		}
	}
}

// Plans that the device completes take the same shapes. For ragged plans the expected sizes decide.
func TestDirectRagged(t *testing.T) {
	experts := planner.Ragged{Form: planner.EndsOfRows, Groups: 16, M: 16 * 16, N: 4096, K: 4096,
		A: planner.Matrix{LD: 4096}, B: planner.Matrix{LD: 4096}, C: planner.Matrix{LD: 4096},
		StrideB: 4096 * 4096}
	for _, c := range []struct {
		name string
		edit func(*planner.Ragged)
		want bool
	}{
		{"16 rows each", func(*planner.Ragged) {}, true},
		{"expected to have 4", func(r *planner.Ragged) { r.Mean.M = 4 }, true},
		{"25 rows each", func(r *planner.Ragged) { r.M = 16 * 25 }, false},
		{"expected to have 32", func(r *planner.Ragged) { r.Mean.M = 32 }, false},
		{"short K", func(r *planner.Ragged) { r.K = 256 }, false},
		{"odd stride of B", func(r *planner.Ragged) { r.StrideB++ }, false},
		{"odd B", func(r *planner.Ragged) { r.B.LD++ }, false},
	} {
		for _, d := range overVulkan(t) {
			t.Run(c.name+"/"+d.Name, func(t *testing.T) {
				r := experts
				c.edit(&r)
				p, err := planner.New(d).PlanRagged(r, planner.Options{})
				require.NoError(t, err)
				plain, err := planner.New(without(d)).PlanRagged(r, planner.Options{})
				require.NoError(t, err)
				if c.want {
					require.Equal(t, "thin-8x64", p.Launches[len(p.Launches)-1].Tile.Name)
					require.True(t, p.Launches[len(p.Launches)-1].Vector)
				} else {
					require.Equal(t, tilesOf(plain), tilesOf(p))
				}
			})
		}
	}
	for rows, want := range map[int]string{16: "thin-8x64", 25: "medium-k4"} {
		b, err := planner.Pack(slices.Repeat([]planner.Problem{planner.GEMM(rows, 4096, 4096)}, 16)...)
		require.NoError(t, err)
		p := new(planner.Plan)
		require.NoError(t, planner.New(lookup(t, "h200-webgpu")).Renew(t.Context(), p, b, planner.Options{}))
		require.NotNil(t, p.Ragged)
		require.Equal(t, want, p.Launches[len(p.Launches)-1].Tile.Name, rows)
	}
}

// The batches of the sweep keep their shapes, also with sizes that align all B.
func TestDirectSweep(t *testing.T) {
	for _, d := range append(overVulkan(t), lookup(t, "lavapipe")) {
		with, plain := planner.New(d), planner.New(without(d))
		for _, o := range []planner.Options{{}, {TypeA: element.BF16, TypeC: element.BF16}} {
			for _, unit := range []int{1, 16} {
				for _, c := range workload.Zhang() {
					problems := slices.Clone(c.Problems)
					for i := range problems {
						q := &problems[i]
						for _, size := range []*int{&q.M, &q.N, &q.K} {
							*size = (*size + unit - 1) / unit * unit
						}
					}
					b, err := planner.Pack(problems...)
					require.NoError(t, err)
					p, err := with.Plan(t.Context(), b, o)
					require.NoError(t, err)
					want, err := plain.Plan(t.Context(), b, o)
					require.NoError(t, err)
					require.Equal(t, tilesOf(want), tilesOf(p), "%s, %s, %d-%d-%d in units of %d", d.Name,
						o.TypeA, c.MaxMN, c.MaxK, c.Batch, unit)
				}
			}
		}
	}
}
