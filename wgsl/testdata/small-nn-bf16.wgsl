@group(0) @binding(0) var<storage, read> items: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> A: array<u32>;
@group(0) @binding(2) var<storage, read> B: array<u32>;
@group(0) @binding(3) var<storage, read_write> C: array<atomic<u32>>;
var<workgroup> sharedA: array<array<f32, 17>, 16>;
var<workgroup> sharedB: array<array<vec2<f32>, 8>, 16>;

fn numbers(word: u32) -> vec2<f32> {
	return bitcast<vec2<f32>>(vec2<u32>(word << 16u, word & 0xffff0000u));
}

fn number(word: u32, half: u32) -> f32 {
	return numbers(word >> half).x;
}

fn loadC(at: u32) -> f32 {
	return number(atomicLoad(&C[at / 2u]), 16u * (at % 2u));
}

fn rounded(number: f32) -> u32 {
	let x = bitcast<u32>(number);
	let nearest = x + 0x7fffu + ((x >> 16u) & 1u);
	return select(nearest, x | 0x400000u, (x & 0x7fffffffu) > 0x7f800000u);
}

fn pair(first: f32, second: f32) -> u32 {
	return (rounded(first) >> 16u) | (rounded(second) & 0xffff0000u);
}

fn storeHalf(at: u32, mask: u32, word: u32) {
	atomicAnd(&C[at / 2u], ~mask);
	atomicOr(&C[at / 2u], word & mask);
}

fn storeWord(at: u32, end: u32, word: u32, behind: u32) {
	let odd = at % 2u;
	let even = at + odd;
	let moved = select(word, (word >> 16u) | (behind << 16u), odd != 0u);
	if (even + 1u < end) {
		atomicStore(&C[even / 2u], moved);
	} else {
		if (even < end) { storeHalf(even, 0xffffu, moved); }
	}
}

fn startRow(at: u32, end: u32, word: u32) {
	if (at % 2u != 0u && at < end) { storeHalf(at, 0xffff0000u, word << 16u); }
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) worker: vec3<u32>, @builtin(local_invocation_index) t: u32) {
	let ty = t / 8u;
	let tx = t % 8u;
	let readA0 = ty;
	let readB0 = tx;
	let alongA = t % 16u;
	let acrossA = t / 16u;
	var atA: u32;
	var nextA0: u32;
	var nextA1: u32;
	let alongB = t % 16u;
	let acrossB = t / 16u;
	var atB: u32;
	var nextB0: u32;
	var nextB1: u32;
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
		atA = offA + acrossA * ldA + alongA;
		let halfA00 = 16u * (atA % 2u);
		atB = offB + acrossB * ldB + alongB;
		let halfB00 = 16u * (atB % 2u);
		nextA0 = A[atA / 2u];
		nextA1 = A[(atA + 8u * ldA) / 2u];
		nextB0 = B[atB / 2u];
		nextB1 = B[(atB + 8u * ldB) / 2u];
		loop {
			sharedA[alongA][acrossA] = number(nextA0, halfA00);
			sharedA[alongA][acrossA + 8u] = number(nextA1, halfA00);
			sharedB[acrossB][alongB / 2u][alongB % 2u] = number(nextB0, halfB00);
			sharedB[acrossB + 8u][alongB / 2u][alongB % 2u] = number(nextB1, halfB00);
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
			if (left != 0u) {
				atA = atA + 16u;
				atB = atB + 16u * ldB;
				nextA0 = A[atA / 2u];
				nextA1 = A[(atA + 8u * ldA) / 2u];
				nextB0 = B[atB / 2u];
				nextB1 = B[(atB + 8u * ldB) / 2u];
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
		c0 = fma(vec2<f32>(beta), vec2<f32>(loadC(atC0), loadC(atC0 + 1u)), c0);
	}
	let word0a = pair(c0.x, c0.y);
	let edge0 = 8u * row0 + vector0;
	let odd = (offC | ldC) % 2u != 0u;
	if (odd) {
		workgroupBarrier();
		sharedB[edge0 / 16u][(edge0 % 16u) / 2u][edge0 % 2u] = bitcast<f32>(0x3f800000u | (word0a & 0xffffu));
		workgroupBarrier();
	}
	if (rows == 16u && cols == 16u && !odd) {
		atomicStore(&C[atC0 / 2u], word0a);
	} else {
		let end0 = select(0u, atC0 - 2u * vector0 + cols, row0 < rows);
		if (vector0 == 0u) { startRow(atC0, end0, word0a); }
		storeWord(atC0, end0, word0a, bitcast<u32>(sharedB[(edge0 + 1u) / 16u][((edge0 + 1u) % 16u) / 2u][(edge0 + 1u) % 2u]));
	}
}
