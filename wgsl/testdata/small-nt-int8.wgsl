@group(0) @binding(0) var<storage, read> items: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> A: array<u32>;
@group(0) @binding(2) var<storage, read> B: array<u32>;
@group(0) @binding(3) var<storage, read_write> C: array<f32>;
var<workgroup> sharedA: array<array<f32, 17>, 16>;
var<workgroup> sharedB: array<array<vec2<f32>, 9>, 16>;

fn numbers(word: u32) -> vec2<f32> {
	return vec2<f32>(bitcast<vec2<i32>>(vec2<u32>(word << 24u, word << 8u)) >> vec2<u32>(24u));
}

fn number(word: u32, half: u32) -> f32 {
	return numbers(word >> half).x;
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) worker: vec3<u32>, @builtin(local_invocation_index) t: u32) {
	let part = t / 32u;
	let lane = t % 32u;
	let ty = 8u * (part / 2u) + lane / 4u;
	let tx = 4u * (part % 2u) + lane % 4u;
	let readA0 = ty;
	let readB0 = tx;
	let alongA = t % 16u;
	let acrossA = t / 16u;
	var wordA00: u32;
	var nextA0: u32;
	var nextA1: u32;
	var laterA0: u32;
	var laterA1: u32;
	let alongB = t % 16u;
	let acrossB = t / 16u;
	var wordB00: u32;
	var nextB0: vec2<u32>;
	var laterB0: vec2<u32>;
	var c0: vec2<f32>;
	let item = worker.x;
	let item0 = items[3u * item];
	let item1 = items[3u * item + 1u];
	let item2 = items[3u * item + 2u];
	let offA = item0.x;
	let offB = item0.y;
	let offC = item0.z;
	let depth = item0.w;
	let ldA = item1.x;
	let ldB = item1.y;
	let ldC = item1.z;
	let rows = item1.w & 0xffffu;
	let cols = item1.w >> 16u;
	let alpha = bitcast<f32>(item2.x);
	let beta = bitcast<f32>(item2.y);
	c0 = vec2<f32>(0.0);
	var left = depth;
	if (left != 0u) {
		let atA = offA + acrossA * ldA + alongA;
		wordA00 = atA / 4u;
		let halfA00 = 8u * (atA % 4u);
		let atB = offB + acrossB * ldB + alongB;
		wordB00 = atB / 4u;
		let halfB00 = 8u * (atB % 4u);
		nextA0 = A[wordA00];
		nextA1 = A[wordA00 + 2u * ldA];
		nextB0 = vec2<u32>(B[wordB00], B[wordB00 + 2u * ldB]);
		if (left > 16u) {
			wordA00 = wordA00 + 4u;
			wordB00 = wordB00 + 4u;
			laterA0 = A[wordA00];
			laterA1 = A[wordA00 + 2u * ldA];
			laterB0 = vec2<u32>(B[wordB00], B[wordB00 + 2u * ldB]);
		}
		loop {
			sharedA[alongA][acrossA] = number(nextA0, halfA00);
			sharedA[alongA][acrossA + 8u] = number(nextA1, halfA00);
			sharedB[alongB][acrossB] = vec2<f32>(number(nextB0.x, halfB00), number(nextB0.y, halfB00));
			workgroupBarrier();
			if (left < 16u) {
				for (var k = 0u; k < left; k = k + 1u) {
					let a0 = sharedA[k][readA0];
					let b0 = sharedB[k][readB0];
					c0 = fma(vec2<f32>(a0), b0, c0);
				}
				break;
			}
			left = left - 16u;
			if (left > 16u) {
				wordA00 = wordA00 + 4u;
				wordB00 = wordB00 + 4u;
				nextA0 = A[wordA00];
				nextA1 = A[wordA00 + 2u * ldA];
				nextB0 = vec2<u32>(B[wordB00], B[wordB00 + 2u * ldB]);
			}
			{
				let a0 = sharedA[0u][readA0];
				let b0 = sharedB[0u][readB0];
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[1u][readA0];
				let b0 = sharedB[1u][readB0];
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[2u][readA0];
				let b0 = sharedB[2u][readB0];
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[3u][readA0];
				let b0 = sharedB[3u][readB0];
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[4u][readA0];
				let b0 = sharedB[4u][readB0];
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[5u][readA0];
				let b0 = sharedB[5u][readB0];
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[6u][readA0];
				let b0 = sharedB[6u][readB0];
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[7u][readA0];
				let b0 = sharedB[7u][readB0];
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[8u][readA0];
				let b0 = sharedB[8u][readB0];
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[9u][readA0];
				let b0 = sharedB[9u][readB0];
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[10u][readA0];
				let b0 = sharedB[10u][readB0];
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[11u][readA0];
				let b0 = sharedB[11u][readB0];
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[12u][readA0];
				let b0 = sharedB[12u][readB0];
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[13u][readA0];
				let b0 = sharedB[13u][readB0];
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[14u][readA0];
				let b0 = sharedB[14u][readB0];
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[15u][readA0];
				let b0 = sharedB[15u][readB0];
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			if (left == 0u) { break; }
			workgroupBarrier();
			sharedA[alongA][acrossA] = number(laterA0, halfA00);
			sharedA[alongA][acrossA + 8u] = number(laterA1, halfA00);
			sharedB[alongB][acrossB] = vec2<f32>(number(laterB0.x, halfB00), number(laterB0.y, halfB00));
			workgroupBarrier();
			if (left < 16u) {
				for (var k = 0u; k < left; k = k + 1u) {
					let a0 = sharedA[k][readA0];
					let b0 = sharedB[k][readB0];
					c0 = fma(vec2<f32>(a0), b0, c0);
				}
				break;
			}
			left = left - 16u;
			if (left > 16u) {
				wordA00 = wordA00 + 4u;
				wordB00 = wordB00 + 4u;
				laterA0 = A[wordA00];
				laterA1 = A[wordA00 + 2u * ldA];
				laterB0 = vec2<u32>(B[wordB00], B[wordB00 + 2u * ldB]);
			}
			{
				let a0 = sharedA[0u][readA0];
				let b0 = sharedB[0u][readB0];
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[1u][readA0];
				let b0 = sharedB[1u][readB0];
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[2u][readA0];
				let b0 = sharedB[2u][readB0];
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[3u][readA0];
				let b0 = sharedB[3u][readB0];
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[4u][readA0];
				let b0 = sharedB[4u][readB0];
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[5u][readA0];
				let b0 = sharedB[5u][readB0];
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[6u][readA0];
				let b0 = sharedB[6u][readB0];
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[7u][readA0];
				let b0 = sharedB[7u][readB0];
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[8u][readA0];
				let b0 = sharedB[8u][readB0];
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[9u][readA0];
				let b0 = sharedB[9u][readB0];
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[10u][readA0];
				let b0 = sharedB[10u][readB0];
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[11u][readA0];
				let b0 = sharedB[11u][readB0];
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[12u][readA0];
				let b0 = sharedB[12u][readB0];
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[13u][readA0];
				let b0 = sharedB[13u][readB0];
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[14u][readA0];
				let b0 = sharedB[14u][readB0];
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[15u][readA0];
				let b0 = sharedB[15u][readB0];
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			if (left == 0u) { break; }
			workgroupBarrier();
		}
	}
	let row0 = ty;
	let vector0 = tx;
	let atC0 = offC + row0 * ldC + vector0;
	c0 = alpha * c0;
	if ((bitcast<u32>(beta) & 0x7fffffffu) != 0u) {
		c0 = fma(vec2<f32>(beta), vec2<f32>(C[atC0], C[atC0 + 8u]), c0);
	}
	if (rows == 16u && cols == 16u) {
		C[atC0] = c0.x;
		C[atC0 + 8u] = c0.y;
	} else {
		if (row0 < rows) {
			if (vector0 < cols) { C[atC0] = c0.x; }
			if (vector0 + 8u < cols) { C[atC0 + 8u] = c0.y; }
		}
	}
}
