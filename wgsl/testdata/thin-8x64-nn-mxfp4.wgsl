@group(0) @binding(0) var<storage, read> items: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> A: array<u32>;
@group(0) @binding(2) var<storage, read> B: array<vec2<u32>>;
@group(0) @binding(3) var<storage, read_write> C: array<atomic<u32>>;
@group(0) @binding(9) var<storage, read> indices: array<u32>;
var<workgroup> sharedA: array<array<vec4<f32>, 13>, 16>;
var<workgroup> sharedB: array<array<vec4<u32>, 68>, 1>;

fn numbers(word: u32) -> vec2<f32> {
	return bitcast<vec2<f32>>(vec2<u32>(word << 16u, word & 0xffff0000u));
}

fn number(word: u32, half: u32) -> f32 {
	return numbers(word >> half).x;
}

fn weights(word: u32) -> vec4<f32> {
	let bits = (vec4<u32>(word) << vec4<u32>(22u, 18u, 14u, 10u)) & vec4<u32>(0x01c00000u);
	let signs = (vec4<u32>(word) << vec4<u32>(28u, 24u, 20u, 16u)) & vec4<u32>(0x80000000u);
	let sizes = bitcast<vec4<f32>>(bits + vec4<u32>(0x3f000000u));
	let right = min(sizes, 2.0 * sizes - vec4<f32>(1.0));
	return bitcast<vec4<f32>>(bitcast<vec4<u32>>(right) | signs);
}

fn scaleOf(word: u32) -> f32 {
	let exponent = word & 255u;
	return bitcast<f32>(select(max(exponent << 23u, 0x00400000u), 0x7fc00000u, exponent == 255u));
}

fn loadC(at: u32) -> vec4<f32> {
	let word0 = atomicLoad(&C[at / 2u]);
	let word1 = atomicLoad(&C[at / 2u + 1u]);
	let word2 = atomicLoad(&C[at / 2u + 2u]);
	return vec4<f32>(numbers(select(word0, (word0 >> 16u) | (word1 << 16u), at % 2u != 0u)), numbers(select(word1, (word1 >> 16u) | (word2 << 16u), at % 2u != 0u)));
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

fn ends(numbers: u32, worda: u32, wordb: u32) -> u32 {
	let last = select(worda, wordb, numbers > 2u);
	return (worda & 0xffffu) | select(last << 16u, last & 0xffff0000u, numbers % 2u == 0u);
}

fn storeVector(at: u32, col: u32, numbers: u32, before: u32, worda: u32, wordb: u32) {
	let odd = at % 2u;
	if (numbers + odd > 1u && odd <= col) {
		atomicStore(&C[at / 2u], select(worda, (before >> 16u) | (worda << 16u), odd != 0u));
	}
	if (numbers + odd > 3u) {
		atomicStore(&C[at / 2u + 1u], select(wordb, (worda >> 16u) | (wordb << 16u), odd != 0u));
	}
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) worker: vec3<u32>, @builtin(local_invocation_index) t: u32) {
	let place = t / 4u;
	let group = t % 4u;
	let ty = place / 16u;
	let tx = place % 16u;
	let readA0 = 3u * group + ty;
	let readA1 = 3u * group + ty + 1u;
	let alongA = t % 64u;
	let acrossA = t / 64u;
	var wordA00: u32;
	var wordA01: u32;
	var nextA0: vec4<u32>;
	var nextA1: vec4<u32>;
	let alongB = group;
	let acrossB = 4u * tx;
	var atB: u32;
	var nextB0: vec2<u32>;
	var nextGroupB0: u32;
	var nextB1: vec2<u32>;
	var nextGroupB1: u32;
	var nextB2: vec2<u32>;
	var nextGroupB2: u32;
	var nextB3: vec2<u32>;
	var nextGroupB3: u32;
	var c0: vec4<f32>;
	var c1: vec4<f32>;
	var c2: vec4<f32>;
	var c3: vec4<f32>;
	var c4: vec4<f32>;
	var c5: vec4<f32>;
	var c6: vec4<f32>;
	var c7: vec4<f32>;
	let item = worker.x;
	let item0 = items[6u * item];
	let item1 = items[6u * item + 1u];
	let item2 = items[6u * item + 2u];
	let item3 = items[6u * item + 3u];
	let item4 = items[6u * item + 4u];
	let item5 = items[6u * item + 5u];
	let offA = item0.x;
	let offB = item0.y / 16u;
	let offC = item0.z;
	let depth = item0.w;
	let ldA = item1.x;
	let ldB = item1.y;
	let ldC = item1.z;
	let rows = item1.w & 0xffffu;
	let cols = item1.w >> 16u;
	let alpha = bitcast<f32>(item2.x);
	let beta = bitcast<f32>(item2.y);
	let scaleBAt = item5.x;
	c0 = vec4<f32>(0.0);
	c1 = vec4<f32>(0.0);
	c2 = vec4<f32>(0.0);
	c3 = vec4<f32>(0.0);
	c4 = vec4<f32>(0.0);
	c5 = vec4<f32>(0.0);
	c6 = vec4<f32>(0.0);
	c7 = vec4<f32>(0.0);
	var left = depth;
	if (left != 0u) {
		let atA = offA + 4u * (acrossA * ldA) + alongA;
		wordA00 = atA / 2u;
		let halfA00 = 16u * (atA % 2u);
		wordA01 = (atA + ldA) / 2u;
		let halfA01 = 16u * ((atA + ldA) % 2u);
		let startB = offB + 4u * acrossB;
		let panelB = 4u * ldB;
		let scalesB = scaleBAt + acrossB;
		atB = alongB;
		nextA0 = vec4<u32>(A[wordA00], A[wordA01], A[wordA00 + ldA], A[wordA01 + ldA]);
		nextA1 = vec4<u32>(A[wordA00 + 2u * ldA], A[wordA01 + 2u * ldA], A[wordA00 + 3u * ldA], A[wordA01 + 3u * ldA]);
		nextB0 = B[startB + atB / 4u * panelB + atB % 4u];
		nextGroupB0 = indices[scalesB + atB / 8u * ldB];
		nextGroupB0 = nextGroupB0 >> (8u * ((atB / 2u) % 4u));
		nextB1 = B[startB + 4u + atB / 4u * panelB + atB % 4u];
		nextGroupB1 = indices[scalesB + 1u + atB / 8u * ldB];
		nextGroupB1 = nextGroupB1 >> (8u * ((atB / 2u) % 4u));
		nextB2 = B[startB + 8u + atB / 4u * panelB + atB % 4u];
		nextGroupB2 = indices[scalesB + 2u + atB / 8u * ldB];
		nextGroupB2 = nextGroupB2 >> (8u * ((atB / 2u) % 4u));
		nextB3 = B[startB + 12u + atB / 4u * panelB + atB % 4u];
		nextGroupB3 = indices[scalesB + 3u + atB / 8u * ldB];
		nextGroupB3 = nextGroupB3 >> (8u * ((atB / 2u) % 4u));
		loop {
			sharedA[alongA % 16u][3u * (alongA / 16u) + acrossA] = vec4<f32>(number(nextA0.x, halfA00), number(nextA0.y, halfA01), number(nextA0.z, halfA00), number(nextA0.w, halfA01));
			sharedA[alongA % 16u][3u * (alongA / 16u) + acrossA + 1u] = vec4<f32>(number(nextA1.x, halfA00), number(nextA1.y, halfA01), number(nextA1.z, halfA00), number(nextA1.w, halfA01));
			let words0 = nextB0;
			let scale0 = scaleOf(nextGroupB0);
			let words1 = nextB1;
			let scale1 = scaleOf(nextGroupB1);
			let words2 = nextB2;
			let scale2 = scaleOf(nextGroupB2);
			let words3 = nextB3;
			let scale3 = scaleOf(nextGroupB3);
			workgroupBarrier();
			left = left - 64u;
			if (left != 0u) {
				wordA00 = wordA00 + 32u;
				wordA01 = wordA01 + 32u;
				atB = atB + 4u;
				nextA0 = vec4<u32>(A[wordA00], A[wordA01], A[wordA00 + ldA], A[wordA01 + ldA]);
				nextA1 = vec4<u32>(A[wordA00 + 2u * ldA], A[wordA01 + 2u * ldA], A[wordA00 + 3u * ldA], A[wordA01 + 3u * ldA]);
				nextB0 = B[startB + atB / 4u * panelB + atB % 4u];
				nextGroupB0 = indices[scalesB + atB / 8u * ldB];
				nextGroupB0 = nextGroupB0 >> (8u * ((atB / 2u) % 4u));
				nextB1 = B[startB + 4u + atB / 4u * panelB + atB % 4u];
				nextGroupB1 = indices[scalesB + 1u + atB / 8u * ldB];
				nextGroupB1 = nextGroupB1 >> (8u * ((atB / 2u) % 4u));
				nextB2 = B[startB + 8u + atB / 4u * panelB + atB % 4u];
				nextGroupB2 = indices[scalesB + 2u + atB / 8u * ldB];
				nextGroupB2 = nextGroupB2 >> (8u * ((atB / 2u) % 4u));
				nextB3 = B[startB + 12u + atB / 4u * panelB + atB % 4u];
				nextGroupB3 = indices[scalesB + 3u + atB / 8u * ldB];
				nextGroupB3 = nextGroupB3 >> (8u * ((atB / 2u) % 4u));
			}
			if (rows > 4u) {
				{
					var part0 = vec4<f32>();
					var part1 = vec4<f32>();
					var part2 = vec4<f32>();
					var part3 = vec4<f32>();
					var part4 = vec4<f32>();
					var part5 = vec4<f32>();
					var part6 = vec4<f32>();
					var part7 = vec4<f32>();
					{
						let even0 = weights(words0.x);
						let odd0 = weights(words0.x >> 16u);
						let even1 = weights(words1.x);
						let odd1 = weights(words1.x >> 16u);
						let even2 = weights(words2.x);
						let odd2 = weights(words2.x >> 16u);
						let even3 = weights(words3.x);
						let odd3 = weights(words3.x >> 16u);
						{
							let b0 = vec4<f32>(even0.x, even1.x, even2.x, even3.x);
							let a0 = sharedA[0u][readA0];
							part0 = fma(vec4<f32>(a0.x), b0, part0);
							part1 = fma(vec4<f32>(a0.y), b0, part1);
							part2 = fma(vec4<f32>(a0.z), b0, part2);
							part3 = fma(vec4<f32>(a0.w), b0, part3);
							let a1 = sharedA[0u][readA1];
							part4 = fma(vec4<f32>(a1.x), b0, part4);
							part5 = fma(vec4<f32>(a1.y), b0, part5);
							part6 = fma(vec4<f32>(a1.z), b0, part6);
							part7 = fma(vec4<f32>(a1.w), b0, part7);
						}
						{
							let b0 = vec4<f32>(odd0.x, odd1.x, odd2.x, odd3.x);
							let a0 = sharedA[1u][readA0];
							part0 = fma(vec4<f32>(a0.x), b0, part0);
							part1 = fma(vec4<f32>(a0.y), b0, part1);
							part2 = fma(vec4<f32>(a0.z), b0, part2);
							part3 = fma(vec4<f32>(a0.w), b0, part3);
							let a1 = sharedA[1u][readA1];
							part4 = fma(vec4<f32>(a1.x), b0, part4);
							part5 = fma(vec4<f32>(a1.y), b0, part5);
							part6 = fma(vec4<f32>(a1.z), b0, part6);
							part7 = fma(vec4<f32>(a1.w), b0, part7);
						}
						{
							let b0 = vec4<f32>(even0.y, even1.y, even2.y, even3.y);
							let a0 = sharedA[2u][readA0];
							part0 = fma(vec4<f32>(a0.x), b0, part0);
							part1 = fma(vec4<f32>(a0.y), b0, part1);
							part2 = fma(vec4<f32>(a0.z), b0, part2);
							part3 = fma(vec4<f32>(a0.w), b0, part3);
							let a1 = sharedA[2u][readA1];
							part4 = fma(vec4<f32>(a1.x), b0, part4);
							part5 = fma(vec4<f32>(a1.y), b0, part5);
							part6 = fma(vec4<f32>(a1.z), b0, part6);
							part7 = fma(vec4<f32>(a1.w), b0, part7);
						}
						{
							let b0 = vec4<f32>(odd0.y, odd1.y, odd2.y, odd3.y);
							let a0 = sharedA[3u][readA0];
							part0 = fma(vec4<f32>(a0.x), b0, part0);
							part1 = fma(vec4<f32>(a0.y), b0, part1);
							part2 = fma(vec4<f32>(a0.z), b0, part2);
							part3 = fma(vec4<f32>(a0.w), b0, part3);
							let a1 = sharedA[3u][readA1];
							part4 = fma(vec4<f32>(a1.x), b0, part4);
							part5 = fma(vec4<f32>(a1.y), b0, part5);
							part6 = fma(vec4<f32>(a1.z), b0, part6);
							part7 = fma(vec4<f32>(a1.w), b0, part7);
						}
						{
							let b0 = vec4<f32>(even0.z, even1.z, even2.z, even3.z);
							let a0 = sharedA[4u][readA0];
							part0 = fma(vec4<f32>(a0.x), b0, part0);
							part1 = fma(vec4<f32>(a0.y), b0, part1);
							part2 = fma(vec4<f32>(a0.z), b0, part2);
							part3 = fma(vec4<f32>(a0.w), b0, part3);
							let a1 = sharedA[4u][readA1];
							part4 = fma(vec4<f32>(a1.x), b0, part4);
							part5 = fma(vec4<f32>(a1.y), b0, part5);
							part6 = fma(vec4<f32>(a1.z), b0, part6);
							part7 = fma(vec4<f32>(a1.w), b0, part7);
						}
						{
							let b0 = vec4<f32>(odd0.z, odd1.z, odd2.z, odd3.z);
							let a0 = sharedA[5u][readA0];
							part0 = fma(vec4<f32>(a0.x), b0, part0);
							part1 = fma(vec4<f32>(a0.y), b0, part1);
							part2 = fma(vec4<f32>(a0.z), b0, part2);
							part3 = fma(vec4<f32>(a0.w), b0, part3);
							let a1 = sharedA[5u][readA1];
							part4 = fma(vec4<f32>(a1.x), b0, part4);
							part5 = fma(vec4<f32>(a1.y), b0, part5);
							part6 = fma(vec4<f32>(a1.z), b0, part6);
							part7 = fma(vec4<f32>(a1.w), b0, part7);
						}
						{
							let b0 = vec4<f32>(even0.w, even1.w, even2.w, even3.w);
							let a0 = sharedA[6u][readA0];
							part0 = fma(vec4<f32>(a0.x), b0, part0);
							part1 = fma(vec4<f32>(a0.y), b0, part1);
							part2 = fma(vec4<f32>(a0.z), b0, part2);
							part3 = fma(vec4<f32>(a0.w), b0, part3);
							let a1 = sharedA[6u][readA1];
							part4 = fma(vec4<f32>(a1.x), b0, part4);
							part5 = fma(vec4<f32>(a1.y), b0, part5);
							part6 = fma(vec4<f32>(a1.z), b0, part6);
							part7 = fma(vec4<f32>(a1.w), b0, part7);
						}
						{
							let b0 = vec4<f32>(odd0.w, odd1.w, odd2.w, odd3.w);
							let a0 = sharedA[7u][readA0];
							part0 = fma(vec4<f32>(a0.x), b0, part0);
							part1 = fma(vec4<f32>(a0.y), b0, part1);
							part2 = fma(vec4<f32>(a0.z), b0, part2);
							part3 = fma(vec4<f32>(a0.w), b0, part3);
							let a1 = sharedA[7u][readA1];
							part4 = fma(vec4<f32>(a1.x), b0, part4);
							part5 = fma(vec4<f32>(a1.y), b0, part5);
							part6 = fma(vec4<f32>(a1.z), b0, part6);
							part7 = fma(vec4<f32>(a1.w), b0, part7);
						}
					}
					{
						let even0 = weights(words0.y);
						let odd0 = weights(words0.y >> 16u);
						let even1 = weights(words1.y);
						let odd1 = weights(words1.y >> 16u);
						let even2 = weights(words2.y);
						let odd2 = weights(words2.y >> 16u);
						let even3 = weights(words3.y);
						let odd3 = weights(words3.y >> 16u);
						{
							let b0 = vec4<f32>(even0.x, even1.x, even2.x, even3.x);
							let a0 = sharedA[8u][readA0];
							part0 = fma(vec4<f32>(a0.x), b0, part0);
							part1 = fma(vec4<f32>(a0.y), b0, part1);
							part2 = fma(vec4<f32>(a0.z), b0, part2);
							part3 = fma(vec4<f32>(a0.w), b0, part3);
							let a1 = sharedA[8u][readA1];
							part4 = fma(vec4<f32>(a1.x), b0, part4);
							part5 = fma(vec4<f32>(a1.y), b0, part5);
							part6 = fma(vec4<f32>(a1.z), b0, part6);
							part7 = fma(vec4<f32>(a1.w), b0, part7);
						}
						{
							let b0 = vec4<f32>(odd0.x, odd1.x, odd2.x, odd3.x);
							let a0 = sharedA[9u][readA0];
							part0 = fma(vec4<f32>(a0.x), b0, part0);
							part1 = fma(vec4<f32>(a0.y), b0, part1);
							part2 = fma(vec4<f32>(a0.z), b0, part2);
							part3 = fma(vec4<f32>(a0.w), b0, part3);
							let a1 = sharedA[9u][readA1];
							part4 = fma(vec4<f32>(a1.x), b0, part4);
							part5 = fma(vec4<f32>(a1.y), b0, part5);
							part6 = fma(vec4<f32>(a1.z), b0, part6);
							part7 = fma(vec4<f32>(a1.w), b0, part7);
						}
						{
							let b0 = vec4<f32>(even0.y, even1.y, even2.y, even3.y);
							let a0 = sharedA[10u][readA0];
							part0 = fma(vec4<f32>(a0.x), b0, part0);
							part1 = fma(vec4<f32>(a0.y), b0, part1);
							part2 = fma(vec4<f32>(a0.z), b0, part2);
							part3 = fma(vec4<f32>(a0.w), b0, part3);
							let a1 = sharedA[10u][readA1];
							part4 = fma(vec4<f32>(a1.x), b0, part4);
							part5 = fma(vec4<f32>(a1.y), b0, part5);
							part6 = fma(vec4<f32>(a1.z), b0, part6);
							part7 = fma(vec4<f32>(a1.w), b0, part7);
						}
						{
							let b0 = vec4<f32>(odd0.y, odd1.y, odd2.y, odd3.y);
							let a0 = sharedA[11u][readA0];
							part0 = fma(vec4<f32>(a0.x), b0, part0);
							part1 = fma(vec4<f32>(a0.y), b0, part1);
							part2 = fma(vec4<f32>(a0.z), b0, part2);
							part3 = fma(vec4<f32>(a0.w), b0, part3);
							let a1 = sharedA[11u][readA1];
							part4 = fma(vec4<f32>(a1.x), b0, part4);
							part5 = fma(vec4<f32>(a1.y), b0, part5);
							part6 = fma(vec4<f32>(a1.z), b0, part6);
							part7 = fma(vec4<f32>(a1.w), b0, part7);
						}
						{
							let b0 = vec4<f32>(even0.z, even1.z, even2.z, even3.z);
							let a0 = sharedA[12u][readA0];
							part0 = fma(vec4<f32>(a0.x), b0, part0);
							part1 = fma(vec4<f32>(a0.y), b0, part1);
							part2 = fma(vec4<f32>(a0.z), b0, part2);
							part3 = fma(vec4<f32>(a0.w), b0, part3);
							let a1 = sharedA[12u][readA1];
							part4 = fma(vec4<f32>(a1.x), b0, part4);
							part5 = fma(vec4<f32>(a1.y), b0, part5);
							part6 = fma(vec4<f32>(a1.z), b0, part6);
							part7 = fma(vec4<f32>(a1.w), b0, part7);
						}
						{
							let b0 = vec4<f32>(odd0.z, odd1.z, odd2.z, odd3.z);
							let a0 = sharedA[13u][readA0];
							part0 = fma(vec4<f32>(a0.x), b0, part0);
							part1 = fma(vec4<f32>(a0.y), b0, part1);
							part2 = fma(vec4<f32>(a0.z), b0, part2);
							part3 = fma(vec4<f32>(a0.w), b0, part3);
							let a1 = sharedA[13u][readA1];
							part4 = fma(vec4<f32>(a1.x), b0, part4);
							part5 = fma(vec4<f32>(a1.y), b0, part5);
							part6 = fma(vec4<f32>(a1.z), b0, part6);
							part7 = fma(vec4<f32>(a1.w), b0, part7);
						}
						{
							let b0 = vec4<f32>(even0.w, even1.w, even2.w, even3.w);
							let a0 = sharedA[14u][readA0];
							part0 = fma(vec4<f32>(a0.x), b0, part0);
							part1 = fma(vec4<f32>(a0.y), b0, part1);
							part2 = fma(vec4<f32>(a0.z), b0, part2);
							part3 = fma(vec4<f32>(a0.w), b0, part3);
							let a1 = sharedA[14u][readA1];
							part4 = fma(vec4<f32>(a1.x), b0, part4);
							part5 = fma(vec4<f32>(a1.y), b0, part5);
							part6 = fma(vec4<f32>(a1.z), b0, part6);
							part7 = fma(vec4<f32>(a1.w), b0, part7);
						}
						{
							let b0 = vec4<f32>(odd0.w, odd1.w, odd2.w, odd3.w);
							let a0 = sharedA[15u][readA0];
							part0 = fma(vec4<f32>(a0.x), b0, part0);
							part1 = fma(vec4<f32>(a0.y), b0, part1);
							part2 = fma(vec4<f32>(a0.z), b0, part2);
							part3 = fma(vec4<f32>(a0.w), b0, part3);
							let a1 = sharedA[15u][readA1];
							part4 = fma(vec4<f32>(a1.x), b0, part4);
							part5 = fma(vec4<f32>(a1.y), b0, part5);
							part6 = fma(vec4<f32>(a1.z), b0, part6);
							part7 = fma(vec4<f32>(a1.w), b0, part7);
						}
					}
					let scales = vec4<f32>(scale0, scale1, scale2, scale3);
					c0 = fma(scales, part0, c0);
					c1 = fma(scales, part1, c1);
					c2 = fma(scales, part2, c2);
					c3 = fma(scales, part3, c3);
					c4 = fma(scales, part4, c4);
					c5 = fma(scales, part5, c5);
					c6 = fma(scales, part6, c6);
					c7 = fma(scales, part7, c7);
				}
			} else {
				if (rows > 1u) {
					{
						var part0 = vec4<f32>();
						var part1 = vec4<f32>();
						var part2 = vec4<f32>();
						var part3 = vec4<f32>();
						{
							let even0 = weights(words0.x);
							let odd0 = weights(words0.x >> 16u);
							let even1 = weights(words1.x);
							let odd1 = weights(words1.x >> 16u);
							let even2 = weights(words2.x);
							let odd2 = weights(words2.x >> 16u);
							let even3 = weights(words3.x);
							let odd3 = weights(words3.x >> 16u);
							{
								let b0 = vec4<f32>(even0.x, even1.x, even2.x, even3.x);
								let a0 = sharedA[0u][readA0];
								part0 = fma(vec4<f32>(a0.x), b0, part0);
								part1 = fma(vec4<f32>(a0.y), b0, part1);
								part2 = fma(vec4<f32>(a0.z), b0, part2);
								part3 = fma(vec4<f32>(a0.w), b0, part3);
							}
							{
								let b0 = vec4<f32>(odd0.x, odd1.x, odd2.x, odd3.x);
								let a0 = sharedA[1u][readA0];
								part0 = fma(vec4<f32>(a0.x), b0, part0);
								part1 = fma(vec4<f32>(a0.y), b0, part1);
								part2 = fma(vec4<f32>(a0.z), b0, part2);
								part3 = fma(vec4<f32>(a0.w), b0, part3);
							}
							{
								let b0 = vec4<f32>(even0.y, even1.y, even2.y, even3.y);
								let a0 = sharedA[2u][readA0];
								part0 = fma(vec4<f32>(a0.x), b0, part0);
								part1 = fma(vec4<f32>(a0.y), b0, part1);
								part2 = fma(vec4<f32>(a0.z), b0, part2);
								part3 = fma(vec4<f32>(a0.w), b0, part3);
							}
							{
								let b0 = vec4<f32>(odd0.y, odd1.y, odd2.y, odd3.y);
								let a0 = sharedA[3u][readA0];
								part0 = fma(vec4<f32>(a0.x), b0, part0);
								part1 = fma(vec4<f32>(a0.y), b0, part1);
								part2 = fma(vec4<f32>(a0.z), b0, part2);
								part3 = fma(vec4<f32>(a0.w), b0, part3);
							}
							{
								let b0 = vec4<f32>(even0.z, even1.z, even2.z, even3.z);
								let a0 = sharedA[4u][readA0];
								part0 = fma(vec4<f32>(a0.x), b0, part0);
								part1 = fma(vec4<f32>(a0.y), b0, part1);
								part2 = fma(vec4<f32>(a0.z), b0, part2);
								part3 = fma(vec4<f32>(a0.w), b0, part3);
							}
							{
								let b0 = vec4<f32>(odd0.z, odd1.z, odd2.z, odd3.z);
								let a0 = sharedA[5u][readA0];
								part0 = fma(vec4<f32>(a0.x), b0, part0);
								part1 = fma(vec4<f32>(a0.y), b0, part1);
								part2 = fma(vec4<f32>(a0.z), b0, part2);
								part3 = fma(vec4<f32>(a0.w), b0, part3);
							}
							{
								let b0 = vec4<f32>(even0.w, even1.w, even2.w, even3.w);
								let a0 = sharedA[6u][readA0];
								part0 = fma(vec4<f32>(a0.x), b0, part0);
								part1 = fma(vec4<f32>(a0.y), b0, part1);
								part2 = fma(vec4<f32>(a0.z), b0, part2);
								part3 = fma(vec4<f32>(a0.w), b0, part3);
							}
							{
								let b0 = vec4<f32>(odd0.w, odd1.w, odd2.w, odd3.w);
								let a0 = sharedA[7u][readA0];
								part0 = fma(vec4<f32>(a0.x), b0, part0);
								part1 = fma(vec4<f32>(a0.y), b0, part1);
								part2 = fma(vec4<f32>(a0.z), b0, part2);
								part3 = fma(vec4<f32>(a0.w), b0, part3);
							}
						}
						{
							let even0 = weights(words0.y);
							let odd0 = weights(words0.y >> 16u);
							let even1 = weights(words1.y);
							let odd1 = weights(words1.y >> 16u);
							let even2 = weights(words2.y);
							let odd2 = weights(words2.y >> 16u);
							let even3 = weights(words3.y);
							let odd3 = weights(words3.y >> 16u);
							{
								let b0 = vec4<f32>(even0.x, even1.x, even2.x, even3.x);
								let a0 = sharedA[8u][readA0];
								part0 = fma(vec4<f32>(a0.x), b0, part0);
								part1 = fma(vec4<f32>(a0.y), b0, part1);
								part2 = fma(vec4<f32>(a0.z), b0, part2);
								part3 = fma(vec4<f32>(a0.w), b0, part3);
							}
							{
								let b0 = vec4<f32>(odd0.x, odd1.x, odd2.x, odd3.x);
								let a0 = sharedA[9u][readA0];
								part0 = fma(vec4<f32>(a0.x), b0, part0);
								part1 = fma(vec4<f32>(a0.y), b0, part1);
								part2 = fma(vec4<f32>(a0.z), b0, part2);
								part3 = fma(vec4<f32>(a0.w), b0, part3);
							}
							{
								let b0 = vec4<f32>(even0.y, even1.y, even2.y, even3.y);
								let a0 = sharedA[10u][readA0];
								part0 = fma(vec4<f32>(a0.x), b0, part0);
								part1 = fma(vec4<f32>(a0.y), b0, part1);
								part2 = fma(vec4<f32>(a0.z), b0, part2);
								part3 = fma(vec4<f32>(a0.w), b0, part3);
							}
							{
								let b0 = vec4<f32>(odd0.y, odd1.y, odd2.y, odd3.y);
								let a0 = sharedA[11u][readA0];
								part0 = fma(vec4<f32>(a0.x), b0, part0);
								part1 = fma(vec4<f32>(a0.y), b0, part1);
								part2 = fma(vec4<f32>(a0.z), b0, part2);
								part3 = fma(vec4<f32>(a0.w), b0, part3);
							}
							{
								let b0 = vec4<f32>(even0.z, even1.z, even2.z, even3.z);
								let a0 = sharedA[12u][readA0];
								part0 = fma(vec4<f32>(a0.x), b0, part0);
								part1 = fma(vec4<f32>(a0.y), b0, part1);
								part2 = fma(vec4<f32>(a0.z), b0, part2);
								part3 = fma(vec4<f32>(a0.w), b0, part3);
							}
							{
								let b0 = vec4<f32>(odd0.z, odd1.z, odd2.z, odd3.z);
								let a0 = sharedA[13u][readA0];
								part0 = fma(vec4<f32>(a0.x), b0, part0);
								part1 = fma(vec4<f32>(a0.y), b0, part1);
								part2 = fma(vec4<f32>(a0.z), b0, part2);
								part3 = fma(vec4<f32>(a0.w), b0, part3);
							}
							{
								let b0 = vec4<f32>(even0.w, even1.w, even2.w, even3.w);
								let a0 = sharedA[14u][readA0];
								part0 = fma(vec4<f32>(a0.x), b0, part0);
								part1 = fma(vec4<f32>(a0.y), b0, part1);
								part2 = fma(vec4<f32>(a0.z), b0, part2);
								part3 = fma(vec4<f32>(a0.w), b0, part3);
							}
							{
								let b0 = vec4<f32>(odd0.w, odd1.w, odd2.w, odd3.w);
								let a0 = sharedA[15u][readA0];
								part0 = fma(vec4<f32>(a0.x), b0, part0);
								part1 = fma(vec4<f32>(a0.y), b0, part1);
								part2 = fma(vec4<f32>(a0.z), b0, part2);
								part3 = fma(vec4<f32>(a0.w), b0, part3);
							}
						}
						let scales = vec4<f32>(scale0, scale1, scale2, scale3);
						c0 = fma(scales, part0, c0);
						c1 = fma(scales, part1, c1);
						c2 = fma(scales, part2, c2);
						c3 = fma(scales, part3, c3);
					}
				} else {
					{
						var part0 = vec4<f32>();
						{
							let even0 = weights(words0.x);
							let odd0 = weights(words0.x >> 16u);
							let even1 = weights(words1.x);
							let odd1 = weights(words1.x >> 16u);
							let even2 = weights(words2.x);
							let odd2 = weights(words2.x >> 16u);
							let even3 = weights(words3.x);
							let odd3 = weights(words3.x >> 16u);
							{
								let b0 = vec4<f32>(even0.x, even1.x, even2.x, even3.x);
								let a0 = sharedA[0u][readA0];
								part0 = fma(vec4<f32>(a0.x), b0, part0);
							}
							{
								let b0 = vec4<f32>(odd0.x, odd1.x, odd2.x, odd3.x);
								let a0 = sharedA[1u][readA0];
								part0 = fma(vec4<f32>(a0.x), b0, part0);
							}
							{
								let b0 = vec4<f32>(even0.y, even1.y, even2.y, even3.y);
								let a0 = sharedA[2u][readA0];
								part0 = fma(vec4<f32>(a0.x), b0, part0);
							}
							{
								let b0 = vec4<f32>(odd0.y, odd1.y, odd2.y, odd3.y);
								let a0 = sharedA[3u][readA0];
								part0 = fma(vec4<f32>(a0.x), b0, part0);
							}
							{
								let b0 = vec4<f32>(even0.z, even1.z, even2.z, even3.z);
								let a0 = sharedA[4u][readA0];
								part0 = fma(vec4<f32>(a0.x), b0, part0);
							}
							{
								let b0 = vec4<f32>(odd0.z, odd1.z, odd2.z, odd3.z);
								let a0 = sharedA[5u][readA0];
								part0 = fma(vec4<f32>(a0.x), b0, part0);
							}
							{
								let b0 = vec4<f32>(even0.w, even1.w, even2.w, even3.w);
								let a0 = sharedA[6u][readA0];
								part0 = fma(vec4<f32>(a0.x), b0, part0);
							}
							{
								let b0 = vec4<f32>(odd0.w, odd1.w, odd2.w, odd3.w);
								let a0 = sharedA[7u][readA0];
								part0 = fma(vec4<f32>(a0.x), b0, part0);
							}
						}
						{
							let even0 = weights(words0.y);
							let odd0 = weights(words0.y >> 16u);
							let even1 = weights(words1.y);
							let odd1 = weights(words1.y >> 16u);
							let even2 = weights(words2.y);
							let odd2 = weights(words2.y >> 16u);
							let even3 = weights(words3.y);
							let odd3 = weights(words3.y >> 16u);
							{
								let b0 = vec4<f32>(even0.x, even1.x, even2.x, even3.x);
								let a0 = sharedA[8u][readA0];
								part0 = fma(vec4<f32>(a0.x), b0, part0);
							}
							{
								let b0 = vec4<f32>(odd0.x, odd1.x, odd2.x, odd3.x);
								let a0 = sharedA[9u][readA0];
								part0 = fma(vec4<f32>(a0.x), b0, part0);
							}
							{
								let b0 = vec4<f32>(even0.y, even1.y, even2.y, even3.y);
								let a0 = sharedA[10u][readA0];
								part0 = fma(vec4<f32>(a0.x), b0, part0);
							}
							{
								let b0 = vec4<f32>(odd0.y, odd1.y, odd2.y, odd3.y);
								let a0 = sharedA[11u][readA0];
								part0 = fma(vec4<f32>(a0.x), b0, part0);
							}
							{
								let b0 = vec4<f32>(even0.z, even1.z, even2.z, even3.z);
								let a0 = sharedA[12u][readA0];
								part0 = fma(vec4<f32>(a0.x), b0, part0);
							}
							{
								let b0 = vec4<f32>(odd0.z, odd1.z, odd2.z, odd3.z);
								let a0 = sharedA[13u][readA0];
								part0 = fma(vec4<f32>(a0.x), b0, part0);
							}
							{
								let b0 = vec4<f32>(even0.w, even1.w, even2.w, even3.w);
								let a0 = sharedA[14u][readA0];
								part0 = fma(vec4<f32>(a0.x), b0, part0);
							}
							{
								let b0 = vec4<f32>(odd0.w, odd1.w, odd2.w, odd3.w);
								let a0 = sharedA[15u][readA0];
								part0 = fma(vec4<f32>(a0.x), b0, part0);
							}
						}
						let scales = vec4<f32>(scale0, scale1, scale2, scale3);
						c0 = fma(scales, part0, c0);
					}
				}
			}
			if (left == 0u) { break; }
			workgroupBarrier();
		}
	}
	workgroupBarrier();
	if (group < 2u) {
		let at = 32u * group + place;
		sharedA[at / 8u][at % 8u] = c0;
		sharedA[(at + 16u) / 8u][(at + 16u) % 8u] = c1;
	} else {
		let at = 32u * (group - 2u) + place;
		sharedB[at / 64u][at % 64u] = bitcast<vec4<u32>>(c0);
		sharedB[(at + 16u) / 64u][(at + 16u) % 64u] = bitcast<vec4<u32>>(c1);
	}
	workgroupBarrier();
	if (group < 2u) {
		c0 = sharedA[(16u * group + place) / 8u][(16u * group + place) % 8u] + sharedA[(16u * group + place + 32u) / 8u][(16u * group + place + 32u) % 8u] + bitcast<vec4<f32>>(sharedB[(16u * group + place) / 64u][(16u * group + place) % 64u]) + bitcast<vec4<f32>>(sharedB[(16u * group + place + 32u) / 64u][(16u * group + place + 32u) % 64u]);
	}
	workgroupBarrier();
	if (group < 2u) {
		let at = 32u * group + place;
		sharedA[at / 8u][at % 8u] = c2;
		sharedA[(at + 16u) / 8u][(at + 16u) % 8u] = c3;
	} else {
		let at = 32u * (group - 2u) + place;
		sharedB[at / 64u][at % 64u] = bitcast<vec4<u32>>(c2);
		sharedB[(at + 16u) / 64u][(at + 16u) % 64u] = bitcast<vec4<u32>>(c3);
	}
	workgroupBarrier();
	if (group < 2u) {
		c2 = sharedA[(16u * group + place) / 8u][(16u * group + place) % 8u] + sharedA[(16u * group + place + 32u) / 8u][(16u * group + place + 32u) % 8u] + bitcast<vec4<f32>>(sharedB[(16u * group + place) / 64u][(16u * group + place) % 64u]) + bitcast<vec4<f32>>(sharedB[(16u * group + place + 32u) / 64u][(16u * group + place + 32u) % 64u]);
	}
	workgroupBarrier();
	if (group < 2u) {
		let at = 32u * group + place;
		sharedA[at / 8u][at % 8u] = c4;
		sharedA[(at + 16u) / 8u][(at + 16u) % 8u] = c5;
	} else {
		let at = 32u * (group - 2u) + place;
		sharedB[at / 64u][at % 64u] = bitcast<vec4<u32>>(c4);
		sharedB[(at + 16u) / 64u][(at + 16u) % 64u] = bitcast<vec4<u32>>(c5);
	}
	workgroupBarrier();
	if (group < 2u) {
		c4 = sharedA[(16u * group + place) / 8u][(16u * group + place) % 8u] + sharedA[(16u * group + place + 32u) / 8u][(16u * group + place + 32u) % 8u] + bitcast<vec4<f32>>(sharedB[(16u * group + place) / 64u][(16u * group + place) % 64u]) + bitcast<vec4<f32>>(sharedB[(16u * group + place + 32u) / 64u][(16u * group + place + 32u) % 64u]);
	}
	workgroupBarrier();
	if (group < 2u) {
		let at = 32u * group + place;
		sharedA[at / 8u][at % 8u] = c6;
		sharedA[(at + 16u) / 8u][(at + 16u) % 8u] = c7;
	} else {
		let at = 32u * (group - 2u) + place;
		sharedB[at / 64u][at % 64u] = bitcast<vec4<u32>>(c6);
		sharedB[(at + 16u) / 64u][(at + 16u) % 64u] = bitcast<vec4<u32>>(c7);
	}
	workgroupBarrier();
	if (group < 2u) {
		c6 = sharedA[(16u * group + place) / 8u][(16u * group + place) % 8u] + sharedA[(16u * group + place + 32u) / 8u][(16u * group + place + 32u) % 8u] + bitcast<vec4<f32>>(sharedB[(16u * group + place) / 64u][(16u * group + place) % 64u]) + bitcast<vec4<f32>>(sharedB[(16u * group + place + 32u) / 64u][(16u * group + place + 32u) % 64u]);
	}
	let row0 = 4u * ty + 4u * (group / 4u) + group % 4u;
	let vector0 = tx;
	let row1 = 4u * ty + 4u * ((group + 2u) / 4u) + (group + 2u) % 4u;
	let vector1 = tx;
	let row2 = 4u * ty + 4u * ((group + 4u) / 4u) + (group + 4u) % 4u;
	let vector2 = tx;
	let row3 = 4u * ty + 4u * ((group + 6u) / 4u) + (group + 6u) % 4u;
	let vector3 = tx;
	let atC0 = offC + row0 * ldC + 4u * vector0;
	c0 = alpha * c0;
	let atC1 = offC + row1 * ldC + 4u * vector1;
	c2 = alpha * c2;
	let atC2 = offC + row2 * ldC + 4u * vector2;
	c4 = alpha * c4;
	let atC3 = offC + row3 * ldC + 4u * vector3;
	c6 = alpha * c6;
	if (group < 2u) {
		if ((bitcast<u32>(beta) & 0x7fffffffu) != 0u) {
			c0 = fma(vec4<f32>(beta), loadC(atC0), c0);
			c2 = fma(vec4<f32>(beta), loadC(atC1), c2);
			c4 = fma(vec4<f32>(beta), loadC(atC2), c4);
			c6 = fma(vec4<f32>(beta), loadC(atC3), c6);
		}
	}
	var bits0 = bitcast<vec4<u32>>(c0);
	var bits1 = bitcast<vec4<u32>>(c2);
	var bits2 = bitcast<vec4<u32>>(c4);
	var bits3 = bitcast<vec4<u32>>(c6);
	let sizes = abs(c0) + abs(c2) + abs(c4) + abs(c6);
	if (rare(sizes.x + sizes.y + sizes.z + sizes.w)) {
		bits0 = vec4<u32>(tame(bits0.x), tame(bits0.y), tame(bits0.z), tame(bits0.w));
		bits1 = vec4<u32>(tame(bits1.x), tame(bits1.y), tame(bits1.z), tame(bits1.w));
		bits2 = vec4<u32>(tame(bits2.x), tame(bits2.y), tame(bits2.z), tame(bits2.w));
		bits3 = vec4<u32>(tame(bits3.x), tame(bits3.y), tame(bits3.z), tame(bits3.w));
	}
	let word0a = pair(bits0.x, bits0.y);
	let word0b = pair(bits0.z, bits0.w);
	let word1a = pair(bits1.x, bits1.y);
	let word1b = pair(bits1.z, bits1.w);
	let word2a = pair(bits2.x, bits2.y);
	let word2b = pair(bits2.z, bits2.w);
	let word3a = pair(bits3.x, bits3.y);
	let word3b = pair(bits3.z, bits3.w);
	if (((offC | ldC | cols) & 1u) == 0u) {
		if (group < 2u) {
			if (row0 < rows && 4u * vector0 + 3u < cols) {
				atomicStore(&C[atC0 / 2u], word0a);
				atomicStore(&C[atC0 / 2u + 1u], word0b);
			}
			if (row1 < rows && 4u * vector1 + 3u < cols) {
				atomicStore(&C[atC1 / 2u], word1a);
				atomicStore(&C[atC1 / 2u + 1u], word1b);
			}
			if (row2 < rows && 4u * vector2 + 3u < cols) {
				atomicStore(&C[atC2 / 2u], word2a);
				atomicStore(&C[atC2 / 2u + 1u], word2b);
			}
			if (row3 < rows && 4u * vector3 + 3u < cols) {
				atomicStore(&C[atC3 / 2u], word3a);
				atomicStore(&C[atC3 / 2u + 1u], word3b);
			}
			if (row0 < rows && 4u * vector0 + 2u == cols) {
				atomicStore(&C[atC0 / 2u], word0a);
			}
			if (row1 < rows && 4u * vector1 + 2u == cols) {
				atomicStore(&C[atC1 / 2u], word1a);
			}
			if (row2 < rows && 4u * vector2 + 2u == cols) {
				atomicStore(&C[atC2 / 2u], word2a);
			}
			if (row3 < rows && 4u * vector3 + 2u == cols) {
				atomicStore(&C[atC3 / 2u], word3a);
			}
		}
	} else {
		let numbers0 = select(0u, min(cols - min(4u * vector0, cols), 4u), row0 < rows);
		let numbers1 = select(0u, min(cols - min(4u * vector1, cols), 4u), row1 < rows);
		let numbers2 = select(0u, min(cols - min(4u * vector2, cols), 4u), row2 < rows);
		let numbers3 = select(0u, min(cols - min(4u * vector3, cols), 4u), row3 < rows);
		for (var turn = 0u; turn < 2u; turn = turn + 1u) {
			workgroupBarrier();
			if (group < 2u) {
				if (row0 / 4u == turn) {
					let at = 16u * (row0 % 4u) + vector0;
					sharedB[at / 64u][at % 64u] = vec4<u32>(ends(numbers0, word0a, word0b));
				}
				if (row1 / 4u == turn) {
					let at = 16u * (row1 % 4u) + vector1;
					sharedB[at / 64u][at % 64u] = vec4<u32>(ends(numbers1, word1a, word1b));
				}
				if (row2 / 4u == turn) {
					let at = 16u * (row2 % 4u) + vector2;
					sharedB[at / 64u][at % 64u] = vec4<u32>(ends(numbers2, word2a, word2b));
				}
				if (row3 / 4u == turn) {
					let at = 16u * (row3 % 4u) + vector3;
					sharedB[at / 64u][at % 64u] = vec4<u32>(ends(numbers3, word3a, word3b));
				}
			}
			workgroupBarrier();
			if (group < 2u) {
				if (row0 / 4u == turn) {
					let at = max(16u * (row0 % 4u) + vector0, 1u) - 1u;
					storeVector(atC0, vector0, numbers0, sharedB[at / 64u][at % 64u].x, word0a, word0b);
				}
				if (row1 / 4u == turn) {
					let at = max(16u * (row1 % 4u) + vector1, 1u) - 1u;
					storeVector(atC1, vector1, numbers1, sharedB[at / 64u][at % 64u].x, word1a, word1b);
				}
				if (row2 / 4u == turn) {
					let at = max(16u * (row2 % 4u) + vector2, 1u) - 1u;
					storeVector(atC2, vector2, numbers2, sharedB[at / 64u][at % 64u].x, word2a, word2b);
				}
				if (row3 / 4u == turn) {
					let at = max(16u * (row3 % 4u) + vector3, 1u) - 1u;
					storeVector(atC3, vector3, numbers3, sharedB[at / 64u][at % 64u].x, word3a, word3b);
				}
			}
			for (var own = t; own < 4u; own = own + 64u) {
				let row = 4u * turn + own;
				if (row < rows) {
					let at = 16u * own;
					storeEnds(offC + row * ldC, cols, sharedB[at / 64u][at % 64u].x, sharedB[(at + (cols - 1u) / 4u) / 64u][(at + (cols - 1u) / 4u) % 64u].x);
				}
			}
		}
	}
}
