package planner

import (
	"slices"

	"github.com/batchgemm/batchgemm/planner/tile"
)

// class is problems that every tile shape of a model cuts into as many tiles and K steps:
// their sizes are the same in units of the model's grain, rounded up.
type class struct {
	m, n, k int32 // in these units
	count   int32
	best    tileID
}

// classes sorts problems into classes. A table has one class in each place; one that was
// displaced there comes again, which takes time alone.
type classes struct {
	all    []class
	of     []int32            // by problem; -1: it needs no work
	recent [1 << places]int32 // 1 + index
}

const places = 8

func (c *classes) sort(b Batch, e *Epilogue, grain [3]uint8) {
	c.all = c.all[:0]
	c.of = slices.Grow(c.of[:0], len(b))[:len(b)]
	clear(c.recent[:])
	for i := range b {
		q := &b[i]
		if !e.Writes(q) {
			c.of[i] = -1
			continue
		}
		m, n, k := int32(ceilShift(q.M, grain[0])), int32(ceilShift(q.N, grain[1])), int32(ceilShift(q.depth(), grain[2]))
		at := c.find(m, n, k)
		c.all[at].count++
		c.of[i] = at
	}
}

// find returns a class of these sizes, which it adds unless it is in one of two places.
func (c *classes) find(m, n, k int32) int32 {
	place := spread(m, n, k)
	for range 2 {
		at := c.recent[place] - 1
		if at < 0 {
			break
		}
		if s := &c.all[at]; s.m == m && s.n == n && s.k == k {
			return at
		}
		place ^= 1
	}
	c.all = append(c.all, class{m: m, n: n, k: k})
	c.recent[place] = int32(len(c.all))
	return int32(len(c.all)) - 1
}

// spread is a hash of sizes (Knuth's multiplicative one, of large odd numbers).
func spread(m, n, k int32) uint32 {
	return (uint32(m)*2654435761 + uint32(n)*2246822519 + uint32(k)*3266489917) >> (32 - places)
}

// cut is a way to cut problems into tiles and steps, which tile shapes share.
type cut struct {
	shape      *tile.Shape // one of them
	tm, tn, tk uint8       // logarithms of its sizes
	partly     bool        // tiles at the edges may take less
}

// same reports whether a shape cuts problems so.
func (c *cut) same(s *tile.Shape) bool {
	t := c.shape
	return t.TM == s.TM && t.TN == s.TN && t.TK == s.TK &&
		t.Rates.HalfRows == s.Rates.HalfRows && t.Rates.HalfCols == s.Rates.HalfCols &&
		(t.Unit == tile.SIMD) == (s.Unit == tile.SIMD)
}

// refine makes the units of grain so small that problems of the same sizes in units are
// cut alike.
func (c *cut) refine(grain *[3]uint8) {
	tm, tn := c.tm, c.tn
	if c.partly { // for which halves of a tile count
		tm, tn = tm-1, tn-1
	}
	if c.shape.Unit == tile.SIMD {
		tm, tn = 0, 0
	}
	grain[0], grain[1], grain[2] = min(grain[0], tm), min(grain[1], tn), min(grain[2], c.tk)
}
