/* Programs with sizes on the device. */
#include "check.h"

enum { GROUPS = 3, ROWS = 6, N = 2, K = 2 };

static bg_buffer upload(bg_device device, const void *from, int64_t count) {
	bg_buffer b;
	OK(bg_buffer_new(device, count, &b));
	OK(bg_buffer_write(b, 0, (const float *)from, count, BG_NO_TIMEOUT));
	return b;
}

static bg_ragged experts(void) {
	return bg_ragged_of(BG_ENDS_OF_ROWS, GROUPS, ROWS, N, K);
}

/* Group g multiplies by 10 to the g. */
static const float rows[ROWS * K] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
static const float factors[GROUPS * K * N] = {1, 0, 0, 1, 10, 0, 0, 10, 100, 0, 0, 100};

static void run_and_compare(bg_program program, bg_buffer sizes, const void *words, int64_t count,
	bg_buffer a, bg_buffer b, bg_buffer c, const float *want) {
	float got[ROWS * N], before[ROWS * N];
	for (int i = 0; i < ROWS * N; i++) before[i] = CANARY;
	OK(bg_buffer_write(c, 0, before, ROWS * N, BG_NO_TIMEOUT));
	OK(bg_buffer_write(sizes, 0, (const float *)words, count, BG_NO_TIMEOUT));
	OK(bg_run_ragged(program, sizes, a, b, c));
	OK(bg_buffer_read(c, 0, got, ROWS * N, 60000));
	for (int i = 0; i < ROWS * N; i++) CHECK(got[i] == want[i] || (isnan(got[i]) && isnan(want[i])));
}

static void test_rows(bg_device device, bg_buffer a, bg_buffer b, bg_buffer c) {
	bg_ragged r = experts();
	r.flags = BG_ZERO_ROWS;
	bg_program program;
	OK(bg_prepare_ragged(device, &r, "{\"compute\": \"f32\"}", &program));
	int32_t ends[GROUPS] = {1, 1, 3}, wrong[GROUPS] = {1, 7, 7};
	bg_buffer sizes = upload(device, ends, GROUPS);
	float some[ROWS * N] = {1, 2, 300, 400, 500, 600}, first[ROWS * N] = {1, 2};
	run_and_compare(program, sizes, ends, GROUPS, a, b, c, some);
	OK(bg_program_status(program, 60000));
	run_and_compare(program, sizes, wrong, GROUPS, a, b, c, first);
	FAILS(bg_program_status(program, BG_NO_TIMEOUT), BG_ERR_INVALID, "problem 1: sizes do not fit");
	OK(bg_program_status(program, BG_NO_TIMEOUT));
	FAILS(bg_run(program, a, b, c), BG_ERR_INVALID, "Sizes is nil");
	FAILS(bg_run_ragged(program, c, a, b, c), BG_ERR_INVALID, "C is also Sizes");
	FAILS(bg_run_ragged(program, 99999, a, b, c), BG_ERR_HANDLE, "buffer: handle 99999");
	FAILS(bg_run_ragged(a, sizes, a, b, c), BG_ERR_HANDLE, "program: handle");
	FAILS(bg_update(program, NULL, 0), BG_ERR_INVALID, "sizes are on the device");
	FAILS(bg_program_status(program, -1), BG_ERR_INVALID, "timeout_ms -1");
	OK(bg_close(program));

	for (int i = 2; i < ROWS * N; i++) first[i] = NAN;
	r.flags = BG_NAN_ROWS;
	OK(bg_prepare_ragged(device, &r, NULL, &program));
	run_and_compare(program, sizes, wrong, GROUPS, a, b, c, first);
	OK(bg_close(program));

	for (int i = 2; i < ROWS * N; i++) first[i] = CANARY;
	r.flags = 0;
	OK(bg_prepare_ragged(device, &r, NULL, &program));
	run_and_compare(program, sizes, wrong, GROUPS, a, b, c, first);
	OK(bg_close(sizes));
	OK(bg_close(program));
}

static void test_records(bg_device device, bg_buffer a, bg_buffer b, bg_buffer c) {
	bg_ragged r = {.struct_size = sizeof r, .form = BG_RECORDS, .groups = GROUPS, .m = ROWS, .n = N, .k = K,
		.len_a = ROWS * K, .len_b = GROUPS * K * N, .len_c = ROWS * N};
	bg_program program;
	OK(bg_prepare_ragged(device, &r, NULL, &program));
	bg_record records[GROUPS] = {
		{.m = 1, .n = N, .k = K, .lda = K, .ldb = N, .ldc = N, .offset_b = K * N, .alpha = 1},
		{.m = 0},
		{.m = 2, .n = N, .k = K, .lda = K, .ldb = N, .ldc = N, .offset_a = K, .offset_c = 3 * N,
		.alpha = 2, .beta = 1},
	};
	const int64_t words = sizeof records / 4;
	bg_buffer sizes = upload(device, records, words);
	float want[ROWS * N] = {10, 20, CANARY, CANARY, CANARY, CANARY, CANARY + 6, CANARY + 8, CANARY + 10,
		CANARY + 12, CANARY, CANARY};
	run_and_compare(program, sizes, records, words, a, b, c, want);
	OK(bg_program_status(program, 60000));
	records[2].offset_c = 4 * N + 1;
	for (int i = 2; i < ROWS * N; i++) want[i] = CANARY;
	run_and_compare(program, sizes, records, words, a, b, c, want);
	FAILS(bg_program_status(program, 60000), BG_ERR_INVALID, "problem 2: sizes");
	OK(bg_close(sizes));
	OK(bg_close(program));
}

static uint64_t copied(const void *from, size_t size) { /* glibc aligns it to 16 */
	void *p = malloc(size);
	CHECK(p);
	memcpy(p, from, size);
	return (uint64_t)(uintptr_t)p;
}

/* Memory of the host, of fewer rows than the bound: canaries stand for what lies after it. */
static void test_at(bg_device device) {
	bg_ragged r = experts();
	bg_program program;
	OK(bg_prepare_ragged(device, &r, NULL, &program));
	OK(bg_wait(device, 60000));
	const int32_t ends[GROUPS] = {1, 1, 3};
	const float want[ROWS * N] = {1, 2, 300, 400, 500, 600, CANARY, CANARY, CANARY, CANARY, CANARY, CANARY};
	float before[ROWS * N];
	for (int i = 0; i < ROWS * N; i++) before[i] = CANARY;
	bg_addresses at = {.struct_size = sizeof at, .a = copied(rows, 3 * K * sizeof *rows),
		.b = copied(factors, sizeof factors),
		.c = copied(before, sizeof before), .sizes = copied(ends, sizeof ends)};
	float *c = (float *)(uintptr_t)at.c;
	OK(bg_run_at(program, 0, &at));
	OK(bg_wait(device, 60000));
	for (int i = 0; i < ROWS * N; i++) CHECK(c[i] == want[i]);
	OK(bg_program_status(program, 60000));

	/* The bound lets 4 rows pass, and 3 are there. */
	int32_t *sizes = (int32_t *)(uintptr_t)at.sizes;
	sizes[2] = 4, at.extent = 3;
	memcpy(c, before, sizeof before);
	OK(bg_run_at(program, 0, &at));
	FAILS(bg_program_status(program, 60000), BG_ERR_INVALID, "problem 2: sizes do not fit");
	for (int i = 0; i < ROWS * N; i++) CHECK(c[i] == (i < N ? want[i] : CANARY));

	sizes[2] = 3;
	bg_addresses older = at;
	older.struct_size = offsetof(bg_addresses, extent), older.extent = -1;
	OK(bg_run_at(program, 0, &older));
	OK(bg_wait(device, 60000));
	for (int i = 0; i < ROWS * N; i++) CHECK(c[i] == want[i]);

	memcpy(c, before, sizeof before);
	bg_addresses wrong = at;
	wrong.extent = ROWS + 1;
	FAILS(bg_run_at(program, 0, &wrong), BG_ERR_INVALID, "extent 7 is not in [0, 6]");
	wrong.extent = -1;
	FAILS(bg_run_at(program, 0, &wrong), BG_ERR_INVALID, "extent -1 is not in [0, 6]");
	FAILS(bg_run_at(program, 0, NULL), BG_ERR_INVALID, "addresses is NULL");
	FAILS(bg_run_at(program, 1, &at), BG_ERR_INVALID, "there is stream 0 alone");
	FAILS(bg_run_at(device, 0, &at), BG_ERR_HANDLE, "program: handle");
	wrong = at, wrong.struct_size = 8;
	FAILS(bg_run_at(program, 0, &wrong), BG_ERR_INVALID, "struct_size 8");
	wrong = at, wrong.zero = 1;
	FAILS(bg_run_at(program, 0, &wrong), BG_ERR_INVALID, "does not know");
	wrong = at, wrong.sizes = 0;
	FAILS(bg_run_at(program, 0, &wrong), BG_ERR_INVALID, "Sizes is 0");
	wrong = at, wrong.b += 4;
	FAILS(bg_run_at(program, 0, &wrong), BG_ERR_INVALID, "is not a multiple of 16");
	wrong = at, wrong.bias = at.a;
	FAILS(bg_run_at(program, 0, &wrong), BG_ERR_INVALID, "Bias is not 0, but the program does not use it");
	OK(bg_wait(device, 60000));
	for (int i = 0; i < ROWS * N; i++) CHECK(c[i] == CANARY);
	const uint64_t all[] = {at.a, at.b, at.c, at.sizes};
	for (int i = 0; i < 4; i++) free((void *)(uintptr_t)all[i]);
	OK(bg_close(program));
}

static void test_errors(bg_device device) {
	bg_program program = 99;
	bg_ragged r = experts();
	FAILS(bg_prepare_ragged(device, NULL, NULL, &program), BG_ERR_INVALID, "ragged is NULL");
	CHECK(program == 0);
	FAILS(bg_prepare_ragged(device, &r, NULL, NULL), BG_ERR_INVALID, "program is NULL");
	FAILS(bg_prepare_ragged(device, &r, "{\"schedule\": \"lpt\"}", &program), BG_ERR_INVALID,
		"a forced schedule");
	r.struct_size = 8;
	FAILS(bg_prepare_ragged(device, &r, NULL, &program), BG_ERR_INVALID, "struct_size 8");
	r = experts(), r.flags = 16;
	FAILS(bg_prepare_ragged(device, &r, NULL, &program), BG_ERR_INVALID, "flags 0x10");
	r = experts(), r.flags = BG_ZERO_ROWS | BG_NAN_ROWS;
	FAILS(bg_prepare_ragged(device, &r, NULL, &program), BG_ERR_INVALID, "rows of zeros and for rows of NaN");
	r = experts(), r.form = 4;
	FAILS(bg_prepare_ragged(device, &r, NULL, &program), BG_ERR_INVALID, "unknown form 4");
	r = experts(), r.groups = 4097;
	FAILS(bg_prepare_ragged(device, &r, NULL, &program), BG_ERR_INVALID, "4097 groups");
	r = experts(), r.lda = 1;
	FAILS(bg_prepare_ragged(device, &r, NULL, &program), BG_ERR_INVALID, "lda 1 < row length 2");
	r = experts(), r.stride_b = -1;
	FAILS(bg_prepare_ragged(device, &r, NULL, &program), BG_ERR_INVALID, "stride of B -1");
	struct { bg_ragged known; int64_t later; } newer = {experts(), 0};
	newer.known.struct_size = sizeof newer;
	OK(bg_prepare_ragged(device, &newer.known, NULL, &program));
	OK(bg_close(program));
	newer.later = 1;
	FAILS(bg_prepare_ragged(device, &newer.known, NULL, &program), BG_ERR_INVALID, "does not know");
}

int main(void) {
	bg_device device;
	OK(bg_open("cpu", 0, &device));
	bg_buffer a = upload(device, rows, ROWS * K), b = upload(device, factors, GROUPS * K * N), c;
	OK(bg_buffer_new(device, ROWS * N, &c));
	test_rows(device, a, b, c);
	test_records(device, a, b, c);
	test_at(device);
	test_errors(device);
	OK(bg_close(device));
	puts("ok");
	return 0;
}
