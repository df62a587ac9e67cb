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
	scaleA: u32,
	scaleB: u32,
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
	let at = g * 24u;
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
	p.scaleA = sizes[at + 20u];
	p.scaleB = sizes[at + 21u];
	let product = (p.alpha & 0x7fffffffu) != 0u && p.depth != 0u;
	if (p.fits && p.m != 0u && p.n != 0u) {
		p.fits = within(p.offC, p.ldC, select(p.m, words[50u], words[50u] != 0u), p.n, words[20u]);
		if (product) {
			let transA = words[6u] == 1u;
			let transB = words[7u] == 1u;
			let fitsA = within(p.offA, p.ldA, select(select(p.m, p.depth, transA), words[49u], words[49u] != 0u), select(p.depth, p.m, transA), words[18u]);
			let fitsB = within(p.offB, p.ldB, select(p.depth, p.n, transB), select(p.n, p.depth, transB), words[19u]);
			p.fits = p.fits && fitsA && fitsB;
		}
		p.fits = p.fits && (words[54u] == 0u || listed(p.bias, 1u * p.n, words[60u]));
		p.fits = p.fits && (words[49u] == 0u || listed(p.rowsA, p.m, words[61u]));
		p.fits = p.fits && (words[50u] == 0u || listed(p.rowsC, p.m, words[61u]));
		p.fits = p.fits && (words[53u] == 0u || listed(p.weights, p.m, words[61u]));
		p.fits = p.fits && listed(p.scaleB, (p.depth / 128u) * p.ldB, words[61u]);
		p.fits = p.fits && (p.depth == 0u || p.ldB <= words[61u] / max(p.depth / 128u, 1u)) && p.depth % 128u == 0u && p.ldB % 8u == 0u && p.offB % 32u == 0u;
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
	p.scaleA = words[62u];
	p.scaleB = words[63u];
	p.scaleB = p.scaleB + g * (p.depth / 128u) * p.ldB;
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

var<workgroup> sums: array<u32, 256>;
var<workgroup> keys: array<atomic<u32>, 1025>; // a byte for each entry
var<workgroup> counts: array<u32, 2048>; // entries of a pair of keys, 16 bits each, in each chunk; then those before
var<workgroup> pairs: array<u32, 32>; // entries of a pair of keys, then those of keys before
var<workgroup> worst: atomic<u32>; // groups from the first that is refused on
var<workgroup> wanted: atomic<u32>; // tiles, as groups would choose
var<workgroup> split: atomic<u32>; // tiles of the first kernel

// tiles of a group: none where nothing is left to do.
fn tiles(p: Problem, kernel: u32) -> u32 {
	let n = up(p.m, tile(kernel, 0u)) * up(p.n, tile(kernel, 1u));
	return select(n, 0u, p.m == 0u || p.n == 0u || (p.depth == 0u && p.beta == 1065353216u && false));
}

fn steps(p: Problem, kernel: u32) -> u32 {
	return max(up(p.depth, tile(kernel, 2u)), 1u);
}

// work predicts what the tiles of a group take of a saturated compute unit.
fn work(p: Problem, kernel: u32) -> f32 {
	let each = f32(steps(p, kernel)) * bitcast<f32>(tile(kernel, 7u)) + bitcast<f32>(tile(kernel, 8u));
	return f32(tiles(p, kernel)) * each;
}

// choose is the kernel of less work, of two.
fn choose(p: Problem) -> u32 {
	return select(0u, 1u, work(p, 1u) < work(p, 0u));
}

// add is a + b, and limit where that is more; a is not.
fn add(a: u32, b: u32, limit: u32) -> u32 {
	return select(a + b, limit, b > limit - a);
}

// scan is the sum of the x of all threads before this one; sums then has that with its own.
fn scan(t: u32, x: u32, limit: u32) -> u32 {
	sums[t] = x;
	workgroupBarrier();
	for (var d = 1u; d < 256u; d = d * 2u) {
		var y = 0u;
		if (t >= d) {
			y = sums[t - d];
		}
		workgroupBarrier();
		sums[t] = add(sums[t], y, limit);
		workgroupBarrier();
	}
	var before = 0u;
	if (t > 0u) {
		before = sums[t - 1u];
	}
	return before;
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) t: u32) {
	let groups = words[1u];
	let entries = words[2u];
	let two = words[21u] == 2u;
	let bins = words[25u];
	// Entries, and later ranks, of this thread where their order counts.
	let share = (entries + 256u - 1u) / 256u;
	let first = min(t * share, entries);
	let end = min(first + share, entries);

	// The first group that does not fit, by its own sizes or because of all rows up to it.
	let limit = words[3u] + 1u;
	let counted = words[0u] == 3u;
	var rows = 0u;
	for (var g = first; g < min(end, groups); g = g + 1u) {
		let p = problem(g, groups);
		if (!p.fits) {
			atomicMax(&worst, groups - g);
		}
		rows = add(rows, p.m, limit);
	}
	rows = scan(t, rows, limit);
	if (counted) {
		for (var g = first; g < min(end, groups); g = g + 1u) {
			rows = add(rows, sizes[g * 24u + 0u], limit);
			if (rows == limit) {
				atomicMax(&worst, groups - g);
				break;
			}
		}
	}
	workgroupBarrier();
	let known = groups - atomicLoad(&worst);
	if (t == 0u && known < groups) {
		if (words[64u] == 0u) {
			words[64u] = known + 1u;
		}
	}

	// With few tiles all groups take the second kernel.
	if (two) {
		var sum = 0u;
		for (var e = t; e < entries; e = e + 256u) {
			let p = problem(e, known);
			sum = sum + tiles(p, choose(p));
		}
		atomicAdd(&wanted, sum);
	}
	workgroupBarrier();
	let few = two && atomicLoad(&wanted) < words[24u];

	// The key of each entry: the first kernel and long K come first.
	for (var e = t; e < entries; e = e + 256u) {
		let p = problem(e, known);
		var kernel = 0u;
		if (two) {
			kernel = select(choose(p), 1u, few);
		}
		let last = bins - 1u;
		let key = kernel * bins + last - min(steps(p, kernel) >> tile(kernel, 3u), last);
		atomicOr(&keys[e / 4u], key << (8u * (e % 4u)));
	}
	workgroupBarrier();

	// Entries in the order of their keys: some threads count those of a chunk, with two keys
	// in a word.
	let chunk = (entries + 64u - 1u) / 64u;
	let low = min(t * chunk, entries);
	let high = min(low + chunk, entries);
	if (t < 64u) {
		for (var e = low; e < high; e = e + 1u) {
			let key = (atomicLoad(&keys[e / 4u]) >> (8u * (e % 4u))) & 0xffu;
			let at = key / 2u * 64u + t;
			counts[at] = counts[at] + (1u << (16u * (key % 2u)));
		}
	}
	workgroupBarrier();
	if (t < 32u) {
		var before = 0u;
		for (var c = 0u; c < 64u; c = c + 1u) {
			let n = counts[t * 64u + c];
			counts[t * 64u + c] = before;
			before = before + n;
		}
		pairs[t] = before;
	}
	workgroupBarrier();
	var before = 0u;
	if (t < 32u) {
		for (var pair = 0u; pair < t; pair = pair + 1u) {
			before = before + (pairs[pair] & 0xffffu) + (pairs[pair] >> 16u);
		}
		before = before | ((before + (pairs[t] & 0xffffu)) << 16u);
	}
	workgroupBarrier();
	if (t < 32u) {
		pairs[t] = before;
	}
	workgroupBarrier();
	let order = words[29u];
	if (t < 64u) {
		for (var e = low; e < high; e = e + 1u) {
			let key = (atomicLoad(&keys[e / 4u]) >> (8u * (e % 4u))) & 0xffu;
			let at = key / 2u * 64u + t;
			let shift = 16u * (key % 2u);
			let rank = ((counts[at] + pairs[key / 2u]) >> shift) & 0xffffu;
			counts[at] = counts[at] + (1u << shift);
			words[order + rank] = e | select(0u, 2147483648u, key >= bins);
		}
	}
	storageBarrier();
	workgroupBarrier();

	// Tiles before each rank. What a thread writes to starts, it alone reads here.
	let starts = words[28u];
	var mine = 0u;
	var ofFirst = 0u;
	for (var r = first; r < end; r = r + 1u) {
		let word = words[order + r];
		let e = word & 2147483647u;
		let n = tiles(problem(e, known), word / 2147483648u);
		words[starts + r] = n;
		mine = mine + n;
		if (word < 2147483648u) {
			ofFirst = ofFirst + n;
		}
	}
	atomicAdd(&split, ofFirst);
	var sum = scan(t, mine, 0xffffffffu);
	for (var r = first; r < end; r = r + 1u) {
		let n = words[starts + r];
		words[starts + r] = sum;
		sum = sum + n;
	}
	if (t == 0u) {
		let total = sums[256u - 1u];
		words[starts + entries] = total;
		words[words[30u] + 0u] = atomicLoad(&split);
		words[words[30u] + 1u] = total;
		words[words[30u] + 2u] = known;
	}
}
