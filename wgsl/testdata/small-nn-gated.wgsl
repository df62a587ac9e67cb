@group(0) @binding(0) var<storage, read> items: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> A: array<f32>;
@group(0) @binding(2) var<storage, read> B: array<f32>;
@group(0) @binding(3) var<storage, read_write> C: array<f32>;
@group(0) @binding(4) var<storage, read> table: array<u32>;
@group(0) @binding(7) var<storage, read> B2: array<f32>;
@group(0) @binding(8) var<storage, read> Bias: array<f32>;
@group(0) @binding(9) var<storage, read> indices: array<u32>;
var<workgroup> sharedA: array<array<f32, 17>, 16>;
var<workgroup> sharedB: array<array<vec2<f32>, 8>, 16>;

fn activate(v: f32) -> f32 {
	let z = v;
	return select(v / (1.0 + exp(-z)), 0.0, bitcast<u32>(z) - 0xc2b00000u <= 0x3cd00000u);
}

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
	var atRow0: u32;
	var isRow0: bool;
	var atRow8: u32;
	var isRow8: bool;
	let alongB = t % 16u;
	let acrossB = t / 16u;
	var atB: u32;
	var nextB0: f32;
	var nextB1: f32;
	var c0: vec2<f32>;
	var gate0: vec2<f32>;
	let end = table[worker.x + 1u];
	for (var item = table[worker.x]; item < end; item = item + 1u) {
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
		let gatherAt = item3.x;
		let gatherRows = item3.y;
		let scatterAt = item3.z;
		let scatterRows = item3.w;
		let weightsAt = item4.x;
		let biasAt = item4.y;
		let second = (item2.w & 4u) != 0u;
		c0 = vec2<f32>(0.0);
		var left = depth;
		if (left != 0u) {
			atA = alongA;
			{
				let index = indices[gatherAt + acrossA];
				isRow0 = index < gatherRows;
				atRow0 = offA + select(0u, index, isRow0) * ldA;
			}
			{
				let index = indices[gatherAt + acrossA + 8u];
				isRow8 = index < gatherRows;
				atRow8 = offA + select(0u, index, isRow8) * ldA;
			}
			atB = offB + acrossB * ldB + alongB;
			nextA0 = select(0.0, A[atRow0 + atA], isRow0);
			nextA1 = select(0.0, A[atRow8 + atA], isRow8);
			if (second) {
				nextB0 = B2[atB];
				nextB1 = B2[atB + 8u * ldB];
			} else {
				nextB0 = B[atB];
				nextB1 = B[atB + 8u * ldB];
			}
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
					nextA0 = select(0.0, A[atRow0 + atA], isRow0);
					nextA1 = select(0.0, A[atRow8 + atA], isRow8);
					if (second) {
						nextB0 = B2[atB];
						nextB1 = B2[atB + 8u * ldB];
					} else {
						nextB0 = B[atB];
						nextB1 = B[atB + 8u * ldB];
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
		let to0 = indices[scatterAt + row0];
		let kept0 = row0 < rows && to0 < scatterRows;
		let atC0 = offC + to0 * ldC + vector0;
		c0 = alpha * c0;
		let bias0 = vec2<f32>(Bias[biasAt + vector0], Bias[biasAt + vector0 + 8u]);
		c0 = c0 + bias0;
		if (second) {
			c0 = gate0 * c0;
		} else {
			c0 = vec2<f32>(activate(c0.x), activate(c0.y));
			gate0 = c0;
		}
		let weight0 = bitcast<f32>(indices[weightsAt + row0]);
		c0 = weight0 * c0;
		if (second) {
			if (kept0) {
				if (vector0 < cols) { C[atC0] = c0.x; }
				if (vector0 + 8u < cols) { C[atC0 + 8u] = c0.y; }
			}
		}
		workgroupBarrier();
	}
}
