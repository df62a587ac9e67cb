// Package wgsl renders the WGSL compute shaders of a plan: one shader for each
// encoding.Kernel and set of adapter limits, fully unrolled, with every size a
// literal. It knows the tile table and the encoding of plans, but no GPU API.
//
// # The way of a tile
//
// A workgroup computes one TM x TN tile of C. For each step of TK along K, its
// threads load the TK columns of op(A) and TK rows of op(B) that belong to the
// tile into registers (load.go), store them to workgroup memory with k as the
// slowest index, and multiply from there into accumulators held in registers
// (compute.go) while the loads of the next step are under way. With K groups,
// sets of threads do so for their own k's and are summed at the end
// (reduce.go). The tile then goes to C or, as one part of several, to the
// workspace (store.go), where another kernel sums the parts (fixup.go).
//
// Workgroup memory has vectors, which threads read whole. They store them whole too, since a store to a
// component may touch the others, except where an adapter is known to leave these alone (Limits.Components).
// Numbers of a vector of B are as many columns apart as there are vectors, where C is of fp32 and B is not of
// narrow elements loaded four at a time, so that threads side by side load and store what is adjacent
// (stage.Apart).
//
// turn.go has the loop over the items of a worker that has several. geometry.go derives all numbers,
// render.go puts the shader together. ragged.go has the shaders that make items from sizes on the device.
//
// # Edges
//
// Loads are neither clamped nor masked: rows and columns beyond the matrix feed
// only outputs that are not stored, and WGSL makes reads beyond a binding
// harmless. The last, shorter step along K is multiplied by a loop over exactly
// the k's that are left. So nothing is multiplied by a padding zero, and a NaN
// beside the matrices does not reach C.
//
// # Elements of 16 bits and of 8
//
// Two lie in a word, or four. Shaders widen them on their way to workgroup memory, compute as ever, and
// round C once; half.go has how each type is read and written. A word of C may belong to two
// tiles, therefore C is of atomics: words.go stores it in whole words and, where rows of a tile begin or
// end at odd positions, in halves of words, for which threads tell each other the first and the last
// number of each vector.
//
// B may have 4 bits, with scales of groups (int4.go): eight k's of a column lie in a word. Shaders widen it
// on the same way, by the scale and the zero point of its group.
//
// Of tiles of few rows B, of whatever type, goes to the registers of the threads that multiply it instead,
// where loads of 16 bytes can (direct.go). Scales of groups then multiply the sums of a step, and not each
// weight.
//
// # Epilogues
//
// What is done to C beside alpha and beta is between the sums of a tile, in registers, and their
// store (epilogue.go). Rows of A that are gathered are found once for each item. Of a gated
// tile a thread keeps the first product in registers, while it computes the second.
//
// # Bindings
//
// All are in group 0, by the numbers of internal/encoding. A shader declares only those that it uses, and
// lists them (Shader.Bindings):
//
//	BindItems      array<vec4<u32>>, read: the launch's items
//	BindA, BindB   array<f32>, read; array<vec4<f32>> with Vector for A transposed, and for B that goes to
//	               registers. Elements of 16 bits: array<u32>, and array<vec2<u32>> for B that is not
//	               K-major; of 8 bits: array<u32>. B of 4 bits: array<u32>, array<vec2<u32>> or
//	               array<vec4<u32>>, as many words as a thread loads at once
//	BindC          array<f32>, read and write; elements of 16 bits: array<atomic<u32>>
//	BindTable      array<u32>, read: the launch's table, with Loop
//	               array<atomic<u32>>, read and write, with Dynamic, in a buffer of no other binding
//	BindWorkspace  array<f32>, or of its vectors: written with Split, read by Fixup
//	BindB2         as BindB, read; with gated units
//	BindBias       array<f32>, read; elements of 16 bits: array<u32>
//	BindRows       array<u32>, read: indices of rows, weights, scales and words of groups
//
// No shader has more than 8, as gated tiles are not split.
//
// Those of ragged plans declare two:
//
//	BindItems      array<u32>, read and write: all words of the plan
//	BindSizes      array<u32>, read: the sizes
//
// Sizes of bindings must be multiples of 16 bytes, or the last elements of a
// vector array cannot be reached.
package wgsl
