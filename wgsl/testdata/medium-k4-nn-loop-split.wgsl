@group(0) @binding(0) var<storage, read> items: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> A: array<f32>;
@group(0) @binding(2) var<storage, read> B: array<f32>;
@group(0) @binding(3) var<storage, read_write> C: array<f32>;
@group(0) @binding(4) var<storage, read> table: array<u32>;
@group(0) @binding(5) var<storage, read_write> workspace: array<f32>;
var<workgroup> sharedA: array<array<vec4<f32>, 36>, 8>;
var<workgroup> sharedB: array<array<vec4<f32>, 32>, 8>;

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) worker: vec3<u32>, @builtin(local_invocation_index) t: u32) {
	let place = t % 32u;
	let group = t / 32u;
	let ty = place / 8u;
	let tx = place % 8u;
	let readA0 = 9u * group + ty;
	let readA1 = 9u * group + ty + 4u;
	let readB0 = 8u * group + tx;
	let alongA = t % 32u;
	let acrossA = t / 32u;
	var atA: u32;
	var nextA0: vec4<f32>;
	var nextA1: vec4<f32>;
	let alongB = t % 32u;
	let acrossB = t / 32u;
	var atB: u32;
	var nextB0: f32;
	var nextB1: f32;
	var nextB2: f32;
	var nextB3: f32;
	var nextB4: f32;
	var nextB5: f32;
	var nextB6: f32;
	var nextB7: f32;
	var c0: vec4<f32>;
	var c1: vec4<f32>;
	var c2: vec4<f32>;
	var c3: vec4<f32>;
	var c4: vec4<f32>;
	var c5: vec4<f32>;
	var c6: vec4<f32>;
	var c7: vec4<f32>;
	let end = table[worker.x + 1u];
	for (var item = table[worker.x]; item < end; item = item + 1u) {
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
		let slot = item2.z;
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
			atA = offA + 4u * (acrossA * ldA) + alongA;
			atB = offB + acrossB * ldB + alongB;
			nextA0 = vec4<f32>(A[atA], A[atA + ldA], A[atA + 2u * ldA], A[atA + 3u * ldA]);
			nextA1 = vec4<f32>(A[atA + 16u * ldA], A[atA + 17u * ldA], A[atA + 18u * ldA], A[atA + 19u * ldA]);
			nextB0 = B[atB];
			nextB1 = B[atB + 4u * ldB];
			nextB2 = B[atB + 8u * ldB];
			nextB3 = B[atB + 12u * ldB];
			nextB4 = B[atB + 16u * ldB];
			nextB5 = B[atB + 20u * ldB];
			nextB6 = B[atB + 24u * ldB];
			nextB7 = B[atB + 28u * ldB];
			loop {
				sharedA[alongA / 4u][9u * (alongA % 4u) + acrossA] = nextA0;
				sharedA[alongA / 4u][9u * (alongA % 4u) + acrossA + 4u] = nextA1;
				sharedB[acrossB / 4u][8u * (acrossB % 4u) + alongB % 8u][alongB / 8u] = nextB0;
				sharedB[(acrossB + 4u) / 4u][8u * ((acrossB + 4u) % 4u) + alongB % 8u][alongB / 8u] = nextB1;
				sharedB[(acrossB + 8u) / 4u][8u * ((acrossB + 8u) % 4u) + alongB % 8u][alongB / 8u] = nextB2;
				sharedB[(acrossB + 12u) / 4u][8u * ((acrossB + 12u) % 4u) + alongB % 8u][alongB / 8u] = nextB3;
				sharedB[(acrossB + 16u) / 4u][8u * ((acrossB + 16u) % 4u) + alongB % 8u][alongB / 8u] = nextB4;
				sharedB[(acrossB + 20u) / 4u][8u * ((acrossB + 20u) % 4u) + alongB % 8u][alongB / 8u] = nextB5;
				sharedB[(acrossB + 24u) / 4u][8u * ((acrossB + 24u) % 4u) + alongB % 8u][alongB / 8u] = nextB6;
				sharedB[(acrossB + 28u) / 4u][8u * ((acrossB + 28u) % 4u) + alongB % 8u][alongB / 8u] = nextB7;
				workgroupBarrier();
				if (left < 32u) {
					for (var k = 0u; 4u * k + group < left; k = k + 1u) {
						let a0 = sharedA[k][readA0];
						let a1 = sharedA[k][readA1];
						let b0 = sharedB[k][readB0];
						c0 = fma(vec4<f32>(a0.x), b0, c0);
						c1 = fma(vec4<f32>(a0.y), b0, c1);
						c2 = fma(vec4<f32>(a0.z), b0, c2);
						c3 = fma(vec4<f32>(a0.w), b0, c3);
						c4 = fma(vec4<f32>(a1.x), b0, c4);
						c5 = fma(vec4<f32>(a1.y), b0, c5);
						c6 = fma(vec4<f32>(a1.z), b0, c6);
						c7 = fma(vec4<f32>(a1.w), b0, c7);
					}
					break;
				}
				left = left - 32u;
				if (left != 0u) {
					atA = atA + 32u;
					atB = atB + 32u * ldB;
					nextA0 = vec4<f32>(A[atA], A[atA + ldA], A[atA + 2u * ldA], A[atA + 3u * ldA]);
					nextA1 = vec4<f32>(A[atA + 16u * ldA], A[atA + 17u * ldA], A[atA + 18u * ldA], A[atA + 19u * ldA]);
					nextB0 = B[atB];
					nextB1 = B[atB + 4u * ldB];
					nextB2 = B[atB + 8u * ldB];
					nextB3 = B[atB + 12u * ldB];
					nextB4 = B[atB + 16u * ldB];
					nextB5 = B[atB + 20u * ldB];
					nextB6 = B[atB + 24u * ldB];
					nextB7 = B[atB + 28u * ldB];
				}
				{
					let a0 = sharedA[0u][readA0];
					let a1 = sharedA[0u][readA1];
					let b0 = sharedB[0u][readB0];
					c0 = fma(vec4<f32>(a0.x), b0, c0);
					c1 = fma(vec4<f32>(a0.y), b0, c1);
					c2 = fma(vec4<f32>(a0.z), b0, c2);
					c3 = fma(vec4<f32>(a0.w), b0, c3);
					c4 = fma(vec4<f32>(a1.x), b0, c4);
					c5 = fma(vec4<f32>(a1.y), b0, c5);
					c6 = fma(vec4<f32>(a1.z), b0, c6);
					c7 = fma(vec4<f32>(a1.w), b0, c7);
				}
				{
					let a0 = sharedA[1u][readA0];
					let a1 = sharedA[1u][readA1];
					let b0 = sharedB[1u][readB0];
					c0 = fma(vec4<f32>(a0.x), b0, c0);
					c1 = fma(vec4<f32>(a0.y), b0, c1);
					c2 = fma(vec4<f32>(a0.z), b0, c2);
					c3 = fma(vec4<f32>(a0.w), b0, c3);
					c4 = fma(vec4<f32>(a1.x), b0, c4);
					c5 = fma(vec4<f32>(a1.y), b0, c5);
					c6 = fma(vec4<f32>(a1.z), b0, c6);
					c7 = fma(vec4<f32>(a1.w), b0, c7);
				}
				{
					let a0 = sharedA[2u][readA0];
					let a1 = sharedA[2u][readA1];
					let b0 = sharedB[2u][readB0];
					c0 = fma(vec4<f32>(a0.x), b0, c0);
					c1 = fma(vec4<f32>(a0.y), b0, c1);
					c2 = fma(vec4<f32>(a0.z), b0, c2);
					c3 = fma(vec4<f32>(a0.w), b0, c3);
					c4 = fma(vec4<f32>(a1.x), b0, c4);
					c5 = fma(vec4<f32>(a1.y), b0, c5);
					c6 = fma(vec4<f32>(a1.z), b0, c6);
					c7 = fma(vec4<f32>(a1.w), b0, c7);
				}
				{
					let a0 = sharedA[3u][readA0];
					let a1 = sharedA[3u][readA1];
					let b0 = sharedB[3u][readB0];
					c0 = fma(vec4<f32>(a0.x), b0, c0);
					c1 = fma(vec4<f32>(a0.y), b0, c1);
					c2 = fma(vec4<f32>(a0.z), b0, c2);
					c3 = fma(vec4<f32>(a0.w), b0, c3);
					c4 = fma(vec4<f32>(a1.x), b0, c4);
					c5 = fma(vec4<f32>(a1.y), b0, c5);
					c6 = fma(vec4<f32>(a1.z), b0, c6);
					c7 = fma(vec4<f32>(a1.w), b0, c7);
				}
				{
					let a0 = sharedA[4u][readA0];
					let a1 = sharedA[4u][readA1];
					let b0 = sharedB[4u][readB0];
					c0 = fma(vec4<f32>(a0.x), b0, c0);
					c1 = fma(vec4<f32>(a0.y), b0, c1);
					c2 = fma(vec4<f32>(a0.z), b0, c2);
					c3 = fma(vec4<f32>(a0.w), b0, c3);
					c4 = fma(vec4<f32>(a1.x), b0, c4);
					c5 = fma(vec4<f32>(a1.y), b0, c5);
					c6 = fma(vec4<f32>(a1.z), b0, c6);
					c7 = fma(vec4<f32>(a1.w), b0, c7);
				}
				{
					let a0 = sharedA[5u][readA0];
					let a1 = sharedA[5u][readA1];
					let b0 = sharedB[5u][readB0];
					c0 = fma(vec4<f32>(a0.x), b0, c0);
					c1 = fma(vec4<f32>(a0.y), b0, c1);
					c2 = fma(vec4<f32>(a0.z), b0, c2);
					c3 = fma(vec4<f32>(a0.w), b0, c3);
					c4 = fma(vec4<f32>(a1.x), b0, c4);
					c5 = fma(vec4<f32>(a1.y), b0, c5);
					c6 = fma(vec4<f32>(a1.z), b0, c6);
					c7 = fma(vec4<f32>(a1.w), b0, c7);
				}
				{
					let a0 = sharedA[6u][readA0];
					let a1 = sharedA[6u][readA1];
					let b0 = sharedB[6u][readB0];
					c0 = fma(vec4<f32>(a0.x), b0, c0);
					c1 = fma(vec4<f32>(a0.y), b0, c1);
					c2 = fma(vec4<f32>(a0.z), b0, c2);
					c3 = fma(vec4<f32>(a0.w), b0, c3);
					c4 = fma(vec4<f32>(a1.x), b0, c4);
					c5 = fma(vec4<f32>(a1.y), b0, c5);
					c6 = fma(vec4<f32>(a1.z), b0, c6);
					c7 = fma(vec4<f32>(a1.w), b0, c7);
				}
				{
					let a0 = sharedA[7u][readA0];
					let a1 = sharedA[7u][readA1];
					let b0 = sharedB[7u][readB0];
					c0 = fma(vec4<f32>(a0.x), b0, c0);
					c1 = fma(vec4<f32>(a0.y), b0, c1);
					c2 = fma(vec4<f32>(a0.z), b0, c2);
					c3 = fma(vec4<f32>(a0.w), b0, c3);
					c4 = fma(vec4<f32>(a1.x), b0, c4);
					c5 = fma(vec4<f32>(a1.y), b0, c5);
					c6 = fma(vec4<f32>(a1.z), b0, c6);
					c7 = fma(vec4<f32>(a1.w), b0, c7);
				}
				if (left == 0u) { break; }
				workgroupBarrier();
			}
		}
		workgroupBarrier();
		if (group < 2u) {
			let at = 128u * group + place;
			sharedA[at / 32u][at % 32u] = c0;
			sharedA[(at + 32u) / 32u][(at + 32u) % 32u] = c1;
			sharedA[(at + 64u) / 32u][(at + 64u) % 32u] = c2;
			sharedA[(at + 96u) / 32u][(at + 96u) % 32u] = c3;
		} else {
			let at = 128u * (group - 2u) + place;
			sharedB[at / 32u][at % 32u] = c0;
			sharedB[(at + 32u) / 32u][(at + 32u) % 32u] = c1;
			sharedB[(at + 64u) / 32u][(at + 64u) % 32u] = c2;
			sharedB[(at + 96u) / 32u][(at + 96u) % 32u] = c3;
		}
		workgroupBarrier();
		c0 = sharedA[t / 32u][t % 32u] + sharedA[(t + 128u) / 32u][(t + 128u) % 32u] + sharedB[t / 32u][t % 32u] + sharedB[(t + 128u) / 32u][(t + 128u) % 32u];
		workgroupBarrier();
		if (group < 2u) {
			let at = 128u * group + place;
			sharedA[at / 32u][at % 32u] = c4;
			sharedA[(at + 32u) / 32u][(at + 32u) % 32u] = c5;
			sharedA[(at + 64u) / 32u][(at + 64u) % 32u] = c6;
			sharedA[(at + 96u) / 32u][(at + 96u) % 32u] = c7;
		} else {
			let at = 128u * (group - 2u) + place;
			sharedB[at / 32u][at % 32u] = c4;
			sharedB[(at + 32u) / 32u][(at + 32u) % 32u] = c5;
			sharedB[(at + 64u) / 32u][(at + 64u) % 32u] = c6;
			sharedB[(at + 96u) / 32u][(at + 96u) % 32u] = c7;
		}
		workgroupBarrier();
		c4 = sharedA[t / 32u][t % 32u] + sharedA[(t + 128u) / 32u][(t + 128u) % 32u] + sharedB[t / 32u][t % 32u] + sharedB[(t + 128u) / 32u][(t + 128u) % 32u];
		let row0 = 4u * ty + 16u * (group / 4u) + group % 4u;
		let vector0 = tx;
		let row1 = 4u * ty + 16u * ((group + 4u) / 4u) + (group + 4u) % 4u;
		let vector1 = tx;
		if (slot != 0xffffffffu) {
			workspace[slot * 1024u + row0 * 32u + vector0] = c0.x;
			workspace[slot * 1024u + row0 * 32u + vector0 + 8u] = c0.y;
			workspace[slot * 1024u + row0 * 32u + vector0 + 16u] = c0.z;
			workspace[slot * 1024u + row0 * 32u + vector0 + 24u] = c0.w;
			workspace[slot * 1024u + row1 * 32u + vector1] = c4.x;
			workspace[slot * 1024u + row1 * 32u + vector1 + 8u] = c4.y;
			workspace[slot * 1024u + row1 * 32u + vector1 + 16u] = c4.z;
			workspace[slot * 1024u + row1 * 32u + vector1 + 24u] = c4.w;
		} else {
			let atC0 = offC + row0 * ldC + vector0;
			c0 = alpha * c0;
			let atC1 = offC + row1 * ldC + vector1;
			c4 = alpha * c4;
			if ((bitcast<u32>(beta) & 0x7fffffffu) != 0u) {
				c0 = fma(vec4<f32>(beta), vec4<f32>(C[atC0], C[atC0 + 8u], C[atC0 + 16u], C[atC0 + 24u]), c0);
				c4 = fma(vec4<f32>(beta), vec4<f32>(C[atC1], C[atC1 + 8u], C[atC1 + 16u], C[atC1 + 24u]), c4);
			}
			if (rows == 32u && cols == 32u) {
				C[atC0] = c0.x;
				C[atC0 + 8u] = c0.y;
				C[atC0 + 16u] = c0.z;
				C[atC0 + 24u] = c0.w;
				C[atC1] = c4.x;
				C[atC1 + 8u] = c4.y;
				C[atC1 + 16u] = c4.z;
				C[atC1 + 24u] = c4.w;
			} else {
				if (row0 < rows) {
					if (vector0 < cols) { C[atC0] = c0.x; }
					if (vector0 + 8u < cols) { C[atC0 + 8u] = c0.y; }
					if (vector0 + 16u < cols) { C[atC0 + 16u] = c0.z; }
					if (vector0 + 24u < cols) { C[atC0 + 24u] = c0.w; }
				}
				if (row1 < rows) {
					if (vector1 < cols) { C[atC1] = c4.x; }
					if (vector1 + 8u < cols) { C[atC1 + 8u] = c4.y; }
					if (vector1 + 16u < cols) { C[atC1 + 16u] = c4.z; }
					if (vector1 + 24u < cols) { C[atC1 + 24u] = c4.w; }
				}
			}
		}
		workgroupBarrier();
	}
}
