package planner

import (
	"cmp"
	"math/bits"
	"slices"
)

// sortByKey sorts what is in the order of problems by key, equal keys by problem. It
// returns the result and memory for the next sort, which are s and other, or the reverse.
//
// It takes the digits of keys in which they differ, the least first, and counts: 10 ns a
// problem and pass, of which most batches need one or two. Few are compared, because a pass
// takes 0.5 us at least.
func sortByKey(s, other []ordered) (sorted, memory []ordered) {
	const few = 64
	if len(s) < few {
		slices.SortFunc(s, func(x, y ordered) int { return cmp.Or(cmp.Compare(x.key, y.key), cmp.Compare(x.problem, y.problem)) })
		return s, other
	}
	var differ uint64
	for i := range s {
		differ |= s[i].key ^ s[0].key
	}
	other = slices.Grow(other[:0], len(s))[:len(s)]
	for differ != 0 {
		at := bits.TrailingZeros64(differ)
		sortByDigit(other, s, at)
		s, other = other, s
		differ &^= (1<<digit - 1) << at
	}
	return s, other
}

// digit is how many bits of a key a pass sorts by.
const digit = 9

// sortByDigit sorts by the digit from a bit on, and keeps the order of equal ones.
func sortByDigit(to, from []ordered, bit int) {
	var starts [1 << digit]int32
	for i := range from {
		starts[from[i].key>>bit&(1<<digit-1)]++
	}
	sum := int32(0)
	for i, n := range starts {
		starts[i] = sum
		sum += n
	}
	for i := range from {
		place := &starts[from[i].key>>bit&(1<<digit-1)]
		to[*place] = from[i]
		*place++
	}
}
