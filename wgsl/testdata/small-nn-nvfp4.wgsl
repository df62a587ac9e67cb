@group(0) @binding(0) var<storage, read> items: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> A: array<u32>;
@group(0) @binding(2) var<storage, read> B: array<u32>;
@group(0) @binding(3) var<storage, read_write> C: array<f32>;
@group(0) @binding(4) var<storage, read> table: array<u32>;
@group(0) @binding(7) var<storage, read> B2: array<u32>;
@group(0) @binding(9) var<storage, read> indices: array<u32>;
var<workgroup> sharedA: array<array<f32, 17>, 16>;
var<workgroup> sharedB: array<array<vec2<f32>, 9>, 16>;

fn numbers(word: u32) -> vec2<f32> {
	return unpack2x16float(word);
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
	let size = word & 127u;
	let small = bitcast<u32>(f32(size) * 0.001953125);
	let bits = select((size << 20u) + 0x3c000000u, small, size < 8u);
	return bitcast<f32>(select(bits, 0x7fc00000u, size == 127u) | ((word & 128u) << 24u));
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
	let alongB = t % 2u;
	let acrossB = 2u * (t / 2u);
	var atB: u32;
	var nextB0: u32;
	var nextGroupB0: u32;
	var nextB1: u32;
	var nextGroupB1: u32;
	var laterB0: u32;
	var laterGroupB0: u32;
	var laterB1: u32;
	var laterGroupB1: u32;
	var c0: vec2<f32>;
	var gate0: vec2<f32>;
	let end = table[worker.x + 1u];
	for (var item = table[worker.x]; item < end; item = item + 1u) {
		let item0 = items[6u * item];
		let item1 = items[6u * item + 1u];
		let item2 = items[6u * item + 2u];
		let item3 = items[6u * item + 3u];
		let item4 = items[6u * item + 4u];
		let item5 = items[6u * item + 5u];
		let offA = item0.x;
		let offB = item0.y / 8u;
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
		let second = (item2.w & 4u) != 0u;
		c0 = vec2<f32>(0.0);
		var left = depth;
		if (left != 0u) {
			let atA = offA + acrossA * ldA + alongA;
			wordA00 = atA / 2u;
			let halfA00 = 16u * (atA % 2u);
			let startB = offB + 8u * acrossB;
			let panelB = 8u * ldB;
			let columnB0 = bitcast<f32>(indices[scaleBAt + acrossB]);
			let columnB1 = bitcast<f32>(indices[scaleBAt + acrossB + 1u]);
			let scalesB = scaleBAt + acrossB + ldB;
			atB = alongB;
			nextA0 = A[wordA00];
			nextA1 = A[wordA00 + 4u * ldA];
			if (second) {
				if (acrossB < 16u) {
					nextB0 = B2[startB + atB / 8u * panelB + atB % 8u];
					nextGroupB0 = indices[scalesB + atB / 8u * ldB];
					nextGroupB0 = nextGroupB0 >> (8u * ((atB / 2u) % 4u));
				}
				if (acrossB < 16u) {
					nextB1 = B2[startB + 8u + atB / 8u * panelB + atB % 8u];
					nextGroupB1 = indices[scalesB + 1u + atB / 8u * ldB];
					nextGroupB1 = nextGroupB1 >> (8u * ((atB / 2u) % 4u));
				}
			} else {
				if (acrossB < 16u) {
					nextB0 = B[startB + atB / 8u * panelB + atB % 8u];
					nextGroupB0 = indices[scalesB + atB / 8u * ldB];
					nextGroupB0 = nextGroupB0 >> (8u * ((atB / 2u) % 4u));
				}
				if (acrossB < 16u) {
					nextB1 = B[startB + 8u + atB / 8u * panelB + atB % 8u];
					nextGroupB1 = indices[scalesB + 1u + atB / 8u * ldB];
					nextGroupB1 = nextGroupB1 >> (8u * ((atB / 2u) % 4u));
				}
			}
			if (left > 16u) {
				wordA00 = wordA00 + 8u;
				atB = atB + 2u;
				laterA0 = A[wordA00];
				laterA1 = A[wordA00 + 4u * ldA];
				if (second) {
					if (acrossB < 16u) {
						laterB0 = B2[startB + atB / 8u * panelB + atB % 8u];
						laterGroupB0 = indices[scalesB + atB / 8u * ldB];
						laterGroupB0 = laterGroupB0 >> (8u * ((atB / 2u) % 4u));
					}
					if (acrossB < 16u) {
						laterB1 = B2[startB + 8u + atB / 8u * panelB + atB % 8u];
						laterGroupB1 = indices[scalesB + 1u + atB / 8u * ldB];
						laterGroupB1 = laterGroupB1 >> (8u * ((atB / 2u) % 4u));
					}
				} else {
					if (acrossB < 16u) {
						laterB0 = B[startB + atB / 8u * panelB + atB % 8u];
						laterGroupB0 = indices[scalesB + atB / 8u * ldB];
						laterGroupB0 = laterGroupB0 >> (8u * ((atB / 2u) % 4u));
					}
					if (acrossB < 16u) {
						laterB1 = B[startB + 8u + atB / 8u * panelB + atB % 8u];
						laterGroupB1 = indices[scalesB + 1u + atB / 8u * ldB];
						laterGroupB1 = laterGroupB1 >> (8u * ((atB / 2u) % 4u));
					}
				}
			}
			loop {
				sharedA[alongA][acrossA] = number(nextA0, halfA00);
				sharedA[alongA][acrossA + 8u] = number(nextA1, halfA00);
				if (acrossB < 16u) {
					{
						let scale0 = scaleOf(nextGroupB0) * columnB0;
						let even0 = scale0 * weights(nextB0);
						let odd0 = scale0 * weights(nextB0 >> 16u);
						let scale1 = scaleOf(nextGroupB1) * columnB1;
						let even1 = scale1 * weights(nextB1);
						let odd1 = scale1 * weights(nextB1 >> 16u);
						sharedB[8u * alongB][acrossB / 2u] = vec2<f32>(even0.x, even1.x);
						sharedB[8u * alongB + 1u][acrossB / 2u] = vec2<f32>(odd0.x, odd1.x);
						sharedB[8u * alongB + 2u][acrossB / 2u] = vec2<f32>(even0.y, even1.y);
						sharedB[8u * alongB + 3u][acrossB / 2u] = vec2<f32>(odd0.y, odd1.y);
						sharedB[8u * alongB + 4u][acrossB / 2u] = vec2<f32>(even0.z, even1.z);
						sharedB[8u * alongB + 5u][acrossB / 2u] = vec2<f32>(odd0.z, odd1.z);
						sharedB[8u * alongB + 6u][acrossB / 2u] = vec2<f32>(even0.w, even1.w);
						sharedB[8u * alongB + 7u][acrossB / 2u] = vec2<f32>(odd0.w, odd1.w);
					}
				}
				if (acrossB < 16u) {
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
					wordA00 = wordA00 + 8u;
					atB = atB + 2u;
					nextA0 = A[wordA00];
					nextA1 = A[wordA00 + 4u * ldA];
					if (second) {
						if (acrossB < 16u) {
							nextB0 = B2[startB + atB / 8u * panelB + atB % 8u];
							nextGroupB0 = indices[scalesB + atB / 8u * ldB];
							nextGroupB0 = nextGroupB0 >> (8u * ((atB / 2u) % 4u));
						}
						if (acrossB < 16u) {
							nextB1 = B2[startB + 8u + atB / 8u * panelB + atB % 8u];
							nextGroupB1 = indices[scalesB + 1u + atB / 8u * ldB];
							nextGroupB1 = nextGroupB1 >> (8u * ((atB / 2u) % 4u));
						}
					} else {
						if (acrossB < 16u) {
							nextB0 = B[startB + atB / 8u * panelB + atB % 8u];
							nextGroupB0 = indices[scalesB + atB / 8u * ldB];
							nextGroupB0 = nextGroupB0 >> (8u * ((atB / 2u) % 4u));
						}
						if (acrossB < 16u) {
							nextB1 = B[startB + 8u + atB / 8u * panelB + atB % 8u];
							nextGroupB1 = indices[scalesB + 1u + atB / 8u * ldB];
							nextGroupB1 = nextGroupB1 >> (8u * ((atB / 2u) % 4u));
						}
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
				sharedA[alongA][acrossA] = number(laterA0, halfA00);
				sharedA[alongA][acrossA + 8u] = number(laterA1, halfA00);
				if (acrossB < 16u) {
					{
						let scale0 = scaleOf(laterGroupB0) * columnB0;
						let even0 = scale0 * weights(laterB0);
						let odd0 = scale0 * weights(laterB0 >> 16u);
						let scale1 = scaleOf(laterGroupB1) * columnB1;
						let even1 = scale1 * weights(laterB1);
						let odd1 = scale1 * weights(laterB1 >> 16u);
						sharedB[8u * alongB][acrossB / 2u] = vec2<f32>(even0.x, even1.x);
						sharedB[8u * alongB + 1u][acrossB / 2u] = vec2<f32>(odd0.x, odd1.x);
						sharedB[8u * alongB + 2u][acrossB / 2u] = vec2<f32>(even0.y, even1.y);
						sharedB[8u * alongB + 3u][acrossB / 2u] = vec2<f32>(odd0.y, odd1.y);
						sharedB[8u * alongB + 4u][acrossB / 2u] = vec2<f32>(even0.z, even1.z);
						sharedB[8u * alongB + 5u][acrossB / 2u] = vec2<f32>(odd0.z, odd1.z);
						sharedB[8u * alongB + 6u][acrossB / 2u] = vec2<f32>(even0.w, even1.w);
						sharedB[8u * alongB + 7u][acrossB / 2u] = vec2<f32>(odd0.w, odd1.w);
					}
				}
				if (acrossB < 16u) {
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
					wordA00 = wordA00 + 8u;
					atB = atB + 2u;
					laterA0 = A[wordA00];
					laterA1 = A[wordA00 + 4u * ldA];
					if (second) {
						if (acrossB < 16u) {
							laterB0 = B2[startB + atB / 8u * panelB + atB % 8u];
							laterGroupB0 = indices[scalesB + atB / 8u * ldB];
							laterGroupB0 = laterGroupB0 >> (8u * ((atB / 2u) % 4u));
						}
						if (acrossB < 16u) {
							laterB1 = B2[startB + 8u + atB / 8u * panelB + atB % 8u];
							laterGroupB1 = indices[scalesB + 1u + atB / 8u * ldB];
							laterGroupB1 = laterGroupB1 >> (8u * ((atB / 2u) % 4u));
						}
					} else {
						if (acrossB < 16u) {
							laterB0 = B[startB + atB / 8u * panelB + atB % 8u];
							laterGroupB0 = indices[scalesB + atB / 8u * ldB];
							laterGroupB0 = laterGroupB0 >> (8u * ((atB / 2u) % 4u));
						}
						if (acrossB < 16u) {
							laterB1 = B[startB + 8u + atB / 8u * panelB + atB % 8u];
							laterGroupB1 = indices[scalesB + 1u + atB / 8u * ldB];
							laterGroupB1 = laterGroupB1 >> (8u * ((atB / 2u) % 4u));
						}
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
		if (second) {
			c0 = gate0 * c0;
		} else {
			c0 = c0;
			gate0 = c0;
		}
		if (second) {
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
		workgroupBarrier();
	}
}
