@group(0) @binding(0) var<storage, read> items: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> C: array<f32>;
@group(0) @binding(5) var<storage, read> workspace: array<vec4<f32>>;
@group(0) @binding(9) var<storage, read> indices: array<u32>;
var<workgroup> sums: array<vec4<f32>, 128>;

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
	let gatherAt = item3.x;
	let gatherRows = item3.y;
	let scaleAAt = item3.z;
	let scaleBAt = item3.w;
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
	{
		let from0 = indices[gatherAt + row0];
		let is0 = from0 < gatherRows;
		let zero0 = select(0.0, f32(bitcast<i32>(indices[scaleAAt + 1u])), is0);
		let sums0 = vec4<f32>(f32(bitcast<i32>(indices[scaleBAt + 2u * (4u * vector0) + 1u])), f32(bitcast<i32>(indices[scaleBAt + 2u * (4u * vector0 + 1u) + 1u])), f32(bitcast<i32>(indices[scaleBAt + 2u * (4u * vector0 + 2u) + 1u])), f32(bitcast<i32>(indices[scaleBAt + 2u * (4u * vector0 + 3u) + 1u])));
		sum = fma(vec4<f32>(-zero0), sums0, sum);
	}
	let atC0 = offC + row0 * ldC + 4u * vector0;
	sum = alpha * sum;
	if (group == 0u) {
		{
			let scale0 = bitcast<f32>(indices[scaleAAt]);
			sum = sum * vec4<f32>(scale0);
			let scales0 = vec4<f32>(bitcast<f32>(indices[scaleBAt + 2u * (4u * vector0)]), bitcast<f32>(indices[scaleBAt + 2u * (4u * vector0 + 1u)]), bitcast<f32>(indices[scaleBAt + 2u * (4u * vector0 + 2u)]), bitcast<f32>(indices[scaleBAt + 2u * (4u * vector0 + 3u)]));
			sum = sum * scales0;
		}
		if ((bitcast<u32>(beta) & 0x7fffffffu) != 0u) {
			sum = fma(vec4<f32>(beta), vec4<f32>(C[atC0], C[atC0 + 1u], C[atC0 + 2u], C[atC0 + 3u]), sum);
		}
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
