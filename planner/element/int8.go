package element

import "math"

// SumColumns makes the sums of the columns of op(B), rows x len(sums), of elements of Int8, which zero points
// of A multiply (planner.Epilogue.ZeroA): the sum of (a-zero)*b over k is that of a*b less zero times the
// column's. Rows of b as stored are ld elements apart; they are those of op(B), or transposed its columns.
// Sums of up to planner.MaxWholeK rows are numbers of fp32.
func SumColumns(sums []int32, b []int8, rows, ld int, transposed bool) {
	clear(sums)
	if len(sums) == 0 {
		return // without columns b may be empty, however many rows there are
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

// int8Bits are the bits of the nearest whole number from -128 to 127; 0 for NaN.
func int8Bits(number float32) uint8 {
	const spaced = 3 << 22 // where numbers are 1 apart, and their last bits those of the distance
	if number != number {
		return 0
	}
	return uint8(math.Float32bits(min(max(number, -128), 127) + spaced))
}
