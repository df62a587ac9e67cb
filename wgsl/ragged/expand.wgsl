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
${search}	return r;
}

// write writes the item of a tile of an entry.
fn write(at: u32, p: Problem, kernel: u32, number: u32) {
	let shiftM = tile(kernel, ${tile.tm}u);
	let shiftN = tile(kernel, ${tile.tn}u);
	let across = max(up(p.n, shiftN), 1u);
	let row = (number / across) << shiftM;
	let col = (number % across) << shiftN;
	let rows = min(p.m - row, 1u << shiftM);
	let cols = min(p.n - col, 1u << shiftN);
	words[at + ${item.offA}u] = p.offA + row * select(p.ldA, 1u, words[${transA}u] == 1u);
	words[at + ${item.offB}u] = p.offB + col * select(${apart.b}, p.ldB, words[${transB}u] == 1u);
	words[at + ${item.offC}u] = p.offC + row * p.ldC + col;
	words[at + ${item.depth}u] = p.depth;
	words[at + ${item.lda}u] = p.ldA;
	words[at + ${item.ldb}u] = p.ldB;
	words[at + ${item.ldc}u] = p.ldC;
	words[at + ${item.extent}u] = rows | (cols << ${shift.cols}u);
	words[at + ${item.alpha}u] = select(p.alpha, 0u, p.depth == 0u);
	words[at + ${item.beta}u] = p.beta;
	words[at + ${item.slot}u] = ${final}u;
	words[at + ${item.flags}u] = select(0u, ${vector.flag}u, ((p.offA | p.ldA | p.offB | p.ldB) & words[${vector}u]) == 0u);
#if tail
	words[at + ${item.gatherAt}u] = p.rowsA + row;
	words[at + ${item.gatherRows}u] = words[${gatherRows}u];
	words[at + ${item.scatterAt}u] = p.rowsC + row;
	words[at + ${item.scatterRows}u] = words[${scatterRows}u];
	words[at + ${item.weightsAt}u] = p.weights + row;
	words[at + ${item.biasAt}u] = p.bias + col;
#end
#if scaled
	words[at + ${item.scaleAAt}u] = p.scaleA${scales.toRow};
	words[at + ${item.scaleBAt}u] = p.scaleB${scales.toCol};
#end
#if tail
	if (words[${gatherRows}u] != 0u) {
		words[at + ${item.offA}u] = p.offA;
	}
	if (words[${scatterRows}u] != 0u) {
		words[at + ${item.offC}u] = p.offC + col;
	}
#end
#if gated
	let second = at + ${item.words}u;
${item.copy}	words[second + ${item.offB}u] = p.offB2 + col * select(${apart.b}, p.ldB2, words[${transB}u] == 1u);
	words[second + ${item.ldb}u] = p.ldB2;
	words[second + ${item.biasAt}u] = words[at + ${item.biasAt}u] + p.n;
	words[second + ${item.flags}u] = ${second.flag}u | select(0u, ${vector.flag}u, ((p.offA | p.ldA | p.offB2 | p.ldB2) & words[${vector}u]) == 0u);
#end
#if gated scale-b
	words[second + ${item.scaleBAt}u] = words[at + ${item.scaleBAt}u] + ${scales.ofB};
#end
}

@compute @workgroup_size(${threads})
fn main(@builtin(workgroup_id) worker: vec3<u32>, @builtin(local_invocation_index) t: u32) {
	let id = worker.x * ${threads}u + t;
	let stride = words[${makers}u] * ${threads}u;
	let items = words[${items}u];
	let starts = words[${starts}u];
	let order = words[${order}u];
	let split = words[words[${split}u] + ${split.tiles}u];
	let total = words[words[${split}u] + ${split.total}u];
	let known = words[words[${split}u] + ${split.groups}u];
	for (var kernel = 0u; kernel < words[${kernels}u]; kernel = kernel + 1u) {
		let first = select(0u, split, kernel == 1u);
		let tiles = select(split, total - split, kernel == 1u);
		let workers = tile(kernel, ${tile.workers}u);
		let table = tile(kernel, ${tile.table}u);
		for (var w = id; w <= workers; w = w + stride) {
			words[table + w] = ${items.before};
		}
	}
	for (var u = id; u < total; u = u + stride) {
		let rank = rankOf(starts, words[${entries}u], u);
		let entry = words[order + rank];
		let kernel = entry / ${second}u;
		let first = select(0u, split, kernel == 1u);
		let tiles = select(split, total - split, kernel == 1u);
		let workers = tile(kernel, ${tile.workers}u);
		let turns = (u - first) / workers;
		let place = (u - first) % workers;
		let w = select(place, workers - 1u - place, turns % 2u == 1u);
		let index = first + before(w, tiles, workers) + turns;
		write(items + index * ${item}u, problem(entry & ${entry}u, known), kernel, u - words[starts + rank]);
	}
}
