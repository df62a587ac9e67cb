package wgsl

import (
	"fmt"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner/element"
)

// raggedScaleFields is where the scales of a problem begin, and raggedScaleRecord takes that from a record.
const (
	raggedScaleFields = `
	scaleA: u32,
	scaleB: u32,`
	raggedScaleRecord = `
	p.scaleA = sizes[at + ${record.scaleA}u];
	p.scaleB = sizes[at + ${record.scaleB}u];`
)

// raggedScalesA is how many words the scales of A have, and raggedScalesB those of B with B2.
func raggedScalesA(e encoding.Epilogue) string {
	switch {
	case e.ScaleA == encoding.PerTensor:
		return fmt.Sprintf("%du", e.ScaleWords())
	case e.Blocks():
		return raggedRowsA(e) + " * " + blocksOf("p.depth")
	}
	return times(e.ScaleWords(), raggedRowsA(e))
}

// raggedRowsA is how many rows of A may have scales.
func raggedRowsA(e encoding.Epilogue) string {
	if e.Gather {
		return "words[${gatherRows}u]"
	}
	return "p.m"
}

// blocksOf is how many blocks so many k's or columns have.
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

// raggedScalesOf is how many B or B2 have.
func raggedScalesOf(e encoding.Epilogue, ld string) string {
	switch group := e.ScaleB.Group(); {
	case group > 0:
		return fmt.Sprintf("(p.depth / %du) * %s", group, ld)
	case e.ScaleB == encoding.PerRow:
		return times(e.ScaleWords(), "p.n")
	case e.Blocks():
		return blocksOf("p.n") + " * " + blocksOf("p.depth")
	}
	return "1u"
}

// raggedGroupsFit is what scales of groups ask of a record. Those that pass have a number of scales in 32
// bits.
func raggedGroupsFit(e encoding.Epilogue) string {
	group := e.ScaleB.Group()
	most := fmt.Sprintf("words[${lenRows}u] / max(p.depth / %du, 1u)", group)
	few, lds, offsets := "p.ldB <= "+most, "p.ldB", "p.offB"
	if e.Gated {
		few, lds, offsets = "("+few+" && p.ldB2 <= "+most+
			" - p.ldB)", "(p.ldB | p.ldB2)", "(p.offB | p.offB2)"
	}
	return fmt.Sprintf("(p.depth == 0u || %s) && p.depth %% %du == 0u && %s %% %du == 0u && %s %% %du == 0u",
		few, group, lds, element.Int4.PerWord(), offsets, element.Int4.Line())
}

// raggedBlocksFit is that numbers of scales of blocks have 32 bits.
func raggedBlocksFit(e encoding.Epilogue) string {
	most := fmt.Sprintf("words[${lenRows}u] / max(%s, 1u)", blocksOf("p.depth"))
	return fmt.Sprintf("%s <= %s && %du * %s <= %s", raggedRowsA(e), most, e.Products(),
		blocksOf("p.n"), most)
}

// raggedScaleBetween finds the scales of a group that ends give: those of B are after those of the group
// before.
func raggedScaleBetween(e encoding.Epilogue) (text string) {
	text = `
	p.scaleA = words[${scaleA}u];
	p.scaleB = words[${scaleB}u];`
	if e.EachRow() {
		text += `
	p.scaleA = p.scaleA + ` + scalesOfRow(e) + `;`
	}
	if e.ScaleB != "" {
		text += fmt.Sprintf(`
	p.scaleB = p.scaleB + g * %s;`, raggedScalesB(e))
	}
	return text
}

// scalesOfRow is how far the scales of a row are after the first ones.
func scalesOfRow(e encoding.Epilogue) string {
	if e.Blocks() {
		return "row * " + blocksOf("p.depth")
	}
	return times(e.ScaleWords(), "row")
}

// raggedScaleItem writes what an item has of them.
func raggedScaleItem(e encoding.Epilogue) string {
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
	return `
	words[at + ${item.scaleAAt}u] = p.scaleA` + row + `;
	words[at + ${item.scaleBAt}u] = p.scaleB` + col + `;`
}

// raggedSecondScales is where the second item of a gated tile has the scales of B2.
func raggedSecondScales(e encoding.Epilogue) string {
	if e.ScaleB == "" {
		return ""
	}
	return `
	words[second + ${item.scaleBAt}u] = words[at + ${item.scaleBAt}u] + ` + raggedScalesOf(e, "p.ldB") + `;`
}
