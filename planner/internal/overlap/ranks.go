package overlap

import (
	"math/bits"
	"slices"
)

// ranks is a set of numbers on a circle [0, n), as a tree of bits: words of bits, words that tell which of
// those words are not 0, and so on.
type ranks struct {
	n      int
	levels [6][]uint64
	depth  int
}

// reset empties the set.
func (s *ranks) reset(n int) {
	s.n = n
	for s.depth = 0; s.depth == 0 || n > 0; s.depth++ {
		n /= 64
		s.levels[s.depth] = slices.Grow(s.levels[s.depth][:0], n+1)[:n+1]
		clear(s.levels[s.depth])
	}
}

func (s *ranks) add(i int) {
	for l := range s.depth {
		s.levels[l][i/64] |= 1 << (i % 64)
		i /= 64
	}
}

func (s *ranks) remove(i int) {
	for l := range s.depth {
		s.levels[l][i/64] &^= 1 << (i % 64)
		if s.levels[l][i/64] != 0 {
			return
		}
		i /= 64
	}
}

// after returns the next number of the set that follows i on the circle, or -1 if the set is empty.
func (s *ranks) after(i int) int {
	if at := s.above(i); at >= 0 {
		return at
	}
	return s.above(-1)
}

// before returns the next number that precedes i.
func (s *ranks) before(i int) int {
	if at := s.below(i); at >= 0 {
		return at
	}
	return s.below(s.n)
}

// above returns the least number of the set above i, or -1.
func (s *ranks) above(i int) int {
	for l := range s.depth {
		i++
		if i/64 >= len(s.levels[l]) {
			return -1
		}
		if word := s.levels[l][i/64] >> (i % 64); word != 0 {
			at := i + bits.TrailingZeros64(word)
			for l--; l >= 0; l-- {
				at = at*64 + bits.TrailingZeros64(s.levels[l][at])
			}
			return at
		}
		i /= 64
	}
	return -1
}

// below returns the largest number of the set below i, or -1.
func (s *ranks) below(i int) int {
	for l := range s.depth {
		if word := s.levels[l][i/64] & (1<<(i%64) - 1); word != 0 {
			at := i/64*64 + bits.Len64(word) - 1
			for l--; l >= 0; l-- {
				at = at*64 + bits.Len64(s.levels[l][at]) - 1
			}
			return at
		}
		i /= 64
	}
	return -1
}
