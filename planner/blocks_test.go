package planner

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

var byBlocks = Epilogue{ScaleA: PerBlock, ScaleB: PerBlock}

// blocksDevice returns a device that supports scales of blocks.
func blocksDevice(t *testing.T) *Device {
	d := clone(device(t, "lavapipe"))
	d.Blocks = true
	return d
}

// No tile and no K step spans two blocks, but for tiles of boxes, whose halves are whole blocks.
func TestBlocksHaveWholeTiles(t *testing.T) {
	for _, s := range tile.Table() {
		require.True(t, encoding.Block%s.TN == 0 || s.Boxes && s.TN == 2*encoding.Block, s.Name)
		require.Zero(t, encoding.Block%s.TK, s.Name)
	}
	require.Equal(t, []int{0, 1, 1, 2}, []int{encoding.Blocks(0), encoding.Blocks(1), encoding.Blocks(128),
		encoding.Blocks(129)})
}

func TestBlockItems(t *testing.T) {
	p := Problem{M: 70, N: 200, K: 300, A: Matrix{0, 300}, B: Matrix{0, 200}, C: Matrix{0, 200},
		B2: Matrix{0, 200}, RowsA: 9000, ScaleA: 1000, ScaleB: 5000}
	for _, c := range []struct {
		name  string
		e     Epilogue
		rows  int       // ExtentRows
		first [2]uint32 // words with scales of the tile's row 0 and column 0
		last  [2]uint32 // and of row 64 and column 192
	}{
		{"blocks", byBlocks, 5006, [2]uint32{1000, 5000}, [2]uint32{1192, 5003}},
		{"gathered", Epilogue{ScaleA: PerBlock, ScaleB: PerBlock, GatherRows: 2000}, 9070,
			[2]uint32{1000, 5000}, [2]uint32{1000, 5003}},
		{"gated", Epilogue{ScaleA: PerBlock, ScaleB: PerBlock, Gated: true}, 5012, [2]uint32{1000, 5000},
			[2]uint32{1192, 5003}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := scaledOptions(c.e)
			o.Tile, o.Schedule = "large", ScheduleStreamK
			plan, err := New(blocksDevice(t)).Plan(t.Context(), Batch{p}, o)
			require.NoError(t, err)
			checkAll(t, plan)
			require.Equal(t, c.rows, plan.ExtentRows)
			require.Len(t, plan.Launches, 1)
			l := &plan.Launches[0]
			words, n := plan.Encode(nil), l.ItemWords()
			for i, s := range plan.Segments {
				item := words[l.Items+i*n*l.Epilogue.Products():]
				require.Equal(t, uint32(300), item[encoding.Depth])
				at := [2]uint32{item[encoding.ScaleAAt], item[encoding.ScaleBAt]}
				if s.Row == 0 && s.Col == 0 {
					require.Equal(t, c.first, at)
				}
				if s.Row == 1 && s.Col == 3 {
					require.Equal(t, c.last, at)
				}
				if c.e.Gated {
					require.Equal(t, at[1]+6, item[n+int(encoding.ScaleBAt)])
				}
			}
			require.Equal(t, uint32(encoding.EpilogueBlocks),
				l.Epilogue.Word()&^uint32(encoding.EpilogueGather|encoding.EpilogueGated))
		})
	}
}

func TestBlockMistakes(t *testing.T) {
	good := Problem{M: 2, N: 3, K: 129, A: Matrix{0, 129}, B: Matrix{0, 3}, C: Matrix{0, 3}}
	int8s, halves := scaledOptions(byBlocks), scaledOptions(byBlocks)
	int8s.TypeA, halves.TypeA = element.Int8, element.BF16
	for _, c := range []struct {
		name string
		o    Options
		edit func(*Problem)
		want string // "" when nothing is wrong
	}{
		{"good", scaledOptions(byBlocks), func(*Problem) {}, ""},
		{"of A alone", scaledOptions(Epilogue{ScaleA: PerBlock}), func(*Problem) {},
			`scales of blocks need both A and B, not "block" of A and "" of B`},
		{"of B alone", scaledOptions(Epilogue{ScaleA: PerRow, ScaleB: PerBlock}), func(*Problem) {},
			`scales of blocks need both A and B, not "row" of A and "block" of B`},
		{"int8", int8s, func(*Problem) {},
			"scales of blocks are for elements of e4m3, not int8: its sums over all of K are exact"},
		{"bf16", halves, func(*Problem) {}, "scales of blocks are for elements of e4m3, not bf16"},
		{"scales of A", scaledOptions(byBlocks), func(p *Problem) { p.ScaleA = -1 },
			"problem 0: scales of A offset -1 is negative"},
		{"scales of B", scaledOptions(byBlocks), func(p *Problem) { p.ScaleB = math.MaxInt },
			"problem 0: scales of B do not fit: their last offset needs more than 32 bits"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := good
			c.edit(&p)
			_, err := New(blocksDevice(t)).Plan(t.Context(), Batch{p}, c.o)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, c.want)
			require.ErrorIs(t, err, ErrInvalid)
		})
	}
	_, err := New(device(t, "mi100")).Plan(t.Context(), Batch{good}, scaledOptions(byBlocks))
	require.EqualError(t, err, "device mi100 has no kernels for scales of blocks")
	require.ErrorIs(t, err, ErrInvalid)
	for _, name := range []string{"mi210", "mi300x"} {
		_, err := New(device(t, name)).Plan(t.Context(), Batch{good}, scaledOptions(byBlocks))
		require.NoError(t, err)
	}
	require.EqualError(t, Batch{good}.Check(t.Context(), byBlocks,
		Lengths{A: 1000, B: 1000, C: 6, Rows: 3}),
		"problem 0: scales of A need words [0, 4) of a buffer of 3")
	d := blocksDevice(t)
	d.MaxTrips = leastTrips
	good.K, good.A.LD = 4000, 4000
	_, err = New(d).Plan(t.Context(), Batch{good}, scaledOptions(byBlocks))
	require.ErrorContains(t, err, "is too large for scales of blocks: one launch of lavapipe takes")
}

func TestRaggedBlocks(t *testing.T) {
	r := Ragged{Form: EndsOfRows, Groups: 3, M: 10, N: 130, K: 300, A: Matrix{LD: 300}, B: Matrix{LD: 130},
		B2: Matrix{LD: 130}, C: Matrix{LD: 130}, StrideB: 39000,
		ScaleA: 100, ScaleB: 1000}
	for _, c := range []struct {
		name    string
		e       Epilogue
		a, b, n int // words of the last group's scales, and the length of Rows
	}{
		{"rows", byBlocks, 109, 1012, 1018},
		{"gathered, gated", Epilogue{ScaleA: PerBlock, ScaleB: PerBlock, GatherRows: 20, Gated: true}, 100,
			1024, 1036},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, refused := r.Batch(nil, []int32{1, 3, 4}, Options{Epilogue: c.e})
			require.Equal(t, -1, refused)
			require.Equal(t, [2]int{c.a, c.b}, [2]int{b[2].ScaleA, b[2].ScaleB})
			p, err := New(blocksDevice(t)).PlanRagged(r, scaledOptions(c.e))
			require.NoError(t, err)
			require.Equal(t, c.n, p.ExtentRows)
		})
	}
	r.Form = EndsOfDepth
	_, err := New(blocksDevice(t)).PlanRagged(r, scaledOptions(byBlocks))
	require.EqualError(t, err, "ragged batch: scales of blocks need records, or a K that the host knows")

	records := Ragged{Form: Records, Groups: 1, M: 10, N: 130, K: 300, LenA: 5000, LenB: 50000, LenC: 2000,
		LenRows: 50}
	for _, c := range []struct {
		m, n, k, a, b int
		fits          bool
	}{{10, 130, 300, 20, 44, true}, {10, 130, 300, 21, 44, false}, {10, 130, 300, 20, 45, false},
		{10, 128, 256, 30, 48, true}, {10, 129, 256, 30, 47, false}} {
		q := Batch{{M: c.m, N: c.n, K: c.k, A: Matrix{LD: 300}, B: Matrix{LD: 130}, C: Matrix{LD: 130},
			ScaleA: c.a, ScaleB: c.b}}
		words, err := AppendRecords(nil, q, Options{Epilogue: byBlocks})
		require.NoError(t, err)
		_, refused := records.Batch(nil, words, Options{Epilogue: byBlocks})
		require.Equal(t, c.fits, refused < 0, c)
	}
}
