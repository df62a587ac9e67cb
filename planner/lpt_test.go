package planner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// TestFraction: whole is the sum of the fractions of all tiles. On GPUs, a tile with more than half of its
// rows takes as long as a whole one.
func TestFraction(t *testing.T) {
	for _, shape := range tile.Table() {
		for _, q := range []Problem{GEMM(1, 1, 5), GEMM(64, 64, 5), GEMM(65, 33, 5), GEMM(128, 128, 5),
			GEMM(320, 383, 5), GEMM(193, 160, 5), GEMM(512, 16, 5)} {
			sum := 0.0
			rows, cols := grid(shape, &q)
			for row := range int32(rows) {
				for col := range int32(cols) {
					f := shape.Fraction(q.M-int(row)*shape.TM, q.N-int(col)*shape.TN)
					require.Positive(t, f)
					m, n := min(q.M-int(row)*shape.TM, shape.TM), min(q.N-int(col)*shape.TN, shape.TN)
					if shape.Unit == tile.SIMD {
						require.InDelta(t, float64(m*n)/float64(shape.TM*shape.TN), f, 1e-9)
					} else if 2*m > shape.TM && 2*n > shape.TN {
						require.Equal(t, 1.0, f)
					}
					sum += f
				}
			}
			require.InDelta(t, sum, wholeTiles(shape, q.M, q.N), 1e-9, "%s %dx%d", shape.Name, q.M, q.N)
		}
	}
}

// TestLPTIsEven: edge tiles take less, in the same rows and columns of every problem. Workers still have
// even work.
func TestLPTIsEven(t *testing.T) {
	for name, q := range map[string]Problem{
		"half rows": GEMM(320, 384, 500), "half columns": GEMM(384, 320, 500), "both": GEMM(320, 320, 500),
		"strips": GEMM(320, 1216, 500),
	} {
		for _, problems := range []int{40, 400} { // all by Graham's rule, and only the last rounds
			batch := make([]Problem, problems)
			for i := range batch {
				batch[i] = q
			}
			d := device(t, "h200")
			p, err := New(d).Plan(t.Context(), mustPack(t, batch...),
				Options{Tile: "wgmma-128x128", Schedule: ScheduleLPT})
			require.NoError(t, err)
			tile := p.Launches[0].Tile
			least, most, longest := 1e9, 0.0, 0.0
			for w := range len(p.Workers) - 1 {
				sum := 0.0
				for _, s := range p.Segments[p.Workers[w]:p.Workers[w+1]] {
					f := tile.Fraction(q.M-int(s.Row)*tile.TM, q.N-int(s.Col)*tile.TN)
					sum += f
					longest = max(longest, f)
				}
				least, most = min(least, sum), max(most, sum)
			}
			require.LessOrEqual(t, most-least, longest+1e-9, "%s, %d problems", name, problems)
		}
	}
}

// TestUnitsShare: if each worker has one tile, units with two tiles have a long and a short one.
func TestUnitsShare(t *testing.T) {
	d := device(t, "h200")
	for _, c := range []struct {
		name string
		Options
		tiles int
	}{
		{"a tile for each unit", Options{Tile: "wgmma-64x64", Schedule: ScheduleLPT}, 132},
		{"some units have two", Options{Tile: "wgmma-64x64", Schedule: ScheduleLPT}, 200},
		{"all have two", Options{Tile: "wgmma-64x64", Schedule: ScheduleLPT}, 264},
		{"data-parallel", Options{Tile: "tensor-32x32", Schedule: ScheduleDataParallel}, 264},
		{"some have three", Options{Tile: "small", Schedule: ScheduleDataParallel}, 300},
	} {
		t.Run(c.name, func(t *testing.T) {
			batch := make([]Problem, c.tiles)
			for i := range batch {
				batch[i] = GEMM(16, 16, 32*(c.tiles-i))
			}
			p, err := New(d).Plan(t.Context(), mustPack(t, batch...), c.Options)
			require.NoError(t, err)
			require.Len(t, p.Workers, c.tiles+1)
			for w, s := range p.Segments {
				require.EqualValues(t, w+1, p.Workers[w+1])
				of := w
				if w/d.ComputeUnits == 1 {
					of = min(2*d.ComputeUnits, c.tiles) - 1 - w%d.ComputeUnits
				}
				require.EqualValues(t, of, s.Problem, "worker %d", w)
			}
		})
	}
}

// TestStrips: grids of many columns are dealt in strips of rows, column by column. Other grids are dealt row
// by row. This holds for all schedules of whole tiles.
func TestStrips(t *testing.T) {
	wide := Options{TypeA: element.BF16, TypeC: element.BF16, Tile: "aligned-128x128"}
	h200 := device(t, "h200")
	for _, c := range []struct {
		name       string
		device     *Device
		o          Options
		rows, cols int
		strip      int
	}{
		{"many columns", h200, wide, 10, 12, 4},
		{"few columns", h200, wide, 16, 8, 1},
		{"32 rows", h200, wide, 32, 9, 4},
		{"thousands of rows", h200, wide, 37, 9, 16},
		{"small tiles", h200, Options{Tile: "tensor-32x32"}, 10, 12, 1},
		{"a CPU", aCPU(t), Options{Tile: "simd-64x64"}, 10, 12, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := tile.ByName(c.o.Tile)
			require.NoError(t, err)
			c.o.Schedule = ScheduleDataParallel
			p, err := New(c.device).Plan(t.Context(), mustPack(t, GEMM(s.TM*c.rows, s.TN*c.cols, 64)), c.o)
			require.NoError(t, err)
			var want [][2]int32
			for top := 0; top < c.rows; top += c.strip {
				for col := range c.cols {
					for row := top; row < min(top+c.strip, c.rows); row++ {
						want = append(want, [2]int32{int32(row), int32(col)})
					}
				}
			}
			var at [][2]int32
			for _, s := range p.Segments {
				at = append(at, [2]int32{s.Row, s.Col})
			}
			require.Equal(t, want, at)
		})
	}
	t.Run("shares", func(t *testing.T) { // neighbours have the same column at the same time, back and forth
		wide.Schedule = ScheduleLPT
		p, err := New(h200).Plan(t.Context(), mustPack(t, GEMM(128*32, 128*32, 64)), wide)
		require.NoError(t, err)
		require.Len(t, p.Workers, 133)
		for w := 0; w < 132; w += 2 {
			first, second := p.Segments[p.Workers[w]], p.Segments[p.Workers[w+1]]
			require.Equal(t, first.Col, second.Col, "workers %d and %d", w, w+1)
		}
	})
}
