/* What the test programs share: checks that end the program with a message, all
 * functions at once, and batches with random operands, checked against a loop in
 * double precision. */
#ifndef CHECK_H
#define CHECK_H

#include "batchgemm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s (last error: %s)\n", __FILE__, __LINE__, #condition, \
				bg_last_error()); \
			exit(1); \
		} \
	} while (0)
#define OK(call) CHECK((call) == BG_OK)
/* FAILS: the call returns that status, and its text contains those words. */
#define FAILS(call, status, words) \
	do { \
		CHECK((call) == (status)); \
		CHECK(strstr(bg_last_error(), words)); \
	} while (0)

/* call_all calls every function that enters Go, where each gives that status. */
static inline void call_all(bg_status want) {
	uint64_t out;
	CHECK(bg_open("cpu", -1, &out) == want);
	CHECK(bg_open_on_stream(1, 0, &out) == want);
	CHECK(bg_device_info(1, NULL, 0, NULL) == want);
	CHECK(bg_plan_new(1, NULL, 0, NULL, &out) == want);
	CHECK(bg_plan_explain(1, NULL, 0, NULL) == want);
	CHECK(bg_prepare(1, 1, &out) == want);
	CHECK(bg_buffer_new(1, 1, &out) == want);
	CHECK(bg_buffer_new_of(1, "bf16", 1, &out) == want);
	CHECK(bg_buffer_wrap(1, 16, 1, &out) == want);
	CHECK(bg_run_operands(1, NULL) == want);
	CHECK(bg_buffer_wrap_of(1, "bf16", 16, 1, &out) == want);
	CHECK(bg_buffer_address(1, &out) == want);
	CHECK(bg_buffer_write(1, 0, NULL, 0, 0) == want);
	CHECK(bg_buffer_read(1, 0, NULL, 0, 0) == want);
	CHECK(bg_buffer_slice(1, 0, 0, &out) == want);
	CHECK(bg_copy(1, 1, 1) == want);
	CHECK(bg_buffer_read_async(1, 0, NULL, 0, &out) == want);
	int32_t done;
	CHECK(bg_read_done(1, &done) == want);
	CHECK(bg_read_notify(1, 0) == want);
	CHECK(bg_read_wait(1, 0) == want);
	CHECK(bg_warm(1, NULL, 0, 0) == want);
	CHECK(bg_update(1, NULL, 0) == want);
	CHECK(bg_prepare_ragged(1, NULL, NULL, &out) == want);
	CHECK(bg_prepare_routing(1, NULL, NULL, &out) == want);
	CHECK(bg_prepare_combine(1, NULL, 1, NULL, &out) == want);
	CHECK(bg_prepare_gate(1, NULL, NULL, NULL, &out) == want);
	CHECK(bg_prepare_gate_backward(1, NULL, NULL, NULL, &out) == want);
	CHECK(bg_run_all_at(0, &out, NULL, 1) == want);
	CHECK(bg_prepare_experts(1, NULL, NULL, NULL, &out) == want);
	CHECK(bg_experts_scales(1, NULL, NULL, NULL) == want);
	CHECK(bg_run_experts(1, NULL) == want);
	CHECK(bg_run_experts_at(1, 0, NULL) == want);
	CHECK(bg_run(1, 1, 1, 1) == want);
	CHECK(bg_run_ragged(1, 1, 1, 1, 1) == want);
	CHECK(bg_run_at(1, 0, NULL) == want);
	CHECK(bg_program_status(1, 0) == want);
	CHECK(bg_wait(1, 0) == want);
	CHECK(bg_gemm(1, NULL, 0, NULL, 0, NULL, 0, NULL, 0, 0) == want);
	CHECK(bg_gemm_of(1, NULL, 0, NULL, NULL, 0, NULL, 0, NULL, 0, 0) == want);
	CHECK(bg_gemm_async(1, NULL, 0, NULL, NULL, 0, NULL, 0, NULL, 0, &out) == want);
	CHECK(bg_gemm_operands(1, NULL, 0, NULL, NULL, 0) == want);
	CHECK(bg_gemm_operands_async(1, NULL, 0, NULL, NULL, &out) == want);
	CHECK(bg_pack_int4(NULL, 0, 0, NULL) == want);
	CHECK(bg_unpack_int4(NULL, 0, 0, NULL) == want);
	CHECK(bg_sum_columns(NULL, 0, 0, 0, 0, NULL) == want);
	CHECK(bg_group_words(NULL, NULL, 0, NULL) == want);
	CHECK(bg_split_group_words(NULL, 0, NULL, NULL) == want);
	CHECK(bg_quantize_int4(NULL, 0, 0, 0, NULL, NULL) == want);
	CHECK(bg_pack_fp4(NULL, NULL, NULL, 1, 0, 0, NULL, NULL) == want);
	CHECK(bg_unpack_fp4(NULL, NULL, NULL, 0, 0, NULL, NULL, NULL) == want);
	CHECK(bg_pack_checkpoint(NULL, NULL, NULL, NULL, 0, 0, 0, NULL, NULL) == want);
	CHECK(bg_unpack_checkpoint(NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL) == want);
	CHECK(bg_close(1) == want);
}

#define CANARY 12345.5f
#define GAP 3 /* elements between rows, and after matrices */

static inline uint32_t draw(uint32_t *state) { /* xorshift of Marsaglia, 2003 */
	*state ^= *state << 13, *state ^= *state >> 17, *state ^= *state << 5;
	return *state;
}

/* in [-1, 1] */
static inline float uniform(uint32_t *state) { return (float)draw(state) / 2147483648.0f - 1; }

typedef struct {
	int count;
	bg_problem *problems;
	int64_t len_a, len_b, len_c;
	float *a, *b, *c, *before; /* before: C at the start */
} batch;

static inline float *numbers(int64_t n, float value) {
	float *s = malloc((size_t)(n > 0 ? n : 1) * sizeof *s);
	CHECK(s);
	for (int64_t i = 0; i < n; i++) s[i] = value;
	return s;
}

static inline void fill(float *s, int64_t offset, int64_t ld, int64_t rows, int64_t cols, uint32_t *state) {
	for (int64_t i = 0; i < rows; i++)
		for (int64_t j = 0; j < cols; j++) s[offset + i * ld + j] = uniform(state);
}

/* new_batch draws sizes from 0 to limit. Gaps hold NaN in A and B, which nothing
 * may read, and canaries in C, which nothing may change. */
static inline batch new_batch(int count, int limit, uint32_t seed) {
	batch t = {.count = count, .problems = calloc((size_t)count, sizeof(bg_problem))};
	uint32_t state = seed;
	CHECK(t.problems);
	for (int i = 0; i < count; i++) {
		bg_problem *p = &t.problems[i];
		p->struct_size = sizeof *p;
		p->flags = draw(&state) % 4;
		p->m = draw(&state) % (limit + 1), p->n = draw(&state) % (limit + 1),
			p->k = draw(&state) % (limit + 1);
		p->alpha = 0.5f, p->beta = i % 3 ? 0 : -2;
		p->lda = (p->flags & BG_TRANS_A ? p->m : p->k) + GAP;
		p->ldb = (p->flags & BG_TRANS_B ? p->k : p->n) + GAP;
		p->ldc = p->n + GAP;
		p->offset_a = t.len_a, p->offset_b = t.len_b, p->offset_c = t.len_c;
		t.len_a += p->lda * (p->flags & BG_TRANS_A ? p->k : p->m) + GAP;
		t.len_b += p->ldb * (p->flags & BG_TRANS_B ? p->n : p->k) + GAP;
		t.len_c += p->ldc * p->m + GAP;
	}
	t.a = numbers(t.len_a, NAN), t.b = numbers(t.len_b, NAN);
	t.c = numbers(t.len_c, CANARY), t.before = numbers(t.len_c, CANARY);
	for (int i = 0; i < count; i++) {
		bg_problem *p = &t.problems[i];
		int ta = p->flags & BG_TRANS_A, tb = p->flags & BG_TRANS_B;
		fill(t.a, p->offset_a, p->lda, ta ? p->k : p->m, ta ? p->m : p->k, &state);
		fill(t.b, p->offset_b, p->ldb, tb ? p->n : p->k, tb ? p->k : p->n, &state);
		if (p->beta != 0) fill(t.before, p->offset_c, p->ldc, p->m, p->n, &state);
		else for (int64_t r = 0; r < p->m; r++)
			for (int64_t j = 0; j < p->n; j++) t.before[p->offset_c + r * p->ldc + j] = NAN;
	}
	memcpy(t.c, t.before, (size_t)t.len_c * sizeof(float));
	return t;
}

static inline void free_batch(batch *t) {
	free(t->problems), free(t->a), free(t->b), free(t->c), free(t->before);
}

/* check_batch compares every element of C: |c - ref| <= (K+3) 2^-24 (|alpha| sum
 * |a||b| + |beta c|) holds for any order of summation, to first order; twice that
 * covers the rest, as in internal/reference. */
static inline void check_batch(const batch *t) {
	char *owned = calloc((size_t)t->len_c + 1, 1);
	CHECK(owned);
	for (int i = 0; i < t->count; i++) {
		const bg_problem *p = &t->problems[i];
		for (int64_t r = 0; r < p->m; r++)
			for (int64_t j = 0; j < p->n; j++) {
				double sum = 0, size = 0;
				for (int64_t k = 0; k < p->k; k++) {
					double a = t->a[p->offset_a + (p->flags & BG_TRANS_A ? k * p->lda + r : r * p->lda + k)];
					double b = t->b[p->offset_b + (p->flags & BG_TRANS_B ? j * p->ldb + k : k * p->ldb + j)];
					sum += a * b, size += fabs(a * b);
				}
				int64_t at = p->offset_c + r * p->ldc + j;
				double old = p->beta != 0 ? p->beta * (double)t->before[at] : 0;
				double error = fabs(t->c[at] - (p->alpha * sum + old));
				CHECK(error <= 2 * (double)(p->k + 3) * ldexp(1, -24) * (fabs(p->alpha) * size + fabs(old)));
				owned[at] = 1;
			}
	}
	for (int64_t at = 0; at < t->len_c; at++) CHECK(owned[at] || t->c[at] == CANARY);
	free(owned);
}

#endif
