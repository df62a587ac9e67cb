@group(0) @binding(0) var<storage, read> items: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> C: array<f32>;
@group(0) @binding(5) var<storage, read> workspace: array<vec4<f32>>;
@group(0) @binding(9) var<storage, read> indices: array<u32>;
var<workgroup> sums: array<vec4<f32>, 128>;

fn activate(v: f32) -> f32 {
	let z = v * (1.5957691216 + 0.0713548162726 * v * v);
	return select(v / (1.0 + exp(-z)), 0.0, bitcast<u32>(z) - 0xc2b00000u <= 0x3cd00000u);
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) worker: vec3<u32>, @builtin(local_invocation_index) t: u32) {
	let item0 = items[4u * worker.x];
	let item1 = items[4u * worker.x + 1u];
	let item2 = items[4u * worker.x + 2u];
	let item3 = items[4u * worker.x + 3u];
	let offC = item0.x;
	let ldC = item0.y;
	let rows = item0.z & 0xffffu;
	let cols = item0.z >> 16u;
	let alpha = bitcast<f32>(item1.x);
	let beta = bitcast<f32>(item1.y);
	let weightsAt = item2.z;
	let group = t / 16u;
	let vector = worker.y * 16u + t % 16u;
	let end = (item0.w + item1.z) * 256u;
	var at = (item0.w + group) * 256u + vector;
	var sum = vec4<f32>(0.0);
	for (; at + 6144u < end; at = at + 8192u) {
		let part0 = workspace[at];
		let part1 = workspace[at + 2048u];
		let part2 = workspace[at + 4096u];
		let part3 = workspace[at + 6144u];
		sum = sum + part0;
		sum = sum + part1;
		sum = sum + part2;
		sum = sum + part3;
	}
	for (; at < end; at = at + 2048u) {
		sum = sum + workspace[at];
	}
	sums[t] = sum;
	workgroupBarrier();
	if (group == 0u) {
		sum = sum + sums[t + 16u];
		sum = sum + sums[t + 32u];
		sum = sum + sums[t + 48u];
		sum = sum + sums[t + 64u];
		sum = sum + sums[t + 80u];
		sum = sum + sums[t + 96u];
		sum = sum + sums[t + 112u];
	}
	let row0 = vector / 8u;
	let vector0 = vector % 8u;
	let atC0 = offC + row0 * ldC + 4u * vector0;
	sum = alpha * sum;
	if (group == 0u) {
		if ((bitcast<u32>(beta) & 0x7fffffffu) != 0u) {
			sum = fma(vec4<f32>(beta), vec4<f32>(C[atC0], C[atC0 + 1u], C[atC0 + 2u], C[atC0 + 3u]), sum);
		}
		sum = vec4<f32>(activate(sum.x), activate(sum.y), activate(sum.z), activate(sum.w));
		let weight0 = bitcast<f32>(indices[weightsAt + row0]);
		sum = weight0 * sum;
		if (rows == 32u && cols == 32u) {
			C[atC0] = sum.x;
			C[atC0 + 1u] = sum.y;
			C[atC0 + 2u] = sum.z;
			C[atC0 + 3u] = sum.w;
		} else {
			if (row0 < rows) {
				if (4u * vector0 < cols) { C[atC0] = sum.x; }
				if (4u * vector0 + 1u < cols) { C[atC0 + 1u] = sum.y; }
				if (4u * vector0 + 2u < cols) { C[atC0 + 2u] = sum.z; }
				if (4u * vector0 + 3u < cols) { C[atC0 + 3u] = sum.w; }
			}
		}
	}
}
