package planner

import (
	"math/bits"
	"slices"
)

// rectangle is a part of a matrix that a region lies in, or a part of that: rows
// [top, bottom), columns [left, right).
type rectangle struct {
	top, bottom         int
	left, right, region int32
}

// sweep finds two regions whose rectangles in a matrix with rows of pitch elements
// share one, or returns nil. Where pitch is the leading dimension of all regions,
// these overlap; else they may. It goes through the rows: active rectangles are
// disjoint in columns, so that a new one only needs to be compared with its neighbours.
func (o *overlaps) sweep(cluster []region, pitch int) (x, y *region) {
	o.cut(cluster, pitch)
	keys := o.order.reserve(len(o.parts))
	for i := range o.parts {
		keys[i] = key{int64(o.parts[i].left), int32(i)}
	}
	o.lefts = slices.Grow(o.lefts[:0], len(o.parts))[:len(o.parts)]
	o.ranks = slices.Grow(o.ranks[:0], len(o.parts))[:len(o.parts)]
	for rank, k := range o.order.sort(keys) {
		o.lefts[rank], o.ranks[k.index] = k.index, int32(rank)
	}
	keys = o.order.reserve(len(o.parts))
	for i := range o.parts {
		keys[i] = key{int64(o.parts[i].top), int32(i)}
	}
	o.active.reset(len(o.parts))
	for _, k := range o.order.sort(keys) {
		n, rank := &o.parts[k.index], int(o.ranks[k.index])
		// Neighbours that ended above this row make room; they are dropped here,
		// where they are met, and not when they end.
		for at := o.active.next(rank); at >= 0; at = o.active.next(at) {
			a := &o.parts[o.lefts[at]]
			if a.left >= n.right {
				break
			}
			if a.bottom > n.top {
				return &cluster[a.region], &cluster[n.region]
			}
			o.active.remove(at)
		}
		for at := o.active.prev(rank); at >= 0; at = o.active.prev(at) {
			a := &o.parts[o.lefts[at]]
			if a.right <= n.left {
				break
			}
			if a.bottom > n.top {
				return &cluster[a.region], &cluster[n.region]
			}
			o.active.remove(at)
		}
		o.active.add(rank)
	}
	return nil, nil
}

// cut sets o.parts to the rectangles of a matrix whose rows of pitch elements begin
// where the first region does. pitch divides the leading dimensions.
func (o *overlaps) cut(cluster []region, pitch int) {
	o.parts = slices.Grow(o.parts[:0], len(cluster))
	base, width := cluster[0].start, int32(pitch)
	for i := range cluster {
		r := &cluster[i]
		add := func(top, bottom int, left, right int32) {
			o.parts = append(o.parts, rectangle{top, bottom, left, right, int32(i)})
		}
		at, end := r.start-base, r.end-base-1
		top, last := at/pitch, end/pitch
		left := at - top*pitch
		switch over := left + r.cols - pitch; {
		case r.rows > 1 && r.cols > pitch: // of a leading dimension of several pitches
			add(top, last+1, 0, width)
		case r.rows > 1 && over > 0: // around the end of the row
			bottom := top + (r.rows-1)*(int(r.ld)/pitch) + 1
			add(top, bottom, int32(left), width)
			add(top+1, bottom+1, 0, int32(over))
		case r.rows > 1:
			add(top, last+1, int32(left), int32(left+r.cols))
		case top == last:
			add(top, top+1, int32(left), int32(left+r.cols))
		default:
			add(top, top+1, int32(left), width)
			if last > top+1 {
				add(top+1, last, 0, width)
			}
			add(last, last+1, 0, int32(end-last*pitch+1))
		}
	}
}

// rankSet is a set of the numbers [0, n): words of bits, words that tell which of
// those are not 0, and so on.
type rankSet struct {
	levels [6][]uint64
	depth  int
}

// reset makes the set empty.
func (s *rankSet) reset(n int) {
	for s.depth = 0; s.depth == 0 || n > 1; s.depth++ {
		n = ceilDiv(n, 64)
		s.levels[s.depth] = slices.Grow(s.levels[s.depth][:0], n)[:n]
		clear(s.levels[s.depth])
	}
}

func (s *rankSet) add(i int) {
	for l := range s.depth {
		s.levels[l][i/64] |= 1 << (i % 64)
		i /= 64
	}
}

func (s *rankSet) remove(i int) {
	for l := range s.depth {
		s.levels[l][i/64] &^= 1 << (i % 64)
		if s.levels[l][i/64] != 0 {
			return
		}
		i /= 64
	}
}

// next returns the least number of the set above i, or -1.
func (s *rankSet) next(i int) int {
	for l := range s.depth {
		i++
		if i/64 >= len(s.levels[l]) {
			return -1
		}
		if word := s.levels[l][i/64] >> (i % 64); word != 0 {
			return s.descend(l, i+bits.TrailingZeros64(word), bits.TrailingZeros64)
		}
		i /= 64
	}
	return -1
}

// prev returns the largest number of the set below i, or -1.
func (s *rankSet) prev(i int) int {
	for l := range s.depth {
		if word := s.levels[l][i/64] & (1<<(i%64) - 1); word != 0 {
			return s.descend(l, i/64*64+bits.Len64(word)-1, func(w uint64) int { return bits.Len64(w) - 1 })
		}
		i /= 64
	}
	return -1
}

// descend goes from a bit of a level down to the first, by one bit of each word.
func (s *rankSet) descend(level, i int, choose func(uint64) int) int {
	for l := level - 1; l >= 0; l-- {
		i = i*64 + choose(s.levels[l][i])
	}
	return i
}
