package drivertest

import (
	"cmp"
	"math"
	"slices"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Dealing is the result of kernels that make items of a batch.
type Dealing struct {
	Items    []uint32   // of all launches
	Tables   [][]uint32 // of each
	bounds   []uint32
	epilogue planner.Epilogue
	panel    int // rows of a panel of tiles; 0: there are none
}

// dealt is a problem with its kernel and its place in the order.
type dealt struct {
	planner.Problem
	kernel, key int
}

// Deal deals a batch like a ragged plan whose encoding starts with the bounds.
func Deal(bounds []uint32, batch planner.Batch) *Dealing {
	return DealEpilogue(bounds, batch, planner.Epilogue{})
}

// DealEpilogue is Deal for a plan with an epilogue.
func DealEpilogue(bounds []uint32, batch planner.Batch, e planner.Epilogue) *Dealing {
	return DealPanels(bounds, batch, e, 0)
}

// DealPanels is DealEpilogue as kernels of CUDA do it: in panels of so many rows, column by column.
func DealPanels(bounds []uint32, batch planner.Batch, e planner.Epilogue, panel int) *Dealing {
	d := &Dealing{Items: []uint32{}, bounds: bounds, epilogue: e, panel: panel}
	var all []dealt
	sum, two := 0, bounds[encoding.BoundKernels] == 2
	for g, q := range batch {
		if !e.Pointers.Any() && bounds[encoding.BoundForm] != uint32(planner.Records) {
			q.Pointers = g * encoding.PointerWords // not read
		}
		if q.Alpha.Value() == 0 {
			q.K = 0
		}
		if q.M == 0 || q.N == 0 || q.K == 0 && q.Beta == 1 && e == (planner.Epilogue{}) {
			continue
		}
		p := dealt{Problem: q}
		if two && d.work(&q, 1) < d.work(&q, 0) {
			p.kernel = 1
		}
		n, _ := d.count(&q, p.kernel)
		sum += n
		all = append(all, p)
	}
	bins := int(bounds[encoding.BoundBins])
	for i := range all {
		p := &all[i]
		if two && sum < int(bounds[encoding.BoundFill]) {
			p.kernel = 1
		}
		_, steps := d.count(&p.Problem, p.kernel)
		p.key = (p.kernel+1)*bins - 1 - min(steps>>d.kernel(p.kernel)[encoding.KernelShift], bins-1)
	}
	slices.SortStableFunc(all, func(a, b dealt) int { return cmp.Compare(a.key, b.key) })
	for kernel := range int(bounds[encoding.BoundKernels]) {
		d.launch(all, kernel)
	}
	return d
}

// launch deals the tiles of a kernel to its workers, forth and back, unless tiles are dynamic.
func (d *Dealing) launch(all []dealt, kernel int) {
	count, tm, tn := int(d.kernel(kernel)[encoding.KernelWorkers]), d.side(kernel, encoding.KernelTM),
		d.side(kernel, encoding.KernelTN)
	workers, n := make([][]uint32, count), 0
	var inOrder []uint32 // all items
	for _, e := range all {
		if e.kernel != kernel {
			continue
		}
		for _, at := range d.corners(&e.Problem, tm, tn) {
			w := n % count
			if n/count%2 == 1 {
				w = count - 1 - w
			}
			row, col := at[0], at[1]
			item := d.epilogueItem(&e.Problem, row, col, min(e.M-row, tm), min(e.N-col, tn))
			workers[w], inOrder = append(workers[w], item...), append(inOrder, item...)
			n++
		}
	}
	words, products := encoding.ItemWords, 1
	if d.epilogue != (planner.Epilogue{}) {
		words = encoding.EpilogueItemWords
	}
	if d.epilogue.Gated {
		products = 2
	}
	first := uint32(len(d.Items) / words)
	if chunk := d.kernel(kernel)[encoding.KernelChunk]; chunk != 0 { // chunks count tiles
		first /= uint32(products)
		d.Items = append(d.Items, inOrder...)
		d.Tables = append(d.Tables, []uint32{0, first + uint32(n), first + uint32(count)*chunk, chunk,
			math.MaxUint32})
		return
	}
	table := []uint32{first}
	for _, items := range workers {
		d.Items = append(d.Items, items...)
		table = append(table, uint32(len(d.Items)/words))
	}
	d.Tables = append(d.Tables, table)
}

// corners returns the first row and column of each tile of a problem, in order.
func (d *Dealing) corners(q *planner.Problem, tm, tn int) (all [][2]int) {
	panel := cmp.Or(d.panel, tm) // row by row: panels of a row of tiles
	for top := 0; top < q.M; top += panel {
		for col := 0; col < q.N; col += tn {
			for row := top; row < min(top+panel, q.M); row += tm {
				all = append(all, [2]int{row, col})
			}
		}
	}
	return all
}

// Tiles returns the number of tiles of a kernel.
func (d *Dealing) Tiles(kernel int) int {
	if kernel >= len(d.Tables) {
		return 0
	}
	table := d.Tables[kernel]
	if chunk := d.kernel(kernel)[encoding.KernelChunk]; chunk != 0 {
		return int(table[encoding.DynamicEnd] -
			(table[encoding.DynamicFirst] - chunk*d.kernel(kernel)[encoding.KernelWorkers]))
	}
	items := int(table[len(table)-1] - table[0])
	if d.epilogue.Gated {
		items /= 2
	}
	return items
}

// Put writes items and tables to their places in the plan.
func (d *Dealing) Put(words []uint32) {
	copy(words[d.bounds[encoding.BoundItems]:], d.Items)
	for kernel, table := range d.Tables {
		copy(words[d.kernel(kernel)[encoding.KernelTable]:], table)
	}
}

func (d *Dealing) kernel(i int) []uint32 {
	return d.bounds[int(encoding.BoundTile)+i*encoding.KernelWords:][:encoding.KernelWords]
}

func (d *Dealing) side(kernel int, w encoding.KernelWord) int { return 1 << d.kernel(kernel)[w] }

// count returns the tiles and the steps of a problem.
func (d *Dealing) count(q *planner.Problem, kernel int) (tiles, steps int) {
	parts := func(n int, w encoding.KernelWord) int { return (n + d.side(kernel, w) - 1) / d.side(kernel, w) }
	return parts(q.M, encoding.KernelTM) * parts(q.N, encoding.KernelTN), max(parts(q.K, encoding.KernelTK),
		1)
}

func (d *Dealing) work(q *planner.Problem, kernel int) float32 {
	tiles, steps := d.count(q, kernel)
	k := d.kernel(kernel)
	busy := float32(float32(steps) * math.Float32frombits(k[encoding.KernelStep]))
	return float32(tiles) * float32(busy+math.Float32frombits(k[encoding.KernelWorker]))
}

// apart returns the distance in elements from a column of B to the next, if B is not transposed.
func (d *Dealing) apart() int {
	if d.epilogue.ScaleB.Group() > 0 {
		return element.Int4Panel
	}
	return 1
}

func (d *Dealing) itemOf(q *planner.Problem, row, col, rows, cols int) []uint32 {
	w := make([]uint32, encoding.ItemWords)
	a, b := row*q.A.LD, col*d.apart()
	if q.TransA {
		a = row
	}
	if q.TransB {
		b = col * q.B.LD
	}
	w[encoding.OffA], w[encoding.OffB], w[encoding.OffC] = uint32(q.A.Offset+a), uint32(q.B.Offset+b),
		uint32(q.C.Offset+row*q.C.LD+col)
	w[encoding.Depth], w[encoding.LDA], w[encoding.LDB], w[encoding.LDC] = uint32(q.K), uint32(q.A.LD),
		uint32(q.B.LD), uint32(q.C.LD)
	w[encoding.Extent], w[encoding.Beta], w[encoding.Slot] = encoding.PackExtent(rows, cols),
		math.Float32bits(float32(q.Beta)), encoding.Final
	if q.K > 0 {
		w[encoding.Alpha] = math.Float32bits(float32(q.Alpha.Value()))
	}
	w[encoding.Flags] = d.bounds[encoding.BoundFlags]
	if uint32(q.A.Offset|q.A.LD|q.B.Offset|q.B.LD)&d.bounds[encoding.BoundVector] == 0 {
		w[encoding.Flags] |= encoding.ItemVector
	}
	return w
}

// epilogueItem returns the item of a tile with its tail, and the second item of a gated tile.
func (d *Dealing) epilogueItem(q *planner.Problem, row, col, rows, cols int) []uint32 {
	e, w := &d.epilogue, d.itemOf(q, row, col, rows, cols)
	if *e == (planner.Epilogue{}) {
		return w
	}
	if e.GatherRows > 0 {
		w[encoding.OffA] = uint32(q.A.Offset)
	}
	if e.ScatterRows > 0 {
		w[encoding.OffC] = uint32(q.C.Offset + col)
	}
	more := [...]int{q.RowsA + row, e.GatherRows, q.RowsC + row, e.ScatterRows, q.Weights + row, q.Bias + col,
		q.Pointers, q.ScaleA, q.ScaleB, 0, 0, 0}
	for _, x := range more {
		w = append(w, uint32(x))
	}
	if e.ScaleA == planner.PerRow && e.GatherRows == 0 {
		w[encoding.ScaleAAt] += uint32(e.ScalesA(&planner.Problem{M: row}))
	}
	switch {
	case e.ZeroA:
		w[encoding.ScaleBAt] += uint32(2 * col)
	case e.ScaleB == planner.PerRow || e.ScaleB.Group() > 0:
		w[encoding.ScaleBAt] += uint32(col)
	}
	if blocks := uint32(q.K+127) / 128; e.ScaleB == planner.PerBlock {
		w[encoding.ScaleBAt] += uint32(col) / 128 * blocks
		if e.GatherRows == 0 {
			w[encoding.ScaleAAt] += uint32(row) * blocks
		}
	}
	if !e.Gated {
		return w
	}
	second := slices.Clone(w)
	at := q.B2.Offset + col*d.apart()
	if q.TransB {
		at = q.B2.Offset + col*q.B2.LD
	}
	second[encoding.OffB], second[encoding.LDB], second[encoding.BiasAt] = uint32(at), uint32(q.B2.LD),
		w[encoding.BiasAt]+uint32(q.N)
	one := *e
	one.Gated = false
	second[encoding.ScaleBAt] += uint32(one.ScalesB(q))
	second[encoding.Flags] = d.bounds[encoding.BoundFlags] | encoding.ItemSecond
	if uint32(q.A.Offset|q.A.LD|q.B2.Offset|q.B2.LD)&d.bounds[encoding.BoundVector] == 0 {
		second[encoding.Flags] |= encoding.ItemVector
	}
	return append(w, second...)
}
