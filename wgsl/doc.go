// Package wgsl renders the WGSL compute shaders of a plan: one shader for each encoding.Kernel and set of
// adapter limits, fully unrolled, with literals for all sizes. It knows the tile table and the encoding of
// plans, but no GPU API.
//
// # The way of a tile
//
// A workgroup computes one TM x TN tile of C, in steps of TK along K. For each step, its threads load TK
// columns of op(A) and TK rows of op(B) into registers (load.go) and store them to workgroup memory with k
// as the slowest index. From there they multiply into accumulators in registers (compute.go), while the next
// step is loaded. With K groups, sets of threads do so for their own k, and their sums are added at the end
// (reduce.go). The tile then goes to C, or as a split-K partial to the workspace (store.go), where another
// kernel sums the partials (fixup.go).
//
// Workgroup memory holds vectors, which threads read whole. They also store them whole, because a store to a
// component may touch the others, unless the adapter is known to preserve these (Limits.Components). If C is
// fp32 and B is not narrow elements loaded four at a time, the numbers of a vector of B are as many columns
// apart as there are vectors. Neighbouring threads then load and store adjacent numbers (stage.Apart).
//
// dynamic.go has the loop over the items of a worker. geometry.go derives all numbers, render.go assembles
// the shader. ragged.go has the shaders that make items from sizes on the device.
//
// # Edges
//
// Loads are neither clamped nor masked: rows and columns beyond the matrix only feed outputs that are not
// stored, and WGSL makes reads beyond a binding harmless. A loop over exactly the remaining k multiplies the
// last, shorter K step. So no number is multiplied by a padding zero, and a NaN beside the matrices does not
// reach C.
//
// # Elements of 16 bits and of 8
//
// A word has two or four of them. Shaders convert them to fp32 on the way to workgroup memory, compute in
// fp32, and round C once; half.go reads and writes each type. A word of C may belong to two tiles, so C has
// atomics. words.go stores it in whole words and, where rows of a tile start or end at odd positions, in
// halves of words. For these, threads exchange the first and the last number of each vector.
//
// B may have 4 bits, with scales of groups (int4.go): a word has eight k of a column. Shaders convert it on
// the same way, with the scale and the zero point of its group.
//
// In tiles of few rows, B of any type goes directly to the registers of the threads that multiply it, if
// vector loads are possible (direct.go). Scales of groups then multiply the sums of a step, and not each
// weight.
//
// # Epilogues
//
// Epilogues work on the sums of a tile in registers, before they are stored (epilogue.go). Gathered rows of
// A are found once for each item. In a gated tile, a thread keeps the first product in registers while it
// computes the second.
//
// # Bindings
//
// All bindings are in group 0, with the numbers of internal/encoding. A shader declares only those that it
// uses, and lists them (Shader.Bindings):
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
// No shader has more than 8, because gated tiles are not split.
//
// Shaders of ragged plans declare two:
//
//	BindItems      array<u32>, read and write: all words of the plan
//	BindSizes      array<u32>, read: the sizes
//
// Sizes of bindings must be multiples of 16 bytes. Otherwise the last elements of a vector array are out of
// reach.
package wgsl
