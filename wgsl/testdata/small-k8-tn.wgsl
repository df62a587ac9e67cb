@group(0) @binding(0) var<storage, read> items: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> A: array<f32>;
@group(0) @binding(2) var<storage, read> B: array<f32>;
@group(0) @binding(3) var<storage, read_write> C: array<f32>;
var<workgroup> sharedA: array<array<vec4<f32>, 32>, 8>;
var<workgroup> sharedB: array<array<vec4<f32>, 32>, 8>;

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) worker: vec3<u32>, @builtin(local_invocation_index) t: u32) {
	let place = t % 16u;
	let group = t / 16u;
	let ty = place / 4u;
	let tx = place % 4u;
	let readA0 = 4u * group + ty;
	let readB0 = 4u * group + tx;
	let alongA = t % 16u;
	let acrossA = t / 16u;
	var atA: u32;
	var nextA0: f32;
	var nextA1: f32;
	var nextA2: f32;
	var nextA3: f32;
	var nextA4: f32;
	var nextA5: f32;
	var nextA6: f32;
	var nextA7: f32;
	let alongB = t % 16u;
	let acrossB = t / 16u;
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
		nextA1 = A[atA + 8u * ldA];
		nextA2 = A[atA + 16u * ldA];
		nextA3 = A[atA + 24u * ldA];
		nextA4 = A[atA + 32u * ldA];
		nextA5 = A[atA + 40u * ldA];
		nextA6 = A[atA + 48u * ldA];
		nextA7 = A[atA + 56u * ldA];
		nextB0 = B[atB];
		nextB1 = B[atB + 8u * ldB];
		nextB2 = B[atB + 16u * ldB];
		nextB3 = B[atB + 24u * ldB];
		nextB4 = B[atB + 32u * ldB];
		nextB5 = B[atB + 40u * ldB];
		nextB6 = B[atB + 48u * ldB];
		nextB7 = B[atB + 56u * ldB];
		loop {
			sharedA[acrossA / 8u][4u * (acrossA % 8u) + alongA / 4u][alongA % 4u] = nextA0;
			sharedA[(acrossA + 8u) / 8u][4u * ((acrossA + 8u) % 8u) + alongA / 4u][alongA % 4u] = nextA1;
			sharedA[(acrossA + 16u) / 8u][4u * ((acrossA + 16u) % 8u) + alongA / 4u][alongA % 4u] = nextA2;
			sharedA[(acrossA + 24u) / 8u][4u * ((acrossA + 24u) % 8u) + alongA / 4u][alongA % 4u] = nextA3;
			sharedA[(acrossA + 32u) / 8u][4u * ((acrossA + 32u) % 8u) + alongA / 4u][alongA % 4u] = nextA4;
			sharedA[(acrossA + 40u) / 8u][4u * ((acrossA + 40u) % 8u) + alongA / 4u][alongA % 4u] = nextA5;
			sharedA[(acrossA + 48u) / 8u][4u * ((acrossA + 48u) % 8u) + alongA / 4u][alongA % 4u] = nextA6;
			sharedA[(acrossA + 56u) / 8u][4u * ((acrossA + 56u) % 8u) + alongA / 4u][alongA % 4u] = nextA7;
			sharedB[acrossB / 8u][4u * (acrossB % 8u) + alongB % 4u][alongB / 4u] = nextB0;
			sharedB[(acrossB + 8u) / 8u][4u * ((acrossB + 8u) % 8u) + alongB % 4u][alongB / 4u] = nextB1;
			sharedB[(acrossB + 16u) / 8u][4u * ((acrossB + 16u) % 8u) + alongB % 4u][alongB / 4u] = nextB2;
			sharedB[(acrossB + 24u) / 8u][4u * ((acrossB + 24u) % 8u) + alongB % 4u][alongB / 4u] = nextB3;
			sharedB[(acrossB + 32u) / 8u][4u * ((acrossB + 32u) % 8u) + alongB % 4u][alongB / 4u] = nextB4;
			sharedB[(acrossB + 40u) / 8u][4u * ((acrossB + 40u) % 8u) + alongB % 4u][alongB / 4u] = nextB5;
			sharedB[(acrossB + 48u) / 8u][4u * ((acrossB + 48u) % 8u) + alongB % 4u][alongB / 4u] = nextB6;
			sharedB[(acrossB + 56u) / 8u][4u * ((acrossB + 56u) % 8u) + alongB % 4u][alongB / 4u] = nextB7;
			workgroupBarrier();
			if (left < 64u) {
				for (var k = 0u; 8u * k + group < left; k = k + 1u) {
					let a0 = sharedA[k][readA0];
					let b0 = sharedB[k][readB0];
					c0 = fma(vec4<f32>(a0.x), b0, c0);
					c1 = fma(vec4<f32>(a0.y), b0, c1);
					c2 = fma(vec4<f32>(a0.z), b0, c2);
					c3 = fma(vec4<f32>(a0.w), b0, c3);
				}
				break;
			}
			left = left - 64u;
			if (left != 0u) {
				atA = atA + 64u * ldA;
				atB = atB + 64u * ldB;
				nextA0 = A[atA];
				nextA1 = A[atA + 8u * ldA];
				nextA2 = A[atA + 16u * ldA];
				nextA3 = A[atA + 24u * ldA];
				nextA4 = A[atA + 32u * ldA];
				nextA5 = A[atA + 40u * ldA];
				nextA6 = A[atA + 48u * ldA];
				nextA7 = A[atA + 56u * ldA];
				nextB0 = B[atB];
				nextB1 = B[atB + 8u * ldB];
				nextB2 = B[atB + 16u * ldB];
				nextB3 = B[atB + 24u * ldB];
				nextB4 = B[atB + 32u * ldB];
				nextB5 = B[atB + 40u * ldB];
				nextB6 = B[atB + 48u * ldB];
				nextB7 = B[atB + 56u * ldB];
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
			if (left == 0u) { break; }
			workgroupBarrier();
		}
	}
	workgroupBarrier();
	if (group < 4u) {
		let at = 64u * group + place;
		sharedA[at / 32u][at % 32u] = c0;
		sharedA[(at + 16u) / 32u][(at + 16u) % 32u] = c1;
		sharedA[(at + 32u) / 32u][(at + 32u) % 32u] = c2;
		sharedA[(at + 48u) / 32u][(at + 48u) % 32u] = c3;
	} else {
		let at = 64u * (group - 4u) + place;
		sharedB[at / 32u][at % 32u] = c0;
		sharedB[(at + 16u) / 32u][(at + 16u) % 32u] = c1;
		sharedB[(at + 32u) / 32u][(at + 32u) % 32u] = c2;
		sharedB[(at + 48u) / 32u][(at + 48u) % 32u] = c3;
	}
	workgroupBarrier();
	if (group < 4u) {
		c0 = sharedA[t / 32u][t % 32u] + sharedA[(t + 64u) / 32u][(t + 64u) % 32u] + sharedA[(t + 128u) / 32u][(t + 128u) % 32u] + sharedA[(t + 192u) / 32u][(t + 192u) % 32u] + sharedB[t / 32u][t % 32u] + sharedB[(t + 64u) / 32u][(t + 64u) % 32u] + sharedB[(t + 128u) / 32u][(t + 128u) % 32u] + sharedB[(t + 192u) / 32u][(t + 192u) % 32u];
	}
	let row0 = 4u * ty + 16u * (group / 4u) + group % 4u;
	let vector0 = tx;
	let atC0 = offC + row0 * ldC + vector0;
	c0 = alpha * c0;
	if (group < 4u) {
		if ((bitcast<u32>(beta) & 0x7fffffffu) != 0u) {
			c0 = fma(vec4<f32>(beta), vec4<f32>(C[atC0], C[atC0 + 4u], C[atC0 + 8u], C[atC0 + 12u]), c0);
		}
		if (rows == 16u && cols == 16u) {
			C[atC0] = c0.x;
			C[atC0 + 4u] = c0.y;
			C[atC0 + 8u] = c0.z;
			C[atC0 + 12u] = c0.w;
		} else {
			if (row0 < rows) {
				if (vector0 < cols) { C[atC0] = c0.x; }
				if (vector0 + 4u < cols) { C[atC0 + 4u] = c0.y; }
				if (vector0 + 8u < cols) { C[atC0 + 8u] = c0.z; }
				if (vector0 + 12u < cols) { C[atC0 + 12u] = c0.w; }
			}
		}
	}
}
