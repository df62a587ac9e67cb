package element

import "math"

// SumColumns computes the sums of the columns of op(B), which is rows x len(sums) elements of Int8.
// planner.Epilogue.ZeroA needs them: the sum of (a-zero)*b over k is the sum of a*b less zero times the
// column's sum. Rows of b as stored are ld elements apart. They are the rows of op(B), or its columns if
// transposed. Sums of up to planner.MaxWholeK rows are exact in fp32.
func SumColumns(sums []int32, b []int8, rows, ld int, transposed bool) {
	clear(sums)
	if len(sums) == 0 {
		return // without columns, b may be empty for any number of rows
	}
	if !transposed {
		for k := range rows {
			for j, x := range b[k*ld:][:len(sums)] {
				sums[j] += int32(x)
			}
		}
		return
	}
	for j := range sums {
		for k := range rows {
			sums[j] += int32(b[j*ld+k])
		}
	}
}

// int8Bits returns the bits of the nearest integer from -128 to 127; 0 for NaN.
func int8Bits(number float32) uint8 {
	const spaced = 3 << 22 // numbers here are 1 apart, so their last bits count integers
	if number != number {
		return 0
	}
	return uint8(math.Float32bits(min(max(number, -128), 127) + spaced))
}
