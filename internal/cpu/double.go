package cpu

import (
	"math"
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner/element"
)

// doubles is a goroutine's memory for products of F64, whose scratch has kernels for F64: sums of earlier
// parts of K, rows of A that were gathered, and for epilogues a tile of C, its biases, and the first product
// of a gated tile, activated.
type doubles struct {
	part         product
	sum, c, gate [maxSide * maxSide]float64
	a            [maxSide * panelDepth]float64
	bias         []float64
	tail         tail
}

// forF64 returns the scratch for F64, and makes it for the first launch that needs it.
func (t *scratch) forF64() *scratch {
	if t.scratch64 == nil {
		t.scratch64 = newScratch(t.double, t.stop)
		t.scratch64.own = new(doubles)
	}
	return t.scratch64
}

// numbers returns elements of F64, of which n is a view.
func (n narrow) numbers() []float64 {
	return unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(n.bytes))), len(n.bytes)/8)
}

// multiplyDouble computes a product of F64 in parts along K, and keeps sums between them.
func (t *scratch) multiplyDouble(p *product) {
	m, d := &t.micro, t.own
	for k := 0; !t.stop.Load(); k += panelDepth {
		m.depth = min(p.depth-k, panelDepth)
		t.turn.take(2 * p.rows * p.cols * m.depth)
		from, at := p, k
		if p.a.gather != nil && m.depth > 0 {
			from, at = d.gathered(p, k, m.depth), 0
		}
		switch {
		case k+m.depth < p.depth:
			m.rowC = 8 * maxSide
			m.scale(1, 0)
			t.part(from, at, k > 0, unsafe.Pointer(&d.sum))
			continue
		case p.tail == nil:
			m.rowC = 8 * p.ldc
			m.scale(p.alpha, p.beta)
			t.part(from, at, k > 0, unsafe.Pointer(&p.bytes[0]))
		default:
			if p.beta != 0 {
				d.load(p)
			}
			m.rowC = 8 * maxSide
			m.scale(p.alpha, p.beta)
			t.part(from, at, k > 0, unsafe.Pointer(&d.c))
			for row := range p.rows {
				d.store(p, row, d.c[row*maxSide:][:p.cols])
			}
		}
		return
	}
}

// gathered returns the part of a product from k on, with the rows of A that are gathered one after the other.
func (d *doubles) gathered(p *product, k, depth int) *product {
	w := &d.part
	*w = *p
	w.depth, w.a.gather = depth, nil
	for i, row := range p.a.gather {
		dst := d.a[i*depth:][:depth]
		if uint(row) >= uint(p.a.stored) {
			clear(dst)
		} else {
			copy(dst, p.a.from(int(row)*p.a.ld+k).numbers())
		}
	}
	all := d.a[:len(p.a.gather)*depth]
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&all[0])), 8*len(all))
	w.a.narrow, w.a.ld = narrow{element.F64, bytes}, depth
	if p.b.trans {
		w.b.narrow = p.b.from(k)
	} else {
		w.b.narrow = p.b.from(k * p.b.ld)
	}
	return w
}

// tailOf takes the words of an item for a tile.
func (d *doubles) tailOf(j *job, item []uint32, rows, cols int) *tail {
	d.takeBias(j, item[encoding.BiasAt], cols)
	return d.tail.item(j, item, rows, cols)
}

func (d *doubles) takeBias(j *job, at uint32, cols int) {
	if j.launch.Epilogue.Bias {
		d.bias = j.bitsBias.from(int(at)).first(cols).numbers()
	}
}

// load loads the C of a tile.
func (d *doubles) load(p *product) {
	for row := range p.rows {
		if to := p.tail.rowC(row); to >= 0 {
			copy(d.c[row*maxSide:][:p.cols], p.from(to*p.ldc).numbers())
		}
	}
}

// store applies the epilogue to a row of a tile, and stores it unless its gate is to come.
func (d *doubles) store(p *product, row int, v []float64) {
	e, to := p.tail, p.tail.rowC(row)
	if to < 0 {
		return
	}
	if e.Bias {
		for i, b := range d.bias {
			v[i] += b
		}
	}
	if gate := d.gate[row*maxSide:][:len(v)]; e.second {
		for i, x := range gate {
			v[i] *= x
		}
	} else {
		activateDouble(e.Activation, v)
		if e.Gated {
			copy(gate, v)
			return
		}
	}
	if e.weights != nil {
		weight := float64(math.Float32frombits(uint32(e.weights[row])))
		for i := range v {
			v[i] *= weight
		}
	}
	copy(p.from(to*p.ldc).numbers(), v)
}

// activateDouble applies an activation in fp64.
func activateDouble(by encoding.Activation, v []float64) {
	linear, cubic := 1.0, 0.0
	switch by {
	case encoding.SiLU:
	case encoding.GELU:
		linear = 2 * math.Sqrt(2/math.Pi)
		cubic = 0.044715 * linear
	case encoding.ReLU:
		for i, x := range v {
			if x < 0 {
				v[i] = 0
			}
		}
		return
	default:
		return
	}
	const least = -708 // exp(708) is finite, and less than its inverse is not normal
	for i, x := range v {
		z := linear * x
		if cubic != 0 { // 0*Inf is NaN
			z += cubic * x * x * x
		}
		if v[i] = x / (1 + math.Exp(-z)); z < least { // also -Inf
			v[i] = 0
		}
	}
}

// fixupDouble is fixup for F64.
func (j *job) fixupDouble(t *scratch, item []uint32) {
	rows, cols := encoding.Rows(item[encoding.FixupExtent]), encoding.Cols(item[encoding.FixupExtent])
	words, d := j.launch.SlotWords(), t.own
	slots := narrowOf(element.F64, j.workspace[int(item[encoding.FixupSlot])*words:][:int(
		item[encoding.FixupCount])*words]).numbers()
	alpha := encoding.Scalar64(item[encoding.FixupAlpha], item[encoding.FixupAlphaLow])
	beta := encoding.Scalar64(item[encoding.FixupBeta], item[encoding.FixupBetaLow])
	p := product{rows: rows, cols: cols, ldc: int(item[encoding.FixupLDC]),
		narrow: j.bitsC.from(int(item[encoding.FixupOffC]))}
	if j.launch.Epilogue != (encoding.Epilogue{}) {
		d.takeBias(j, item[encoding.FixupBiasAt], cols)
		if p.tail = d.tail.fixup(j, item, rows, cols); beta != 0 {
			d.load(&p)
		}
	}
	for i := range rows {
		sum := sumSlots(slots, j.launch.Tile, i, cols)
		if p.tail == nil {
			scaleEach(p.from(i*p.ldc).numbers(), sum, alpha, beta)
			continue
		}
		c := d.c[i*maxSide:][:cols]
		scaleEach(c, sum, alpha, beta)
		d.store(&p, i, c)
	}
}
