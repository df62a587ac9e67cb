// What an entry computes: a group, or C of no group, which is filled.
struct Problem {
	m: u32,
	n: u32,
	depth: u32,
	offA: u32,
	offB: u32,
	offC: u32,
	ldA: u32,
	ldB: u32,
	ldC: u32,
	alpha: u32,
	beta: u32,
	fits: bool,
#if tail
	offB2: u32,
	ldB2: u32,
	bias: u32,
	rowsA: u32,
	rowsC: u32,
	weights: u32,
#end
#if scaled
	scaleA: u32,
	scaleB: u32,
#end
}

// within: rows x cols elements of a matrix lie in length. Naga evaluates both sides of &&.
fn within(off: u32, ld: u32, rows: u32, cols: u32, length: u32) -> bool {
	let room = length - off - cols;
	return ld >= cols && ld <= ${most}u && off <= length && cols <= length - off && rows - 1u <= room / max(ld, 1u);
}

#if tail
// listed: so many words or elements from first on lie in length.
fn listed(first: u32, n: u32, length: u32) -> bool {
	return first <= length && n <= length - first;
}

#end
fn record(g: u32) -> Problem {
	let at = g * ${record}u;
	var p: Problem;
	p.m = sizes[at + ${record.m}u];
	p.n = sizes[at + ${record.n}u];
	p.depth = sizes[at + ${record.k}u];
	p.offA = sizes[at + ${record.offA}u];
	p.offB = sizes[at + ${record.offB}u];
	p.offC = sizes[at + ${record.offC}u];
	p.ldA = sizes[at + ${record.lda}u];
	p.ldB = sizes[at + ${record.ldb}u];
	p.ldC = sizes[at + ${record.ldc}u];
	p.alpha = sizes[at + ${record.alpha}u];
	p.beta = sizes[at + ${record.beta}u];
	p.fits = p.m <= words[${m}u] && p.n <= words[${n}u] && p.depth <= words[${k}u];
#if tail
	p.offB2 = sizes[at + ${record.offB2}u];
	p.ldB2 = sizes[at + ${record.ldb2}u];
	p.bias = sizes[at + ${record.bias}u];
	p.rowsA = sizes[at + ${record.rowsA}u];
	p.rowsC = sizes[at + ${record.rowsC}u];
	p.weights = sizes[at + ${record.weights}u];
#end
#if scaled
	p.scaleA = sizes[at + ${record.scaleA}u];
	p.scaleB = sizes[at + ${record.scaleB}u];
#end
	let product = (p.alpha & 0x7fffffffu) != 0u && p.depth != 0u;
	if (p.fits && p.m != 0u && p.n != 0u) {
		p.fits = within(p.offC, p.ldC, ${stored.c}, p.n, words[${lenC}u]);
		if (product) {
			let transA = words[${transA}u] == 1u;
			let transB = words[${transB}u] == 1u;
			let fitsA = within(p.offA, p.ldA, ${stored.a}, select(p.depth, p.m, transA), words[${lenA}u]);
			let fitsB = within(p.offB, p.ldB, select(p.depth, p.n, transB), select(p.n, p.depth, transB), words[${lenB}u]);
			p.fits = p.fits && fitsA && fitsB;
#if gated
			let fitsB2 = within(p.offB2, p.ldB2, select(p.depth, p.n, transB), select(p.n, p.depth, transB), words[${lenB2}u]);
			p.fits = p.fits && fitsB2;
#end
		}
#if gated
		p.fits = p.fits && (p.beta & 0x7fffffffu) == 0u;
#end
#if tail
		p.fits = p.fits && (words[${bias}u] == 0u || listed(p.bias, ${products}u * p.n, words[${lenBias}u]));
		p.fits = p.fits && (words[${gatherRows}u] == 0u || listed(p.rowsA, p.m, words[${lenRows}u]));
		p.fits = p.fits && (words[${scatterRows}u] == 0u || listed(p.rowsC, p.m, words[${lenRows}u]));
		p.fits = p.fits && (words[${weights}u] == 0u || listed(p.weights, p.m, words[${lenRows}u]));
#end
#if scale-a
		p.fits = p.fits && listed(p.scaleA, ${scales.a}, words[${lenRows}u]);
#end
#if scale-b
		p.fits = p.fits && listed(p.scaleB, ${scales.b}, words[${lenRows}u]);
#end
#if pairs
		p.fits = p.fits && p.n <= words[${lenRows}u] / ${scales.column}u;
#end
#if groups
		p.fits = p.fits && ${groups.fit};
#end
#if blocks
		p.fits = p.fits && ${blocks.fit};
#end
	}
	return p;
}

// every is what all groups have in common.
fn every() -> Problem {
	var p: Problem;
	p.m = words[${m}u];
	p.n = words[${n}u];
	p.depth = words[${k}u];
	p.offA = words[${offA}u];
	p.offB = words[${offB}u];
	p.offC = words[${offC}u];
	p.ldA = words[${lda}u];
	p.ldB = words[${ldb}u];
	p.ldC = words[${ldc}u];
	p.alpha = words[${alpha}u];
	p.beta = words[${beta}u];
	p.fits = true;
	return p;
}

// between is a group of rows or of depth from the end of the one before to its own. Negative
// ends are above every bound.
fn between(g: u32) -> Problem {
	var p = every();
	let byRows = words[${form}u] == ${rows}u;
	let transA = words[${transA}u] == 1u;
	let transB = words[${transB}u] == 1u;
	var first = 0u;
	if (g > 0u) {
		first = sizes[g - 1u];
	}
	let end = sizes[g];
	p.fits = first <= end && end <= select(p.depth, p.m, byRows);
	p.offA = p.offA + first * select(p.ldA, 1u, transA == byRows);
	if (byRows) {
		p.m = end - first;
		p.offB = p.offB + g * words[${stride}u];
		p.offC = p.offC + first * p.ldC;
	} else {
		p.depth = end - first;
		p.offB = p.offB + first * select(p.ldB, 1u, transB);
		p.offC = p.offC + g * words[${stride}u];
	}
#if tail
	let row = select(g * p.m, first, byRows); // of all groups
	p.ldB2 = words[${ldb2}u];
	p.offB2 = words[${offB2}u] + select(first * select(p.ldB2, 1u, transB), g * words[${stride}u], byRows);
	p.bias = words[${bias}u] + g * words[${strideBias}u];
	p.rowsA = words[${rowsA}u] + row;
	p.rowsC = words[${rowsC}u] + row;
	p.weights = words[${weights}u] + row;
#end
#if scaled
	p.scaleA = words[${scaleA}u];
	p.scaleB = words[${scaleB}u];
#end
#if each-row
	p.scaleA = p.scaleA + ${scales.row};
#end
#if scale-b
	p.scaleB = p.scaleB + g * ${scales.b};
#end
#if tail
	p.offA = select(p.offA, words[${offA}u], byRows && words[${gatherRows}u] != 0u); // any rows of A
	p.offC = select(p.offC, words[${offC}u], byRows && words[${scatterRows}u] != 0u);
#end
	return p;
}

// filled is C of no group: all rows, or that of the first one.
fn filled() -> Problem {
	var p = every();
	p.alpha = 0u;
	p.beta = words[${rest}u];
	return p;
}

// behind is the rows behind the last group that is not refused.
fn behind(known: u32) -> Problem {
	var p = filled();
	var end = 0u;
	if (known > 0u) {
		end = sizes[known - 1u];
	}
	p.m = p.m - end;
	p.offC = p.offC + end * p.ldC;
	return p;
}

// refused is the C of a group of depth that is to be filled, else nothing.
fn refused(g: u32) -> Problem {
	var p = filled();
	p.offC = p.offC + g * words[${stride}u];
	if (words[${form}u] != ${depth}u || p.beta == ${one}u) {
		p.m = 0u;
	}
	return p;
}

// problem is what an entry computes where so many groups are not refused.
fn problem(entry: u32, known: u32) -> Problem {
	var p: Problem;
	if (entry >= words[${groups}u]) {
		p = behind(known);
	} else {
		if (entry >= known) {
			p = refused(entry);
		} else {
			if (words[${form}u] == ${records}u) {
				p = record(entry);
			} else {
				p = between(entry);
			}
		}
	}
	if ((p.alpha & 0x7fffffffu) == 0u) {
		p.depth = 0u;
	}
	return p;
}

// tile is a word of what is known of a kernel.
fn tile(kernel: u32, word: u32) -> u32 {
	return words[${tile}u + kernel * ${tile.words}u + word];
}

// up is x by a power of two, rounded up.
fn up(x: u32, shift: u32) -> u32 {
	return (x + (1u << shift) - 1u) >> shift;
}
