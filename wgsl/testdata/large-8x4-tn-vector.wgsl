@group(0) @binding(0) var<storage, read> items: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> A: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> B: array<f32>;
@group(0) @binding(3) var<storage, read_write> C: array<f32>;
var<workgroup> sharedA: array<array<vec4<f32>, 16>, 16>;
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
	let alongB = t % 64u;
	let acrossB = t / 64u;
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
		atA = offA + acrossA * ldA + alongA;
		atB = offB + acrossB * ldB + alongB;
		nextA0 = A[atA];
		nextA1 = A[atA + 8u * ldA];
		nextB0 = B[atB];
		nextB1 = B[atB + 2u * ldB];
		nextB2 = B[atB + 4u * ldB];
		nextB3 = B[atB + 6u * ldB];
		nextB4 = B[atB + 8u * ldB];
		nextB5 = B[atB + 10u * ldB];
		nextB6 = B[atB + 12u * ldB];
		nextB7 = B[atB + 14u * ldB];
		loop {
			sharedA[acrossA][alongA] = nextA0;
			sharedA[acrossA + 8u][alongA] = nextA1;
			sharedB[acrossB][alongB % 16u][alongB / 16u] = nextB0;
			sharedB[acrossB + 2u][alongB % 16u][alongB / 16u] = nextB1;
			sharedB[acrossB + 4u][alongB % 16u][alongB / 16u] = nextB2;
			sharedB[acrossB + 6u][alongB % 16u][alongB / 16u] = nextB3;
			sharedB[acrossB + 8u][alongB % 16u][alongB / 16u] = nextB4;
			sharedB[acrossB + 10u][alongB % 16u][alongB / 16u] = nextB5;
			sharedB[acrossB + 12u][alongB % 16u][alongB / 16u] = nextB6;
			sharedB[acrossB + 14u][alongB % 16u][alongB / 16u] = nextB7;
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
				atA = atA + 16u * ldA;
				atB = atB + 16u * ldB;
				nextA0 = A[atA];
				nextA1 = A[atA + 8u * ldA];
				nextB0 = B[atB];
				nextB1 = B[atB + 2u * ldB];
				nextB2 = B[atB + 4u * ldB];
				nextB3 = B[atB + 6u * ldB];
				nextB4 = B[atB + 8u * ldB];
				nextB5 = B[atB + 10u * ldB];
				nextB6 = B[atB + 12u * ldB];
				nextB7 = B[atB + 14u * ldB];
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
	let atC0 = offC + row0 * ldC + vector0;
	c0 = alpha * c0;
	let atC1 = offC + row1 * ldC + vector1;
	c1 = alpha * c1;
	let atC2 = offC + row2 * ldC + vector2;
	c2 = alpha * c2;
	let atC3 = offC + row3 * ldC + vector3;
	c3 = alpha * c3;
	let atC4 = offC + row4 * ldC + vector4;
	c4 = alpha * c4;
	let atC5 = offC + row5 * ldC + vector5;
	c5 = alpha * c5;
	let atC6 = offC + row6 * ldC + vector6;
	c6 = alpha * c6;
	let atC7 = offC + row7 * ldC + vector7;
	c7 = alpha * c7;
	if ((bitcast<u32>(beta) & 0x7fffffffu) != 0u) {
		c0 = fma(vec4<f32>(beta), vec4<f32>(C[atC0], C[atC0 + 16u], C[atC0 + 32u], C[atC0 + 48u]), c0);
		c1 = fma(vec4<f32>(beta), vec4<f32>(C[atC1], C[atC1 + 16u], C[atC1 + 32u], C[atC1 + 48u]), c1);
		c2 = fma(vec4<f32>(beta), vec4<f32>(C[atC2], C[atC2 + 16u], C[atC2 + 32u], C[atC2 + 48u]), c2);
		c3 = fma(vec4<f32>(beta), vec4<f32>(C[atC3], C[atC3 + 16u], C[atC3 + 32u], C[atC3 + 48u]), c3);
		c4 = fma(vec4<f32>(beta), vec4<f32>(C[atC4], C[atC4 + 16u], C[atC4 + 32u], C[atC4 + 48u]), c4);
		c5 = fma(vec4<f32>(beta), vec4<f32>(C[atC5], C[atC5 + 16u], C[atC5 + 32u], C[atC5 + 48u]), c5);
		c6 = fma(vec4<f32>(beta), vec4<f32>(C[atC6], C[atC6 + 16u], C[atC6 + 32u], C[atC6 + 48u]), c6);
		c7 = fma(vec4<f32>(beta), vec4<f32>(C[atC7], C[atC7 + 16u], C[atC7 + 32u], C[atC7 + 48u]), c7);
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
		C[atC4] = c4.x;
		C[atC4 + 16u] = c4.y;
		C[atC4 + 32u] = c4.z;
		C[atC4 + 48u] = c4.w;
		C[atC5] = c5.x;
		C[atC5 + 16u] = c5.y;
		C[atC5 + 32u] = c5.z;
		C[atC5 + 48u] = c5.w;
		C[atC6] = c6.x;
		C[atC6 + 16u] = c6.y;
		C[atC6 + 32u] = c6.z;
		C[atC6 + 48u] = c6.w;
		C[atC7] = c7.x;
		C[atC7 + 16u] = c7.y;
		C[atC7 + 32u] = c7.z;
		C[atC7 + 48u] = c7.w;
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
		if (row4 < rows) {
			if (vector4 < cols) { C[atC4] = c4.x; }
			if (vector4 + 16u < cols) { C[atC4 + 16u] = c4.y; }
			if (vector4 + 32u < cols) { C[atC4 + 32u] = c4.z; }
			if (vector4 + 48u < cols) { C[atC4 + 48u] = c4.w; }
		}
		if (row5 < rows) {
			if (vector5 < cols) { C[atC5] = c5.x; }
			if (vector5 + 16u < cols) { C[atC5 + 16u] = c5.y; }
			if (vector5 + 32u < cols) { C[atC5 + 32u] = c5.z; }
			if (vector5 + 48u < cols) { C[atC5 + 48u] = c5.w; }
		}
		if (row6 < rows) {
			if (vector6 < cols) { C[atC6] = c6.x; }
			if (vector6 + 16u < cols) { C[atC6 + 16u] = c6.y; }
			if (vector6 + 32u < cols) { C[atC6 + 32u] = c6.z; }
			if (vector6 + 48u < cols) { C[atC6 + 48u] = c6.w; }
		}
		if (row7 < rows) {
			if (vector7 < cols) { C[atC7] = c7.x; }
			if (vector7 + 16u < cols) { C[atC7 + 16u] = c7.y; }
			if (vector7 + 32u < cols) { C[atC7 + 32u] = c7.z; }
			if (vector7 + 48u < cols) { C[atC7 + 48u] = c7.w; }
		}
	}
}
