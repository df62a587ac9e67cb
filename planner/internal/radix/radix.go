// Package radix sorts keys by digits.
package radix

import (
	"cmp"
	"math/bits"
	"slices"
)

// Key is a number to sort by, >= 0, and the index of its owner.
type Key struct {
	By    int64
	Index int32
}

// Sorter sorts keys, and keeps its memory. The zero value is ready.
type Sorter struct{ keys, spare []Key }

// Reserve returns memory for n keys, for Sort.
func (s *Sorter) Reserve(n int) []Key {
	s.keys = slices.Grow(s.keys[:0], n)[:n]
	return s.keys
}

// fewKeys: up to this many keys, comparing is faster.
const fewKeys = 64

// Sort sorts the keys of Reserve and keeps the order of equal keys. The result is valid until the next
// Reserve. Sorting by digits takes a fifth of the time of comparing. Digits that are equal in all keys cost
// nothing.
func (s *Sorter) Sort(keys []Key) []Key {
	differ, sorted := int64(0), true
	for i := 1; i < len(keys); i++ {
		differ |= keys[i].By ^ keys[0].By
		sorted = sorted && keys[i-1].By <= keys[i].By
	}
	if sorted {
		return keys
	}
	if len(keys) <= fewKeys {
		slices.SortStableFunc(keys, func(x, y Key) int { return cmp.Compare(x.By, y.By) })
		return keys
	}
	s.spare = slices.Grow(s.spare[:0], len(keys))[:len(keys)]
	to := s.spare
	for differ != 0 {
		shift := bits.TrailingZeros64(uint64(differ))
		sortByDigit(to, keys, shift)
		keys, to = to, keys
		differ &^= digits << shift
	}
	return keys
}

// digits masks the 9 bits of a digit. K of up to 512 differs in one digit.
const digits = 1<<9 - 1

// sortByDigit sorts by the digit at a bit, and keeps the order of equal digits.
func sortByDigit(to, from []Key, shift int) {
	var next [digits + 1]int32 // place of the next key with each digit
	for i := range from {
		next[from[i].By>>shift&digits]++
	}
	sum := int32(0)
	for digit, n := range next {
		next[digit] = sum
		sum += n
	}
	for i := range from {
		place := &next[from[i].By>>shift&digits]
		to[*place] = from[i]
		*place++
	}
}
