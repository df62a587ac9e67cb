@group(0) @binding(0) var<storage, read> items: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> C: array<atomic<u32>>;
@group(0) @binding(5) var<storage, read> workspace: array<vec4<f32>>;
var<workgroup> sums: array<vec4<f32>, 128>;

fn numbers(word: u32) -> vec2<f32> {
	return unpack2x16float(word);
}

fn number(word: u32, half: u32) -> f32 {
	return numbers(word >> half).x;
}

fn loadC(at: u32) -> f32 {
	return number(atomicLoad(&C[at / 2u]), 16u * (at % 2u));
}

fn nearest(x: u32, shift: u32) -> u32 {
	return (x + (1u << (shift - 1u)) - 1u + ((x >> shift) & 1u)) >> shift;
}

fn bits(number: f32) -> u32 {
	let x = bitcast<u32>(number);
	let size = x & 0x7fffffffu;
	let small = size < 0x38800000u;
	let shift = clamp(126u - min(size >> 23u, 126u), 13u, 25u);
	let whole = select(size - 0x38000000u, (size & 0x7fffffu) | 0x800000u, small);
	let rounded = min(nearest(whole, shift), 0x7c00u);
	return ((x >> 16u) & 0x8000u) | select(rounded, 0x7e00u, size > 0x7f800000u);
}

fn pair(first: f32, second: f32) -> u32 {
	return bits(first) | (bits(second) << 16u);
}

fn maskOf(n: u32) -> u32 {
	return select(0u, 0xffffu, n > 0u) | select(0u, 0xffff0000u, n > 1u);
}

fn aligned(before: u32, word: u32, odd: bool) -> u32 {
	return select(word, (before >> 16u) | (word << 16u), odd);
}

fn storeWord(at: u32, mask: u32, word: u32) {
	if (mask == 0xffffffffu) {
		atomicStore(&C[at], word);
	} else {
		if (mask != 0u) {
			atomicXor(&C[at], (atomicLoad(&C[at]) ^ word) & mask);
		}
	}
}

fn storeC(at: u32, n: u32, low: u32, high: u32) {
	let odd = at % 2u == 1u;
	let lowMask = maskOf(n);
	let highMask = maskOf(max(n, 2u) - 2u);
	storeWord(at / 2u, aligned(0u, lowMask, odd), aligned(0u, low, odd));
	storeWord(at / 2u + 1u, aligned(lowMask, highMask, odd), aligned(low, high, odd));
	storeWord(at / 2u + 2u, aligned(highMask, 0u, odd), aligned(high, 0u, odd));
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) worker: vec3<u32>, @builtin(local_invocation_index) t: u32) {
	let item0 = items[2u * worker.x];
	let item1 = items[2u * worker.x + 1u];
	let offC = item0.x;
	let ldC = item0.y;
	let rows = item0.z & 0xffffu;
	let cols = item0.z >> 16u;
	let alpha = bitcast<f32>(item1.x);
	let beta = bitcast<f32>(item1.y);
	let group = t / 16u;
	let vector = worker.y * 16u + t % 16u;
	let end = (item0.w + item1.z) * 256u;
	var at = (item0.w + group) * 256u + vector;
	var sum = vec4<f32>(0.0);
	for (; at + 6144u < end; at = at + 8192u) {
		let part0 = workspace[at];
		let part1 = workspace[at + 2048u];
		let part2 = workspace[at + 4096u];
		let part3 = workspace[at + 6144u];
		sum = sum + part0;
		sum = sum + part1;
		sum = sum + part2;
		sum = sum + part3;
	}
	for (; at < end; at = at + 2048u) {
		sum = sum + workspace[at];
	}
	sums[t] = sum;
	workgroupBarrier();
	if (group == 0u) {
		sum = sum + sums[t + 16u];
		sum = sum + sums[t + 32u];
		sum = sum + sums[t + 48u];
		sum = sum + sums[t + 64u];
		sum = sum + sums[t + 80u];
		sum = sum + sums[t + 96u];
		sum = sum + sums[t + 112u];
		let row0 = vector / 8u;
		let vector0 = vector % 8u;
		let atC0 = offC + row0 * ldC + 4u * vector0;
		sum = alpha * sum;
		if ((bitcast<u32>(beta) & 0x7fffffffu) != 0u) {
			sum = fma(vec4<f32>(beta), vec4<f32>(loadC(atC0), loadC(atC0 + 1u), loadC(atC0 + 2u), loadC(atC0 + 3u)), sum);
		}
		if (row0 < rows) {
			storeC(atC0, min(cols - min(4u * vector0, cols), 4u), pair(sum.x, sum.y), pair(sum.z, sum.w));
		}
	}
}
