// A unit is a row, or with scales of blocks each block of a row.
var<workgroup> largest: atomic<u32>;

#if quantized
// inverseOf is most / amax, rounded to the nearest number: WGSL promises less of a division.
fn inverseOf(amax: u32) -> f32 {
	let m = (amax & 0x7fffffu) | 0x800000u;
	var rest = ${most}u;
	var q = 0u;
	for (var i = 0; i < 42; i = i + 1) {
		rest = rest << 1u;
		q = q << 1u;
		if (rest >= m) {
			rest = rest - m;
			q = q | 1u;
		}
	}
	let top = firstLeadingBit(q);
	let low = q & ((1u << (top - 23u)) - 1u);
	let half = 1u << (top - 24u);
	let whole = q >> (top - 23u);
	let up = low > half || (low == half && (rest != 0u || (whole & 1u) == 1u));
	return bitcast<f32>(((235u + top - (amax >> 23u)) << 23u) + whole - 0x800000u + select(0u, 1u, up));
}

// byte is the number of 8 bits that h becomes.
fn byte(h: f32, inverse: f32) -> u32 {
	let p = h * inverse;
#end
#if e4m3
	let size = bitcast<u32>(p) & 0x7fffffffu;
	let rounded = min((size - (120u << 23u) + 0x7ffffu + ((size >> 20u) & 1u)) >> 20u, 0x7eu);
	let small = u32(round(512.0 * bitcast<f32>(min(size, 121u << 23u))));
	return ((bitcast<u32>(h) >> 24u) & 0x80u) | select(rounded, small, size < (121u << 23u));
#end
#if int8
	return bitcast<u32>(i32(round(p))) & 0xffu;
#end
#if quantized
}
#end

@compute @workgroup_size(${threads})
fn main(@builtin(workgroup_id) worker: vec3<u32>, @builtin(local_invocation_index) t: u32) {
	let hidden = words[${hidden}u];
	let n = words[${tokens}u] * words[${topK}u];
	let rows = rowsOf(n);
	var each = hidden;
	if ((words[${flags}u] & ${blocks}u) != 0u) {
		each = 128u;
	}
	let units = (hidden + each - 1u) / max(each, 1u);
	for (var unit = worker.x; unit < n * units; unit = unit + words[${groups}u]) {
		let row = unit / units;
		let first = unit % units * each;
		let end = select(first, min(first + each, hidden), row < rows);
#if quantized
		workgroupBarrier();
		if (t == 0u) {
			atomicStore(&largest, 0u);
		}
		workgroupBarrier();
		var most = 0u;
		for (var col = first + t; col < end; col = col + ${threads}u) {
			most = max(most, bitcast<u32>(h(row, col)) & 0x7fffffffu);
		}
		atomicMax(&largest, most);
		workgroupBarrier();
		let amax = max(atomicLoad(&largest), ${least}u);
		let finite = amax < 0x7f800000u;
		let inverse = inverseOf(amax);
		if (t == 0u && row < rows) {
			let scale = bitcast<u32>(bitcast<f32>(amax) * bitcast<f32>(${part}u));
			sizes[words[${scales}u] + unit] = select(0x7fc00000u, scale, finite);
		}
#end
		let begin = row * hidden + first;
		let last = row * hidden + end;
		for (var w = begin / ${per}u + t; w * ${per}u < last && end > first; w = w + ${threads}u) {
			var all = 0u;
			var mask = 0u;
#if quantized
			for (var i = max(4u * w, begin); i < min(4u * w + 4u, last); i = i + 1u) {
				mask = mask | (0xffu << (8u * (i % 4u)));
				if (finite) {
					all = all | (byte(h(row, i - row * hidden), inverse) << (8u * (i % 4u)));
				}
			}
#end
#if plain
			for (var i = max(${per}u * w, begin); i < min(${per}u * w + ${per}u, last); i = i + 1u) {
				put(i, bitcast<u32>(h(row, i - row * hidden)), &all, &mask);
			}
#end
			write(w, all, mask);
		}
	}
}
