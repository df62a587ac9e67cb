var<workgroup> sums: array<f32, ${threads}>;

fn gradient(at: u32) -> f32 {
#if f32
	return bitcast<f32>(B[at]);
#end
#if halves
	return numbers(B[at / 2u] >> (16u * (at % 2u))).x;
#end
}

// slope is the derivative by a column of pre, times up or gate.
fn slope(row: u32, at: u32) -> f32 {
	let hidden = words[${hidden}u];
	let flags = words[${flags}u];
	var col = at;
	var up = false;
	if ((flags & ${turns}u) != 0u) {
		col = at / 2u;
		up = at % 2u == 1u;
	} else if (at >= hidden) {
		col = at - hidden;
		up = true;
	}
	let both = pre(row, col);
	let gate = activation(both.x);
	let by = factor(both.y);
	return gradient(row * hidden + col) * select(gate.y * by.x, gate.x * by.y, up);
}

// wordsOf is how many words a part of C has, so that the next one is aligned.
fn wordsOf(elements: u32) -> u32 {
	return (elements + 4u * ${per}u - 1u) / (4u * ${per}u) * 4u;
}

@compute @workgroup_size(${threads})
fn main(@builtin(workgroup_id) worker: vec3<u32>, @builtin(local_invocation_index) t: u32) {
	let hidden = words[${hidden}u];
	let n = words[${tokens}u] * words[${topK}u];
	let width = select(hidden, 2u * hidden, (words[${flags}u] & ${gated}u) != 0u);
	let rows = rowsOf(n);
	let lists = words[${first}u];
	let atRows = wordsOf(n * width);
	let atWeights = atRows + wordsOf(n * hidden);
	for (var row = worker.x; row < n; row = row + words[${groups}u]) {
		let there = row < rows;
		let weight = bitcast<f32>(sizes[lists + 2u * n + row]);
		var sum = 0.0;
		if (there) {
			for (var col = t; col < hidden; col = col + ${threads}u) {
				sum = sum + h(row, col) * gradient(row * hidden + col);
			}
			let end = (row + 1u) * width;
			for (var w = row * width / ${per}u + t; w * ${per}u < end; w = w + ${threads}u) {
				var all = 0u;
				var mask = 0u;
				for (var i = max(${per}u * w, row * width); i < min(${per}u * w + ${per}u, end); i = i + 1u) {
					put(i, bitcast<u32>(weight * slope(row, i - row * width)), &all, &mask);
				}
				write(w, all, mask);
			}
			let begin = row * hidden;
			let last = begin + hidden;
			for (var w = begin / ${per}u + t; w * ${per}u < last; w = w + ${threads}u) {
				var all = 0u;
				var mask = 0u;
				for (var i = max(${per}u * w, begin); i < min(${per}u * w + ${per}u, last); i = i + 1u) {
					put(i, bitcast<u32>(weight * h(row, i - begin)), &all, &mask);
				}
				write(atRows + w, all, mask);
			}
		}
		sums[t] = sum;
		workgroupBarrier();
		for (var half = ${threads}u / 2u; half > 0u; half = half / 2u) {
			if (t < half) {
				sums[t] = sums[t] + sums[t + half];
			}
			workgroupBarrier();
		}
		if (t == 0u) {
			if (expert(row) >= words[${experts}u]) {
				atomicStore(&C[atWeights + row], 0u);
			}
			let slot = sizes[lists + n + row];
			if (there && slot < n) {
				atomicStore(&C[atWeights + slot], bitcast<u32>(sums[0]));
			}
		}
		workgroupBarrier();
	}
}
