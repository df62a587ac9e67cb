@group(0) @binding(0) var<storage, read> items: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> A: array<u32>;
@group(0) @binding(2) var<storage, read> B: array<u32>;
@group(0) @binding(3) var<storage, read_write> C: array<atomic<u32>>;
@group(0) @binding(5) var<storage, read_write> workspace: array<vec2<f32>>;
@group(0) @binding(9) var<storage, read> indices: array<u32>;
var<workgroup> sharedA: array<array<f32, 17>, 16>;
var<workgroup> sharedB: array<array<vec2<u32>, 8>, 16>;

fn numbers(word: u32) -> vec2<f32> {
	return vec2<f32>(bitcast<vec2<i32>>(vec2<u32>(word << 24u, word << 8u)) >> vec2<u32>(24u));
}

fn number(word: u32, half: u32) -> f32 {
	return numbers(word >> half).x;
}

fn four(word: u32) -> vec4<f32> {
	return vec4<f32>(bitcast<vec4<i32>>(vec4<u32>(word << 24u, word << 16u, word << 8u, word)) >> vec4<u32>(24u));
}

fn numbersC(word: u32) -> vec2<f32> {
	return bitcast<vec2<f32>>(vec2<u32>(word << 16u, word & 0xffff0000u));
}

fn loadC(at: u32) -> vec2<f32> {
	let word0 = atomicLoad(&C[at / 2u]);
	let word1 = atomicLoad(&C[at / 2u + 1u]);
	return vec2<f32>(numbersC(select(word0, (word0 >> 16u) | (word1 << 16u), at % 2u != 0u)));
}

fn rounded(x: u32) -> u32 {
	return x + 0x7fffu + ((x >> 16u) & 1u);
}

fn pair(first: u32, second: u32) -> u32 {
	return (rounded(first) >> 16u) | (rounded(second) & 0xffff0000u);
}

fn rare(sum: f32) -> bool {
	return (bitcast<u32>(sum) & 0x7fffffffu) > 0x7f800000u;
}

fn tame(x: u32) -> u32 {
	return select(x, (x | 0x400000u) & 0xffff0000u, (x & 0x7fffffffu) > 0x7f800000u);
}

fn storeHalf(at: u32, mask: u32, word: u32) {
	atomicAnd(&C[at], ~mask);
	atomicOr(&C[at], word & mask);
}

fn storeEnds(at: u32, cols: u32, first: u32, last: u32) {
	if (at % 2u != 0u) { storeHalf(at / 2u, 0xffff0000u, first << 16u); }
	if ((at + cols) % 2u != 0u) { storeHalf((at + cols) / 2u, 0xffffu, last >> 16u); }
}

fn ends(numbers: u32, worda: u32) -> u32 {
	let last = worda;
	return (worda & 0xffffu) | select(last << 16u, last & 0xffff0000u, numbers % 2u == 0u);
}

fn storeVector(at: u32, col: u32, numbers: u32, before: u32, worda: u32) {
	let odd = at % 2u;
	if (numbers + odd > 1u && odd <= col) {
		atomicStore(&C[at / 2u], select(worda, (before >> 16u) | (worda << 16u), odd != 0u));
	}
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
	var laterA0: u32;
	var laterA1: u32;
	var atRow0: u32;
	var isRow0: bool;
	var atRow8: u32;
	var isRow8: bool;
	let alongB = t % 4u;
	let acrossB = t / 4u;
	var atB: u32;
	var nextB0: u32;
	var laterB0: u32;
	var c0: vec2<f32>;
	let item = worker.x;
	let item0 = items[6u * item];
	let item1 = items[6u * item + 1u];
	let item2 = items[6u * item + 2u];
	let item3 = items[6u * item + 3u];
	let item4 = items[6u * item + 4u];
	let item5 = items[6u * item + 5u];
	let offA = item0.x;
	let offB = item0.y / 4u;
	let offC = item0.z;
	let depth = item0.w;
	let ldA = item1.x;
	let ldB = item1.y / 4u;
	let ldC = item1.z;
	let rows = item1.w & 0xffffu;
	let cols = item1.w >> 16u;
	let alpha = bitcast<f32>(item2.x);
	let beta = bitcast<f32>(item2.y);
	let slot = item2.z;
	let gatherAt = item3.x;
	let gatherRows = item3.y;
	let scaleAAt = item4.w;
	let scaleBAt = item5.x;
	c0 = vec2<f32>(0.0);
	var left = depth;
	if (left != 0u) {
		atA = alongA;
		{
			let index = indices[gatherAt + acrossA];
			isRow0 = index < gatherRows;
			atRow0 = offA + select(0u, index, isRow0) * ldA;
		}
		{
			let index = indices[gatherAt + acrossA + 8u];
			isRow8 = index < gatherRows;
			atRow8 = offA + select(0u, index, isRow8) * ldA;
		}
		atB = offB + acrossB * ldB + alongB;
		nextA0 = select(0u, A[(atRow0 + atA) / 4u], isRow0);
		nextA1 = select(0u, A[(atRow8 + atA) / 4u], isRow8);
		if (acrossB < 16u) {
			nextB0 = B[atB];
		}
		if (left > 16u) {
			atA = atA + 16u;
			atB = atB + 16u * ldB;
			laterA0 = select(0u, A[(atRow0 + atA) / 4u], isRow0);
			laterA1 = select(0u, A[(atRow8 + atA) / 4u], isRow8);
			if (acrossB < 16u) {
				laterB0 = B[atB];
			}
		}
		loop {
			sharedA[alongA][acrossA] = number(nextA0, 8u * ((atRow0 + atA) % 4u));
			sharedA[alongA][acrossA + 8u] = number(nextA1, 8u * ((atRow8 + atA) % 4u));
			if (acrossB < 16u) {
				sharedB[acrossB][2u * alongB] = bitcast<vec2<u32>>(four(nextB0).xy);
				sharedB[acrossB][2u * alongB + 1u] = bitcast<vec2<u32>>(four(nextB0).zw);
			}
			workgroupBarrier();
			if (left < 16u) {
				for (var k = 0u; k < left; k = k + 1u) {
					let a0 = sharedA[k][readA0];
					let b0 = bitcast<vec2<f32>>(sharedB[k][readB0]);
					c0 = fma(vec2<f32>(a0), b0, c0);
				}
				break;
			}
			left = left - 16u;
			if (left > 16u) {
				atA = atA + 16u;
				atB = atB + 16u * ldB;
				nextA0 = select(0u, A[(atRow0 + atA) / 4u], isRow0);
				nextA1 = select(0u, A[(atRow8 + atA) / 4u], isRow8);
				if (acrossB < 16u) {
					nextB0 = B[atB];
				}
			}
			{
				let a0 = sharedA[0u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[0u][readB0]);
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[1u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[1u][readB0]);
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[2u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[2u][readB0]);
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[3u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[3u][readB0]);
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[4u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[4u][readB0]);
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[5u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[5u][readB0]);
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[6u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[6u][readB0]);
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[7u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[7u][readB0]);
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[8u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[8u][readB0]);
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[9u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[9u][readB0]);
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[10u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[10u][readB0]);
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[11u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[11u][readB0]);
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[12u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[12u][readB0]);
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[13u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[13u][readB0]);
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[14u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[14u][readB0]);
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[15u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[15u][readB0]);
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			if (left == 0u) { break; }
			workgroupBarrier();
			sharedA[alongA][acrossA] = number(laterA0, 8u * ((atRow0 + atA) % 4u));
			sharedA[alongA][acrossA + 8u] = number(laterA1, 8u * ((atRow8 + atA) % 4u));
			if (acrossB < 16u) {
				sharedB[acrossB][2u * alongB] = bitcast<vec2<u32>>(four(laterB0).xy);
				sharedB[acrossB][2u * alongB + 1u] = bitcast<vec2<u32>>(four(laterB0).zw);
			}
			workgroupBarrier();
			if (left < 16u) {
				for (var k = 0u; k < left; k = k + 1u) {
					let a0 = sharedA[k][readA0];
					let b0 = bitcast<vec2<f32>>(sharedB[k][readB0]);
					c0 = fma(vec2<f32>(a0), b0, c0);
				}
				break;
			}
			left = left - 16u;
			if (left > 16u) {
				atA = atA + 16u;
				atB = atB + 16u * ldB;
				laterA0 = select(0u, A[(atRow0 + atA) / 4u], isRow0);
				laterA1 = select(0u, A[(atRow8 + atA) / 4u], isRow8);
				if (acrossB < 16u) {
					laterB0 = B[atB];
				}
			}
			{
				let a0 = sharedA[0u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[0u][readB0]);
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[1u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[1u][readB0]);
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[2u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[2u][readB0]);
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[3u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[3u][readB0]);
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[4u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[4u][readB0]);
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[5u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[5u][readB0]);
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[6u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[6u][readB0]);
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[7u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[7u][readB0]);
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[8u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[8u][readB0]);
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[9u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[9u][readB0]);
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[10u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[10u][readB0]);
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[11u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[11u][readB0]);
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[12u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[12u][readB0]);
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[13u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[13u][readB0]);
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[14u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[14u][readB0]);
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			{
				let a0 = sharedA[15u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[15u][readB0]);
				c0 = fma(vec2<f32>(a0), b0, c0);
			}
			if (left == 0u) { break; }
			workgroupBarrier();
		}
	}
	let row0 = ty;
	let vector0 = tx;
	if (slot != 0xffffffffu) {
		workspace[slot * 128u + row0 * 8u + vector0] = c0;
	} else {
		if (depth != 0u) {
			let from0 = indices[gatherAt + row0];
			let is0 = from0 < gatherRows;
			let zero0 = select(0.0, f32(bitcast<i32>(indices[scaleAAt + 2u * (select(0u, from0, is0)) + 1u])), is0);
			let sums0 = vec2<f32>(f32(bitcast<i32>(indices[scaleBAt + 2u * (2u * vector0) + 1u])), f32(bitcast<i32>(indices[scaleBAt + 2u * (2u * vector0 + 1u) + 1u])));
			c0 = fma(vec2<f32>(-zero0), sums0, c0);
		}
		let atC0 = offC + row0 * ldC + 2u * vector0;
		c0 = alpha * c0;
		if (depth != 0u) {
			let from0 = indices[gatherAt + row0];
			let is0 = from0 < gatherRows;
			let scale0 = select(1.0, bitcast<f32>(indices[scaleAAt + 2u * (select(0u, from0, is0))]), is0);
			c0 = c0 * vec2<f32>(scale0);
			let scales0 = vec2<f32>(bitcast<f32>(indices[scaleBAt + 2u * (2u * vector0)]), bitcast<f32>(indices[scaleBAt + 2u * (2u * vector0 + 1u)]));
			c0 = c0 * scales0;
		}
		if ((bitcast<u32>(beta) & 0x7fffffffu) != 0u) {
			c0 = fma(vec2<f32>(beta), loadC(atC0), c0);
		}
		var bits0 = bitcast<vec2<u32>>(c0);
		let sizes = abs(c0);
		if (rare(sizes.x + sizes.y)) {
			bits0 = vec2<u32>(tame(bits0.x), tame(bits0.y));
		}
		let word0a = pair(bits0.x, bits0.y);
		if (((offC | ldC | cols) & 1u) == 0u) {
			if (row0 < rows && 2u * vector0 + 1u < cols) {
				atomicStore(&C[atC0 / 2u], word0a);
			}
		} else {
			let numbers0 = select(0u, min(cols - min(2u * vector0, cols), 2u), row0 < rows);
			workgroupBarrier();
			{
				let at = 8u * row0 + vector0;
				sharedB[at / 8u][at % 8u] = vec2<u32>(ends(numbers0, word0a));
			}
			workgroupBarrier();
			{
				let at = max(8u * row0 + vector0, 1u) - 1u;
				storeVector(atC0, vector0, numbers0, sharedB[at / 8u][at % 8u].x, word0a);
			}
			for (var own = t; own < 16u; own = own + 128u) {
				let row = own;
				if (row < rows) {
					let at = 8u * own;
					storeEnds(offC + row * ldC, cols, sharedB[at / 8u][at % 8u].x, sharedB[(at + (cols - 1u) / 2u) / 8u][(at + (cols - 1u) / 2u) % 8u].x);
				}
			}
		}
	}
}
