package cpu

import (
	"math"
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner/element"
)

// tail applies an epilogue to a tile whose sums are in a goroutine's memory, row by row while they are in
// its caches.
type tail struct {
	encoding.Epilogue
	second      bool    // second product of a gated tile
	scatter     []int32 // by row of the tile; nil: no scatter
	scatterRows int
	weights     []int32 // bits, by row
	scales      scales
	bias        [maxSide]float32           // by column
	gate        [maxSide * maxSide]float32 // first product of a gated tile, activated
}

// wordsOf reinterprets the words of a buffer as integers.
func wordsOf(words []float32) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(words))), len(words))
}

// item takes the words of an item, or of a fix-up item, for a tile of that many rows and columns.
func (e *tail) item(j *job, item []uint32, rows, cols int) *tail {
	e.Epilogue, e.second = j.launch.Epilogue, item[encoding.Flags]&encoding.ItemSecond != 0
	e.take(j, item[encoding.ScatterAt], item[encoding.ScatterRows], item[encoding.WeightsAt],
		item[encoding.BiasAt], rows, cols)
	if e.scales.used = e.ScaledSums() && item[encoding.Depth] > 0; e.scales.used {
		e.scales.take(e, j, item[encoding.GatherAt:][:2], item[encoding.ScaleAAt:][:2], rows, cols)
	}
	return e
}

func (e *tail) fixup(j *job, item []uint32, rows, cols int) *tail {
	e.Epilogue, e.second = j.launch.Epilogue, false
	e.take(j, item[encoding.FixupScatterAt], item[encoding.FixupScatterRows], item[encoding.FixupWeightsAt],
		item[encoding.FixupBiasAt], rows, cols)
	if e.scales.used = e.ScaledSums(); e.scales.used {
		e.scales.take(e, j, item[encoding.FixupGatherAt:][:2], item[encoding.FixupScaleAAt:][:2], rows, cols)
	}
	return e
}

func (e *tail) take(j *job, scatterAt, scatterRows, weightsAt, biasAt uint32, rows, cols int) {
	e.scatter, e.weights = nil, nil
	if e.Scatter {
		e.scatter, e.scatterRows = j.rows[scatterAt:][:rows], int(scatterRows)
	}
	if e.Weights {
		e.weights = j.rows[weightsAt:][:rows]
	}
	if e.Bias && j.launch.TypeC != element.F64 {
		numbersOf(j.bias, j.bitsBias, e.bias[:cols], int(biasAt))
	}
}

// rowC returns the stored row of C for a row of the tile, or -1.
func (e *tail) rowC(row int) int {
	if e.scatter == nil {
		return row
	}
	if to := int(e.scatter[row]); uint(to) < uint(e.scatterRows) {
		return to
	}
	return -1
}

// finish applies the rest of the epilogue to a row. It reports whether the row is stored.
func (e *tail) finish(row int, v []float32) bool {
	if e.Bias {
		for i, b := range e.bias[:len(v)] {
			v[i] += b
		}
	}
	if gate := e.gate[row*maxSide:][:len(v)]; !e.second {
		activate(e.Activation, v)
		if e.Gated {
			copy(gate, v)
			return false
		}
	} else {
		multiply(v, gate)
	}
	if e.weights != nil {
		weight := math.Float32frombits(uint32(e.weights[row]))
		for i := range v {
			v[i] *= weight
		}
	}
	return true
}

// loadTail loads the C of a tile as numbers, if it is read.
func (h *halves) loadTail(p *product) {
	for row := range p.rows {
		if to := p.tail.rowC(row); to >= 0 {
			p.readC(to, h.c[row*maxSide:][:p.cols])
		}
	}
}

// storeTail stores the tile with its epilogue.
func (h *halves) storeTail(p *product) {
	for row := range p.rows {
		v, to := h.c[row*maxSide:][:p.cols], p.tail.rowC(row)
		if to < 0 {
			continue
		}
		if p.tail.scales.used {
			p.scaleRow(row, to, v)
		}
		if p.tail.finish(row, v) {
			p.writeC(to, v)
		}
	}
}

// readC and writeC move a row of C.
func (p *product) readC(row int, v []float32)  { numbersOf(p.c, p.narrow, v, row*p.ldc) }
func (p *product) writeC(row int, v []float32) { storeNumbers(p.c, p.narrow, v, row*p.ldc) }

// gathered loads K range [k, k+depth) of a tile's gathered rows of A, row after row, as numbers.
func (o *operand) gathered(to []float32, k, depth int) {
	for i, row := range o.gather {
		dst := to[i*depth:][:depth]
		if uint(row) >= uint(o.stored) {
			clear(dst)
		} else {
			numbersOf(o.data, o.narrow, dst, int(row)*o.ld+k)
		}
	}
	o.data, o.ld = to[:len(o.gather)*depth], depth
}
