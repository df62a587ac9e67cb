@group(0) @binding(0) var<storage, read> items: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> C: array<atomic<u32>>;
@group(0) @binding(5) var<storage, read> workspace: array<vec4<f32>>;
var<workgroup> words: array<u32, 16>;
var<workgroup> sums: array<vec4<f32>, 128>;

fn numbers(word: u32) -> vec2<f32> {
	return unpack2x16float(word);
}

fn loadC(at: u32) -> vec4<f32> {
	let word0 = atomicLoad(&C[at / 2u]);
	let word1 = atomicLoad(&C[at / 2u + 1u]);
	let word2 = atomicLoad(&C[at / 2u + 2u]);
	return vec4<f32>(numbers(select(word0, (word0 >> 16u) | (word1 << 16u), at % 2u != 0u)), numbers(select(word1, (word1 >> 16u) | (word2 << 16u), at % 2u != 0u)));
}

fn nearest(x: u32, shift: u32) -> u32 {
	return (x + (1u << (shift - 1u)) - 1u + ((x >> shift) & 1u)) >> shift;
}

fn rounded(x: u32) -> u32 {
	return nearest(max(x & 0x7fffffffu, 0x38000000u) - 0x38000000u, 13u);
}

fn pair(first: u32, second: u32) -> u32 {
	return rounded(first) | (rounded(second) << 16u) | ((first >> 16u) & 0x8000u) | (second & 0x80000000u);
}

fn rare(sum: f32, least: u32) -> bool {
	return (bitcast<u32>(sum) & 0x7fffffffu) >= 0x47800000u || least < 0x70ffffffu;
}

fn tame(x: u32) -> u32 {
	let size = x & 0x7fffffffu;
	let small = nearest((size & 0x7fffffu) | 0x800000u, 126u - min(max(size >> 23u, 101u), 125u));
	let extreme = select(small, select(0x7c00u, 0x7e00u, size > 0x7f800000u), size >= 0x38800000u);
	let tamed = (x & 0x80000000u) | (0x38000000u + (extreme << 13u));
	return select(x, tamed, size >= 0x47800000u || size < 0x38800000u);
}

fn storeHalf(at: u32, mask: u32, word: u32) {
	atomicAnd(&C[at], ~mask);
	atomicOr(&C[at], word & mask);
}

fn storeEnds(at: u32, cols: u32, first: u32, last: u32) {
	if (at % 2u != 0u) { storeHalf(at / 2u, 0xffff0000u, first << 16u); }
	if ((at + cols) % 2u != 0u) { storeHalf((at + cols) / 2u, 0xffffu, last >> 16u); }
}

fn ends(numbers: u32, worda: u32, wordb: u32) -> u32 {
	let last = select(worda, wordb, numbers > 2u);
	return (worda & 0xffffu) | select(last << 16u, last & 0xffff0000u, numbers % 2u == 0u);
}

fn storeVector(at: u32, col: u32, numbers: u32, before: u32, worda: u32, wordb: u32) {
	let odd = at % 2u;
	if (numbers + odd > 1u && odd <= col) {
		atomicStore(&C[at / 2u], select(worda, (before >> 16u) | (worda << 16u), odd != 0u));
	}
	if (numbers + odd > 3u) {
		atomicStore(&C[at / 2u + 1u], select(wordb, (worda >> 16u) | (wordb << 16u), odd != 0u));
	}
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
	}
	let row0 = vector / 8u;
	let vector0 = vector % 8u;
	let atC0 = offC + row0 * ldC + 4u * vector0;
	sum = alpha * sum;
	if (group == 0u) {
		if ((bitcast<u32>(beta) & 0x7fffffffu) != 0u) {
			sum = fma(vec4<f32>(beta), loadC(atC0), sum);
		}
	}
	var bits0 = bitcast<vec4<u32>>(sum);
	let sizes = abs(sum);
	let least = 2u * bits0 - vec4<u32>(1u, 1u, 1u, 1u);
	if (rare(sizes.x + sizes.y + sizes.z + sizes.w, min(min(min(least.x, least.y), least.z), least.w))) {
		bits0 = vec4<u32>(tame(bits0.x), tame(bits0.y), tame(bits0.z), tame(bits0.w));
	}
	let word0a = pair(bits0.x, bits0.y);
	let word0b = pair(bits0.z, bits0.w);
	if (((offC | ldC | cols) & 1u) == 0u) {
		if (group == 0u) {
			if (row0 < rows && 4u * vector0 + 3u < cols) {
				atomicStore(&C[atC0 / 2u], word0a);
				atomicStore(&C[atC0 / 2u + 1u], word0b);
			}
			if (row0 < rows && 4u * vector0 + 2u == cols) {
				atomicStore(&C[atC0 / 2u], word0a);
			}
		}
	} else {
		let numbers0 = select(0u, min(cols - min(4u * vector0, cols), 4u), row0 < rows);
		workgroupBarrier();
		if (group == 0u) {
			{
				let at = 8u * (row0 % 2u) + vector0;
				words[at] = ends(numbers0, word0a, word0b);
			}
		}
		workgroupBarrier();
		if (group == 0u) {
			{
				let at = max(8u * (row0 % 2u) + vector0, 1u) - 1u;
				storeVector(atC0, vector0, numbers0, words[at], word0a, word0b);
			}
		}
		for (var own = t; own < 2u; own = own + 128u) {
			let row = 2u * worker.y + own;
			if (row < rows) {
				let at = 8u * own;
				storeEnds(offC + row * ldC, cols, words[at], words[at + (cols - 1u) / 4u]);
			}
		}
	}
}
