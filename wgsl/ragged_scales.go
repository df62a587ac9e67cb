package wgsl

import (
	"fmt"

	"github.com/batchgemm/batchgemm/planner/element"
	"github.com/batchgemm/batchgemm/planner/encoding"
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

// raggedScalesA is how many scales A has, and raggedScalesB B with B2.
func raggedScalesA(e encoding.Epilogue) string {
	switch {
	case e.ScaleA == encoding.PerTensor:
		return "1u"
	case e.Gather:
		return "words[${gatherRows}u]"
	}
	return "p.m"
}

func raggedScalesB(e encoding.Epilogue) string {
	if e.ScaleB.Group() == 0 {
		return fmt.Sprintf("%du * %s", e.Products(), raggedScalesOf(e, "p.n", "p.ldB"))
	}
	return "p.n * (" + raggedGroups(e) + ")"
}

// raggedScalesOf is how many so many columns of B or B2 have.
func raggedScalesOf(e encoding.Epilogue, columns, ld string) string {
	switch group := e.ScaleB.Group(); {
	case group > 0:
		return fmt.Sprintf("%s * (%s / %du)", columns, ld, group)
	case e.ScaleB == encoding.PerRow:
		return columns
	}
	return "1u"
}

// raggedGroups is how many groups a column of B has, and of B2.
func raggedGroups(e encoding.Epilogue) string {
	groups := fmt.Sprintf("p.ldB / %du", e.ScaleB.Group())
	if e.Gated {
		groups += fmt.Sprintf(" + p.ldB2 / %du", e.ScaleB.Group())
	}
	return groups
}

// raggedGroupsFit is what scales of groups ask of a record. What is compared first has no more than 32 bits whatever ldb is.
func raggedGroupsFit(e encoding.Epilogue) string {
	lds, offsets := "p.depth | p.ldB", "p.offB"
	if e.Gated {
		lds, offsets = lds+" | p.ldB2", offsets+" | p.offB2"
	}
	return fmt.Sprintf("%s <= words[${lenRows}u] / p.n && (%s) %% %du == 0u && (%s) %% %du == 0u",
		raggedGroups(e), lds, e.ScaleB.Group(), offsets, element.Int4.Line())
}

// raggedScaleBetween finds the scales of a group that ends give: those of B are behind those of the group before.
func raggedScaleBetween(e encoding.Epilogue) (text string) {
	text = `
	p.scaleA = words[${scaleA}u];
	p.scaleB = words[${scaleB}u];`
	if e.EachRow() {
		text += `
	p.scaleA = p.scaleA + row;`
	}
	if e.ScaleB != "" {
		text += fmt.Sprintf(`
	p.scaleB = p.scaleB + g * %s;`, raggedScalesB(e))
	}
	return text
}

// raggedScaleItem writes what an item has of them.
func raggedScaleItem(e encoding.Epilogue) string {
	row, col := "", ""
	if e.EachRow() {
		row = " + row"
	}
	if e.ScaleB == encoding.PerRow || e.ScaleB.Group() > 0 {
		col = " + " + raggedScalesOf(e, "col", "p.ldB")
	}
	return `
	words[at + ${item.scaleAAt}u] = p.scaleA` + row + `;
	words[at + ${item.scaleBAt}u] = p.scaleB` + col + `;`
}

// raggedSecondScales is where the second item of a gated tile has the scales of B2.
func raggedSecondScales(e encoding.Epilogue) string {
	first := "words[at + ${item.scaleBAt}u]"
	switch {
	case e.ScaleB == "":
		return ""
	case e.ScaleB.Group() > 0: // columns of B2 may have more
		first = "p.scaleB + " + raggedScalesOf(e, "col", "p.ldB2")
	}
	return `
	words[second + ${item.scaleBAt}u] = ` + first + " + " + raggedScalesOf(e, "p.n", "p.ldB") + `;`
}
