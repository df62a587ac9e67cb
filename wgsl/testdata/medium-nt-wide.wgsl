@group(0) @binding(0) var<storage, read> items: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> A: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> B: array<vec4<f32>>;
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
	let alongA = t % 4u;
	let acrossA = t / 4u;
	var atA: u32;
	var nextA0_0: vec4<f32>;
	var nextA0_1: vec4<f32>;
	let alongB = t % 4u;
	let acrossB = t / 4u;
	var atB: u32;
	var nextB0_0: vec4<f32>;
	var nextB0_1: vec4<f32>;
	var nextB0_2: vec4<f32>;
	var nextB0_3: vec4<f32>;
	var c0: vec4<f32>;
	var c1: vec4<f32>;
	let item = worker.x;
	let item0 = items[3u * item];
	let item1 = items[3u * item + 1u];
	let item2 = items[3u * item + 2u];
	let offA = item0.x / 4u;
	let offB = item0.y / 4u;
	let offC = item0.z;
	let depth = item0.w;
	let ldA = item1.x / 4u;
	let ldB = item1.y / 4u;
	let ldC = item1.z;
	let rows = item1.w & 0xffffu;
	let cols = item1.w >> 16u;
	let alpha = select(bitcast<f32>(item2.x), 0.0, depth == 0u);
	let beta = bitcast<f32>(item2.y);
	c0 = vec4<f32>(0.0);
	c1 = vec4<f32>(0.0);
	var left = depth;
	if (left != 0u) {
		atA = offA + 2u * (acrossA * ldA) + alongA;
		atB = offB + 4u * (acrossB * ldB) + alongB;
		if (acrossA < 16u) {
			nextA0_0 = A[atA];
			nextA0_1 = A[atA + ldA];
		}
		if (acrossB < 8u) {
			nextB0_0 = B[atB];
			nextB0_1 = B[atB + ldB];
			nextB0_2 = B[atB + 2u * ldB];
			nextB0_3 = B[atB + 3u * ldB];
		}
		loop {
			if (acrossA < 16u) {
				sharedA[4u * alongA][acrossA] = vec2<f32>(nextA0_0.x, nextA0_1.x);
				sharedA[4u * alongA + 1u][acrossA] = vec2<f32>(nextA0_0.y, nextA0_1.y);
				sharedA[4u * alongA + 2u][acrossA] = vec2<f32>(nextA0_0.z, nextA0_1.z);
				sharedA[4u * alongA + 3u][acrossA] = vec2<f32>(nextA0_0.w, nextA0_1.w);
			}
			if (acrossB < 8u) {
				sharedB[4u * alongB][acrossB] = vec4<f32>(nextB0_0.x, nextB0_1.x, nextB0_2.x, nextB0_3.x);
				sharedB[4u * alongB + 1u][acrossB] = vec4<f32>(nextB0_0.y, nextB0_1.y, nextB0_2.y, nextB0_3.y);
				sharedB[4u * alongB + 2u][acrossB] = vec4<f32>(nextB0_0.z, nextB0_1.z, nextB0_2.z, nextB0_3.z);
				sharedB[4u * alongB + 3u][acrossB] = vec4<f32>(nextB0_0.w, nextB0_1.w, nextB0_2.w, nextB0_3.w);
			}
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
				atA = atA + 4u;
				atB = atB + 4u;
				if (acrossA < 16u) {
					nextA0_0 = A[atA];
					nextA0_1 = A[atA + ldA];
				}
				if (acrossB < 8u) {
					nextB0_0 = B[atB];
					nextB0_1 = B[atB + ldB];
					nextB0_2 = B[atB + 2u * ldB];
					nextB0_3 = B[atB + 3u * ldB];
				}
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
	let atC0 = offC + row0 * ldC + 4u * vector0;
	c0 = alpha * c0;
	let atC1 = offC + row1 * ldC + 4u * vector1;
	c1 = alpha * c1;
	if (beta != 0.0) {
		c0 = fma(vec4<f32>(beta), vec4<f32>(C[atC0], C[atC0 + 1u], C[atC0 + 2u], C[atC0 + 3u]), c0);
		c1 = fma(vec4<f32>(beta), vec4<f32>(C[atC1], C[atC1 + 1u], C[atC1 + 2u], C[atC1 + 3u]), c1);
	}
	if (rows == 32u && cols == 32u) {
		C[atC0] = c0.x;
		C[atC0 + 1u] = c0.y;
		C[atC0 + 2u] = c0.z;
		C[atC0 + 3u] = c0.w;
		C[atC1] = c1.x;
		C[atC1 + 1u] = c1.y;
		C[atC1 + 2u] = c1.z;
		C[atC1 + 3u] = c1.w;
	} else {
		if (row0 < rows) {
			if (4u * vector0 < cols) { C[atC0] = c0.x; }
			if (4u * vector0 + 1u < cols) { C[atC0 + 1u] = c0.y; }
			if (4u * vector0 + 2u < cols) { C[atC0 + 2u] = c0.z; }
			if (4u * vector0 + 3u < cols) { C[atC0 + 3u] = c0.w; }
		}
		if (row1 < rows) {
			if (4u * vector1 < cols) { C[atC1] = c1.x; }
			if (4u * vector1 + 1u < cols) { C[atC1 + 1u] = c1.y; }
			if (4u * vector1 + 2u < cols) { C[atC1 + 2u] = c1.z; }
			if (4u * vector1 + 3u < cols) { C[atC1 + 3u] = c1.w; }
		}
	}
}
