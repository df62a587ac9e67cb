@group(0) @binding(0) var<storage, read> items: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> A: array<u32>;
@group(0) @binding(2) var<storage, read> B: array<u32>;
@group(0) @binding(3) var<storage, read_write> C: array<atomic<u32>>;
@group(0) @binding(8) var<storage, read> Bias: array<u32>;
@group(0) @binding(9) var<storage, read> indices: array<u32>;
var<workgroup> sharedA: array<array<vec2<f32>, 20>, 4>;
var<workgroup> sharedB: array<array<vec2<u32>, 20>, 4>;

fn numbers(word: u32) -> vec2<f32> {
	return unpack2x16float(word);
}

fn number(word: u32, half: u32) -> f32 {
	return numbers(word >> half).x;
}

fn loadC(at: u32) -> vec2<f32> {
	let word0 = atomicLoad(&C[at / 2u]);
	let word1 = atomicLoad(&C[at / 2u + 1u]);
	return vec2<f32>(numbers(select(word0, (word0 >> 16u) | (word1 << 16u), at % 2u != 0u)));
}

fn loadBias(at: u32) -> vec2<f32> {
	let word0 = Bias[at / 2u];
	let word1 = Bias[at / 2u + 1u];
	return vec2<f32>(numbers(select(word0, (word0 >> 16u) | (word1 << 16u), at % 2u != 0u)));
}

fn nearest(x: u32, shift: u32) -> u32 {
	return (x + (1u << (shift - 1u)) - 1u + ((x >> shift) & 1u)) >> shift;
}

fn rounded(x: u32) -> u32 {
	return nearest(max(x & 0x7fffffffu, 0x38000000u) - 0x38000000u, 13u);
}

fn pair(first: u32, second: u32) -> u32 {
	return rounded(first) | (rounded(second) << 16u) | ((first >> 16u) & 0x8000u) | (second & 0x80000000u);
}

fn rare(sum: f32, least: u32) -> bool {
	return (bitcast<u32>(sum) & 0x7fffffffu) >= 0x47800000u || least < 0x70ffffffu;
}

fn tame(x: u32) -> u32 {
	let size = x & 0x7fffffffu;
	let small = nearest((size & 0x7fffffu) | 0x800000u, 126u - min(max(size >> 23u, 101u), 125u));
	let extreme = select(small, select(0x7c00u, 0x7e00u, size > 0x7f800000u), size >= 0x38800000u);
	let tamed = (x & 0x80000000u) | (0x38000000u + (extreme << 13u));
	return select(x, tamed, size >= 0x47800000u || size < 0x38800000u);
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

fn activate(v: f32) -> f32 {
	return select(v, 0.0, bitcast<u32>(v) - 0x80000000u <= 0x7f800000u);
}

@compute @workgroup_size(32)
fn main(@builtin(workgroup_id) worker: vec3<u32>, @builtin(local_invocation_index) t: u32) {
	let place = t % 8u;
	let group = t / 8u;
	let ty = place / 2u;
	let tx = place % 2u;
	let readA0 = 5u * group + ty;
	let readB0 = 5u * group + tx;
	let readB1 = 5u * group + tx + 2u;
	let alongA = t % 16u;
	let acrossA = t / 16u;
	var wordA00: u32;
	var wordA01: u32;
	var nextA0: vec2<u32>;
	var nextA1: vec2<u32>;
	var laterA0: vec2<u32>;
	var laterA1: vec2<u32>;
	let alongB = t % 16u;
	let acrossB = t / 16u;
	var wordB00: u32;
	var wordB01: u32;
	var nextB0: vec2<u32>;
	var nextB1: vec2<u32>;
	var laterB0: vec2<u32>;
	var laterB1: vec2<u32>;
	var c0: vec2<f32>;
	var c1: vec2<f32>;
	var c2: vec2<f32>;
	var c3: vec2<f32>;
	let item = worker.x;
	let item0 = items[6u * item];
	let item1 = items[6u * item + 1u];
	let item2 = items[6u * item + 2u];
	let item3 = items[6u * item + 3u];
	let item4 = items[6u * item + 4u];
	let item5 = items[6u * item + 5u];
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
	let scatterAt = item3.z;
	let scatterRows = item3.w;
	let biasAt = item4.y;
	c0 = vec2<f32>(0.0);
	c1 = vec2<f32>(0.0);
	c2 = vec2<f32>(0.0);
	c3 = vec2<f32>(0.0);
	var left = depth;
	if (left != 0u) {
		let atA = offA + 2u * (acrossA * ldA) + alongA;
		wordA00 = atA / 2u;
		let halfA00 = 16u * (atA % 2u);
		wordA01 = (atA + ldA) / 2u;
		let halfA01 = 16u * ((atA + ldA) % 2u);
		let atB = offB + 2u * (acrossB * ldB) + alongB;
		wordB00 = atB / 2u;
		let halfB00 = 16u * (atB % 2u);
		wordB01 = (atB + ldB) / 2u;
		let halfB01 = 16u * ((atB + ldB) % 2u);
		nextA0 = vec2<u32>(A[wordA00], A[wordA01]);
		nextA1 = vec2<u32>(A[wordA00 + 2u * ldA], A[wordA01 + 2u * ldA]);
		nextB0 = vec2<u32>(B[wordB00], B[wordB01]);
		nextB1 = vec2<u32>(B[wordB00 + 2u * ldB], B[wordB01 + 2u * ldB]);
		if (left > 16u) {
			wordA00 = wordA00 + 8u;
			wordA01 = wordA01 + 8u;
			wordB00 = wordB00 + 8u;
			wordB01 = wordB01 + 8u;
			laterA0 = vec2<u32>(A[wordA00], A[wordA01]);
			laterA1 = vec2<u32>(A[wordA00 + 2u * ldA], A[wordA01 + 2u * ldA]);
			laterB0 = vec2<u32>(B[wordB00], B[wordB01]);
			laterB1 = vec2<u32>(B[wordB00 + 2u * ldB], B[wordB01 + 2u * ldB]);
		}
		loop {
			sharedA[alongA / 4u][5u * (alongA % 4u) + acrossA] = vec2<f32>(number(nextA0.x, halfA00), number(nextA0.y, halfA01));
			sharedA[alongA / 4u][5u * (alongA % 4u) + acrossA + 2u] = vec2<f32>(number(nextA1.x, halfA00), number(nextA1.y, halfA01));
			sharedB[alongB / 4u][5u * (alongB % 4u) + acrossB] = bitcast<vec2<u32>>(vec2<f32>(number(nextB0.x, halfB00), number(nextB0.y, halfB01)));
			sharedB[alongB / 4u][5u * (alongB % 4u) + acrossB + 2u] = bitcast<vec2<u32>>(vec2<f32>(number(nextB1.x, halfB00), number(nextB1.y, halfB01)));
			workgroupBarrier();
			if (left < 16u) {
				for (var k = 0u; 4u * k + group < left; k = k + 1u) {
					let a0 = sharedA[k][readA0];
					let b0 = bitcast<vec2<f32>>(sharedB[k][readB0]);
					let b1 = bitcast<vec2<f32>>(sharedB[k][readB1]);
					c0 = fma(vec2<f32>(a0.x), b0, c0);
					c1 = fma(vec2<f32>(a0.x), b1, c1);
					c2 = fma(vec2<f32>(a0.y), b0, c2);
					c3 = fma(vec2<f32>(a0.y), b1, c3);
				}
				break;
			}
			left = left - 16u;
			if (left > 16u) {
				wordA00 = wordA00 + 8u;
				wordA01 = wordA01 + 8u;
				wordB00 = wordB00 + 8u;
				wordB01 = wordB01 + 8u;
				nextA0 = vec2<u32>(A[wordA00], A[wordA01]);
				nextA1 = vec2<u32>(A[wordA00 + 2u * ldA], A[wordA01 + 2u * ldA]);
				nextB0 = vec2<u32>(B[wordB00], B[wordB01]);
				nextB1 = vec2<u32>(B[wordB00 + 2u * ldB], B[wordB01 + 2u * ldB]);
			}
			{
				let a0 = sharedA[0u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[0u][readB0]);
				let b1 = bitcast<vec2<f32>>(sharedB[0u][readB1]);
				c0 = fma(vec2<f32>(a0.x), b0, c0);
				c1 = fma(vec2<f32>(a0.x), b1, c1);
				c2 = fma(vec2<f32>(a0.y), b0, c2);
				c3 = fma(vec2<f32>(a0.y), b1, c3);
			}
			{
				let a0 = sharedA[1u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[1u][readB0]);
				let b1 = bitcast<vec2<f32>>(sharedB[1u][readB1]);
				c0 = fma(vec2<f32>(a0.x), b0, c0);
				c1 = fma(vec2<f32>(a0.x), b1, c1);
				c2 = fma(vec2<f32>(a0.y), b0, c2);
				c3 = fma(vec2<f32>(a0.y), b1, c3);
			}
			{
				let a0 = sharedA[2u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[2u][readB0]);
				let b1 = bitcast<vec2<f32>>(sharedB[2u][readB1]);
				c0 = fma(vec2<f32>(a0.x), b0, c0);
				c1 = fma(vec2<f32>(a0.x), b1, c1);
				c2 = fma(vec2<f32>(a0.y), b0, c2);
				c3 = fma(vec2<f32>(a0.y), b1, c3);
			}
			{
				let a0 = sharedA[3u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[3u][readB0]);
				let b1 = bitcast<vec2<f32>>(sharedB[3u][readB1]);
				c0 = fma(vec2<f32>(a0.x), b0, c0);
				c1 = fma(vec2<f32>(a0.x), b1, c1);
				c2 = fma(vec2<f32>(a0.y), b0, c2);
				c3 = fma(vec2<f32>(a0.y), b1, c3);
			}
			if (left == 0u) { break; }
			workgroupBarrier();
			sharedA[alongA / 4u][5u * (alongA % 4u) + acrossA] = vec2<f32>(number(laterA0.x, halfA00), number(laterA0.y, halfA01));
			sharedA[alongA / 4u][5u * (alongA % 4u) + acrossA + 2u] = vec2<f32>(number(laterA1.x, halfA00), number(laterA1.y, halfA01));
			sharedB[alongB / 4u][5u * (alongB % 4u) + acrossB] = bitcast<vec2<u32>>(vec2<f32>(number(laterB0.x, halfB00), number(laterB0.y, halfB01)));
			sharedB[alongB / 4u][5u * (alongB % 4u) + acrossB + 2u] = bitcast<vec2<u32>>(vec2<f32>(number(laterB1.x, halfB00), number(laterB1.y, halfB01)));
			workgroupBarrier();
			if (left < 16u) {
				for (var k = 0u; 4u * k + group < left; k = k + 1u) {
					let a0 = sharedA[k][readA0];
					let b0 = bitcast<vec2<f32>>(sharedB[k][readB0]);
					let b1 = bitcast<vec2<f32>>(sharedB[k][readB1]);
					c0 = fma(vec2<f32>(a0.x), b0, c0);
					c1 = fma(vec2<f32>(a0.x), b1, c1);
					c2 = fma(vec2<f32>(a0.y), b0, c2);
					c3 = fma(vec2<f32>(a0.y), b1, c3);
				}
				break;
			}
			left = left - 16u;
			if (left > 16u) {
				wordA00 = wordA00 + 8u;
				wordA01 = wordA01 + 8u;
				wordB00 = wordB00 + 8u;
				wordB01 = wordB01 + 8u;
				laterA0 = vec2<u32>(A[wordA00], A[wordA01]);
				laterA1 = vec2<u32>(A[wordA00 + 2u * ldA], A[wordA01 + 2u * ldA]);
				laterB0 = vec2<u32>(B[wordB00], B[wordB01]);
				laterB1 = vec2<u32>(B[wordB00 + 2u * ldB], B[wordB01 + 2u * ldB]);
			}
			{
				let a0 = sharedA[0u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[0u][readB0]);
				let b1 = bitcast<vec2<f32>>(sharedB[0u][readB1]);
				c0 = fma(vec2<f32>(a0.x), b0, c0);
				c1 = fma(vec2<f32>(a0.x), b1, c1);
				c2 = fma(vec2<f32>(a0.y), b0, c2);
				c3 = fma(vec2<f32>(a0.y), b1, c3);
			}
			{
				let a0 = sharedA[1u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[1u][readB0]);
				let b1 = bitcast<vec2<f32>>(sharedB[1u][readB1]);
				c0 = fma(vec2<f32>(a0.x), b0, c0);
				c1 = fma(vec2<f32>(a0.x), b1, c1);
				c2 = fma(vec2<f32>(a0.y), b0, c2);
				c3 = fma(vec2<f32>(a0.y), b1, c3);
			}
			{
				let a0 = sharedA[2u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[2u][readB0]);
				let b1 = bitcast<vec2<f32>>(sharedB[2u][readB1]);
				c0 = fma(vec2<f32>(a0.x), b0, c0);
				c1 = fma(vec2<f32>(a0.x), b1, c1);
				c2 = fma(vec2<f32>(a0.y), b0, c2);
				c3 = fma(vec2<f32>(a0.y), b1, c3);
			}
			{
				let a0 = sharedA[3u][readA0];
				let b0 = bitcast<vec2<f32>>(sharedB[3u][readB0]);
				let b1 = bitcast<vec2<f32>>(sharedB[3u][readB1]);
				c0 = fma(vec2<f32>(a0.x), b0, c0);
				c1 = fma(vec2<f32>(a0.x), b1, c1);
				c2 = fma(vec2<f32>(a0.y), b0, c2);
				c3 = fma(vec2<f32>(a0.y), b1, c3);
			}
			if (left == 0u) { break; }
			workgroupBarrier();
		}
	}
	workgroupBarrier();
	if (group < 2u) {
		let at = 32u * group + place;
		sharedA[at / 16u][at % 16u] = c0;
		sharedA[(at + 8u) / 16u][(at + 8u) % 16u] = c1;
		sharedA[(at + 16u) / 16u][(at + 16u) % 16u] = c2;
		sharedA[(at + 24u) / 16u][(at + 24u) % 16u] = c3;
	} else {
		let at = 32u * (group - 2u) + place;
		sharedB[at / 16u][at % 16u] = bitcast<vec2<u32>>(c0);
		sharedB[(at + 8u) / 16u][(at + 8u) % 16u] = bitcast<vec2<u32>>(c1);
		sharedB[(at + 16u) / 16u][(at + 16u) % 16u] = bitcast<vec2<u32>>(c2);
		sharedB[(at + 24u) / 16u][(at + 24u) % 16u] = bitcast<vec2<u32>>(c3);
	}
	workgroupBarrier();
	c0 = sharedA[t / 16u][t % 16u] + sharedA[(t + 32u) / 16u][(t + 32u) % 16u] + bitcast<vec2<f32>>(sharedB[t / 16u][t % 16u]) + bitcast<vec2<f32>>(sharedB[(t + 32u) / 16u][(t + 32u) % 16u]);
	let row0 = 2u * ty + 8u * ((group / 2u) / 2u) + (group / 2u) % 2u;
	let vector0 = tx + 2u * (group % 2u);
	let to0 = indices[scatterAt + row0];
	let kept0 = row0 < rows && to0 < scatterRows;
	let atC0 = offC + to0 * ldC + 2u * vector0;
	c0 = alpha * c0;
	if ((bitcast<u32>(beta) & 0x7fffffffu) != 0u) {
		c0 = fma(vec2<f32>(beta), loadC(atC0), c0);
	}
	let bias0 = loadBias(biasAt + 2u * vector0);
	c0 = c0 + bias0;
	c0 = vec2<f32>(activate(c0.x), activate(c0.y));
	var bits0 = bitcast<vec2<u32>>(c0);
	let sizes = abs(c0);
	let least = 2u * bits0 - vec2<u32>(1u, 1u);
	if (rare(sizes.x + sizes.y, min(least.x, least.y))) {
		bits0 = vec2<u32>(tame(bits0.x), tame(bits0.y));
	}
	let word0a = pair(bits0.x, bits0.y);
	if (((offC | ldC | cols) & 1u) == 0u) {
		if (kept0 && 2u * vector0 + 1u < cols) {
			atomicStore(&C[atC0 / 2u], word0a);
		}
	} else {
		let numbers0 = select(0u, min(cols - min(2u * vector0, cols), 2u), kept0);
		workgroupBarrier();
		{
			let at = 4u * row0 + vector0;
			sharedB[at / 16u][at % 16u] = vec2<u32>(ends(numbers0, word0a));
		}
		workgroupBarrier();
		{
			let at = max(4u * row0 + vector0, 1u) - 1u;
			storeVector(atC0, vector0, numbers0, sharedB[at / 16u][at % 16u].x, word0a);
		}
		for (var own = t; own < 8u; own = own + 32u) {
			let row = own;
			let to = indices[scatterAt + row];
			if (row < rows && to < scatterRows) {
				let at = 4u * own;
				storeEnds(offC + to * ldC, cols, sharedB[at / 16u][at % 16u].x, sharedB[(at + (cols - 1u) / 2u) / 16u][(at + (cols - 1u) / 2u) % 16u].x);
			}
		}
	}
}
