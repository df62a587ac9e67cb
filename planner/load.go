package planner

import (
	"math/bits"

	"github.com/batchgemm/batchgemm/internal/tile"
)

// load is the work of one launch, in K steps of one tile shape.
type load struct {
	tiles   int     // workers of the data-parallel schedule
	steps   float64 // of all tiles
	longest int     // steps of the longest tile
	// Tiles and their steps, counted as whole tiles: see tile.Rates.HalfRows.
	whole, work float64
	loads       float64 // elements of A and B, see loadsOf
	// If tiles were added longest first: the steps of the first tile after one round, after two rounds, and
	// so on. A round is one tile for each compute unit.
	later  [mostRounds]int32
	rounds int
}

// mostRounds: after that many, a tile more or less on a compute unit matters little.
const mostRounds = 6

// equal reports whether all tiles have the same number of steps.
func (l *load) equal() bool { return l.steps == float64(l.tiles)*float64(l.longest) }

// pieces is the result of cutting a problem.
type pieces struct {
	tiles, steps int     // steps of each tile
	whole        float64 // tiles, counted as whole tiles
	loads        float64 // as in load
}

// add adds problems of equal sizes, whose tiles have that many products each, and returns the pieces of one
// problem. units is as in addTiles.
func (l *load) add(c *cut, of Sizes, products, times, units int) (e pieces) {
	down, across := ceilShift(of.M, c.tm), ceilShift(of.N, c.tn)
	e.tiles, e.steps = down*across, max(ceilShift(of.K, c.tk), 1)*products
	e.loads = loadsOf(of.M, of.N, of.K, down, across)
	if e.whole = float64(e.tiles); c.partly {
		e.whole = wholeTiles(c.shape, of.M, of.N)
	}
	l.addTiles(e.tiles*times, e.steps, e.whole*float64(times), units)
	l.loads += e.loads * float64(times)
	return e
}

// addTiles adds n tiles with equal numbers of steps, which take as long as `whole` whole tiles. units is the
// size of a round. It is 0 if tiles are not added longest first, or if rounds do not matter.
func (l *load) addTiles(n, steps int, whole float64, units int) {
	l.tiles += n
	for units > 0 && l.rounds < mostRounds && l.tiles > (l.rounds+1)*units {
		l.later[l.rounds] = int32(steps)
		l.rounds++
	}
	l.steps += float64(n) * float64(steps)
	l.longest = max(l.longest, steps)
	l.whole += whole
	l.work += whole * float64(steps)
}

// loadsOf returns how many elements of A and B a grid of tiles loads. Elements that were loaded before come
// from the cache, in a quarter of the time (gradients of experts by tiles of 64 and of 128 rows, H200).
func loadsOf(m, n, k, down, across int) float64 {
	return elementsOf(m, n, k)*3/4 + float64(m*across+n*down)*float64(k)/4
}

// roundSize returns the size of a round in loads, or 0 for kernels whose rates were found without rounds.
func (m *model) roundSize() int {
	if m.family.rounds {
		return m.device.ComputeUnits
	}
	return 0
}

// work returns how long whole tiles, of that many K steps each, keep a saturated compute unit busy, in
// microseconds.
func (t *tileModel) work(tiles float64, steps int) float64 {
	return tiles * (float64(steps)*t.busy + t.worker)
}

// maxShift is the base-2 logarithm of the largest size of a tile.
const maxShift = 8

// steps returns the number of K steps of a problem's tiles, at least 1: a tile that only scales C needs a
// worker too.
func steps(t *tile.Shape, q *Problem) int { return max(ceilShift(q.depth(), shift(t.TK)), 1) }

// wholeTiles returns the sum of tile.Shape.Fraction over the tiles of a problem with m rows and n columns.
// Only the last row and column of tiles may not be whole.
func wholeTiles(t *tile.Shape, m, n int) float64 {
	rows, cols := ceilShift(m, shift(t.TM)), ceilShift(n, shift(t.TN))
	lastRow := t.Fraction(m-(rows-1)*t.TM, t.TN)
	lastCol := t.Fraction(t.TM, n-(cols-1)*t.TN)
	return (float64(rows-1) + lastRow) * (float64(cols-1) + lastCol)
}

// shift returns the base-2 logarithm of a tile's size, which is a power of two. Shifts take a twentieth of
// the time of divisions, which would take half of planning.
func shift(size int) uint8 { return uint8(bits.TrailingZeros(uint(size))) }

// ceilShift returns n / 2^by, rounded up.
func ceilShift(n int, by uint8) int { return (n + 1<<(by&31) - 1) >> (by & 31) }
