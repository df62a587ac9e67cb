@group(0) @binding(0) var<storage, read> items: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> A: array<f32>;
@group(0) @binding(2) var<storage, read> B: array<f32>;
@group(0) @binding(3) var<storage, read_write> C: array<f32>;
@group(0) @binding(4) var<storage, read_write> table: array<atomic<u32>>;
var<workgroup> taken: u32;
@group(0) @binding(7) var<storage, read> B2: array<f32>;
var<workgroup> sharedA: array<array<f32, 17>, 16>;
var<workgroup> sharedB: array<array<vec2<f32>, 9>, 16>;

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
	var nextA0: f32;
	var nextA1: f32;
	let alongB = t % 16u;
	let acrossB = t / 16u;
	var atB: u32;
	var nextB0: vec2<f32>;
	var c0: vec2<f32>;
	var gate0: vec2<f32>;
	for (var tile = worker.x; tile != 0xffffffffu;) {
		var counted = 0u;
		if (t == 0u) {
			counted = atomicAdd(&table[0u], 1u);
		}
		for (var item = 2u * tile; item < 2u * tile + 2u; item = item + 1u) {
			let item0 = items[6u * item];
			let item1 = items[6u * item + 1u];
			let item2 = items[6u * item + 2u];
			let item3 = items[6u * item + 3u];
			let item4 = items[6u * item + 4u];
			let item5 = items[6u * item + 5u];
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
			let second = (item2.w & 4u) != 0u;
			c0 = vec2<f32>(0.0);
			var left = depth;
			if (left != 0u) {
				atA = offA + acrossA * ldA + alongA;
				atB = offB + acrossB * ldB + alongB;
				nextA0 = A[atA];
				nextA1 = A[atA + 8u * ldA];
				if (second) {
					nextB0 = vec2<f32>(B2[atB], B2[atB + 8u * ldB]);
				} else {
					nextB0 = vec2<f32>(B[atB], B[atB + 8u * ldB]);
				}
				loop {
					sharedA[alongA][acrossA] = nextA0;
					sharedA[alongA][acrossA + 8u] = nextA1;
					sharedB[alongB][acrossB] = nextB0;
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
						atB = atB + 16u;
						nextA0 = A[atA];
						nextA1 = A[atA + 8u * ldA];
						if (second) {
							nextB0 = vec2<f32>(B2[atB], B2[atB + 8u * ldB]);
						} else {
							nextB0 = vec2<f32>(B[atB], B[atB + 8u * ldB]);
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
			let atC0 = offC + row0 * ldC + vector0;
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
					C[atC0 + 8u] = c0.y;
				} else {
					if (row0 < rows) {
						if (vector0 < cols) { C[atC0] = c0.x; }
						if (vector0 + 8u < cols) { C[atC0 + 8u] = c0.y; }
					}
				}
			}
			workgroupBarrier();
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
