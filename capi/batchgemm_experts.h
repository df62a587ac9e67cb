/* batchgemm_experts.h: a layer of experts. batchgemm.h includes it.
 *
 * A router chooses top_k of the experts for each token. A routing turns these choices, on the device, into
 * what ragged programs with BG_ENDS_OF_ROWS take: where the rows of each expert end, and lists of the rows.
 * So the products gather and scatter rows, and nobody waits for the router. A combine sums the rows of each
 * token. */
#ifndef BATCHGEMM_EXPERTS_H
#define BATCHGEMM_EXPERTS_H

#include "batchgemm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The choices of a router: an array index [tokens, top_k] of int32_t, or with BG_INDEX_64 of int64_t. A
 * choice that is negative, or not below experts, does not count. */
typedef struct bg_choices {
	uint32_t struct_size;           /* sizeof(bg_choices) */
	uint32_t flags;                 /* BG_INDEX_64 */
	int64_t tokens, top_k, experts; /* tokens at most; top_k from 1 to 16, experts from 1 to 4096 */
} bg_choices;

#define BG_INDEX_64 1u

/* bg_prepare_routing makes a program that routes. type is that of the weights: "f32" (NULL), "bf16", "f16".
 * bg_run_operands and bg_run_at run it with
 *     sizes  index, as 32-bit words
 *     a      the router's weights [tokens, top_k]
 *     c      32-bit words. With n = tokens*top_k, and first = experts rounded up to a multiple of 64:
 *                [0, experts)            int32_t: where the rows of each expert end
 *                [first, first + n)      the token t of each row: rows_a of a ragged program
 *                [first + n, ... + n)    its choice, t*top_k + j: rows_c
 *                [first + 2*n, ... + n)  its weight, a float: weights
 * So c is sizes and rows of ragged programs. Each choice that counts is a row. Rows of an expert are in the
 * order of their choices. Other words of c stay as they are. There is no b. The extent of bg_run_at is how
 * many tokens there are in the run, 0: all; c is laid out for all. */
bg_status bg_prepare_routing(bg_device device, const bg_choices *choices, const char *type,
	bg_program *program);

/* bg_prepare_combine makes a program that sums rows. type is that of rows and sums: "f32" (NULL), "bf16",
 * "f16". bg_run_operands and bg_run_at run it with
 *     sizes  index, as 32-bit words
 *     a      rows [tokens*top_k, hidden], of which t*top_k + j is of choice j of token t
 *     c      sums [tokens, hidden]
 * A sum is of float, from 0 on, in the order of choices, and is rounded once. Rows whose choice does not
 * count are not read. There is no b. The extent of bg_run_at is as above. */
bg_status bg_prepare_combine(bg_device device, const bg_choices *choices, int64_t hidden, const char *type,
	bg_program *program);

/* What is between the two products of a layer: h = act(gate) .* up, or without BG_GATED h = act(pre). */
typedef struct bg_gate {
	uint32_t struct_size;   /* sizeof(bg_gate) */
	uint32_t flags;         /* BG_GATED, BG_INTERLEAVED, BG_ALL_ROWS */
	int64_t intermediate;   /* columns of h, from 0 to 2^24 - 1 */
	/* "" (NULL), "relu", "gelu" or "silu", as of epilogues, "gelu_exact" (by erf), "relu2" (its square), or
	 * with BG_GATED "swiglu_oai": with g = min(gate, limit) and u = max(-limit, min(up, limit))
	 * h = g * sigmoid(alpha*g) * (u + 1). alpha and limit of 0 are 1.702 and 7. */
	const char *activation;
	float alpha, limit;
	/* What follows is for a quantised h; NULL, NULL, 0 without. type_c is "e4m3" or "int8". scale is "row",
	 * or of e4m3 "block", each 128 columns of a row. */
	const char *type_c, *scale;
	int64_t scales;         /* the word of sizes at which its scales begin */
} bg_gate;

#define BG_GATED 1u
#define BG_ALL_ROWS 16u

/* bg_prepare_gate makes a program for h. type is "f32" (NULL), "bf16" or "f16". With n = tokens*top_k,
 * i = intermediate, and w = 2*i with BG_GATED, else i, bg_run_operands and bg_run_at run it with
 *     sizes  c of a routing, of which the ends are read
 *     a      pre [n, w]: columns of gate before those of up, or with BG_INTERLEAVED gate at even and up at
 *            odd columns
 *     c      h [n, i]
 * h is computed in float and rounded once. The last of the ends says how many rows there are. Later rows are
 * neither read nor written. With BG_ALL_ROWS all n count, and no end is read. The extent of bg_run_at is as
 * above. BG_INDEX_64 does not matter.
 *
 * A quantised h is bytes, and a row or block of it has a scale, a float, at sizes[scales]: [n], or
 * [n, ceil(i/128)]. With most as 448 (e4m3) or 127, and amax as the largest |h| of the row or block, but at
 * least 2^-64, the scale is amax*(1/most), and c is h*(most/amax), to the nearest number, ties to even. If an
 * h is NaN or infinite, the scale is NaN and c is 0. Without activation and BG_GATED that quantises pre.
 * scales is from the words of a routing on, or with BG_ALL_ROWS from 0 on. */
bg_status bg_prepare_gate(bg_device device, const bg_choices *choices, const bg_gate *gate, const char *type,
	bg_program *program);

/* bg_prepare_gate_backward makes a program for the gradients of pre and of the routing weights. A row r has
 * the weight w and the choice s of the routing's lists, and dh is the gradient of the second product's
 * operand, without the weight. With up16 as the next multiple of 16, and e bytes of an element,
 *     sizes  c of a routing
 *     rows   index of that routing, as 32-bit words
 *     a, b   pre [n, w], dh [n, i]
 *     c      32-bit words:
 *                dpre [n, w]   of type, from the beginning: w*dh times the derivatives of h, as pre lies
 *                hw [n, i]     of type, from byte up16(n*w*e) on: w*h
 *                dweights [n]  of float, from byte up16(n*w*e) + up16(n*i*e) on: of choice s the sum of h*dh;
 *                              0 for choices that do not count
 * All is computed in float; dpre and hw are rounded once. The order of sums is fixed. dpre and hw of rows
 * after the last end stay as they are, and so does dweights of tokens beyond the extent. */
bg_status bg_prepare_gate_backward(bg_device device, const bg_choices *choices, const bg_gate *gate,
	const char *type, bg_program *program);

/* bg_run_all_at is bg_run_at for each of count programs of one device, in order, as one submission. It checks
 * all of them before it queues the first. addresses has a struct for each, all of one struct_size. If the
 * driver fails, some of them may have been queued. */
bg_status bg_run_all_at(uintptr_t stream, const bg_program *programs, const bg_addresses *addresses,
	size_t count);

/* A layer of experts whose router has chosen. For each token t, and each of its choices j that counts, of
 * expert e = index[t, j] and with weight w = weights[t, j]:
 *     g = x[t] * gate[e] + bias         u = x[t] * up[e] + bias
 *     y[t] += w * (act(g) .* u * down[e] + bias)          or, if it is not gated, act(g) alone
 * Sums are of float. act(g) .* u is rounded to the type of elements, and so is what is added to y. That is
 * added in float, in the order of choices, and rounded once. */
typedef struct bg_experts {
	uint32_t struct_size;           /* sizeof(bg_experts) */
	uint32_t flags;                 /* BG_INDEX_64, BG_TRANS_B, and BG_INTERLEAVED or BG_APART */
	int64_t tokens, top_k, experts; /* as of bg_choices */
	int64_t hidden, intermediate;   /* sizes of x[t], and of g */
	float alpha, limit;             /* of "swiglu_oai", as of bg_gate */
} bg_experts;

/* Weights of the layer. With BG_TRANS_B (2) they are stored as Linear of torch has them: gate and up
 * [experts, intermediate, hidden], down [experts, hidden, intermediate]. Else rows and columns change places.
 * Gate and up are joined: gate_up has 2*intermediate rows, or columns, those of gate first. With
 * BG_INTERLEAVED rows, or columns, of gate and up take turns, and so do their biases; without scales, and
 * with an activation of epilogues, that needs BG_TRANS_B and no bias. With BG_APART
 * up has an array of its own. Without "gated" there is no up, and gate_up has intermediate rows, or
 * columns. */
#define BG_INTERLEAVED 4u
#define BG_APART 8u

/* bg_prepare_experts makes a layer ready to run, by bg_run_experts and bg_run_experts_at alone: routing, two
 * ragged programs, a sum, and steps between them. weights is the type of the router's weights, "f32" (NULL),
 * "bf16" or "f16". options are those of bg_plan_new: "type_a" of x, y and all weights of the layer ("f32",
 * "bf16", "f16"), "compute", "tile", and in "epilogue" "activation" (one of bg_gate), "gated" and "bias" (of
 * gate and up, and of down). The layer owns memory for tokens*top_k*(intermediate + hidden) elements and 12
 * bytes for each choice, and with activations of gates alone, or scales, up to twice as much.
 *
 * Weights may have 8 or 4 bits, and scales. Then in "epilogue"
 *     "scale_a" and "scale_b" are "row"      "type_a" is "e4m3" or "int8"; a scale of each row of weights
 *     "scale_a" and "scale_b" are "block"    "type_a" is "e4m3"; [ceil(rows/128), ceil(columns/128)] scales
 *     "scale_b" is "group-64" or "group-128" "type_b" is "int4", and "type_a" "bf16" or "f16", of x and y
 *     "scale_b" is "group-32" or "group-16"  "type_b" is "mxfp4" or "nvfp4", and "type_a" as of "int4"
 * where rows are those of [intermediate, hidden], or of gate and up [2*intermediate, hidden]. With "scale_a"
 * "type_c" is the type of x, y and biases, and runs quantise x and what is between the products, by the rule
 * of bg_prepare_gate. Weights of 4 bits are without BG_TRANS_B: panels and words of groups as bg_pack_int4
 * and bg_group_words make them for each expert, or bg_pack_fp4. */
bg_status bg_prepare_experts(bg_device device, const bg_experts *experts, const char *weights,
	const char *options, bg_program *program);

/* bg_experts_scales tells how a layer's operand scales is laid out, in 32-bit words: words in all. Those
 * before gate_up are memory of the run. From there on are the scales of gate and up of each expert, with
 * BG_APART those of all gates first. From down on are the scales of down. 0, 0, 0 without scales. */
bg_status bg_experts_scales(bg_program program, int64_t *gate_up, int64_t *down, int64_t *words);

/* bg_run_experts queues one execution, and returns without waiting. x and y, which may be x, are [tokens,
 * hidden]. index, of 32-bit words, is -1 for tokens that are not there. bias_gate_up is [experts,
 * 2*intermediate], or [experts, intermediate]; bias_down is [experts, hidden]. What the layer does not use is
 * 0. Runs of a layer share its memory. */
typedef struct bg_expert_operands {
	uint32_t struct_size, zero; /* sizeof(bg_expert_operands), 0 */
	bg_buffer x, y, index, weights;
	bg_buffer gate_up, down, up;
	bg_buffer bias_gate_up, bias_down;
	bg_buffer scales; /* of 32-bit words; see bg_experts_scales */
} bg_expert_operands;

bg_status bg_run_experts(bg_program program, const bg_expert_operands *operands);

/* bg_run_experts_at is bg_run_experts on memory, and on a stream, of the caller: see bg_run_at. tokens is how
 * many there are in this run, which x, y, index and weights have; 0: as many as there may be. */
typedef struct bg_expert_addresses {
	uint32_t struct_size, zero; /* sizeof(bg_expert_addresses), 0 */
	uint64_t x, y, index, weights;
	uint64_t gate_up, down, up;
	uint64_t bias_gate_up, bias_down;
	int64_t tokens;
	uint64_t scales;
} bg_expert_addresses;

bg_status bg_run_experts_at(bg_program program, uintptr_t stream, const bg_expert_addresses *addresses);

/* bg_pack_fp4 makes a B of "mxfp4" or "nvfp4" (type) from what checkpoints hold of a layer with n outputs and
 * k inputs: pairs [n, k/2], weights of e2m1, the lower 4 bits first; scales, of mxfp4 [n, k/32] of e8m0, of
 * nvfp4 [n, k/16] of e4m3. They are GPT-OSS's *_blocks and *_scales; ModelOpt's weight, weight_scale and
 * weight_scale_2, which is scale; and compressed-tensors' weight_packed, weight_scale and
 * 1/weight_global_scale. mxfp4 does not use scale.
 *
 * words is that of bg_pack_int4. groups has rows of ld words with four scales of a column, the first in the
 * lowest byte: of mxfp4 k/128 rows, rounded up, of nvfp4 k/64, after one with scale as floats. Then weight
 * (l, j) of a B with the option scale_b stands for e2m1 * 2^(e8m0 - 127), or for e2m1 * (e4m3 * scale of j).
 * k is a multiple of 64; what of bg_plan_new applies to "int4" applies here. bg_unpack_fp4 is the inverse;
 * its scale may be NULL. */
bg_status bg_pack_fp4(const char *type, const uint8_t *pairs, const uint8_t *scales, float scale, int64_t n,
	int64_t k, uint32_t *words, uint32_t *groups);
bg_status bg_unpack_fp4(const char *type, const uint32_t *words, const uint32_t *groups, int64_t n, int64_t k,
	uint8_t *pairs, uint8_t *scales, float *scale);

/* bg_pack_checkpoint makes a B of "int4" from the tensors of a layer with n outputs and k inputs in AWQ's or
 * GPTQ's checkpoints. format is "awq"; "gptq", whose zero points are stored less 1; or "gptq_v2", which
 * stores them as they are. qweight is [k, n/8] of AWQ and [k/8, n] of GPTQ, whose groups follow each other
 * along K (g_idx[k] is k / group); qzeros is [k/group, n/8], and scales [k/group, n]. words is that of
 * bg_pack_int4, groups [k/group, n] that of bg_group_words. group is 64 or 128, k a multiple of it, and n one
 * of 8. A zero point of 16 is an error, before anything is written; in bg_unpack_checkpoint, the inverse, it
 * is one of 0 with "gptq". */
bg_status bg_pack_checkpoint(const char *format, const uint32_t *qweight, const uint32_t *qzeros,
	const float *scales, int64_t n, int64_t k, int32_t group, uint32_t *words, uint32_t *groups);
bg_status bg_unpack_checkpoint(const char *format, const uint32_t *words, const uint32_t *groups, int64_t n,
	int64_t k, int32_t group, uint32_t *qweight, uint32_t *qzeros, float *scales);

#ifdef __cplusplus
}
#endif

#endif
