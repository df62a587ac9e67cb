package elemtype

import "github.com/batchgemm/batchgemm/planner/element"

// places are the shifts of the eight elements of a word: see element.Int4Panel.
var places = [8]int{0, 16, 4, 20, 8, 24, 12, 28}

// WidenInt4 converts the words of one column and group to numbers.
func WidenInt4(dst []float32, words []uint32, group uint32) {
	scale, zero := element.GroupOf(group)
	dst = dst[: 8*len(words) : len(dst)]
	for i, word := range words {
		to := dst[8*i:][:8]
		for j, at := range places {
			to[j] = scale * float32(int(word>>at&15)-zero)
		}
	}
}
