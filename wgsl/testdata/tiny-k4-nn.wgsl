@group(0) @binding(0) var<storage, read> items: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> A: array<f32>;
@group(0) @binding(2) var<storage, read> B: array<f32>;
@group(0) @binding(3) var<storage, read_write> C: array<f32>;
var<workgroup> sharedA: array<array<vec2<f32>, 20>, 4>;
var<workgroup> sharedB: array<array<vec2<f32>, 16>, 4>;

@compute @workgroup_size(32)
fn main(@builtin(workgroup_id) worker: vec3<u32>, @builtin(local_invocation_index) t: u32) {
	let place = t % 8u;
	let group = t / 8u;
	let ty = place / 2u;
	let tx = place % 2u;
	let readA0 = 5u * group + ty;
	let readB0 = 4u * group + tx;
	let readB1 = 4u * group + tx + 2u;
	let alongA = t % 16u;
	let acrossA = t / 16u;
	var atA: u32;
	var nextA0: vec2<f32>;
	var nextA1: vec2<f32>;
	let alongB = t % 8u;
	let acrossB = t / 8u;
	var atB: u32;
	var nextB0: f32;
	var nextB1: f32;
	var nextB2: f32;
	var nextB3: f32;
	var c0: vec2<f32>;
	var c1: vec2<f32>;
	var c2: vec2<f32>;
	var c3: vec2<f32>;
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
	c1 = vec2<f32>(0.0);
	c2 = vec2<f32>(0.0);
	c3 = vec2<f32>(0.0);
	var left = depth;
	if (left != 0u) {
		atA = offA + 2u * (acrossA * ldA) + alongA;
		atB = offB + acrossB * ldB + alongB;
		nextA0 = vec2<f32>(A[atA], A[atA + ldA]);
		nextA1 = vec2<f32>(A[atA + 4u * ldA], A[atA + 5u * ldA]);
		nextB0 = B[atB];
		nextB1 = B[atB + 4u * ldB];
		nextB2 = B[atB + 8u * ldB];
		nextB3 = B[atB + 12u * ldB];
		loop {
			sharedA[alongA / 4u][5u * (alongA % 4u) + acrossA] = nextA0;
			sharedA[alongA / 4u][5u * (alongA % 4u) + acrossA + 2u] = nextA1;
			sharedB[acrossB / 4u][4u * (acrossB % 4u) + alongB % 4u][alongB / 4u] = nextB0;
			sharedB[(acrossB + 4u) / 4u][4u * ((acrossB + 4u) % 4u) + alongB % 4u][alongB / 4u] = nextB1;
			sharedB[(acrossB + 8u) / 4u][4u * ((acrossB + 8u) % 4u) + alongB % 4u][alongB / 4u] = nextB2;
			sharedB[(acrossB + 12u) / 4u][4u * ((acrossB + 12u) % 4u) + alongB % 4u][alongB / 4u] = nextB3;
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
			if (left != 0u) {
				atA = atA + 16u;
				atB = atB + 16u * ldB;
				nextA0 = vec2<f32>(A[atA], A[atA + ldA]);
				nextA1 = vec2<f32>(A[atA + 4u * ldA], A[atA + 5u * ldA]);
				nextB0 = B[atB];
				nextB1 = B[atB + 4u * ldB];
				nextB2 = B[atB + 8u * ldB];
				nextB3 = B[atB + 12u * ldB];
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
