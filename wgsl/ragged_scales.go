package wgsl

import (
	"fmt"

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

// raggedScalesA is how many scales A has, and raggedScalesB B, without those of B2.
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
	if e.ScaleB == encoding.PerRow {
		return "p.n"
	}
	return "1u"
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
	p.scaleB = p.scaleB + g * %du * %s;`, e.Products(), raggedScalesB(e))
	}
	return text
}

// raggedScaleItem writes what an item has of them.
func raggedScaleItem(e encoding.Epilogue) string {
	row, col := "", ""
	if e.EachRow() {
		row = " + row"
	}
	if e.ScaleB == encoding.PerRow {
		col = " + col"
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
	words[second + ${item.scaleBAt}u] = words[at + ${item.scaleBAt}u] + ` + raggedScalesB(e) + `;`
}
