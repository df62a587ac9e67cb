@group(0) @binding(0) var<storage, read> items: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> A: array<f32>;
@group(0) @binding(2) var<storage, read> B: array<f32>;
@group(0) @binding(3) var<storage, read_write> C: array<f32>;
var<workgroup> sharedA: array<array<vec2<f32>, 17>, 16>;
var<workgroup> sharedB: array<array<vec4<f32>, 9>, 16>;

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
	var atA: u32;
	var nextA0: vec2<f32>;
	var nextA1: vec2<f32>;
	let alongB = t % 16u;
	let acrossB = t / 16u;
	var atB: u32;
	var nextB0: vec4<f32>;
	var c0: vec4<f32>;
	var c1: vec4<f32>;
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
	var left = depth;
	if (left != 0u) {
		atA = offA + 2u * (acrossA * ldA) + alongA;
		atB = offB + acrossB * ldB + alongB;
		nextA0 = vec2<f32>(A[atA], A[atA + ldA]);
		nextA1 = vec2<f32>(A[atA + 16u * ldA], A[atA + 17u * ldA]);
		nextB0 = vec4<f32>(B[atB], B[atB + 8u * ldB], B[atB + 16u * ldB], B[atB + 24u * ldB]);
		loop {
			sharedA[alongA][acrossA] = nextA0;
			sharedA[alongA][acrossA + 8u] = nextA1;
			sharedB[alongB][acrossB] = nextB0;
			workgroupBarrier();
			if (left < 16u) {
				for (var k = 0u; k < left; k = k + 1u) {
					let a0 = sharedA[k][readA0];
					let b0 = sharedB[k][readB0];
					c0 = fma(vec4<f32>(a0.x), b0, c0);
					c1 = fma(vec4<f32>(a0.y), b0, c1);
				}
				break;
			}
			left = left - 16u;
			if (left != 0u) {
				atA = atA + 16u;
				atB = atB + 16u;
				nextA0 = vec2<f32>(A[atA], A[atA + ldA]);
				nextA1 = vec2<f32>(A[atA + 16u * ldA], A[atA + 17u * ldA]);
				nextB0 = vec4<f32>(B[atB], B[atB + 8u * ldB], B[atB + 16u * ldB], B[atB + 24u * ldB]);
			}
			{
				let a0 = sharedA[0u][readA0];
				let b0 = sharedB[0u][readB0];
				c0 = fma(vec4<f32>(a0.x), b0, c0);
				c1 = fma(vec4<f32>(a0.y), b0, c1);
			}
			{
				let a0 = sharedA[1u][readA0];
				let b0 = sharedB[1u][readB0];
				c0 = fma(vec4<f32>(a0.x), b0, c0);
				c1 = fma(vec4<f32>(a0.y), b0, c1);
			}
			{
				let a0 = sharedA[2u][readA0];
				let b0 = sharedB[2u][readB0];
				c0 = fma(vec4<f32>(a0.x), b0, c0);
				c1 = fma(vec4<f32>(a0.y), b0, c1);
			}
			{
				let a0 = sharedA[3u][readA0];
				let b0 = sharedB[3u][readB0];
				c0 = fma(vec4<f32>(a0.x), b0, c0);
				c1 = fma(vec4<f32>(a0.y), b0, c1);
			}
			{
				let a0 = sharedA[4u][readA0];
				let b0 = sharedB[4u][readB0];
				c0 = fma(vec4<f32>(a0.x), b0, c0);
				c1 = fma(vec4<f32>(a0.y), b0, c1);
			}
			{
				let a0 = sharedA[5u][readA0];
				let b0 = sharedB[5u][readB0];
				c0 = fma(vec4<f32>(a0.x), b0, c0);
				c1 = fma(vec4<f32>(a0.y), b0, c1);
			}
			{
				let a0 = sharedA[6u][readA0];
				let b0 = sharedB[6u][readB0];
				c0 = fma(vec4<f32>(a0.x), b0, c0);
				c1 = fma(vec4<f32>(a0.y), b0, c1);
			}
			{
				let a0 = sharedA[7u][readA0];
				let b0 = sharedB[7u][readB0];
				c0 = fma(vec4<f32>(a0.x), b0, c0);
				c1 = fma(vec4<f32>(a0.y), b0, c1);
			}
			{
				let a0 = sharedA[8u][readA0];
				let b0 = sharedB[8u][readB0];
				c0 = fma(vec4<f32>(a0.x), b0, c0);
				c1 = fma(vec4<f32>(a0.y), b0, c1);
			}
			{
				let a0 = sharedA[9u][readA0];
				let b0 = sharedB[9u][readB0];
				c0 = fma(vec4<f32>(a0.x), b0, c0);
				c1 = fma(vec4<f32>(a0.y), b0, c1);
			}
			{
				let a0 = sharedA[10u][readA0];
				let b0 = sharedB[10u][readB0];
				c0 = fma(vec4<f32>(a0.x), b0, c0);
				c1 = fma(vec4<f32>(a0.y), b0, c1);
			}
			{
				let a0 = sharedA[11u][readA0];
				let b0 = sharedB[11u][readB0];
				c0 = fma(vec4<f32>(a0.x), b0, c0);
				c1 = fma(vec4<f32>(a0.y), b0, c1);
			}
			{
				let a0 = sharedA[12u][readA0];
				let b0 = sharedB[12u][readB0];
				c0 = fma(vec4<f32>(a0.x), b0, c0);
				c1 = fma(vec4<f32>(a0.y), b0, c1);
			}
			{
				let a0 = sharedA[13u][readA0];
				let b0 = sharedB[13u][readB0];
				c0 = fma(vec4<f32>(a0.x), b0, c0);
				c1 = fma(vec4<f32>(a0.y), b0, c1);
			}
			{
				let a0 = sharedA[14u][readA0];
				let b0 = sharedB[14u][readB0];
				c0 = fma(vec4<f32>(a0.x), b0, c0);
				c1 = fma(vec4<f32>(a0.y), b0, c1);
			}
			{
				let a0 = sharedA[15u][readA0];
				let b0 = sharedB[15u][readB0];
				c0 = fma(vec4<f32>(a0.x), b0, c0);
				c1 = fma(vec4<f32>(a0.y), b0, c1);
			}
			if (left == 0u) { break; }
			workgroupBarrier();
		}
	}
	let row0 = 2u * ty;
	let vector0 = tx;
	let row1 = 2u * ty + 1u;
	let vector1 = tx;
	let atC0 = offC + row0 * ldC + vector0;
	c0 = alpha * c0;
	let atC1 = offC + row1 * ldC + vector1;
	c1 = alpha * c1;
	if ((bitcast<u32>(beta) & 0x7fffffffu) != 0u) {
		c0 = fma(vec4<f32>(beta), vec4<f32>(C[atC0], C[atC0 + 8u], C[atC0 + 16u], C[atC0 + 24u]), c0);
		c1 = fma(vec4<f32>(beta), vec4<f32>(C[atC1], C[atC1 + 8u], C[atC1 + 16u], C[atC1 + 24u]), c1);
	}
	if (rows == 32u && cols == 32u) {
		C[atC0] = c0.x;
		C[atC0 + 8u] = c0.y;
		C[atC0 + 16u] = c0.z;
		C[atC0 + 24u] = c0.w;
		C[atC1] = c1.x;
		C[atC1 + 8u] = c1.y;
		C[atC1 + 16u] = c1.z;
		C[atC1 + 24u] = c1.w;
	} else {
		if (row0 < rows) {
			if (vector0 < cols) { C[atC0] = c0.x; }
			if (vector0 + 8u < cols) { C[atC0 + 8u] = c0.y; }
			if (vector0 + 16u < cols) { C[atC0 + 16u] = c0.z; }
			if (vector0 + 24u < cols) { C[atC0 + 24u] = c0.w; }
		}
		if (row1 < rows) {
			if (vector1 < cols) { C[atC1] = c1.x; }
			if (vector1 + 8u < cols) { C[atC1 + 8u] = c1.y; }
			if (vector1 + 16u < cols) { C[atC1 + 16u] = c1.z; }
			if (vector1 + 24u < cols) { C[atC1 + 24u] = c1.w; }
		}
	}
}
