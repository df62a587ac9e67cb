/* bg_gemm on host memory. */
#include "check.h"

typedef struct { /* a bg_problem of a newer version */
	bg_problem known;
	int64_t more;
} longer_problem;

static bg_status gemm(bg_device device, batch *t) {
	return bg_gemm(device, t->problems, t->count, t->a, t->len_a, t->b, t->len_b, t->c, t->len_c,
		BG_NO_TIMEOUT);
}

/* The same batch with the structs that a newer header would have. */
static void test_longer_structs(bg_device device) {
	batch t = new_batch(5, 20, 77);
	longer_problem *longer = calloc(5, sizeof *longer);
	CHECK(longer);
	for (int i = 0; i < t.count; i++)
		longer[i].known = t.problems[i], longer[i].known.struct_size = sizeof *longer;
	OK(bg_gemm(device, &longer[0].known, 5, t.a, t.len_a, t.b, t.len_b, t.c, t.len_c, BG_NO_TIMEOUT));
	check_batch(&t);
	longer[3].more = 1;
	FAILS(bg_gemm(device, &longer[0].known, 5, t.a, t.len_a, t.b, t.len_b, t.c, t.len_c, BG_NO_TIMEOUT),
		BG_ERR_INVALID,
		"problem 3: flags");
	free(longer);
	free_batch(&t);
}

/* Pointers to nothing may be anything. */
static void test_empty(bg_device device) {
	float *wild = (float *)8;
	OK(bg_gemm(device, NULL, 0, NULL, 0, NULL, 0, NULL, 0, BG_NO_TIMEOUT));
	OK(bg_gemm(device, (bg_problem *)8, 0, wild, 0, wild, 0, wild, 0, 1000));
	bg_problem p = {.struct_size = sizeof p, .m = 2, .n = 2, .ldb = 2, .ldc = 2, .beta = 3};
	float c[] = {1, 2, 3, 4};
	OK(bg_gemm(device, &p, 1, wild, 0, wild, 0, c, 4, BG_NO_TIMEOUT));
	CHECK(c[0] == 3 && c[1] == 6 && c[2] == 9 && c[3] == 12);
}

static bg_read start(bg_device device, batch *t) {
	bg_read read;
	OK(bg_gemm_async(device, t->problems, t->count, NULL, t->a, t->len_a, t->b, t->len_b, t->c,
		t->len_c, &read));
	return read;
}

/* Several calls at a time; mistakes; a call that is closed before its end; and a call of a closed device. */
static void test_async(void) {
	bg_device device;
	bg_read reads[4];
	int32_t done;
	batch t[4];
	OK(bg_open("cpu", -1, &device));
	for (uint32_t i = 0; i < 4; i++) t[i] = new_batch(20, 40, 50 + i), reads[i] = start(device, &t[i]);
	for (int i = 3; i >= 0; i--) {
		OK(bg_read_wait(reads[i], BG_NO_TIMEOUT));
		OK(bg_read_done(reads[i], &done));
		CHECK(done == 1);
		check_batch(&t[i]);
		OK(bg_close(reads[i]));
		free_batch(&t[i]);
	}

	enum { SIZE = 2048 };
	bg_problem p = bg_problem_of(SIZE, SIZE, SIZE);
	batch large = {.count = 1, .problems = &p, .len_a = SIZE * SIZE, .len_b = SIZE * SIZE,
		.len_c = SIZE * SIZE};
	large.a = numbers(large.len_a, 1), large.b = numbers(large.len_b, 1),
		large.c = numbers(large.len_c, CANARY);
	for (int i = 0; i < 2; i++) { /* the second time is after nothing of the first */
		reads[i] = start(device, &large);
		CHECK(bg_read_wait(reads[i], 1) == BG_ERR_TIMEOUT);
		OK(bg_close(reads[i]));
		CHECK(bg_read_done(reads[i], &done) == BG_ERR_HANDLE);
	}
	/* The CPU has stopped: elements are old or new, or part of a sum of ones, and stay so. */
	float *left = malloc(sizeof(float) * (size_t)large.len_c);
	memcpy(left, large.c, sizeof(float) * (size_t)large.len_c);
	for (int64_t i = 0; i < large.len_c; i++)
		CHECK(left[i] == CANARY || (left[i] >= 0 && left[i] <= SIZE));
	OK(bg_wait(device, BG_NO_TIMEOUT));
	CHECK(memcmp(left, large.c, sizeof(float) * (size_t)large.len_c) == 0);
	free(left);

	p.lda = SIZE - 1;
	reads[0] = start(device, &large);
	FAILS(bg_read_wait(reads[0], BG_NO_TIMEOUT), BG_ERR_INVALID, "problem 0: lda 2047 < row length 2048");
	OK(bg_close(reads[0]));
	FAILS(bg_gemm_async(device, &p, 1, "{\"no\": 1}", NULL, 0, NULL, 0, NULL, 0, &reads[0]),
		BG_ERR_INVALID, "options");
	CHECK(reads[0] == 0);
	p.lda = SIZE;
	reads[0] = start(device, &large);
	OK(bg_close(device));
	bg_read_wait(reads[0], BG_NO_TIMEOUT); /* it may have begun, or not */
	OK(bg_close(reads[0]));
	free(large.a), free(large.b), free(large.c);
}

int main(void) {
	bg_device device;
	OK(bg_open("cpu", -1, &device));
	for (uint32_t seed = 1; seed <= 20; seed++) {
		batch t = new_batch(1 + (int)seed, 40, seed);
		OK(gemm(device, &t));
		check_batch(&t);
		free_batch(&t);
	}
	batch large = new_batch(3, 300, 7);
	OK(gemm(device, &large));
	check_batch(&large);
	free_batch(&large);
	test_longer_structs(device);
	test_empty(device);
	OK(bg_close(device));
	test_async();
	puts("ok");
	return 0;
}
