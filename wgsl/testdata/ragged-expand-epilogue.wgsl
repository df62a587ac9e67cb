@group(0) @binding(0) var<storage, read_write> words: array<u32>;
@group(0) @binding(6) var<storage, read> sizes: array<u32>;

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
	offB2: u32,
	ldB2: u32,
	bias: u32,
	rowsA: u32,
	rowsC: u32,
	weights: u32,
}

// within: rows x cols elements of a matrix lie in length. Naga evaluates both sides of &&.
fn within(off: u32, ld: u32, rows: u32, cols: u32, length: u32) -> bool {
	let room = length - off - cols;
	return ld >= cols && ld <= 2147483647u && off <= length && cols <= length - off && rows - 1u <= room / max(ld, 1u);
}

// listed: so many words or elements from first on lie in length.
fn listed(first: u32, n: u32, length: u32) -> bool {
	return first <= length && n <= length - first;
}

fn record(g: u32) -> Problem {
	let at = g * 20u;
	var p: Problem;
	p.m = sizes[at + 0u];
	p.n = sizes[at + 1u];
	p.depth = sizes[at + 2u];
	p.offA = sizes[at + 6u];
	p.offB = sizes[at + 7u];
	p.offC = sizes[at + 8u];
	p.ldA = sizes[at + 3u];
	p.ldB = sizes[at + 4u];
	p.ldC = sizes[at + 5u];
	p.alpha = sizes[at + 9u];
	p.beta = sizes[at + 10u];
	p.fits = p.m <= words[3u] && p.n <= words[4u] && p.depth <= words[5u];
	p.offB2 = sizes[at + 12u];
	p.ldB2 = sizes[at + 13u];
	p.bias = sizes[at + 14u];
	p.rowsA = sizes[at + 15u];
	p.rowsC = sizes[at + 16u];
	p.weights = sizes[at + 17u];
	let product = (p.alpha & 0x7fffffffu) != 0u && p.depth != 0u;
	if (p.fits && p.m != 0u && p.n != 0u) {
		p.fits = within(p.offC, p.ldC, select(p.m, words[50u], words[50u] != 0u), p.n, words[20u]);
		if (product) {
			let transA = words[6u] == 1u;
			let transB = words[7u] == 1u;
			let fitsA = within(p.offA, p.ldA, select(select(p.m, p.depth, transA), words[49u], words[49u] != 0u), select(p.depth, p.m, transA), words[18u]);
			let fitsB = within(p.offB, p.ldB, select(p.depth, p.n, transB), select(p.n, p.depth, transB), words[19u]);
			p.fits = p.fits && fitsA && fitsB;
			let fitsB2 = within(p.offB2, p.ldB2, select(p.depth, p.n, transB), select(p.n, p.depth, transB), words[59u]);
			p.fits = p.fits && fitsB2;
		}
		p.fits = p.fits && (p.beta & 0x7fffffffu) == 0u;
		p.fits = p.fits && (words[54u] == 0u || listed(p.bias, 2u * p.n, words[60u]));
		p.fits = p.fits && (words[49u] == 0u || listed(p.rowsA, p.m, words[61u]));
		p.fits = p.fits && (words[50u] == 0u || listed(p.rowsC, p.m, words[61u]));
		p.fits = p.fits && (words[53u] == 0u || listed(p.weights, p.m, words[61u]));
	}
	return p;
}

// every is what all groups have in common.
fn every() -> Problem {
	var p: Problem;
	p.m = words[3u];
	p.n = words[4u];
	p.depth = words[5u];
	p.offA = words[8u];
	p.offB = words[9u];
	p.offC = words[10u];
	p.ldA = words[11u];
	p.ldB = words[12u];
	p.ldC = words[13u];
	p.alpha = words[16u];
	p.beta = words[17u];
	p.fits = true;
	return p;
}

// between is a group of rows or of depth from the end of the one before to its own. Negative
// ends are above every bound.
fn between(g: u32) -> Problem {
	var p = every();
	let byRows = words[0u] == 1u;
	let transA = words[6u] == 1u;
	let transB = words[7u] == 1u;
	var first = 0u;
	if (g > 0u) {
		first = sizes[g - 1u];
	}
	let end = sizes[g];
	p.fits = first <= end && end <= select(p.depth, p.m, byRows);
	p.offA = p.offA + first * select(p.ldA, 1u, transA == byRows);
	if (byRows) {
		p.m = end - first;
		p.offB = p.offB + g * words[14u];
		p.offC = p.offC + first * p.ldC;
	} else {
		p.depth = end - first;
		p.offB = p.offB + first * select(p.ldB, 1u, transB);
		p.offC = p.offC + g * words[14u];
	}
	let row = select(g * p.m, first, byRows); // of all groups
	p.ldB2 = words[57u];
	p.offB2 = words[56u] + select(first * select(p.ldB2, 1u, transB), g * words[14u], byRows);
	p.bias = words[54u] + g * words[55u];
	p.rowsA = words[51u] + row;
	p.rowsC = words[52u] + row;
	p.weights = words[53u] + row;
	p.offA = select(p.offA, words[8u], byRows && words[49u] != 0u); // any rows of A
	p.offC = select(p.offC, words[10u], byRows && words[50u] != 0u);
	return p;
}

// filled is C of no group: all rows, or that of the first one.
fn filled() -> Problem {
	var p = every();
	p.alpha = 0u;
	p.beta = words[15u];
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
	p.offC = p.offC + g * words[14u];
	if (words[0u] != 2u || p.beta == 1065353216u) {
		p.m = 0u;
	}
	return p;
}

// problem is what an entry computes where so many groups are not refused.
fn problem(entry: u32, known: u32) -> Problem {
	var p: Problem;
	if (entry >= words[1u]) {
		p = behind(known);
	} else {
		if (entry >= known) {
			p = refused(entry);
		} else {
			if (words[0u] == 3u) {
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
	return words[31u + kernel * 9u + word];
}

// up is x by a power of two, rounded up.
fn up(x: u32, shift: u32) -> u32 {
	return (x + (1u << shift) - 1u) >> shift;
}

// before is the tiles of workers before one. They are dealt in turn forth and back, since the
// longest come first.
fn before(worker: u32, tiles: u32, workers: u32) -> u32 {
	let rounds = tiles / workers;
	let rest = tiles % workers;
	if (rounds % 2u == 0u) {
		return worker * rounds + min(worker, rest);
	}
	return worker * rounds + worker - min(worker, workers - rest);
}

// rankOf is the last rank whose tiles begin at this one or before.
fn rankOf(starts: u32, entries: u32, u: u32) -> u32 {
	var r = 0u;
	var next = 0u;
	next = r + 4096u;
	if (next < entries) {
		if (words[starts + next] <= u) {
			r = next;
		}
	}
	next = r + 2048u;
	if (next < entries) {
		if (words[starts + next] <= u) {
			r = next;
		}
	}
	next = r + 1024u;
	if (next < entries) {
		if (words[starts + next] <= u) {
			r = next;
		}
	}
	next = r + 512u;
	if (next < entries) {
		if (words[starts + next] <= u) {
			r = next;
		}
	}
	next = r + 256u;
	if (next < entries) {
		if (words[starts + next] <= u) {
			r = next;
		}
	}
	next = r + 128u;
	if (next < entries) {
		if (words[starts + next] <= u) {
			r = next;
		}
	}
	next = r + 64u;
	if (next < entries) {
		if (words[starts + next] <= u) {
			r = next;
		}
	}
	next = r + 32u;
	if (next < entries) {
		if (words[starts + next] <= u) {
			r = next;
		}
	}
	next = r + 16u;
	if (next < entries) {
		if (words[starts + next] <= u) {
			r = next;
		}
	}
	next = r + 8u;
	if (next < entries) {
		if (words[starts + next] <= u) {
			r = next;
		}
	}
	next = r + 4u;
	if (next < entries) {
		if (words[starts + next] <= u) {
			r = next;
		}
	}
	next = r + 2u;
	if (next < entries) {
		if (words[starts + next] <= u) {
			r = next;
		}
	}
	next = r + 1u;
	if (next < entries) {
		if (words[starts + next] <= u) {
			r = next;
		}
	}
	return r;
}

// write writes the item of a tile of an entry.
fn write(at: u32, p: Problem, kernel: u32, number: u32) {
	let shiftM = tile(kernel, 0u);
	let shiftN = tile(kernel, 1u);
	let across = max(up(p.n, shiftN), 1u);
	let row = (number / across) << shiftM;
	let col = (number % across) << shiftN;
	let rows = min(p.m - row, 1u << shiftM);
	let cols = min(p.n - col, 1u << shiftN);
	words[at + 0u] = p.offA + row * select(p.ldA, 1u, words[6u] == 1u);
	words[at + 1u] = p.offB + col * select(1u, p.ldB, words[7u] == 1u);
	words[at + 2u] = p.offC + row * p.ldC + col;
	words[at + 3u] = p.depth;
	words[at + 4u] = p.ldA;
	words[at + 5u] = p.ldB;
	words[at + 6u] = p.ldC;
	words[at + 7u] = rows | (cols << 16u);
	words[at + 8u] = select(p.alpha, 0u, p.depth == 0u);
	words[at + 9u] = p.beta;
	words[at + 10u] = 4294967295u;
	words[at + 11u] = select(0u, 1u, ((p.offA | p.ldA | p.offB | p.ldB) & words[23u]) == 0u);
	words[at + 12u] = p.rowsA + row;
	words[at + 13u] = words[49u];
	words[at + 14u] = p.rowsC + row;
	words[at + 15u] = words[50u];
	words[at + 16u] = p.weights + row;
	words[at + 17u] = p.bias + col;
	if (words[49u] != 0u) {
		words[at + 0u] = p.offA;
	}
	if (words[50u] != 0u) {
		words[at + 2u] = p.offC + col;
	}
	let second = at + 24u;
	words[second + 0u] = words[at + 0u];
	words[second + 1u] = words[at + 1u];
	words[second + 2u] = words[at + 2u];
	words[second + 3u] = words[at + 3u];
	words[second + 4u] = words[at + 4u];
	words[second + 5u] = words[at + 5u];
	words[second + 6u] = words[at + 6u];
	words[second + 7u] = words[at + 7u];
	words[second + 8u] = words[at + 8u];
	words[second + 9u] = words[at + 9u];
	words[second + 10u] = words[at + 10u];
	words[second + 11u] = words[at + 11u];
	words[second + 12u] = words[at + 12u];
	words[second + 13u] = words[at + 13u];
	words[second + 14u] = words[at + 14u];
	words[second + 15u] = words[at + 15u];
	words[second + 16u] = words[at + 16u];
	words[second + 17u] = words[at + 17u];
	words[second + 18u] = words[at + 18u];
	words[second + 19u] = words[at + 19u];
	words[second + 20u] = words[at + 20u];
	words[second + 21u] = words[at + 21u];
	words[second + 22u] = words[at + 22u];
	words[second + 23u] = words[at + 23u];
	words[second + 1u] = p.offB2 + col * select(1u, p.ldB2, words[7u] == 1u);
	words[second + 5u] = p.ldB2;
	words[second + 17u] = words[at + 17u] + p.n;
	words[second + 11u] = 4u | select(0u, 1u, ((p.offA | p.ldA | p.offB2 | p.ldB2) & words[23u]) == 0u);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) worker: vec3<u32>, @builtin(local_invocation_index) t: u32) {
	let id = worker.x * 256u + t;
	let stride = words[26u] * 256u;
	let items = words[27u];
	let starts = words[28u];
	let order = words[29u];
	let split = words[words[30u] + 0u];
	let total = words[words[30u] + 1u];
	let known = words[words[30u] + 2u];
	for (var kernel = 0u; kernel < words[21u]; kernel = kernel + 1u) {
		let first = select(0u, split, kernel == 1u);
		let tiles = select(split, total - split, kernel == 1u);
		let workers = tile(kernel, 4u);
		let table = tile(kernel, 6u);
		for (var w = id; w <= workers; w = w + stride) {
			words[table + w] = 2u * (first + before(w, tiles, workers));
		}
	}
	for (var u = id; u < total; u = u + stride) {
		let rank = rankOf(starts, words[2u], u);
		let entry = words[order + rank];
		let kernel = entry / 2147483648u;
		let first = select(0u, split, kernel == 1u);
		let tiles = select(split, total - split, kernel == 1u);
		let workers = tile(kernel, 4u);
		let turns = (u - first) / workers;
		let place = (u - first) % workers;
		let w = select(place, workers - 1u - place, turns % 2u == 1u);
		let index = first + before(w, tiles, workers) + turns;
		write(items + index * 48u, problem(entry & 2147483647u, known), kernel, u - words[starts + rank]);
	}
}
