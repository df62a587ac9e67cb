fn element(at: u32) -> f32 {
#if f32
	return bitcast<f32>(A[at]);
#end
#if halves
	return numbers(A[at / 2u] >> (16u * (at % 2u))).x;
#end
}

// rowsOf is how many rows there are, of n.
fn rowsOf(n: u32) -> u32 {
	let experts = words[${experts}u];
	if (experts == 0u) {
		return n;
	}
	return min(sizes[experts - 1u], n);
}

// exact is v times half of erfc(-v/sqrt(2)), and its derivative.
fn exact(v: f32) -> vec2<f32> {
	let size = min(abs(v), ${erf.most});
	let x = 1.0 / (1.0 + ${erf.p} * size);
	let bell = exp(-0.5 * size * size);
	let tail = 0.5 * x * (${erf.0} + x * (${erf.1} + x * (${erf.2} + x * (${erf.3} + x * ${erf.4})))) * bell;
	let phi = select(1.0 - tail, tail, v < 0.0);
	return vec2<f32>(v * phi, phi + v * (0.39894228 * bell));
}

// activation is that of gate, and its derivative. NaN and infinities are found by their bits.
fn activation(v: f32) -> vec2<f32> {
	let bits = bitcast<u32>(v);
	let negative = bits - 0x80000000u <= 0x7f800000u;
	let none = bits - ${none}u <= ${none.to}u;
	let limit = words[${limit}u];
	var x = v;
	var by = 1.0;
	var z = v;
	var beyond = false;
	switch (words[${flags}u] & ${kind}u) {
		case 0u: {
			return vec2<f32>(v, 1.0);
		}
		case 1u: {
			return select(vec2<f32>(v, select(1.0, 0.0, bits == 0u)), vec2<f32>(0.0), negative);
		}
		case 4u: {
			let all = bits >= ${erf.bits}u && bits <= 0x7f800000u;
			let beneath = bits - ${erf.below}u <= 0xff800000u - ${erf.below}u;
			return select(select(exact(v), vec2<f32>(v, 1.0), all), vec2<f32>(0.0), beneath);
		}
		case 5u: {
			return select(vec2<f32>(v * v, 2.0 * v), vec2<f32>(0.0), negative);
		}
		case 6u: {
			beyond = bits > limit && bits <= 0x7f800000u;
			x = select(v, bitcast<f32>(limit), beyond);
			by = bitcast<f32>(words[${alpha}u]);
			z = by * x;
		}
		case 2u: {
			z = v * (${linear} + ${cubic} * v * v);
			by = ${linear} + 3.0 * ${cubic} * v * v;
		}
		default: {}
	}
	let zBits = bitcast<u32>(z);
	let e = exp(-z);
	let s = 1.0 / (1.0 + e);
	let value = x / (1.0 + e);
	let slope = s + value * by * (e * s);
	let all = zBits >= ${all}u && zBits <= 0x7f800000u;
	let both = vec2<f32>(value, select(select(slope, 1.0, all), 0.0, beyond));
	return select(both, vec2<f32>(0.0), zBits - ${none}u <= ${none.to}u);
}

// factor is what multiplies it, of up, and its derivative.
fn factor(v: f32) -> vec2<f32> {
	if ((words[${flags}u] & ${kind}u) != 6u) {
		return vec2<f32>(v, 1.0);
	}
	let limit = words[${limit}u];
	let size = bitcast<u32>(v) & 0x7fffffffu;
	if (size > limit && size <= 0x7f800000u) {
		return vec2<f32>(bitcast<f32>(limit | (bitcast<u32>(v) & 0x80000000u)) + 1.0, 0.0);
	}
	return vec2<f32>(v + 1.0, 1.0);
}

// pre has gate and up of an element; without up it is 1.
fn pre(row: u32, col: u32) -> vec2<f32> {
	let hidden = words[${hidden}u];
	let flags = words[${flags}u];
	if ((flags & ${gated}u) == 0u) {
		return vec2<f32>(element(row * hidden + col), 1.0);
	}
	if ((flags & ${turns}u) == 0u) {
		return vec2<f32>(element(2u * row * hidden + col), element((2u * row + 1u) * hidden + col));
	}
	return vec2<f32>(element(2u * (row * hidden + col)), element(2u * (row * hidden + col) + 1u));
}

fn h(row: u32, col: u32) -> f32 {
	let both = pre(row, col);
	return activation(both.x).x * factor(both.y).x;
}

// put adds an element, given by the bits of a float32, to a word of C.
fn put(at: u32, bits: u32, all: ptr<function, u32>, mask: ptr<function, u32>) {
#if f32
	*all = bits;
	*mask = 0xffffffffu;
#end
#if halves
	let shift = 16u * (at % 2u);
	*all = *all | ((pair(tame(bits), 0u) & 0xffffu) << shift);
	*mask = *mask | (0xffffu << shift);
#end
}

// write writes the part of a word of C that the mask has. Others write the rest.
fn write(w: u32, all: u32, mask: u32) {
	if (mask == 0xffffffffu) {
		atomicStore(&C[w], all);
	} else {
		atomicAnd(&C[w], ~mask);
		atomicOr(&C[w], all);
	}
}

