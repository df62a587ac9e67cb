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
	uint32_t flags;         /* BG_GATED, BG_INTERLEAVED */
	int64_t intermediate;   /* columns of h, from 0 to 2^26 - 1 */
	const char *activation; /* "" (NULL), "relu", "gelu" or "silu", as of epilogues */
} bg_gate;

#define BG_GATED 1u

/* bg_prepare_gate makes a program for h. type is "f32" (NULL), "bf16" or "f16". With n = tokens*top_k,
 * i = intermediate, and w = 2*i with BG_GATED, else i, bg_run_operands and bg_run_at run it with
 *     sizes  c of a routing, of which the ends are read
 *     a      pre [n, w]: columns of gate before those of up, or with BG_INTERLEAVED gate at even and up at
 *            odd columns
 *     c      h [n, i]
 * h is computed in float and rounded once. The last of the ends says how many rows there are. Later rows are
 * neither read nor written. The extent of bg_run_at is as above. BG_INDEX_64 does not matter. BG_ERR_INVALID
 * with WebGPU. */
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
} bg_experts;

/* Weights of the layer. With BG_TRANS_B (2) they are stored as Linear of torch has them: gate and up
 * [experts, intermediate, hidden], down [experts, hidden, intermediate]. Else rows and columns change places.
 * Gate and up are joined: gate_up has 2*intermediate rows, or columns, those of gate first. With
 * BG_INTERLEAVED, which needs BG_TRANS_B and no bias, a row of gate and one of up take turns. With BG_APART
 * up has an array of its own. Without "gated" there is no up, and gate_up has intermediate rows, or
 * columns. */
#define BG_INTERLEAVED 4u
#define BG_APART 8u

/* bg_prepare_experts makes a layer ready to run, by bg_run_experts and bg_run_experts_at alone: routing, two
 * ragged programs, and a sum. weights is the type of the router's weights, "f32" (NULL), "bf16" or "f16".
 * options are those of bg_plan_new: "type_a" of x, y and all weights of the layer ("f32", "bf16", "f16"),
 * "compute", "tile", and in "epilogue" "activation", "gated" and "bias" (of gate and up, and of down). The
 * layer owns memory for tokens*top_k*(intermediate + hidden) elements and 12 bytes for each choice. */
bg_status bg_prepare_experts(bg_device device, const bg_experts *experts, const char *weights,
	const char *options, bg_program *program);

/* bg_run_experts queues one execution, and returns without waiting. x and y, which may be x, are [tokens,
 * hidden]. index, of 32-bit words, is -1 for tokens that are not there. bias_gate_up is [experts,
 * 2*intermediate], or [experts, intermediate]; bias_down is [experts, hidden]. What the layer does not use is
 * 0. Runs of a layer share its memory. */
typedef struct bg_expert_operands {
	uint32_t struct_size, zero; /* sizeof(bg_expert_operands), 0 */
	bg_buffer x, y, index, weights;
	bg_buffer gate_up, down, up;
	bg_buffer bias_gate_up, bias_down;
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
} bg_expert_addresses;

bg_status bg_run_experts_at(bg_program program, uintptr_t stream, const bg_expert_addresses *addresses);

#ifdef __cplusplus
}
#endif

#endif
