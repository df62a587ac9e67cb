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

#ifdef __cplusplus
}
#endif

#endif
