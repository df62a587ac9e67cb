package wgsl

import (
	"fmt"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner/element"
)

// addScales adds the names for scales. If sizes are ends, the scales of B of a group follow those of the
// group before.
func (n names) addScales(e encoding.Epilogue) {
	row, col := "", ""
	if e.EachRow() {
		row = " + " + scalesOfRow(e)
	}
	switch {
	case e.ScaleB == encoding.PerRow || e.ScaleB.Group() > 0:
		col = " + " + times(e.ScaleWords(), "col")
	case e.Blocks():
		col = fmt.Sprintf(" + col / %du * %s", encoding.Block, blocksOf("p.depth"))
	}
	n.add("scales.a", raggedScalesA(e))
	n.add("scales.b", raggedScalesB(e))
	n.add("scales.ofB", raggedScalesOf(e, "p.ldB"))
	n.add("scales.row", scalesOfRow(e))
	n.add("scales.toRow", row)
	n.add("scales.toCol", col)
	n.number("scales.column", uint32(e.Products()*e.ScaleWords())) // a larger number may not fit in 32 bits
	if e.ScaleB.Group() > 0 {
		n.add("groups.fit", raggedGroupsFit(e))
	}
	n.add("blocks.fit", raggedBlocksFit(e))
}

// raggedScalesA returns the number of words of the scales of A, raggedScalesB that of B and B2.
func raggedScalesA(e encoding.Epilogue) string {
	switch {
	case e.ScaleA == encoding.PerTensor:
		return fmt.Sprintf("%du", e.ScaleWords())
	case e.Blocks():
		return raggedRowsA(e) + " * " + blocksOf("p.depth")
	}
	return times(e.ScaleWords(), raggedRowsA(e))
}

// raggedRowsA returns how many rows of A may have scales.
func raggedRowsA(e encoding.Epilogue) string {
	if e.Gather {
		return "words[${gatherRows}u]"
	}
	return "p.m"
}

// blocksOf returns the number of blocks of that many k or columns.
func blocksOf(n string) string {
	return fmt.Sprintf("((%s + %du) / %du)", n, encoding.Block-1, encoding.Block)
}

func raggedScalesB(e encoding.Epilogue) string {
	if e.ScaleB.Group() == 0 {
		return fmt.Sprintf("%du * %s", e.Products(), raggedScalesOf(e, "p.ldB"))
	}
	if e.Gated {
		return raggedScalesOf(e, "(p.ldB + p.ldB2)")
	}
	return raggedScalesOf(e, "p.ldB")
}

// raggedScalesOf returns the number for B or B2.
func raggedScalesOf(e encoding.Epilogue, ld string) string {
	switch group := e.ScaleB.Group(); {
	case group > 0:
		return fmt.Sprintf("(%s) * %s", raggedGroupRows(e), ld)
	case e.ScaleB == encoding.PerRow:
		return times(e.ScaleWords(), "p.n")
	case e.Blocks():
		return blocksOf("p.n") + " * " + blocksOf("p.depth")
	}
	return "1u"
}

// raggedGroupRows returns the number of rows of words of a group's B.
func raggedGroupRows(e encoding.Epilogue) string {
	rows := fmt.Sprintf("p.depth / %du", e.ScaleB.Group())
	if e.ScaleB.Group() > e.ScaleB.UnitK() {
		rows = fmt.Sprintf("(p.depth + %du) / %du", e.ScaleB.Group()-1, e.ScaleB.Group())
	}
	if e.ScaleB.ColumnRow() {
		rows += " + min(p.depth, 1u)"
	}
	return rows
}

// raggedGroupsFit returns the conditions of scales of groups for a record. If they hold, the number of
// scales fits in 32 bits.
func raggedGroupsFit(e encoding.Epilogue) string {
	most := fmt.Sprintf("words[${lenRows}u] / max(%s, 1u)", raggedGroupRows(e))
	few, lds, offsets := "p.ldB <= "+most, "p.ldB", "p.offB"
	if e.Gated {
		few, lds, offsets = "("+few+" && p.ldB2 <= "+most+
			" - p.ldB)", "(p.ldB | p.ldB2)", "(p.offB | p.offB2)"
	}
	return fmt.Sprintf("(p.depth == 0u || %s) && p.depth %% %du == 0u && %s %% %du == 0u && %s %% %du == 0u",
		few, e.ScaleB.UnitK(), lds, element.Int4.PerWord(), offsets, elemtype.Line(element.Int4))
}

// raggedBlocksFit returns the condition that numbers of scales of blocks fit in 32 bits.
func raggedBlocksFit(e encoding.Epilogue) string {
	most := fmt.Sprintf("words[${lenRows}u] / max(%s, 1u)", blocksOf("p.depth"))
	return fmt.Sprintf("%s <= %s && %du * %s <= %s", raggedRowsA(e), most, e.Products(),
		blocksOf("p.n"), most)
}

// scalesOfRow returns the distance of a row's scales from the first ones.
func scalesOfRow(e encoding.Epilogue) string {
	if e.Blocks() {
		return "row * " + blocksOf("p.depth")
	}
	return times(e.ScaleWords(), "row")
}
