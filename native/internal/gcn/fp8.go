package gcn

import "math"

// 8-bit elements of gfx942's matrix cores: e4m3 "FNUZ" (LLVM, APFloat, Float8E4M3FNUZ). Its numbers are half
// of those of OCP's e4m3 with the same bits. There is one zero, and one NaN, 0x80.
//
// AMD does not document how v_mfma_f32_..._fp8_fp8 sums. These rules were measured on an MI300X, bit by bit
// (Xie et al., "Bit-Accurate Modeling of GPU Matrix Multiply-Accumulate Units", arXiv:2511.10909v2, and its
// code, microsoft/MMA-Sim: GTR-FDPA). Products of 16 k are exact. Those at even k, and those at odd k, are
// each cut towards zero to multiples of 2^-24 of the largest power of two among them. Both sums, and then
// the number that they are added to, are cut downwards in the same way, but sums to 2^-31 if that number is
// larger. The result is rounded to the nearest fp32 and added to by the next 16 k.
const (
	depthFP8 = 16   // k that are summed at once
	cutFP8   = -24  // powers of two from the largest product to what is kept
	keptFP8  = -31  // the same for products beside a larger number
	leastFP8 = -7   // exponent of subnormal numbers
	noneFP8  = -126 // exponent of 0: that of the least normal fp32
)

// numberFP8 is the value of bits: 2^exponent times a number below 2, NaN, or 0, which has no exponent.
type numberFP8 struct {
	value    float64
	exponent int
}

var numbersFP8 = func() (numbers [256]numberFP8) {
	for bits := range numbers {
		exponent, fraction := bits>>3&15, bits&7
		if exponent > 0 {
			fraction += 8
		}
		e := max(exponent, 1) + leastFP8 - 1
		value := math.Ldexp(float64(fraction), e-3)
		switch {
		case bits == 0x80:
			value = math.NaN()
		case bits > 0x80:
			value = -value
		}
		numbers[bits] = numberFP8{value, e}
	}
	return numbers
}()

// sumFP8 adds products of bytes to a number.
func sumFP8(a, b []uint8, sum float32) float32 {
	for ; len(a) > 0; a, b = a[depthFP8:], b[depthFP8:] {
		even, evenAt := productsFP8(a[:depthFP8], b, 0)
		odd, oddAt := productsFP8(a[:depthFP8], b, 1)
		at := max(evenAt, oddAt)
		products := floorTo(even, at+cutFP8) + floorTo(odd, at+cutFP8)
		added, addedAt := float64(sum), noneFP8
		if _, e := math.Frexp(added); added != 0 {
			addedAt = max(addedAt, e-1)
		}
		if math.IsNaN(products) || math.IsNaN(added) || math.IsInf(added, 0) {
			sum += float32(products)
			continue
		}
		at = max(at, addedAt)
		products = floorTo(products, at+keptFP8)
		if addedAt < at+cutFP8-1 { // a small negative number leaves not even -2^-24
			added = 0
		}
		sum = float32(products + floorTo(added, at+cutFP8))
	}
	return sum
}

// productsFP8 returns the sum of every other product, and the largest power of two among them.
func productsFP8(a, b []uint8, first int) (sum float64, at int) {
	at = noneFP8
	least := 0
	for k := first; k < len(a); k += 2 {
		x, y := &numbersFP8[a[k]], &numbersFP8[b[k]]
		product := x.value * y.value
		if product != 0 { // also NaN
			at, least = max(at, x.exponent+y.exponent), min(least, x.exponent+y.exponent)
		}
		sum += product
	}
	if least-6 >= at+cutFP8 || at == noneFP8 { // a product has 6 bits after the point
		return sum, at
	}
	sum = 0
	for k := first; k < len(a); k += 2 {
		unit := math.Ldexp(1, at+cutFP8)
		sum += math.Trunc(numbersFP8[a[k]].value*numbersFP8[b[k]].value/unit) * unit
	}
	return sum, at
}

// floorTo cuts x downwards to a multiple of a power of two.
func floorTo(x float64, power int) float64 {
	unit := math.Ldexp(1, power)
	return math.Floor(x/unit) * unit
}
