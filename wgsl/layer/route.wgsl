// Choices of each of the workgroup's experts that a thread has, then the places of their rows: by expert, then
// by thread.
var<workgroup> cells: array<u32, ${cells}>;
var<workgroup> sums: array<u32, ${threads}>;
// Choices of experts before the workgroup's.
var<workgroup> before: atomic<u32>;

fn weight(i: u32) -> u32 {
#if f32
	return A[i];
#end
#if halves
	return bitcast<u32>(numbers(A[i / 2u] >> (16u * (i % 2u))).x);
#end
}

@compute @workgroup_size(${threads})
fn main(@builtin(workgroup_id) worker: vec3<u32>, @builtin(local_invocation_index) t: u32) {
	let topK = words[${topK}u];
	let n = words[${tokens}u] * topK;
	let first = worker.x * ${share}u;
	let end = min(first + ${share}u, words[${experts}u]);
	let part = (n + ${threads}u - 1u) / ${threads}u;
	let begin = min(t * part, n);
	let behind = min(begin + part, n);
	for (var c = 0u; c < ${share}u; c = c + 1u) {
		cells[c * ${threads}u + t] = 0u;
	}
	if (t == 0u) {
		atomicStore(&before, 0u);
	}
	workgroupBarrier();
	var lower = 0u;
	for (var i = begin; i < behind; i = i + 1u) {
		let e = expert(i);
		if (e < first) {
			lower = lower + 1u;
		} else if (e < end) {
			let at = (e - first) * ${threads}u + t;
			cells[at] = cells[at] + 1u;
		}
	}
	atomicAdd(&before, lower);
	workgroupBarrier();
	var sum = 0u;
	for (var c = 0u; c < ${share}u; c = c + 1u) {
		sum = sum + cells[${share}u * t + c];
	}
	sums[t] = sum;
	workgroupBarrier();
	for (var by = 1u; by < ${threads}u; by = by * 2u) {
		let other = select(0u, sums[max(t, by) - by], t >= by);
		workgroupBarrier();
		sums[t] = sums[t] + other;
		workgroupBarrier();
	}
	var place = atomicLoad(&before) + sums[t] - sum;
	for (var c = 0u; c < ${share}u; c = c + 1u) {
		let at = ${share}u * t + c;
		let count = cells[at];
		cells[at] = place;
		place = place + count;
	}
	workgroupBarrier();
	if (t < end - first) {
		let last = atomicLoad(&before) + sums[${threads}u - 1u];
		let next = min((t + 1u) * ${threads}u, ${cells}u - 1u);
		C[first + t] = select(cells[next], last, t == ${share}u - 1u);
	}
	workgroupBarrier();
	let lists = words[${first}u];
	for (var i = begin; i < behind; i = i + 1u) {
		let e = expert(i);
		if (e >= first && e < end) {
			let at = (e - first) * ${threads}u + t;
			let row = lists + cells[at];
			cells[at] = cells[at] + 1u;
			C[row] = i / topK;
			C[row + n] = i;
			C[row + 2u * n] = weight(i);
		}
	}
}
