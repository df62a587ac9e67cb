var<workgroup> sums: array<u32, ${threads}>;
var<workgroup> keys: array<atomic<u32>, ${keys.packed}>; // a byte for each entry
var<workgroup> counts: array<u32, ${counts}>; // entries of a pair of keys, 16 bits each, in each chunk; then those before
var<workgroup> pairs: array<u32, ${pairs}>; // entries of a pair of keys, then those of keys before
var<workgroup> worst: atomic<u32>; // groups from the first that is refused on
var<workgroup> wanted: atomic<u32>; // tiles, as groups would choose
var<workgroup> split: atomic<u32>; // tiles of the first kernel

// tiles of a group: none where nothing is left to do.
fn tiles(p: Problem, kernel: u32) -> u32 {
	let n = up(p.m, tile(kernel, ${tile.tm}u)) * up(p.n, tile(kernel, ${tile.tn}u));
	return select(n, 0u, p.m == 0u || p.n == 0u || (p.depth == 0u && p.beta == ${one}u${written}));
}

fn steps(p: Problem, kernel: u32) -> u32 {
	return max(up(p.depth, tile(kernel, ${tile.tk}u)), 1u);
}

// work predicts what the tiles of a group take of a saturated compute unit.
fn work(p: Problem, kernel: u32) -> f32 {
	let each = f32(steps(p, kernel)) * bitcast<f32>(tile(kernel, ${tile.step}u)) + bitcast<f32>(tile(kernel, ${tile.worker}u));
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
	for (var d = 1u; d < ${threads}u; d = d * 2u) {
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

@compute @workgroup_size(${threads})
fn main(@builtin(local_invocation_index) t: u32) {
	let groups = words[${groups}u];
	let entries = words[${entries}u];
	let two = words[${kernels}u] == 2u;
	let bins = words[${bins}u];
	// Entries, and later ranks, of this thread where their order counts.
	let share = (entries + ${threads}u - 1u) / ${threads}u;
	let first = min(t * share, entries);
	let end = min(first + share, entries);

	// The first group that does not fit, by its own sizes or because of all rows up to it.
	let limit = words[${m}u] + 1u;
	let counted = words[${form}u] == ${records}u;
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
			rows = add(rows, sizes[g * ${record}u + ${record.m}u], limit);
			if (rows == limit) {
				atomicMax(&worst, groups - g);
				break;
			}
		}
	}
	workgroupBarrier();
	let known = groups - atomicLoad(&worst);
	if (t == 0u && known < groups) {
		if (words[${status}u] == 0u) {
			words[${status}u] = known + 1u;
		}
	}

	// With few tiles all groups take the second kernel.
	if (two) {
		var sum = 0u;
		for (var e = t; e < entries; e = e + ${threads}u) {
			let p = problem(e, known);
			sum = sum + tiles(p, choose(p));
		}
		atomicAdd(&wanted, sum);
	}
	workgroupBarrier();
	let few = two && atomicLoad(&wanted) < words[${fill}u];

	// The key of each entry: the first kernel and long K come first.
	for (var e = t; e < entries; e = e + ${threads}u) {
		let p = problem(e, known);
		var kernel = 0u;
		if (two) {
			kernel = select(choose(p), 1u, few);
		}
		let last = bins - 1u;
		let key = kernel * bins + last - min(steps(p, kernel) >> tile(kernel, ${tile.shift}u), last);
		atomicOr(&keys[e / 4u], key << (8u * (e % 4u)));
	}
	workgroupBarrier();

	// Entries in the order of their keys: some threads count those of a chunk, with two keys
	// in a word.
	let chunk = (entries + ${chunks}u - 1u) / ${chunks}u;
	let low = min(t * chunk, entries);
	let high = min(low + chunk, entries);
	if (t < ${chunks}u) {
		for (var e = low; e < high; e = e + 1u) {
			let key = (atomicLoad(&keys[e / 4u]) >> (8u * (e % 4u))) & 0xffu;
			let at = key / 2u * ${chunks}u + t;
			counts[at] = counts[at] + (1u << (16u * (key % 2u)));
		}
	}
	workgroupBarrier();
	if (t < ${pairs}u) {
		var before = 0u;
		for (var c = 0u; c < ${chunks}u; c = c + 1u) {
			let n = counts[t * ${chunks}u + c];
			counts[t * ${chunks}u + c] = before;
			before = before + n;
		}
		pairs[t] = before;
	}
	workgroupBarrier();
	var before = 0u;
	if (t < ${pairs}u) {
		for (var pair = 0u; pair < t; pair = pair + 1u) {
			before = before + (pairs[pair] & 0xffffu) + (pairs[pair] >> 16u);
		}
		before = before | ((before + (pairs[t] & 0xffffu)) << 16u);
	}
	workgroupBarrier();
	if (t < ${pairs}u) {
		pairs[t] = before;
	}
	workgroupBarrier();
	let order = words[${order}u];
	if (t < ${chunks}u) {
		for (var e = low; e < high; e = e + 1u) {
			let key = (atomicLoad(&keys[e / 4u]) >> (8u * (e % 4u))) & 0xffu;
			let at = key / 2u * ${chunks}u + t;
			let shift = 16u * (key % 2u);
			let rank = ((counts[at] + pairs[key / 2u]) >> shift) & 0xffffu;
			counts[at] = counts[at] + (1u << shift);
			words[order + rank] = e | select(0u, ${second}u, key >= bins);
		}
	}
	storageBarrier();
	workgroupBarrier();

	// Tiles before each rank. What a thread writes to starts, it alone reads here.
	let starts = words[${starts}u];
	var mine = 0u;
	var ofFirst = 0u;
	for (var r = first; r < end; r = r + 1u) {
		let word = words[order + r];
		let e = word & ${entry}u;
		let n = tiles(problem(e, known), word / ${second}u);
		words[starts + r] = n;
		mine = mine + n;
		if (word < ${second}u) {
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
		let total = sums[${threads}u - 1u];
		words[starts + entries] = total;
		words[words[${split}u] + ${split.tiles}u] = atomicLoad(&split);
		words[words[${split}u] + ${split.total}u] = total;
		words[words[${split}u] + ${split.groups}u] = known;
	}
}
