@group(0) @binding(0) var<storage, read> items: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> A: array<f32>;
@group(0) @binding(2) var<storage, read> B: array<f32>;
@group(0) @binding(3) var<storage, read_write> C: array<f32>;
@group(0) @binding(4) var<storage, read_write> table: array<atomic<u32>>;
var<workgroup> taken: u32;
var<workgroup> sharedA: array<array<f32, 17>, 16>;
var<workgroup> sharedB: array<array<vec2<f32>, 8>, 16>;

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) worker: vec3<u32>, @builtin(local_invocation_index) t: u32) {
	let ty = t / 8u;
	let tx = t % 8u;
	let readA0 = ty;
	let readB0 = tx;
	let alongA = t % 16u;
	let acrossA = t / 16u;
	var atA: u32;
	var nextA0: f32;
	var nextA1: f32;
	let alongB = t % 16u;
	let acrossB = t / 16u;
	var atB: u32;
	var nextB0: f32;
	var nextB1: f32;
	var c0: vec2<f32>;
	for (var tile = worker.x; tile != 0xffffffffu;) {
		var counted = 0u;
		if (t == 0u) {
			counted = atomicAdd(&table[0u], 1u);
		}
		let item = tile;
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
		var left = depth;
		if (left != 0u) {
			atA = offA + acrossA * ldA + alongA;
			atB = offB + acrossB * ldB + alongB;
			nextA0 = A[atA];
			nextA1 = A[atA + 8u * ldA];
			nextB0 = B[atB];
			nextB1 = B[atB + 8u * ldB];
			loop {
				sharedA[alongA][acrossA] = nextA0;
				sharedA[alongA][acrossA + 8u] = nextA1;
				sharedB[acrossB][alongB % 8u][alongB / 8u] = nextB0;
				sharedB[acrossB + 8u][alongB % 8u][alongB / 8u] = nextB1;
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
				if (left != 0u) {
					atA = atA + 16u;
					atB = atB + 16u * ldB;
					nextA0 = A[atA];
					nextA1 = A[atA + 8u * ldA];
					nextB0 = B[atB];
					nextB1 = B[atB + 8u * ldB];
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
		let atC0 = offC + row0 * ldC + vector0;
		c0 = alpha * c0;
		if ((bitcast<u32>(beta) & 0x7fffffffu) != 0u) {
			c0 = fma(vec2<f32>(beta), vec2<f32>(C[atC0], C[atC0 + 8u]), c0);
		}
		if (rows == 16u && cols == 16u) {
			C[atC0] = c0.x;
			C[atC0 + 8u] = c0.y;
		} else {
			if (row0 < rows) {
				if (vector0 < cols) { C[atC0] = c0.x; }
				if (vector0 + 8u < cols) { C[atC0 + 8u] = c0.y; }
			}
		}
		if (t == 0u) {
			if (counted == atomicLoad(&table[4u])) {
				atomicStore(&table[0u], 0u);
			}
			let next = atomicLoad(&table[2u]) + counted;
			taken = select(0xffffffffu, next, next < atomicLoad(&table[1u]));
		}
		tile = workgroupUniformLoad(&taken);
	}
}
