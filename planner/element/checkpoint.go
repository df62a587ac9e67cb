package element

import "github.com/batchgemm/batchgemm/internal/invalid"

// checkpoint is a format of weights of 4 bits.
type checkpoint struct {
	name    string
	columns bool   // the eight weights of a word are of columns, not of k's
	places  [8]int // their shifts
	less    uint32 // what is taken from zero points
}

var (
	inOrder     = [8]int{0, 4, 8, 12, 16, 20, 24, 28}
	checkpoints = [...]checkpoint{{"awq", true, places, 0}, {"gptq", false, inOrder, 1},
		{"gptq_v2", false, inOrder, 0}}
)

// PackCheckpoint packs a B of Int4 from the tensors of a layer with n outputs and k inputs in AWQ's or GPTQ's
// checkpoints. format is "awq"; "gptq", whose zero points are stored less 1; or "gptq_v2", which stores them
// as they are. Of GPTQ, groups follow each other along K (g_idx[k] is k / group).
//
//	qweight  [k, n/8] of AWQ, [k/8, n] of GPTQ   eight weights in a word
//	qzeros   [k/group, n/8]                      eight zero points in a word
//	scales   [k/group, n]
//
// words receives k*n/8 words, as PackInt4 lays them out, and groups k/group*n words, as of GroupWord. group
// is 64 or 128, n a multiple of 8 and k one of group; n and k may be 0. Other formats and sizes, and a zero
// point of 16, are an error. Then, and where short slices panic, nothing is written.
func PackCheckpoint(format string, words, groups, qweight, qzeros []uint32, scales []float32,
	n, k, group int) error {
	c, err := checkpointOf(format, n, k, group)
	if err != nil {
		return err
	}
	parts := k / group
	words, qweight = words[:k*n/8:len(words)], qweight[:k*n/8]
	groups, qzeros, scales = groups[:parts*n:len(groups)], qzeros[:parts*n/8], scales[:parts*n]
	zero := func(i int) uint32 { return qzeros[i/8]>>c.places[i%8]&15 + c.less }
	for i := range groups {
		if zero(i) > 15 {
			return invalid.Errorf("%s: the zero point of group %d, column %d is 16: at most 15 is possible",
				format, i/n, i%n)
		}
	}
	for i, scale := range scales {
		groups[i] = GroupWord(scale, int(zero(i)))
	}
	clear(words)
	eachWord(n, k, func(word, column, first int) {
		for i, to := range places {
			from, at := c.weight(n, first+i, column)
			words[word] |= qweight[from] >> at & 15 << to
		}
	})
	return nil
}

// UnpackCheckpoint inverts PackCheckpoint. A zero point of 0 is an error with "gptq".
func UnpackCheckpoint(format string, qweight, qzeros []uint32, scales []float32, words, groups []uint32,
	n, k, group int) error {
	c, err := checkpointOf(format, n, k, group)
	if err != nil {
		return err
	}
	parts := k / group
	words, qweight = words[:k*n/8], qweight[:k*n/8:len(qweight)]
	groups, qzeros, scales = groups[:parts*n], qzeros[:parts*n/8:len(qzeros)], scales[:parts*n:len(scales)]
	for i, word := range groups {
		if word&15 < c.less {
			return invalid.Errorf("%s: the zero point of group %d, column %d is 0, which it cannot store",
				format, i/n, i%n)
		}
	}
	clear(qzeros)
	for i, word := range groups {
		scale, zero := GroupOf(word)
		scales[i] = scale
		qzeros[i/8] |= (uint32(zero) - c.less) << c.places[i%8]
	}
	clear(qweight)
	eachWord(n, k, func(word, column, first int) {
		for i, from := range places {
			to, at := c.weight(n, first+i, column)
			qweight[to] |= words[word] >> from & 15 << at
		}
	})
	return nil
}

// checkpointOf returns a format, and checks sizes.
func checkpointOf(format string, n, k, group int) (*checkpoint, error) {
	switch {
	case group != Int4Panel && group != 2*Int4Panel:
		return nil, invalid.Errorf("group %d: must be %d or %d", group, Int4Panel, 2*Int4Panel)
	case n < 0 || n%8 != 0:
		return nil, invalid.Errorf("n %d is no multiple of 8", n)
	case k < 0 || k%group != 0:
		return nil, invalid.Errorf("k %d is no multiple of %d, the group", k, group)
	}
	for i := range checkpoints {
		if checkpoints[i].name == format {
			return &checkpoints[i], nil
		}
	}
	return nil, invalid.Errorf("format %q: must be awq, gptq or gptq_v2", format)
}

// weight returns the word of a weight, and its shift there.
func (c *checkpoint) weight(n, k, column int) (word, shift int) {
	if c.columns {
		return (k*n + column) / 8, c.places[column%8]
	}
	return k/8*n + column, c.places[k%8]
}
