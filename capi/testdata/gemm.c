/* bg_gemm on host memory. */
#include "check.h"

typedef struct { /* a bg_problem of a newer version */
	bg_problem known;
	int64_t more;
} longer_problem;

static bg_status gemm(bg_device device, batch *t) {
	return bg_gemm(device, t->problems, t->count, t->a, t->len_a, t->b, t->len_b, t->c, t->len_c, BG_NO_TIMEOUT);
}

/* The same batch with the structs that a newer header would have. */
static void test_longer_structs(bg_device device) {
	batch t = new_batch(5, 20, 77);
	longer_problem *longer = calloc(5, sizeof *longer);
	CHECK(longer);
	for (int i = 0; i < t.count; i++) longer[i].known = t.problems[i], longer[i].known.struct_size = sizeof *longer;
	OK(bg_gemm(device, &longer[0].known, 5, t.a, t.len_a, t.b, t.len_b, t.c, t.len_c, BG_NO_TIMEOUT));
	check_batch(&t);
	longer[3].more = 1;
	FAILS(bg_gemm(device, &longer[0].known, 5, t.a, t.len_a, t.b, t.len_b, t.c, t.len_c, BG_NO_TIMEOUT), BG_ERR_INVALID,
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
	puts("ok");
	return 0;
}
