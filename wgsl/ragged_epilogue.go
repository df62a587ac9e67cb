package wgsl

import (
	"fmt"
	"strings"

	"github.com/batchgemm/batchgemm/internal/encoding"
)

// raggedEpilogue is what the texts have more for an epilogue, by name: nothing for none. Adapters have
// no kernels for pointers.
func raggedEpilogue(e encoding.Epilogue) map[string]string {
	texts := map[string]string{"epilogue.fields": "", "epilogue.listed": "", "epilogue.record": "",
		"epilogue.product": "", "epilogue.fits": "", "epilogue.between": "",
		"epilogue.written": "", "epilogue.item": "", "epilogue.each": "", "epilogue.end": "",
		"apart.b": fmt.Sprintf("%du", e.ScaleB.ApartB()), "stored.a": "select(p.m, p.depth, transA)",
		"stored.c": "p.m"}
	if e == (encoding.Epilogue{}) {
		return texts
	}
	texts["epilogue.written"] = " && false" // C = 1*C is changed too
	texts["epilogue.fields"], texts["epilogue.record"] = raggedFields, raggedRecord
	texts["epilogue.listed"] = raggedListed
	texts["epilogue.fits"], texts["epilogue.between"], texts["epilogue.item"] = raggedFits(e),
		raggedBetween, raggedDress
	if e.Scaled() {
		texts["epilogue.fields"] += raggedScaleFields
		texts["epilogue.record"] += raggedScaleRecord
		texts["epilogue.between"] += raggedScaleBetween(e)
		texts["epilogue.item"] += raggedScaleItem(e)
	}
	if e.Gather { // of an A that is not transposed
		texts["stored.a"] = "words[${gatherRows}u]"
		texts["epilogue.between"] += `
	p.offA = select(p.offA, words[${offA}u], byRows); // any rows of A`
		texts["epilogue.item"] += `
	words[at + ${item.offA}u] = p.offA;`
	}
	if e.Scatter {
		texts["stored.c"] = "words[${scatterRows}u]"
		texts["epilogue.between"] += `
	p.offC = select(p.offC, words[${offC}u], byRows);`
		texts["epilogue.item"] += `
	words[at + ${item.offC}u] = p.offC + col;`
	}
	if e.Gated {
		texts["epilogue.product"] = raggedProduct
		texts["epilogue.each"], texts["epilogue.end"] = "2u * (", ")"
		texts["epilogue.item"] += raggedSecondItem(e)
	}
	return texts
}

// raggedFields is where what a problem has beside begins.
const raggedFields = `
	offB2: u32,
	ldB2: u32,
	bias: u32,
	rowsA: u32,
	rowsC: u32,
	weights: u32,`

// raggedRecord takes it from a record.
const raggedRecord = `
	p.offB2 = sizes[at + ${record.offB2}u];
	p.ldB2 = sizes[at + ${record.ldb2}u];
	p.bias = sizes[at + ${record.bias}u];
	p.rowsA = sizes[at + ${record.rowsA}u];
	p.rowsC = sizes[at + ${record.rowsC}u];
	p.weights = sizes[at + ${record.weights}u];`

const raggedListed = `// listed: so many words or elements from first on lie in length.
fn listed(first: u32, n: u32, length: u32) -> bool {
	return first <= length && n <= length - first;
}

`

// raggedProduct: B2 fits where it is read.
const raggedProduct = `
			let fitsB2 = within(p.offB2, p.ldB2, select(p.depth, p.n, transB), ` +
	`select(p.n, p.depth, transB), words[${lenB2}u]);
			p.fits = p.fits && fitsB2;`

// raggedFits: what a record names beside matrices lies in its buffers.
func raggedFits(e encoding.Epilogue) string {
	var b strings.Builder
	fits := func(used bool, what string) {
		if used {
			b.WriteString("\n\t\tp.fits = p.fits && " + what + ";")
		}
	}
	fits(e.Gated, "(p.beta & 0x7fffffffu) == 0u")
	fits(e.Bias, fmt.Sprintf("listed(p.bias, %du * p.n, words[${lenBias}u])", e.Products()))
	fits(e.Gather, "listed(p.rowsA, p.m, words[${lenRows}u])")
	fits(e.Scatter, "listed(p.rowsC, p.m, words[${lenRows}u])")
	fits(e.Weights, "listed(p.weights, p.m, words[${lenRows}u])")
	fits(e.ScaleA != "", "listed(p.scaleA, "+raggedScalesA(e)+", words[${lenRows}u])")
	fits(e.ScaleB != "", "listed(p.scaleB, "+raggedScalesB(e)+", words[${lenRows}u])")
	// else words may not have 32 bits
	fits(e.Pairs, fmt.Sprintf("p.n <= words[${lenRows}u] / %du", e.Products()*e.ScaleWords()))
	fits(e.ScaleB.Group() > 0, raggedGroupsFit(e))
	fits(e.Blocks(), raggedBlocksFit(e))
	return b.String()
}

// raggedBetween finds them for a group that ends give.
const raggedBetween = `
	let row = select(g * p.m, first, byRows); // of all groups
	p.ldB2 = words[${ldb2}u];
	p.offB2 = words[${offB2}u] + select(first * select(p.ldB2, 1u, transB), g * words[${stride}u], byRows);
	p.bias = words[${bias}u] + g * words[${strideBias}u];
	p.rowsA = words[${rowsA}u] + row;
	p.rowsC = words[${rowsC}u] + row;
	p.weights = words[${weights}u] + row;`

// raggedDress writes what an item has more.
const raggedDress = `
	words[at + ${item.gatherAt}u] = p.rowsA + row;
	words[at + ${item.gatherRows}u] = words[${gatherRows}u];
	words[at + ${item.scatterAt}u] = p.rowsC + row;
	words[at + ${item.scatterRows}u] = words[${scatterRows}u];
	words[at + ${item.weightsAt}u] = p.weights + row;
	words[at + ${item.biasAt}u] = p.bias + col;`

// raggedSecondItem writes the second item of a gated tile, which is the first but for B, the bias and
// the scales of B.
func raggedSecondItem(e encoding.Epilogue) string {
	w := writer{depth: 1}
	for i := range encoding.EpilogueItemWords {
		w.line("words[second + %du] = words[at + %du];", i, i)
	}
	return `
	let second = at + ${item.words}u;
` + w.text.String() +
		`	words[second + ${item.offB}u] = p.offB2 + col * ` +
		`select(${apart.b}, p.ldB2, words[${transB}u] == 1u);
	words[second + ${item.ldb}u] = p.ldB2;
	words[second + ${item.biasAt}u] = words[at + ${item.biasAt}u] + p.n;
	words[second + ${item.flags}u] = ${second.flag}u | ` +
		`select(0u, ${vector.flag}u, ((p.offA | p.ldA | p.offB2 | p.ldB2) & words[${vector}u]) == 0u);` +
		raggedSecondScales(e)
}
