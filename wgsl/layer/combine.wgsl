fn element(at: u32) -> f32 {
#if f32
	return bitcast<f32>(A[at]);
#end
#if halves
	return numbers(A[at / 2u] >> (16u * (at % 2u))).x;
#end
}

// sum is that of an element, as bits.
fn sum(at: u32) -> u32 {
	let hidden = words[${hidden}u];
	let topK = words[${topK}u];
	let first = at / hidden * topK;
	let col = at % hidden;
	var all = 0.0;
	for (var i = first; i < first + topK; i = i + 1u) {
		if (expert(i) < words[${experts}u]) {
			all = all + element(i * hidden + col);
		}
	}
	return bitcast<u32>(all);
}

@compute @workgroup_size(${threads})
fn main(@builtin(workgroup_id) worker: vec3<u32>, @builtin(local_invocation_index) t: u32) {
	let n = words[${tokens}u] * words[${hidden}u];
	let step = words[${groups}u] * ${threads}u;
	for (var w = worker.x * ${threads}u + t; w * ${per}u < n; w = w + step) {
#if f32
		C[w] = sum(w);
#end
#if halves
		let first = tame(sum(2u * w));
		var second = 0u;
		if (2u * w + 1u < n) {
			second = tame(sum(2u * w + 1u));
		}
		let both = pair(first, second);
		C[w] = select((C[w] & 0xffff0000u) | (both & 0xffffu), both, 2u * w + 1u < n);
#end
	}
}
