@group(0) @binding(0) var<storage, read> items: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> A: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read> B: array<u32>;
@group(0) @binding(3) var<storage, read_write> C: array<f32>;
var<workgroup> sharedA: array<array<vec2<f32>, 16>, 4>;
var<workgroup> sharedB: array<array<vec2<f32>, 20>, 4>;

fn numbers(word: u32) -> vec2<f32> {
	return unpack2x16float(word);
}

fn number(word: u32, half: u32) -> f32 {
	return numbers(word >> half).x;
}

fn four(words: vec2<u32>) -> vec4<f32> {
	return vec4<f32>(numbers(words.x), numbers(words.y));
}

@compute @workgroup_size(32)
fn main(@builtin(workgroup_id) worker: vec3<u32>, @builtin(local_invocation_index) t: u32) {
	let place = t % 8u;
	let group = t / 8u;
	let ty = place / 2u;
	let tx = place % 2u;
	let readA0 = 4u * group + ty;
	let readB0 = 5u * group + tx;
	let readB1 = 5u * group + tx + 2u;
	let alongA = t % 2u;
	let acrossA = t / 2u;
	var atA: u32;
	var nextA0: vec2<u32>;
	var laterA0: vec2<u32>;
	let alongB = t % 16u;
	let acrossB = t / 16u;
	var wordB00: u32;
	var nextB0: vec2<u32>;
	var nextB1: vec2<u32>;
	var laterB0: vec2<u32>;
	var laterB1: vec2<u32>;
	var c0: vec2<f32>;
	var c1: vec2<f32>;
	var c2: vec2<f32>;
	var c3: vec2<f32>;
	let item = worker.x;
	let item0 = items[3u * item];
	let item1 = items[3u * item + 1u];
	let item2 = items[3u * item + 2u];
	let offA = item0.x / 4u;
	let offB = item0.y;
	let offC = item0.z;
	let depth = item0.w;
	let ldA = item1.x / 4u;
	let ldB = item1.y;
	let ldC = item1.z;
	let rows = item1.w & 0xffffu;
	let cols = item1.w >> 16u;
	let alpha = bitcast<f32>(item2.x);
	let beta = bitcast<f32>(item2.y);
	c0 = vec2<f32>(0.0);
	c1 = vec2<f32>(0.0);
	c2 = vec2<f32>(0.0);
	c3 = vec2<f32>(0.0);
	var left = depth;
	if (left != 0u) {
		atA = offA + acrossA * ldA + alongA;
		let atB = offB + acrossB * ldB + alongB;
		wordB00 = atB / 2u;
		let halfB00 = 16u * (atB % 2u);
		nextA0 = A[atA];
		nextB0 = vec2<u32>(B[wordB00], B[wordB00 + 2u * ldB]);
		nextB1 = vec2<u32>(B[wordB00 + ldB], B[wordB00 + 3u * ldB]);
		if (left > 16u) {
			atA = atA + 16u * ldA;
			wordB00 = wordB00 + 8u;
			laterA0 = A[atA];
			laterB0 = vec2<u32>(B[wordB00], B[wordB00 + 2u * ldB]);
			laterB1 = vec2<u32>(B[wordB00 + ldB], B[wordB00 + 3u * ldB]);
		}
		loop {
			sharedA[acrossA / 4u][4u * (acrossA % 4u) + 2u * alongA] = four(nextA0).xy;
			sharedA[acrossA / 4u][4u * (acrossA % 4u) + 2u * alongA + 1u] = four(nextA0).zw;
			sharedB[alongB / 4u][5u * (alongB % 4u) + acrossB] = vec2<f32>(number(nextB0.x, halfB00), number(nextB0.y, halfB00));
			sharedB[alongB / 4u][5u * (alongB % 4u) + acrossB + 2u] = vec2<f32>(number(nextB1.x, halfB00), number(nextB1.y, halfB00));
			workgroupBarrier();
			if (left < 16u) {
				for (var k = 0u; 4u * k + group < left; k = k + 1u) {
					let a0 = sharedA[k][readA0];
					let b0 = sharedB[k][readB0];
					let b1 = sharedB[k][readB1];
					c0 = fma(vec2<f32>(a0.x), b0, c0);
					c1 = fma(vec2<f32>(a0.x), b1, c1);
					c2 = fma(vec2<f32>(a0.y), b0, c2);
					c3 = fma(vec2<f32>(a0.y), b1, c3);
				}
				break;
			}
			left = left - 16u;
			if (left > 16u) {
				atA = atA + 16u * ldA;
				wordB00 = wordB00 + 8u;
				nextA0 = A[atA];
				nextB0 = vec2<u32>(B[wordB00], B[wordB00 + 2u * ldB]);
				nextB1 = vec2<u32>(B[wordB00 + ldB], B[wordB00 + 3u * ldB]);
			}
			{
				let a0 = sharedA[0u][readA0];
				let b0 = sharedB[0u][readB0];
				let b1 = sharedB[0u][readB1];
				c0 = fma(vec2<f32>(a0.x), b0, c0);
				c1 = fma(vec2<f32>(a0.x), b1, c1);
				c2 = fma(vec2<f32>(a0.y), b0, c2);
				c3 = fma(vec2<f32>(a0.y), b1, c3);
			}
			{
				let a0 = sharedA[1u][readA0];
				let b0 = sharedB[1u][readB0];
				let b1 = sharedB[1u][readB1];
				c0 = fma(vec2<f32>(a0.x), b0, c0);
				c1 = fma(vec2<f32>(a0.x), b1, c1);
				c2 = fma(vec2<f32>(a0.y), b0, c2);
				c3 = fma(vec2<f32>(a0.y), b1, c3);
			}
			{
				let a0 = sharedA[2u][readA0];
				let b0 = sharedB[2u][readB0];
				let b1 = sharedB[2u][readB1];
				c0 = fma(vec2<f32>(a0.x), b0, c0);
				c1 = fma(vec2<f32>(a0.x), b1, c1);
				c2 = fma(vec2<f32>(a0.y), b0, c2);
				c3 = fma(vec2<f32>(a0.y), b1, c3);
			}
			{
				let a0 = sharedA[3u][readA0];
				let b0 = sharedB[3u][readB0];
				let b1 = sharedB[3u][readB1];
				c0 = fma(vec2<f32>(a0.x), b0, c0);
				c1 = fma(vec2<f32>(a0.x), b1, c1);
				c2 = fma(vec2<f32>(a0.y), b0, c2);
				c3 = fma(vec2<f32>(a0.y), b1, c3);
			}
			if (left == 0u) { break; }
			workgroupBarrier();
			sharedA[acrossA / 4u][4u * (acrossA % 4u) + 2u * alongA] = four(laterA0).xy;
			sharedA[acrossA / 4u][4u * (acrossA % 4u) + 2u * alongA + 1u] = four(laterA0).zw;
			sharedB[alongB / 4u][5u * (alongB % 4u) + acrossB] = vec2<f32>(number(laterB0.x, halfB00), number(laterB0.y, halfB00));
			sharedB[alongB / 4u][5u * (alongB % 4u) + acrossB + 2u] = vec2<f32>(number(laterB1.x, halfB00), number(laterB1.y, halfB00));
			workgroupBarrier();
			if (left < 16u) {
				for (var k = 0u; 4u * k + group < left; k = k + 1u) {
					let a0 = sharedA[k][readA0];
					let b0 = sharedB[k][readB0];
					let b1 = sharedB[k][readB1];
					c0 = fma(vec2<f32>(a0.x), b0, c0);
					c1 = fma(vec2<f32>(a0.x), b1, c1);
					c2 = fma(vec2<f32>(a0.y), b0, c2);
					c3 = fma(vec2<f32>(a0.y), b1, c3);
				}
				break;
			}
			left = left - 16u;
			if (left > 16u) {
				atA = atA + 16u * ldA;
				wordB00 = wordB00 + 8u;
				laterA0 = A[atA];
				laterB0 = vec2<u32>(B[wordB00], B[wordB00 + 2u * ldB]);
				laterB1 = vec2<u32>(B[wordB00 + ldB], B[wordB00 + 3u * ldB]);
			}
			{
				let a0 = sharedA[0u][readA0];
				let b0 = sharedB[0u][readB0];
				let b1 = sharedB[0u][readB1];
				c0 = fma(vec2<f32>(a0.x), b0, c0);
				c1 = fma(vec2<f32>(a0.x), b1, c1);
				c2 = fma(vec2<f32>(a0.y), b0, c2);
				c3 = fma(vec2<f32>(a0.y), b1, c3);
			}
			{
				let a0 = sharedA[1u][readA0];
				let b0 = sharedB[1u][readB0];
				let b1 = sharedB[1u][readB1];
				c0 = fma(vec2<f32>(a0.x), b0, c0);
				c1 = fma(vec2<f32>(a0.x), b1, c1);
				c2 = fma(vec2<f32>(a0.y), b0, c2);
				c3 = fma(vec2<f32>(a0.y), b1, c3);
			}
			{
				let a0 = sharedA[2u][readA0];
				let b0 = sharedB[2u][readB0];
				let b1 = sharedB[2u][readB1];
				c0 = fma(vec2<f32>(a0.x), b0, c0);
				c1 = fma(vec2<f32>(a0.x), b1, c1);
				c2 = fma(vec2<f32>(a0.y), b0, c2);
				c3 = fma(vec2<f32>(a0.y), b1, c3);
			}
			{
				let a0 = sharedA[3u][readA0];
				let b0 = sharedB[3u][readB0];
				let b1 = sharedB[3u][readB1];
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
		sharedB[at / 16u][at % 16u] = c0;
		sharedB[(at + 8u) / 16u][(at + 8u) % 16u] = c1;
		sharedB[(at + 16u) / 16u][(at + 16u) % 16u] = c2;
		sharedB[(at + 24u) / 16u][(at + 24u) % 16u] = c3;
	}
	workgroupBarrier();
	c0 = sharedA[t / 16u][t % 16u] + sharedA[(t + 32u) / 16u][(t + 32u) % 16u] + sharedB[t / 16u][t % 16u] + sharedB[(t + 32u) / 16u][(t + 32u) % 16u];
	let row0 = 2u * ty + 8u * ((group / 2u) / 2u) + (group / 2u) % 2u;
	let vector0 = tx + 2u * (group % 2u);
	let atC0 = offC + row0 * ldC + vector0;
	c0 = alpha * c0;
	if ((bitcast<u32>(beta) & 0x7fffffffu) != 0u) {
		c0 = fma(vec2<f32>(beta), vec2<f32>(C[atC0], C[atC0 + 4u]), c0);
	}
	if (rows == 8u && cols == 8u) {
		C[atC0] = c0.x;
		C[atC0 + 4u] = c0.y;
	} else {
		if (row0 < rows) {
			if (vector0 < cols) { C[atC0] = c0.x; }
			if (vector0 + 4u < cols) { C[atC0 + 4u] = c0.y; }
		}
	}
}
