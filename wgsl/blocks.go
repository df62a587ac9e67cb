package wgsl

import (
	"fmt"
	"slices"

	"github.com/batchgemm/batchgemm/internal/encoding"
)

// Scales of blocks multiply numbers of A when these are stored to workgroup memory, with both scales at
// once: all columns of a tile, and all k of a step, are in one block. A product has two roundings more than
// without scales. Where a block starts, each thread loads the scales of the rows that it stores. Separate
// sums would take as many registers as a tile.

// scaleStep writes the loads of the scales of a K step, if it is the first of a block.
func (o *operand) scaleStep(w *writer) {
	if !o.blocks {
		return
	}
	w.block(fmt.Sprintf("if ((depth - left) %% %du == 0u)", encoding.Block), func() {
		w.line("let block = (depth - left) / %du;", encoding.Block)
		w.line("let scaleB = bitcast<f32>(indices[scaleBAt + block]);")
		for _, place := range o.scalePlaces() {
			rows := make([]string, o.Span)
			for i := range rows {
				rows[i] = o.scaleOf(place*o.Span + i)
			}
			w.line("%s = %s;", scalesAt(place), pack(rows))
		}
	})
}

// scaleOf returns the product of the scales of a row at that distance from the thread's first one. It is 0
// for a row that does not exist: its numbers are 0, and 0*NaN would not be.
func (o *operand) scaleOf(row int) string {
	if o.gather {
		_, is := gathered(row)
		return fmt.Sprintf("select(0.0, scaleB * bitcast<f32>(indices[%s + block]), %s)",
			scalesOfGathered(row), is)
	}
	first := "across"
	if !o.AlongK {
		first = "along"
	}
	return fmt.Sprintf("scaleB * bitcast<f32>(indices[scaleAAt + %s * blocks + block])",
		paren(plus(times(o.Span, first+o.name), row)))
}

// scalesOfGathered names the variable with the word of a row's first scale.
func scalesOfGathered(row int) string { return fmt.Sprintf("scalesRow%d", row) }

// scalePlace returns which of the thread's rows, Span at a time, a block has. scalePlaces returns it for all
// blocks.
func (o *operand) scalePlace(b block) int {
	if o.AlongK {
		return b.Across
	}
	return b.Along
}

func (o *operand) scalePlaces() (all []int) {
	for _, b := range o.Blocks {
		if place := o.scalePlace(b); !slices.Contains(all, place) {
			all = append(all, place)
		}
	}
	return all
}

// scalesAt returns the name of the register with the scales of rows.
func scalesAt(place int) string { return fmt.Sprintf("scales%d", place) }

// declareScales declares these registers.
func (o *operand) declareScales(w *writer) {
	if !o.blocks {
		return
	}
	for _, place := range o.scalePlaces() {
		w.line("var %s: %s;", scalesAt(place), vec(o.Span))
	}
	if o.gather {
		for _, row := range o.gatheredRows() {
			w.line("var %s: u32;", scalesOfGathered(row))
		}
	}
}
