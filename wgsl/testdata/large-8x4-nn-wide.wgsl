@group(0) @binding(0) var<storage, read> items: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> A: array<f32>;
@group(0) @binding(2) var<storage, read> B: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> C: array<f32>;
var<workgroup> sharedA: array<array<vec4<f32>, 17>, 16>;
var<workgroup> sharedB: array<array<vec4<f32>, 16>, 16>;

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) worker: vec3<u32>, @builtin(local_invocation_index) t: u32) {
	let ty = t / 16u;
	let tx = t % 16u;
	let readA0 = ty;
	let readA1 = ty + 8u;
	let readB0 = tx;
	let alongA = t % 16u;
	let acrossA = t / 16u;
	var atA: u32;
	var nextA0: vec4<f32>;
	var nextA1: vec4<f32>;
	let alongB = t % 16u;
	let acrossB = t / 16u;
	var atB: u32;
	var nextB0: vec4<f32>;
	var nextB1: vec4<f32>;
	var c0: vec4<f32>;
	var c1: vec4<f32>;
	var c2: vec4<f32>;
	var c3: vec4<f32>;
	var c4: vec4<f32>;
	var c5: vec4<f32>;
	var c6: vec4<f32>;
	var c7: vec4<f32>;
	let item = worker.x;
	let item0 = items[3u * item];
	let item1 = items[3u * item + 1u];
	let item2 = items[3u * item + 2u];
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
		nextA1 = vec4<f32>(A[atA + 32u * ldA], A[atA + 33u * ldA], A[atA + 34u * ldA], A[atA + 35u * ldA]);
		nextB0 = B[atB];
		nextB1 = B[atB + 8u * ldB];
		loop {
			sharedA[alongA][acrossA] = nextA0;
			sharedA[alongA][acrossA + 8u] = nextA1;
			sharedB[acrossB][alongB] = nextB0;
			sharedB[acrossB + 8u][alongB] = nextB1;
			workgroupBarrier();
			if (left < 16u) {
				for (var k = 0u; k < left; k = k + 1u) {
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
			left = left - 16u;
			if (left != 0u) {
				atA = atA + 16u;
				atB = atB + 16u * ldB;
				nextA0 = vec4<f32>(A[atA], A[atA + ldA], A[atA + 2u * ldA], A[atA + 3u * ldA]);
				nextA1 = vec4<f32>(A[atA + 32u * ldA], A[atA + 33u * ldA], A[atA + 34u * ldA], A[atA + 35u * ldA]);
				nextB0 = B[atB];
				nextB1 = B[atB + 8u * ldB];
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
			{
				let a0 = sharedA[8u][readA0];
				let a1 = sharedA[8u][readA1];
				let b0 = sharedB[8u][readB0];
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
				let a0 = sharedA[9u][readA0];
				let a1 = sharedA[9u][readA1];
				let b0 = sharedB[9u][readB0];
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
				let a0 = sharedA[10u][readA0];
				let a1 = sharedA[10u][readA1];
				let b0 = sharedB[10u][readB0];
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
				let a0 = sharedA[11u][readA0];
				let a1 = sharedA[11u][readA1];
				let b0 = sharedB[11u][readB0];
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
				let a0 = sharedA[12u][readA0];
				let a1 = sharedA[12u][readA1];
				let b0 = sharedB[12u][readB0];
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
				let a0 = sharedA[13u][readA0];
				let a1 = sharedA[13u][readA1];
				let b0 = sharedB[13u][readB0];
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
				let a0 = sharedA[14u][readA0];
				let a1 = sharedA[14u][readA1];
				let b0 = sharedB[14u][readB0];
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
				let a0 = sharedA[15u][readA0];
				let a1 = sharedA[15u][readA1];
				let b0 = sharedB[15u][readB0];
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
	let row0 = 4u * ty;
	let vector0 = tx;
	let row1 = 4u * ty + 1u;
	let vector1 = tx;
	let row2 = 4u * ty + 2u;
	let vector2 = tx;
	let row3 = 4u * ty + 3u;
	let vector3 = tx;
	let row4 = 4u * ty + 32u;
	let vector4 = tx;
	let row5 = 4u * ty + 33u;
	let vector5 = tx;
	let row6 = 4u * ty + 34u;
	let vector6 = tx;
	let row7 = 4u * ty + 35u;
	let vector7 = tx;
	let atC0 = offC + row0 * ldC + 4u * vector0;
	c0 = alpha * c0;
	let atC1 = offC + row1 * ldC + 4u * vector1;
	c1 = alpha * c1;
	let atC2 = offC + row2 * ldC + 4u * vector2;
	c2 = alpha * c2;
	let atC3 = offC + row3 * ldC + 4u * vector3;
	c3 = alpha * c3;
	let atC4 = offC + row4 * ldC + 4u * vector4;
	c4 = alpha * c4;
	let atC5 = offC + row5 * ldC + 4u * vector5;
	c5 = alpha * c5;
	let atC6 = offC + row6 * ldC + 4u * vector6;
	c6 = alpha * c6;
	let atC7 = offC + row7 * ldC + 4u * vector7;
	c7 = alpha * c7;
	if ((bitcast<u32>(beta) & 0x7fffffffu) != 0u) {
		c0 = fma(vec4<f32>(beta), vec4<f32>(C[atC0], C[atC0 + 1u], C[atC0 + 2u], C[atC0 + 3u]), c0);
		c1 = fma(vec4<f32>(beta), vec4<f32>(C[atC1], C[atC1 + 1u], C[atC1 + 2u], C[atC1 + 3u]), c1);
		c2 = fma(vec4<f32>(beta), vec4<f32>(C[atC2], C[atC2 + 1u], C[atC2 + 2u], C[atC2 + 3u]), c2);
		c3 = fma(vec4<f32>(beta), vec4<f32>(C[atC3], C[atC3 + 1u], C[atC3 + 2u], C[atC3 + 3u]), c3);
		c4 = fma(vec4<f32>(beta), vec4<f32>(C[atC4], C[atC4 + 1u], C[atC4 + 2u], C[atC4 + 3u]), c4);
		c5 = fma(vec4<f32>(beta), vec4<f32>(C[atC5], C[atC5 + 1u], C[atC5 + 2u], C[atC5 + 3u]), c5);
		c6 = fma(vec4<f32>(beta), vec4<f32>(C[atC6], C[atC6 + 1u], C[atC6 + 2u], C[atC6 + 3u]), c6);
		c7 = fma(vec4<f32>(beta), vec4<f32>(C[atC7], C[atC7 + 1u], C[atC7 + 2u], C[atC7 + 3u]), c7);
	}
	if (rows == 64u && cols == 64u) {
		C[atC0] = c0.x;
		C[atC0 + 1u] = c0.y;
		C[atC0 + 2u] = c0.z;
		C[atC0 + 3u] = c0.w;
		C[atC1] = c1.x;
		C[atC1 + 1u] = c1.y;
		C[atC1 + 2u] = c1.z;
		C[atC1 + 3u] = c1.w;
		C[atC2] = c2.x;
		C[atC2 + 1u] = c2.y;
		C[atC2 + 2u] = c2.z;
		C[atC2 + 3u] = c2.w;
		C[atC3] = c3.x;
		C[atC3 + 1u] = c3.y;
		C[atC3 + 2u] = c3.z;
		C[atC3 + 3u] = c3.w;
		C[atC4] = c4.x;
		C[atC4 + 1u] = c4.y;
		C[atC4 + 2u] = c4.z;
		C[atC4 + 3u] = c4.w;
		C[atC5] = c5.x;
		C[atC5 + 1u] = c5.y;
		C[atC5 + 2u] = c5.z;
		C[atC5 + 3u] = c5.w;
		C[atC6] = c6.x;
		C[atC6 + 1u] = c6.y;
		C[atC6 + 2u] = c6.z;
		C[atC6 + 3u] = c6.w;
		C[atC7] = c7.x;
		C[atC7 + 1u] = c7.y;
		C[atC7 + 2u] = c7.z;
		C[atC7 + 3u] = c7.w;
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
		if (row2 < rows) {
			if (4u * vector2 < cols) { C[atC2] = c2.x; }
			if (4u * vector2 + 1u < cols) { C[atC2 + 1u] = c2.y; }
			if (4u * vector2 + 2u < cols) { C[atC2 + 2u] = c2.z; }
			if (4u * vector2 + 3u < cols) { C[atC2 + 3u] = c2.w; }
		}
		if (row3 < rows) {
			if (4u * vector3 < cols) { C[atC3] = c3.x; }
			if (4u * vector3 + 1u < cols) { C[atC3 + 1u] = c3.y; }
			if (4u * vector3 + 2u < cols) { C[atC3 + 2u] = c3.z; }
			if (4u * vector3 + 3u < cols) { C[atC3 + 3u] = c3.w; }
		}
		if (row4 < rows) {
			if (4u * vector4 < cols) { C[atC4] = c4.x; }
			if (4u * vector4 + 1u < cols) { C[atC4 + 1u] = c4.y; }
			if (4u * vector4 + 2u < cols) { C[atC4 + 2u] = c4.z; }
			if (4u * vector4 + 3u < cols) { C[atC4 + 3u] = c4.w; }
		}
		if (row5 < rows) {
			if (4u * vector5 < cols) { C[atC5] = c5.x; }
			if (4u * vector5 + 1u < cols) { C[atC5 + 1u] = c5.y; }
			if (4u * vector5 + 2u < cols) { C[atC5 + 2u] = c5.z; }
			if (4u * vector5 + 3u < cols) { C[atC5 + 3u] = c5.w; }
		}
		if (row6 < rows) {
			if (4u * vector6 < cols) { C[atC6] = c6.x; }
			if (4u * vector6 + 1u < cols) { C[atC6 + 1u] = c6.y; }
			if (4u * vector6 + 2u < cols) { C[atC6 + 2u] = c6.z; }
			if (4u * vector6 + 3u < cols) { C[atC6 + 3u] = c6.w; }
		}
		if (row7 < rows) {
			if (4u * vector7 < cols) { C[atC7] = c7.x; }
			if (4u * vector7 + 1u < cols) { C[atC7 + 1u] = c7.y; }
			if (4u * vector7 + 2u < cols) { C[atC7 + 2u] = c7.z; }
			if (4u * vector7 + 3u < cols) { C[atC7 + 3u] = c7.w; }
		}
	}
}
