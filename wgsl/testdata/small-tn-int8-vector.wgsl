@group(0) @binding(0) var<storage, read> items: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> A: array<u32>;
@group(0) @binding(2) var<storage, read> B: array<u32>;
@group(0) @binding(3) var<storage, read_write> C: array<f32>;
var<workgroup> sharedA: array<array<f32, 16>, 16>;
var<workgroup> sharedB: array<array<vec2<f32>, 8>, 16>;

fn numbers(word: u32) -> vec2<f32> {
	return vec2<f32>(bitcast<vec2<i32>>(vec2<u32>(word << 24u, word << 8u)) >> vec2<u32>(24u));
}

fn number(word: u32, half: u32) -> f32 {
	return numbers(word >> half).x;
}

fn four(word: u32) -> vec4<f32> {
	return vec4<f32>(bitcast<vec4<i32>>(vec4<u32>(word << 24u, word << 16u, word << 8u, word)) >> vec4<u32>(24u));
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) worker: vec3<u32>, @builtin(local_invocation_index) t: u32) {
	let ty = t / 8u;
	let tx = t % 8u;
	let readA0 = ty;
	let readB0 = tx;
	let alongA = t % 4u;
	let acrossA = t / 4u;
	var atA: u32;
	var nextA0: u32;
	var laterA0: u32;
	let alongB = t % 4u;
	let acrossB = t / 4u;
	var atB: u32;
	var nextB0: u32;
	var laterB0: u32;
	var c0: vec2<f32>;
	let item = worker.x;
	let item0 = items[3u * item];
	let item1 = items[3u * item + 1u];
	let item2 = items[3u * item + 2u];
	let offA = item0.x / 4u;
	let offB = item0.y / 4u;
	let offC = item0.z;
	let depth = item0.w;
	let ldA = item1.x / 4u;
	let ldB = item1.y / 4u;
	let ldC = item1.z;
	let rows = item1.w & 0xffffu;
	let cols = item1.w >> 16u;
	let alpha = bitcast<f32>(item2.x);
	let beta = bitcast<f32>(item2.y);
	c0 = vec2<f32>(0.0);
	var left = depth;
	if (left != 0u) {
		atA = offA + acrossA * ldA + alongA;
		atB = offB + acrossB * ldB + alongB;
		if (acrossA < 16u) {
			nextA0 = A[atA];
		}
		if (acrossB < 16u) {
			nextB0 = B[atB];
		}
		if (left > 16u) {
			atA = atA + 16u * ldA;
			atB = atB + 16u * ldB;
			if (acrossA < 16u) {
				laterA0 = A[atA];
			}
			if (acrossB < 16u) {
				laterB0 = B[atB];
			}
		}
		loop {
			if (acrossA < 16u) {
				sharedA[acrossA][4u * alongA] = four(nextA0).x;
				sharedA[acrossA][4u * alongA + 1u] = four(nextA0).y;
				sharedA[acrossA][4u * alongA + 2u] = four(nextA0).z;
				sharedA[acrossA][4u * alongA + 3u] = four(nextA0).w;
			}
			if (acrossB < 16u) {
				sharedB[acrossB][2u * alongB] = four(nextB0).xy;
				sharedB[acrossB][2u * alongB + 1u] = four(nextB0).zw;
			}
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
				atA = atA + 16u * ldA;
				atB = atB + 16u * ldB;
				if (acrossA < 16u) {
					nextA0 = A[atA];
				}
				if (acrossB < 16u) {
					nextB0 = B[atB];
				}
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
			if (acrossA < 16u) {
				sharedA[acrossA][4u * alongA] = four(laterA0).x;
				sharedA[acrossA][4u * alongA + 1u] = four(laterA0).y;
				sharedA[acrossA][4u * alongA + 2u] = four(laterA0).z;
				sharedA[acrossA][4u * alongA + 3u] = four(laterA0).w;
			}
			if (acrossB < 16u) {
				sharedB[acrossB][2u * alongB] = four(laterB0).xy;
				sharedB[acrossB][2u * alongB + 1u] = four(laterB0).zw;
			}
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
				atA = atA + 16u * ldA;
				atB = atB + 16u * ldB;
				if (acrossA < 16u) {
					laterA0 = A[atA];
				}
				if (acrossB < 16u) {
					laterB0 = B[atB];
				}
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
	let atC0 = offC + row0 * ldC + 2u * vector0;
	c0 = alpha * c0;
	if ((bitcast<u32>(beta) & 0x7fffffffu) != 0u) {
		c0 = fma(vec2<f32>(beta), vec2<f32>(C[atC0], C[atC0 + 1u]), c0);
	}
	if (rows == 16u && cols == 16u) {
		C[atC0] = c0.x;
		C[atC0 + 1u] = c0.y;
	} else {
		if (row0 < rows) {
			if (2u * vector0 < cols) { C[atC0] = c0.x; }
			if (2u * vector0 + 1u < cols) { C[atC0 + 1u] = c0.y; }
		}
	}
}
