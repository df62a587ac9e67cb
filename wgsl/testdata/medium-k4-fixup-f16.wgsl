@group(0) @binding(0) var<storage, read> items: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> C: array<atomic<u32>>;
@group(0) @binding(5) var<storage, read> workspace: array<vec4<f32>>;
var<workgroup> words: array<u32, 16>;
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

fn rounded(x: u32) -> u32 {
	return nearest(max(x & 0x7fffffffu, 0x38000000u) - 0x38000000u, 13u);
}

fn pair(first: u32, second: u32) -> u32 {
	return rounded(first) | (rounded(second) << 16u) | ((first >> 16u) & 0x8000u) | (second & 0x80000000u);
}

fn rare(sum: f32, least: u32) -> bool {
	return (bitcast<u32>(sum) & 0x7fffffffu) >= 0x47800000u || least < 0x70ffffffu;
}

fn extreme(size: u32) -> u32 {
	if (size >= 0x38800000u) {
		return select(0x7c00u, 0x7e00u, size > 0x7f800000u);
	}
	return nearest((size & 0x7fffffu) | 0x800000u, min(126u - (size >> 23u), 25u));
}

fn tame(x: u32) -> u32 {
	let size = x & 0x7fffffffu;
	if (size >= 0x47800000u || (size < 0x38800000u && size != 0u)) {
		return (x & 0x80000000u) | (0x38000000u + (extreme(size) << 13u));
	}
	return x;
}

fn storeHalf(at: u32, mask: u32, word: u32) {
	atomicAnd(&C[at], ~mask);
	atomicOr(&C[at], word & mask);
}

fn storeWord(at: u32, numbers: u32, word: u32) {
	if (numbers > 1u) {
		atomicStore(&C[at], word);
	} else {
		storeHalf(at, 0xffffu, word);
	}
}

fn storeShifted(at: u32, col: u32, numbers: u32, before: u32, word: u32) {
	let odd = at % 2u;
	let first = select(word, (before >> 16u) | (word << 16u), odd != 0u);
	if (odd != 0u && col == 0u) {
		storeHalf(at / 2u, 0xffff0000u, first);
	} else {
		storeWord(at / 2u, numbers + odd, first);
	}
	if (odd != 0u && numbers == 2u) { storeHalf(at / 2u + 1u, 0xffffu, word >> 16u); }
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
			sum = fma(vec4<f32>(beta), vec4<f32>(loadC(atC0), loadC(atC0 + 1u), loadC(atC0 + 2u), loadC(atC0 + 3u)), sum);
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
	if (((offC | ldC) & 1u) == 0u) {
		if (group == 0u) {
			if (row0 < rows && 4u * vector0 + 3u < cols) {
				let to = atC0 / 2u;
				atomicStore(&C[to], word0a);
				atomicStore(&C[to + 1u], word0b);
			}
			if (4u * vector0 < cols && 4u * vector0 + 3u >= cols) {
				if (row0 < rows) {
					storeWord(atC0 / 2u, cols - (4u * vector0), word0a);
					if (4u * vector0 + 2u < cols) { storeWord((atC0 + 2u) / 2u, cols - (4u * vector0 + 2u), word0b); }
				}
			}
		}
	} else {
		workgroupBarrier();
		if (group == 0u) {
			{
				let at = t;
				words[at] = word0b;
			}
		}
		workgroupBarrier();
		if (group == 0u) {
			{
				let at = max(t, 1u) - 1u;
				if (row0 < rows && 4u * vector0 + 3u < cols) {
					let to = atC0 / 2u;
					if (atC0 % 2u == 0u) {
						atomicStore(&C[to], word0a);
						atomicStore(&C[to + 1u], word0b);
					} else {
						if (vector0 == 0u) { storeHalf(to, 0xffff0000u, (words[at] >> 16u) | (word0a << 16u)); } else { atomicStore(&C[to], (words[at] >> 16u) | (word0a << 16u)); }
						atomicStore(&C[to + 1u], (word0a >> 16u) | (word0b << 16u));
						if (4u * vector0 + 4u == cols) { storeHalf(to + 2u, 0xffffu, word0b >> 16u); }
					}
				}
				if (4u * vector0 < cols && 4u * vector0 + 3u >= cols) {
					if (row0 < rows) {
						storeShifted(atC0, 4u * vector0, cols - (4u * vector0), words[at], word0a);
						if (4u * vector0 + 2u < cols) { storeShifted(atC0 + 2u, 4u * vector0 + 2u, cols - (4u * vector0 + 2u), word0a, word0b); }
					}
				}
			}
		}
	}
}
