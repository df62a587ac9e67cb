package gcn

import "math"

func float(bits uint32) float32 { return math.Float32frombits(bits) }

// fma32 returns a*b+c, rounded once. It uses float64, which holds the product exactly. Rounding twice is
// wrong only if float64 rounds the sum to the middle of two float32: then the exact sum decides.
func fma32(a, b, c float32) float32 {
	product := float64(a) * float64(b)
	sum := product + float64(c)
	bits := math.Float64bits(sum)
	// The 29 bits that float32 lacks; below 2^-126 it lacks more.
	if bits&(1<<28-1) != 0 && math.Abs(sum) >= 0x1p-126 || math.IsInf(sum, 0) || math.IsNaN(sum) {
		return float32(sum)
	}
	// Knuth's TwoSum: the error of the sum.
	part := sum - product
	if lost := (product - (sum - part)) + (float64(c) - part); lost != 0 && bits&1 == 0 {
		// Round to odd. A second rounding to fewer bits is then correct (Boldo and Melquiond, "Emulation of
		// FMA and correctly rounded sums").
		if (lost > 0) == (sum > 0) {
			bits++
		} else {
			bits--
		}
		sum = math.Float64frombits(bits)
	}
	return float32(sum)
}

// roundTo returns the next float32, up or down.
func roundTo(y float64, up bool) float32 {
	x := float32(y)
	switch {
	case up && float64(x) < y:
		return math.Nextafter32(x, float32(math.Inf(1)))
	case !up && float64(x) > y:
		return math.Nextafter32(x, float32(math.Inf(-1)))
	}
	return x
}

// flush replaces a subnormal number by 0.
func flush(bits uint32) uint32 {
	if bits&0x7f800000 == 0 {
		bits &= 1 << 31
	}
	return bits
}

// toUint is v_cvt_u32_f32: towards zero, and saturating.
func toUint(x float32) uint32 {
	switch {
	case !(x > 0): // also NaN
		return 0
	case x >= 1<<32:
		return math.MaxUint32
	}
	return uint32(x)
}
