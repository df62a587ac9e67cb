package cpu

import (
	"math"

	"github.com/batchgemm/batchgemm/internal/encoding"
)

// choices are those of a run of a step of a layer of experts.
type choices struct {
	words         []int32 // numbers of experts, of 32 or 64 bits
	long          bool
	bound, tokens int // there may be, and there are
	topK, experts int
}

func (j *job) choices() choices {
	w := j.words
	c := choices{words: j.sizes, long: j.launch.Index64, bound: int(w[encoding.LayerTokens]),
		topK: int(w[encoding.LayerTopK]), experts: int(w[encoding.LayerExperts])}
	if c.tokens = c.bound; j.extent > 0 {
		c.tokens = j.extent
	}
	return c
}

// expert is the number of a choice, or -1 for one that does not count.
func (c *choices) expert(i int) int {
	e := 0
	if c.long {
		if c.words[2*i+1] != 0 { // little-endian
			return -1
		}
		e = int(uint32(c.words[2*i]))
	} else {
		e = int(c.words[i])
	}
	if e < 0 || e >= c.experts {
		return -1
	}
	return e
}

// step does a worker's part of a step of a layer of experts.
func (j *job) step(w int) {
	c := j.choices()
	switch j.launch.Layer {
	case encoding.LayerRoute:
		j.route(&c)
	case encoding.LayerCombine:
		j.combine(&c, w)
	case encoding.LayerGate:
		j.gate(&c, w)
	case encoding.LayerGateBackward:
		j.gateBackward(&c, w)
	}
}

// route writes the ends of experts' rows, and the lists of rows. In between an end is the place of the next
// row.
func (j *job) route(c *choices) {
	out, n := wordsOf(j.c), c.tokens*c.topK
	ends, lists, all := out[:c.experts], out[j.words[encoding.LayerFirst]:], c.bound*c.topK
	clear(ends)
	for i := range n {
		if e := c.expert(i); e >= 0 {
			ends[e]++
		}
	}
	sum := int32(0)
	for e, count := range ends {
		ends[e], sum = sum, sum+count
	}
	weight := [1]float32{}
	for i := range n {
		e := c.expert(i)
		if e < 0 {
			continue
		}
		row := int(ends[e])
		ends[e]++
		numbersOf(j.a, j.bitsA, weight[:], i)
		lists[row], lists[all+row] = int32(i/c.topK), int32(i)
		lists[2*all+row] = int32(math.Float32bits(weight[0]))
	}
}

// combine sums the rows of a worker's share of tokens.
func (j *job) combine(c *choices, w int) {
	hidden, workers := int(j.words[encoding.LayerHidden]), j.launch.Count
	var sum, row [256]float32
	for t := c.tokens * w / workers; t < c.tokens*(w+1)/workers; t++ {
		for col := 0; col < hidden; col += len(sum) {
			to := sum[:min(len(sum), hidden-col)]
			clear(to)
			for i := t * c.topK; i < (t+1)*c.topK; i++ {
				if c.expert(i) < 0 {
					continue
				}
				from := row[:len(to)]
				numbersOf(j.a, j.bitsA, from, i*hidden+col)
				for k, x := range from {
					to[k] += x
				}
			}
			storeNumbers(j.c, j.bitsC, to, t*hidden+col)
		}
	}
}
