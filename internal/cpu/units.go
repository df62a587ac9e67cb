package cpu

import "unsafe"

// units multiply words of 32 bits, each with several consecutive k of one type. Vector units take a word of
// X, a row operand, and a row of 16 or 32 words of Y; those of AMX take 16 rows of 16 words and 16 rows of 16
// words.
type units struct {
	each    int        // k of a word
	kernels [][]kernel // of vectors, by rows and vectors; they store sums as they are. nil: AMX
	whole   bool       // sums are int32

	tiles [][]func(*tiles) // of AMX, by 16s of rows and columns
	pack  func(dst, src unsafe.Pointer, rowSrc, rows, steps int)

	interleave func(dst, src unsafe.Pointer, next, rowSrc, cols, depth int)
	// sumRows adds the elements of rows to dst. Kernels that need it take elements of Y as if they were
	// larger by 128.
	sumRows func(dst *int32, src unsafe.Pointer, rowSrc, rows, words int)
}

// tiles is the work of a kernel of AMX: up to 32 rows of X by up to 32 columns of Y. The assembly reads its
// fields by their offsets.
type tiles struct {
	x      unsafe.Pointer
	rowX   int // bytes
	y      unsafe.Pointer
	sum    unsafe.Pointer
	steps  int // of 16 words
	of     *tileConfig
	more   uint64 // not 0: sum has earlier sums
	strips int    // of Y
	stepX  int    // bytes from 16 words of a row of X to the next
	rowSum int    // bytes
}

// tileConfig is what LDTILECFG reads: the palette, and bytes of rows and numbers of rows of 8 tiles.
type tileConfig struct {
	palette, _ uint8
	_          [14]uint8
	bytes      [16]uint16
	rows       [16]uint8
}

// tileConfigs are by rows of X. Sums are tiles 0 to 3, X is 4 and 5, Y is 6 and 7.
var tileConfigs = func() (all [33]tileConfig) {
	for n := range all {
		c := &all[n]
		c.palette = 1
		first, second := uint8(min(n, 16)), uint8(max(n-16, 0))
		c.rows = [16]uint8{first, first, second, second, first, second, 16, 16}
		for i := range 8 {
			if c.rows[i] > 0 {
				c.bytes[i] = 64
			}
		}
	}
	return all
}()
