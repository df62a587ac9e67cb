package element

import (
	"fmt"
	"math"
)

// PackFP4 packs a B of MXFP4 or NVFP4 from what checkpoints hold for a layer with n outputs and k inputs:
//
//	pairs   [n, k/2]            elements of e2m1, two in a byte, the lower 4 bits first
//	scales  [n, k/32], [n, k/16]  of MXFP4 e8m0: 2^(byte - 127), 255 is NaN; of NVFP4 E4M3
//	scale                       of NVFP4, which multiplies all scales; MXFP4 has none
//
// They are *_blocks and *_scales of GPT-OSS, weight, weight_scale and weight_scale_2 of ModelOpt, and
// weight_packed, weight_scale and 1/weight_global_scale of compressed-tensors.
//
// words receives k*Int4LD(n)/8 words, as PackInt4 lays them out (Int4Panel). groups receives rows of
// Int4LD(n) words with the scales of each column, the first one in the lowest byte: of MXFP4 ceil(k/128)
// rows, of NVFP4 k/64, after one with the bits of scale. Missing columns are zero. k must be a multiple of
// Int4Panel; n and k may be 0. Other types, wrong sizes and short slices panic before anything is written.
func PackFP4(of Type, words, groups []uint32, pairs, scales []uint8, scale float32, n, k int) {
	words, groups, pairs, scales = lensFP4(of, words, groups, pairs, scales, n, k)
	clear(words)
	eachWord(n, k, func(word, column, first int) {
		for i, x := range pairs[(column*k+first)/2:][:4] {
			words[word] |= uint32(x&15)<<places[2*i] | uint32(x>>4)<<places[2*i+1]
		}
	})
	clear(groups)
	first := 0
	if of == NVFP4 && k > 0 {
		for column := range n {
			groups[column] = math.Float32bits(scale)
		}
		first = Int4LD(n)
	}
	eachScale(of, n, k, func(word, shift, from int) {
		groups[first+word] |= uint32(scales[from]) << shift
	})
}

// UnpackFP4 inverts PackFP4. scale is 1 if there are no elements, or the type is MXFP4.
func UnpackFP4(of Type, pairs, scales []uint8, words, groups []uint32, n, k int) (scale float32) {
	words, groups, pairs, scales = lensFP4(of, words, groups, pairs, scales, n, k)
	eachWord(n, k, func(word, column, first int) {
		for i := range 4 {
			x := words[word]>>places[2*i]&15 | words[word]>>places[2*i+1]&15<<4
			pairs[(column*k+first)/2+i] = uint8(x)
		}
	})
	scale, first := 1, 0
	if of == NVFP4 && n*k > 0 {
		scale, first = math.Float32frombits(groups[0]), Int4LD(n)
	}
	eachScale(of, n, k, func(word, shift, from int) {
		scales[from] = uint8(groups[first+word] >> shift)
	})
	return scale
}

// lensFP4 checks the arguments, and returns slices of the lengths that are used.
func lensFP4(of Type, words, groups []uint32, pairs, scales []uint8, n, k int) (w, g []uint32, p,
	s []uint8) {
	each := shareFP4(of)
	if each == 0 {
		panic(fmt.Sprintf("element: %s is not %s or %s", of, MXFP4, NVFP4))
	}
	w = words[:int4Words(n, k):len(words)]
	rows := (k + 4*each - 1) / (4 * each)
	if of == NVFP4 && k > 0 {
		rows++
	}
	return w, groups[: rows*Int4LD(n) : len(groups)], pairs[: n*k/2 : len(pairs)],
		scales[: n*k/each : len(scales)]
}

// eachScale calls a function for each scale: its word in the rows of a matrix, its place there, and its place
// in [n, k/each].
func eachScale(of Type, n, k int, do func(word, shift, from int)) {
	each := shareFP4(of)
	for column := range n {
		for i := range k / each {
			do(i/4*Int4LD(n)+column, 8*(i%4), column*(k/each)+i)
		}
	}
}

// shareFP4 returns how many k of a column share a scale; 0: the type is another.
func shareFP4(of Type) int { return map[Type]int{MXFP4: 32, NVFP4: 16}[of] }
