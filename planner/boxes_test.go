package planner

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner/element"
)

// alongK returns equal problems, with A and B along K.
func alongK(t *testing.T, count, m, n, k int) Batch {
	t.Helper()
	q := GEMM(m, n, k)
	q.TransB = true
	return mustPack(t, slices.Repeat([]Problem{q}, count)...)
}

// TestBoxes: problems whose rows are aligned and along K, all of them, take tiles of boxes where these are
// predicted to be faster, as they were measured to be on an H200.
func TestBoxes(t *testing.T) {
	aligned := Pointers{A: true, B: true, C: true, Aligned: true}
	for _, c := range []struct {
		name  string
		of    element.Type
		batch Batch
		edit  func(Batch, *Options)
		boxes bool
	}{
		{"e4m3", element.E4M3, alongK(t, 1, 4096, 4096, 4096), nil, true},
		{"int8", element.Int8, alongK(t, 4, 4096, 4096, 7168), nil, true},
		{"few rows", element.E4M3, alongK(t, 1, 100, 4096, 4096), nil, false},
		{"few tiles", element.E4M3, alongK(t, 1, 1024, 1024, 1024), nil, false},
		{"short", element.E4M3, alongK(t, 256, 256, 256, 256), nil, false},
		{"bf16", element.BF16, alongK(t, 1, 4096, 4096, 4096), nil, true},
		{"a round of bf16", element.BF16, alongK(t, 1, 2048, 2048, 2048), nil, false},
		{"a round of e4m3", element.E4M3, alongK(t, 1, 2048, 2048, 2048), nil, true},
		{"a round of int8", element.Int8, alongK(t, 1, 2048, 2048, 2048), nil, false},
		{"short int8", element.Int8, alongK(t, 1, 8192, 8192, 512), nil, true}, // by storedLater
		{"a B across K", element.BF16, alongK(t, 2, 4096, 4096, 4096),
			func(b Batch, _ *Options) { b[1].TransB = false }, false},
		{"an A across K", element.BF16, alongK(t, 2, 4096, 4096, 4096),
			func(b Batch, _ *Options) { b[1].TransA = true }, false},
		{"a row that begins anywhere", element.E4M3, alongK(t, 2, 4096, 4096, 4096),
			func(b Batch, _ *Options) { b[1].A.Offset++ }, false},
		{"bias", element.E4M3, alongK(t, 1, 4096, 4096, 4096),
			func(_ Batch, o *Options) { o.Epilogue.Bias = true }, true},
		{"gathered rows", element.E4M3, alongK(t, 1, 4096, 4096, 4096),
			func(_ Batch, o *Options) { o.Epilogue.GatherRows = 4096 }, false},
		{"addresses", element.E4M3, alongK(t, 1, 4096, 4096, 4096),
			func(_ Batch, o *Options) { o.Epilogue.Pointers = aligned }, true},
		{"addresses of any alignment", element.E4M3, alongK(t, 1, 4096, 4096, 4096),
			func(_ Batch, o *Options) { o.Epilogue.Pointers = Pointers{A: true} }, false},
		{"a schedule that splits tiles", element.E4M3, alongK(t, 1, 4096, 4096, 4096),
			func(_ Batch, o *Options) { o.Schedule = ScheduleStreamK }, false},
		{"another schedule", element.E4M3, alongK(t, 1, 4096, 4096, 4096),
			func(_ Batch, o *Options) { o.Schedule = ScheduleDynamic }, true},
		{"a schedule of the caller", element.E4M3, alongK(t, 1, 4096, 4096, 4096),
			func(_ Batch, o *Options) { o.Custom = oneTileAWorker }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{TypeA: c.of, TypeC: element.BF16}
			if c.edit != nil {
				c.edit(c.batch, &o)
			}
			p, err := New(device(t, "h200")).Plan(t.Context(), c.batch, o)
			require.NoError(t, err)
			checkAll(t, p)
			for _, l := range p.Launches {
				require.Equal(t, c.boxes, l.Tile.Boxes, "%s", l)
				require.False(t, c.boxes && (l.Split || l.Fixup), "%s", l)
			}
			if c.boxes {
				require.Equal(t, p.Launches[0].Count*encoding.MapWords, p.Workspace)
			}
		})
	}
}

// TestBoxesRenew: if the device makes the items, tiles are of boxes where they are if the host does.
func TestBoxesRenew(t *testing.T) {
	o := Options{TypeA: element.E4M3, TypeC: element.BF16}
	planner, plan := New(device(t, "h200")), new(Plan)
	for _, trans := range []bool{true, false} {
		b := alongK(t, 8, 2048, 2048, 2048)
		b[7].TransB = trans
		require.NoError(t, planner.Renew(t.Context(), plan, b, o))
		l := plan.Launches[len(plan.Launches)-1]
		require.Equal(t, trans, l.Tile.Boxes, "%s", l)
		require.Equal(t, trans, len(plan.Records) > 0)
		require.Equal(t, l.Count*l.Kernel.Kept(), plan.Workspace)
	}
}

// TestBoxesRefused: a forced tile of boxes is an error where its kernels cannot be.
func TestBoxesRefused(t *testing.T) {
	for name, edit := range map[string]func(*Problem, *Options){
		"across K": func(q *Problem, _ *Options) { q.TransB = false },
		"anywhere": func(q *Problem, _ *Options) { q.B.Offset++ },
		"split":    func(_ *Problem, o *Options) { o.Schedule = ScheduleSplitK },
		"fp32":     func(_ *Problem, o *Options) { o.TypeA, o.TypeC = element.F32, element.F32 },
	} {
		t.Run(name, func(t *testing.T) {
			b, o := alongK(t, 1, 512, 512, 512), Options{TypeA: element.BF16, Tile: "aligned-128x256"}
			edit(&b[0], &o)
			_, err := New(device(t, "h200")).Plan(t.Context(), b, o)
			require.ErrorIs(t, err, ErrInvalid)
			require.EqualError(t, err, "tile aligned-128x256 128x256x32/384 is only for aligned A and B of "+
				"64 bits, or K-major ones of 16 or 8, of problems or of groups of rows, in whole tiles")
		})
	}
}
