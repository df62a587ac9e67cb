package element

import "math"

// int8Bits are the bits of the nearest whole number from -128 to 127; 0 for NaN.
func int8Bits(number float32) uint8 {
	const spaced = 3 << 22 // where numbers are 1 apart, and their last bits those of the distance
	if number != number {
		return 0
	}
	return uint8(math.Float32bits(min(max(number, -128), 127) + spaced))
}
