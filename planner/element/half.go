package element

import "math"

// The conversions of each type are functions of their own, the short ones of which loops have without a call.

func bf16(bits uint16) float32 { return math.Float32frombits(uint32(bits) << 16) }

func bf16Bits(number float32) uint16 {
	x := math.Float32bits(number)
	if x&^(1<<31) > 0x7f800000 {
		return uint16(x>>16) | 0x40 // quiet
	}
	return uint16((x + 0x7fff + x>>16&1) >> 16)
}

func f16(bits uint16) float32 {
	const (
		exponent = 0x1f << 23             // of F16, where that of F32 begins
		rebias   = (127 - 15) << 23       // of exponents
		least    = 1<<23 | rebias         // 2^-14, the least normal number
		infinite = (255 - 31 - 112) << 23 // from what rebias makes of it
		sign     = 1 << 31
	)
	x := uint32(bits&0x7fff) << 13
	switch x & exponent {
	case exponent:
		x += rebias + infinite
	case 0: // as fraction of 2^-14, from which 2^-14 is taken
		x = math.Float32bits(math.Float32frombits(x+least) - math.Float32frombits(least))
	default:
		x += rebias
	}
	return math.Float32frombits(x | uint32(bits)<<16&sign)
}

func f16Bits(number float32) uint16 {
	const (
		infinite = 0x7f800000
		overflow = (127+16)<<23 - 1<<12 // 65520
		normal   = (127 - 14) << 23     // 2^-14
		half     = 126 << 23            // 0.5, in which numbers are 2^-24 apart
	)
	x := math.Float32bits(number)
	size := x &^ (1 << 31)
	sign := uint16(x>>16) & 0x8000
	switch {
	case size > infinite:
		return sign | 0x7e00 | uint16(size>>13)&0x3ff
	case size >= overflow:
		return sign | 0x7c00
	case size < normal:
		return sign | uint16(math.Float32bits(math.Float32frombits(size)+0.5)-half)
	}
	return sign | uint16((size-(127-15)<<23+0xfff+size>>13&1)>>13)
}
