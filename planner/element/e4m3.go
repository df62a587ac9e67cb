package element

import "math"

const (
	nanE4M3  = 0x7f // with either sign
	mostE4M3 = 0x7e // 448
)

// numbersE4M3 are the values of all bit patterns.
var numbersE4M3 = func() (numbers [256]float32) {
	for bits := range numbers {
		numbers[bits] = e4m3(uint8(bits))
	}
	return numbers
}()

// e4m3 returns the value of a bit pattern.
func e4m3(bits uint8) float32 {
	const (
		rebias = (127 - 7) << 23 // of exponents
		least  = 1<<23 | rebias  // 2^-6, the least normal number
		nan    = 0x7fc00000
	)
	x := uint32(bits&0x7f) << 20
	switch {
	case bits&0x7f == nanE4M3:
		x = nan
	case x < 1<<23: // a fraction of 2^-6; 2^-6 is subtracted
		x = math.Float32bits(math.Float32frombits(x+least) - math.Float32frombits(least))
	default:
		x += rebias
	}
	return math.Float32frombits(x | uint32(bits>>7)<<31)
}

func e4m3Bits(number float32) uint8 {
	const (
		infinite = 0x7f800000
		normal   = (127 - 6) << 23  // 2^-6
		spaced   = (127 + 14) << 23 // 2^14; above it numbers are 2^-9 apart
	)
	x := math.Float32bits(number)
	size := x &^ (1 << 31)
	sign := uint8(x>>24) & 0x80
	switch {
	case size > infinite:
		return sign | nanE4M3
	case size < normal:
		return sign | uint8(math.Float32bits(math.Float32frombits(size)+math.Float32frombits(spaced))-spaced)
	}
	return sign | uint8(min((size-(127-7)<<23+0x7ffff+size>>20&1)>>20, mostE4M3))
}
