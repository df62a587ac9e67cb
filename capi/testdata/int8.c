/* Zero points of A: sums of columns, and products with scales. */
#include "check.h"

enum { M = 3, N = 2, K = 40, LD = 3 };

static void test_sums(void) {
	const int8_t b[8] = {1, 2, 3, 99, -128, 127, 5, 99};
	int32_t sums[3] = {7, 7, 7};
	OK(bg_sum_columns(b, 2, 3, 4, 0, sums));
	CHECK(sums[0] == -127 && sums[1] == 129 && sums[2] == 8);
	OK(bg_sum_columns(b, 3, 2, 4, BG_TRANS_B, sums));
	CHECK(sums[0] == 6 && sums[1] == 4);
	OK(bg_sum_columns(NULL, 2, 0, 4, 0, NULL));
	OK(bg_sum_columns(b, 2, 0, 2, BG_TRANS_B, sums));
	OK(bg_sum_columns(NULL, 0, 2, 2, 0, sums));
	CHECK(sums[0] == 0 && sums[1] == 0);
	FAILS(bg_sum_columns(b, 2, 3, 2, 0, sums), BG_ERR_INVALID, "ld 2 is not in [3, ");
	FAILS(bg_sum_columns(b, 3, 2, 2, BG_TRANS_B, sums), BG_ERR_INVALID, "ld 2 is not in [3, ");
	FAILS(bg_sum_columns(b, 131072, 1, 1, 0, sums), BG_ERR_INVALID, "rows 131072 is not in [0, 131071]");
	FAILS(bg_sum_columns(b, 1, -1, 1, 0, sums), BG_ERR_INVALID, "cols -1 is not in [0, ");
	FAILS(bg_sum_columns(b, 1, 1, 1, BG_TRANS_A, sums), BG_ERR_INVALID,
		"flags 0x1: only BG_TRANS_B");
	FAILS(bg_sum_columns(NULL, 1, 1, 1, 0, sums), BG_ERR_INVALID, "b is NULL");
	FAILS(bg_sum_columns(b, 1, 1, 1, 0, NULL), BG_ERR_INVALID, "sums is NULL");
}

/* Results are exact. */
static void test_product(bg_device device) {
	int8_t a[M * K], b[K * LD];
	int32_t zeros[M] = {-128, 0, 127}, sums[N], rows[2 * (M + N)];
	float scales[M + N] = {1, -2, 0.5f, 3, 4}, c[M * N];
	uint32_t state = 3;
	for (int i = 0; i < M * K; i++) a[i] = (int8_t)(draw(&state) >> 24);
	for (int i = 0; i < K * LD; i++) b[i] = (int8_t)(draw(&state) >> 24);
	OK(bg_sum_columns(b, K, N, LD, 0, sums));
	for (int i = 0; i < M + N; i++) {
		memcpy(&rows[2 * i], &scales[i], sizeof scales[i]);
		rows[2 * i + 1] = i < M ? zeros[i] : sums[i - M];
	}
	bg_problem p = {.struct_size = sizeof p, .m = M, .n = N, .k = K, .lda = K, .ldb = LD, .ldc = N,
		.alpha = 1, .scale_b = 2 * M};
	bg_host_operands o = {.struct_size = sizeof o, .a = a, .len_a = M * K, .b = b, .len_b = K * LD, .c = c,
		.len_c = M * N, .rows = rows, .len_rows = 2 * (M + N)};
	OK(bg_gemm_operands(device, &p, 1, "{\"type_a\": \"int8\", \"epilogue\": {\"scale_a\": \"row\", "
		"\"scale_b\": \"row\", \"zero_a\": true}}", &o, BG_NO_TIMEOUT));
	for (int i = 0; i < M * N; i++) {
		int sum = 0;
		for (int k = 0; k < K; k++) sum += (a[i / N * K + k] - zeros[i / N]) * b[k * LD + i % N];
		CHECK(c[i] == (float)sum * scales[i / N] * scales[M + i % N]);
	}
	FAILS(bg_gemm_operands(device, &p, 1, "{\"type_a\": \"int8\", \"epilogue\": {\"zero_a\": true}}", &o, 0),
		BG_ERR_INVALID, "zero points of A need scales");
}

int main(void) {
	bg_device device;
	OK(bg_open("cpu", -1, &device));
	test_sums();
	test_product(device);
	OK(bg_close(device));
	puts("ok");
	return 0;
}
