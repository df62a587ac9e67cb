package element

import "math"

// The conversions of each type are separate functions. The compiler inlines the short ones in loops.

func bf16(bits uint16) float32 { return math.Float32frombits(uint32(bits) << 16) }

func bf16Bits(number float32) uint16 {
	x := math.Float32bits(number)
	if x&^(1<<31) > 0x7f800000 {
		return uint16(x>>16) | 0x40 // make NaN quiet
	}
	return uint16((x + 0x7fff + x>>16&1) >> 16)
}

func f16(bits uint16) float32 {
	const (
		exponent = 0x1f << 23             // exponent bits of F16, at their place in F32
		rebias   = (127 - 15) << 23       // of exponents
		least    = 1<<23 | rebias         // 2^-14, the least normal number
		infinite = (255 - 31 - 112) << 23 // added after rebias
		sign     = 1 << 31
	)
	x := uint32(bits&0x7fff) << 13
	switch x & exponent {
	case exponent:
		x += rebias + infinite
	case 0: // a fraction of 2^-14; 2^-14 is subtracted
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
		half     = 126 << 23            // 0.5, whose neighbours are 2^-24 apart
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
