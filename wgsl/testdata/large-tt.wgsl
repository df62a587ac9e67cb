@group(0) @binding(0) var<storage, read> items: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> A: array<f32>;
@group(0) @binding(2) var<storage, read> B: array<f32>;
@group(0) @binding(3) var<storage, read_write> C: array<f32>;
var<workgroup> sharedA: array<array<vec4<f32>, 16>, 16>;
var<workgroup> sharedB: array<array<vec4<f32>, 17>, 16>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) worker: vec3<u32>, @builtin(local_invocation_index) t: u32) {
	let part = t / 32u;
	let lane = t % 32u;
	let ty = 4u * (part / 2u) + lane / 8u;
	let tx = 8u * (part % 2u) + lane % 8u;
	let readA0 = ty;
	let readB0 = tx;
	let alongA = t % 64u;
	let acrossA = t / 64u;
	var atA: u32;
	var nextA0: f32;
	var nextA1: f32;
	var nextA2: f32;
	var nextA3: f32;
	let alongB = t % 16u;
	let acrossB = t / 16u;
	var atB: u32;
	var nextB0: vec4<f32>;
	var c0: vec4<f32>;
	var c1: vec4<f32>;
	var c2: vec4<f32>;
	var c3: vec4<f32>;
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
	c0 = vec4<f32>(0.0);
	c1 = vec4<f32>(0.0);
	c2 = vec4<f32>(0.0);
	c3 = vec4<f32>(0.0);
	var left = depth;
	if (left != 0u) {
		atA = offA + acrossA * ldA + alongA;
		atB = offB + acrossB * ldB + alongB;
		nextA0 = A[atA];
		nextA1 = A[atA + 4u * ldA];
		nextA2 = A[atA + 8u * ldA];
		nextA3 = A[atA + 12u * ldA];
		nextB0 = vec4<f32>(B[atB], B[atB + 16u * ldB], B[atB + 32u * ldB], B[atB + 48u * ldB]);
		loop {
			sharedA[acrossA][alongA / 4u][alongA % 4u] = nextA0;
			sharedA[acrossA + 4u][alongA / 4u][alongA % 4u] = nextA1;
			sharedA[acrossA + 8u][alongA / 4u][alongA % 4u] = nextA2;
			sharedA[acrossA + 12u][alongA / 4u][alongA % 4u] = nextA3;
			sharedB[alongB][acrossB] = nextB0;
			workgroupBarrier();
			if (left < 16u) {
				for (var k = 0u; k < left; k = k + 1u) {
					let a0 = sharedA[k][readA0];
					let b0 = sharedB[k][readB0];
					c0 = fma(vec4<f32>(a0.x), b0, c0);
					c1 = fma(vec4<f32>(a0.y), b0, c1);
					c2 = fma(vec4<f32>(a0.z), b0, c2);
					c3 = fma(vec4<f32>(a0.w), b0, c3);
				}
				break;
			}
			left = left - 16u;
			if (left != 0u) {
				atA = atA + 16u * ldA;
				atB = atB + 16u;
				nextA0 = A[atA];
				nextA1 = A[atA + 4u * ldA];
				nextA2 = A[atA + 8u * ldA];
				nextA3 = A[atA + 12u * ldA];
				nextB0 = vec4<f32>(B[atB], B[atB + 16u * ldB], B[atB + 32u * ldB], B[atB + 48u * ldB]);
			}
			{
				let a0 = sharedA[0u][readA0];
				let b0 = sharedB[0u][readB0];
				c0 = fma(vec4<f32>(a0.x), b0, c0);
				c1 = fma(vec4<f32>(a0.y), b0, c1);
				c2 = fma(vec4<f32>(a0.z), b0, c2);
				c3 = fma(vec4<f32>(a0.w), b0, c3);
			}
			{
				let a0 = sharedA[1u][readA0];
				let b0 = sharedB[1u][readB0];
				c0 = fma(vec4<f32>(a0.x), b0, c0);
				c1 = fma(vec4<f32>(a0.y), b0, c1);
				c2 = fma(vec4<f32>(a0.z), b0, c2);
				c3 = fma(vec4<f32>(a0.w), b0, c3);
			}
			{
				let a0 = sharedA[2u][readA0];
				let b0 = sharedB[2u][readB0];
				c0 = fma(vec4<f32>(a0.x), b0, c0);
				c1 = fma(vec4<f32>(a0.y), b0, c1);
				c2 = fma(vec4<f32>(a0.z), b0, c2);
				c3 = fma(vec4<f32>(a0.w), b0, c3);
			}
			{
				let a0 = sharedA[3u][readA0];
				let b0 = sharedB[3u][readB0];
				c0 = fma(vec4<f32>(a0.x), b0, c0);
				c1 = fma(vec4<f32>(a0.y), b0, c1);
				c2 = fma(vec4<f32>(a0.z), b0, c2);
				c3 = fma(vec4<f32>(a0.w), b0, c3);
			}
			{
				let a0 = sharedA[4u][readA0];
				let b0 = sharedB[4u][readB0];
				c0 = fma(vec4<f32>(a0.x), b0, c0);
				c1 = fma(vec4<f32>(a0.y), b0, c1);
				c2 = fma(vec4<f32>(a0.z), b0, c2);
				c3 = fma(vec4<f32>(a0.w), b0, c3);
			}
			{
				let a0 = sharedA[5u][readA0];
				let b0 = sharedB[5u][readB0];
				c0 = fma(vec4<f32>(a0.x), b0, c0);
				c1 = fma(vec4<f32>(a0.y), b0, c1);
				c2 = fma(vec4<f32>(a0.z), b0, c2);
				c3 = fma(vec4<f32>(a0.w), b0, c3);
			}
			{
				let a0 = sharedA[6u][readA0];
				let b0 = sharedB[6u][readB0];
				c0 = fma(vec4<f32>(a0.x), b0, c0);
				c1 = fma(vec4<f32>(a0.y), b0, c1);
				c2 = fma(vec4<f32>(a0.z), b0, c2);
				c3 = fma(vec4<f32>(a0.w), b0, c3);
			}
			{
				let a0 = sharedA[7u][readA0];
				let b0 = sharedB[7u][readB0];
				c0 = fma(vec4<f32>(a0.x), b0, c0);
				c1 = fma(vec4<f32>(a0.y), b0, c1);
				c2 = fma(vec4<f32>(a0.z), b0, c2);
				c3 = fma(vec4<f32>(a0.w), b0, c3);
			}
			{
				let a0 = sharedA[8u][readA0];
				let b0 = sharedB[8u][readB0];
				c0 = fma(vec4<f32>(a0.x), b0, c0);
				c1 = fma(vec4<f32>(a0.y), b0, c1);
				c2 = fma(vec4<f32>(a0.z), b0, c2);
				c3 = fma(vec4<f32>(a0.w), b0, c3);
			}
			{
				let a0 = sharedA[9u][readA0];
				let b0 = sharedB[9u][readB0];
				c0 = fma(vec4<f32>(a0.x), b0, c0);
				c1 = fma(vec4<f32>(a0.y), b0, c1);
				c2 = fma(vec4<f32>(a0.z), b0, c2);
				c3 = fma(vec4<f32>(a0.w), b0, c3);
			}
			{
				let a0 = sharedA[10u][readA0];
				let b0 = sharedB[10u][readB0];
				c0 = fma(vec4<f32>(a0.x), b0, c0);
				c1 = fma(vec4<f32>(a0.y), b0, c1);
				c2 = fma(vec4<f32>(a0.z), b0, c2);
				c3 = fma(vec4<f32>(a0.w), b0, c3);
			}
			{
				let a0 = sharedA[11u][readA0];
				let b0 = sharedB[11u][readB0];
				c0 = fma(vec4<f32>(a0.x), b0, c0);
				c1 = fma(vec4<f32>(a0.y), b0, c1);
				c2 = fma(vec4<f32>(a0.z), b0, c2);
				c3 = fma(vec4<f32>(a0.w), b0, c3);
			}
			{
				let a0 = sharedA[12u][readA0];
				let b0 = sharedB[12u][readB0];
				c0 = fma(vec4<f32>(a0.x), b0, c0);
				c1 = fma(vec4<f32>(a0.y), b0, c1);
				c2 = fma(vec4<f32>(a0.z), b0, c2);
				c3 = fma(vec4<f32>(a0.w), b0, c3);
			}
			{
				let a0 = sharedA[13u][readA0];
				let b0 = sharedB[13u][readB0];
				c0 = fma(vec4<f32>(a0.x), b0, c0);
				c1 = fma(vec4<f32>(a0.y), b0, c1);
				c2 = fma(vec4<f32>(a0.z), b0, c2);
				c3 = fma(vec4<f32>(a0.w), b0, c3);
			}
			{
				let a0 = sharedA[14u][readA0];
				let b0 = sharedB[14u][readB0];
				c0 = fma(vec4<f32>(a0.x), b0, c0);
				c1 = fma(vec4<f32>(a0.y), b0, c1);
				c2 = fma(vec4<f32>(a0.z), b0, c2);
				c3 = fma(vec4<f32>(a0.w), b0, c3);
			}
			{
				let a0 = sharedA[15u][readA0];
				let b0 = sharedB[15u][readB0];
				c0 = fma(vec4<f32>(a0.x), b0, c0);
				c1 = fma(vec4<f32>(a0.y), b0, c1);
				c2 = fma(vec4<f32>(a0.z), b0, c2);
				c3 = fma(vec4<f32>(a0.w), b0, c3);
			}
			if (left == 0u) { break; }
			workgroupBarrier();
		}
	}
	let row0 = 4u * ty;
	let vector0 = tx;
	let row1 = 4u * ty + 1u;
	let vector1 = tx;
	let row2 = 4u * ty + 2u;
	let vector2 = tx;
	let row3 = 4u * ty + 3u;
	let vector3 = tx;
	let atC0 = offC + row0 * ldC + vector0;
	c0 = alpha * c0;
	let atC1 = offC + row1 * ldC + vector1;
	c1 = alpha * c1;
	let atC2 = offC + row2 * ldC + vector2;
	c2 = alpha * c2;
	let atC3 = offC + row3 * ldC + vector3;
	c3 = alpha * c3;
	if ((bitcast<u32>(beta) & 0x7fffffffu) != 0u) {
		c0 = fma(vec4<f32>(beta), vec4<f32>(C[atC0], C[atC0 + 16u], C[atC0 + 32u], C[atC0 + 48u]), c0);
		c1 = fma(vec4<f32>(beta), vec4<f32>(C[atC1], C[atC1 + 16u], C[atC1 + 32u], C[atC1 + 48u]), c1);
		c2 = fma(vec4<f32>(beta), vec4<f32>(C[atC2], C[atC2 + 16u], C[atC2 + 32u], C[atC2 + 48u]), c2);
		c3 = fma(vec4<f32>(beta), vec4<f32>(C[atC3], C[atC3 + 16u], C[atC3 + 32u], C[atC3 + 48u]), c3);
	}
	if (rows == 64u && cols == 64u) {
		C[atC0] = c0.x;
		C[atC0 + 16u] = c0.y;
		C[atC0 + 32u] = c0.z;
		C[atC0 + 48u] = c0.w;
		C[atC1] = c1.x;
		C[atC1 + 16u] = c1.y;
		C[atC1 + 32u] = c1.z;
		C[atC1 + 48u] = c1.w;
		C[atC2] = c2.x;
		C[atC2 + 16u] = c2.y;
		C[atC2 + 32u] = c2.z;
		C[atC2 + 48u] = c2.w;
		C[atC3] = c3.x;
		C[atC3 + 16u] = c3.y;
		C[atC3 + 32u] = c3.z;
		C[atC3 + 48u] = c3.w;
	} else {
		if (row0 < rows) {
			if (vector0 < cols) { C[atC0] = c0.x; }
			if (vector0 + 16u < cols) { C[atC0 + 16u] = c0.y; }
			if (vector0 + 32u < cols) { C[atC0 + 32u] = c0.z; }
			if (vector0 + 48u < cols) { C[atC0 + 48u] = c0.w; }
		}
		if (row1 < rows) {
			if (vector1 < cols) { C[atC1] = c1.x; }
			if (vector1 + 16u < cols) { C[atC1 + 16u] = c1.y; }
			if (vector1 + 32u < cols) { C[atC1 + 32u] = c1.z; }
			if (vector1 + 48u < cols) { C[atC1 + 48u] = c1.w; }
		}
		if (row2 < rows) {
			if (vector2 < cols) { C[atC2] = c2.x; }
			if (vector2 + 16u < cols) { C[atC2 + 16u] = c2.y; }
			if (vector2 + 32u < cols) { C[atC2 + 32u] = c2.z; }
			if (vector2 + 48u < cols) { C[atC2 + 48u] = c2.w; }
		}
		if (row3 < rows) {
			if (vector3 < cols) { C[atC3] = c3.x; }
			if (vector3 + 16u < cols) { C[atC3 + 16u] = c3.y; }
			if (vector3 + 32u < cols) { C[atC3 + 32u] = c3.z; }
			if (vector3 + 48u < cols) { C[atC3 + 48u] = c3.w; }
		}
	}
}
