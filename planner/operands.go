package planner

// operands are what predictions know of A and B of a batch besides sizes.
type operands struct {
	elements, size float64 // all together, and the bytes of one
	transB         bool    // B is transposed everywhere
	odd            float64 // the share of odd rows: see Options.oddRows
}

// operands are those of the first of each `step` problems, which stand for all.
func (m *model) operands(o *Options, b Batch, step int) operands {
	all, work := operands{size: o.elementBytes(), transB: true}, 0.0
	for i := 0; i < len(b); i += step {
		q := &b[i]
		if !q.Writes() {
			continue
		}
		all.elements += elementsOf(q.M, q.N, q.depth())
		all.transB = all.transB && q.TransB
		if m.compute.wide() {
			n := float64(q.M) * float64(q.N) * float64(q.depth())
			all.odd += n * o.oddRows(q.A, q.B)
			work += n
		}
	}
	all.elements *= float64(step)
	all.odd /= max(work, 1)
	return all
}

// oddRows is the share of the rows of A and B that begin at odd multiples of 16 bytes, and so within one of the memory's sectors of 32.
func (o *Options) oddRows(a, b Matrix) float64 {
	odd := func(m Matrix) float64 {
		switch of := o.Type.Bytes(); {
		case m.LD*of%32 != 0:
			return 0.5 // every other one
		case m.Offset*of%32 != 0:
			return 1
		}
		return 0
	}
	return (odd(a) + odd(b)) / 2
}

// oddLonger is what steps of the rows called wide take more, as a part of what they take, whose rows of A and B are all odd. It is of the fit
// that their rates are of; copies alone take 0.95 more (docs/results.md).
const oddLonger = 1.2

// cachedWords is how much of the wait for a transposed B is left to rows of plain FMA where the cache has all of it, since copying words
// one by one bounds them too: of 30 batches of 1 to 16 rows (H200, fp32; sizes up to 1024) choices then take 1.1 percent longer than the
// best of ten tiles, 10 at most, with none of it 11 and 93 (docs/rows.md).
const cachedWords = 2. / 3

// see makes predictions those of operands. As much of them as the cache does not have comes from memory: none where it has room for all,
// all where they are twice as large.
func (m *model) see(o operands) {
	bytes, cold := o.elements*o.size, 0.0
	if cache := float64(m.device.Cache); cache > 0 {
		cold = min(max(bytes/cache-1, 0), 1)
	}
	for i := range m.tiles {
		t := &m.tiles[i]
		t.stepMicros = t.even
		if t.wide {
			t.busy *= 1 + oddLonger*o.odd
			t.alone *= 1 + oddLonger*o.odd
		}
		rate, waits := t.stream, cold
		if o.transB {
			rate = t.along
			if t.words {
				waits = max(cold, cachedWords)
			}
		}
		if t.memory = 0; rate > 0 {
			t.memory = waits * o.size / rate
		}
	}
}
