/* A product with all parts of an epilogue but gating, then a gated one, of small integers. */
#include "check.h"

enum { M = 3, N = 2, K = 2, ROWS = 4 };

static bg_buffer upload(bg_device device, const void *from, int64_t count) {
	bg_buffer b;
	OK(bg_buffer_new(device, count, &b));
	OK(bg_buffer_write(b, 0, from, count, BG_NO_TIMEOUT));
	return b;
}

static bg_program prepare(bg_device device, const bg_problem *p, const char *options) {
	bg_plan plan;
	bg_program program;
	OK(bg_plan_new(device, p, 1, options, &plan));
	OK(bg_prepare(device, plan, &program));
	OK(bg_close(plan));
	return program;
}

static const float a[ROWS * K] = {1, 2, 3, -4, 5, 6, -7, 8}, b[K * N] = {1, -2, 3, 1},
	b2[K * N] = {2, 1, -1, 3};
static const float bias[2 * N] = {1, -3, 2, 5};

static float dot(int row, int col, const float *with) {
	return row < 0 ? 0 : a[row * K] * with[col] + a[row * K + 1] * with[N + col];
}
static float relu(float x) { return x > 0 ? x : 0; }

/* All parts but gating: rows has the lists and the weights, c is from ROWS rows to those that are wanted. */
static const char *const parts = "{\"epilogue\": {\"activation\": \"relu\", \"bias\": true, \"gather_rows\": "
	"4, \"scatter_rows\": 4, \"weights\": true}}";

static bg_problem all_parts(uint32_t rows[3 * M], float c[ROWS * N], float want[ROWS * N]) {
	const int32_t from[M] = {2, -1, 3}, to[M] = {3, 0, 9};
	const float weight[M] = {2, 0.5f, 7};
	memcpy(rows, from, sizeof from), memcpy(rows + M, to, sizeof to),
		memcpy(rows + 2 * M, weight, sizeof weight);
	for (int i = 0; i < ROWS * N; i++) want[i] = c[i] = (float)(i + 1);
	for (int i = 0; i < M; i++)
		for (int j = 0; j < N; j++)
			if (to[i] < ROWS)
				want[to[i] * N + j] = weight[i] * relu(dot(from[i], j, b) + 2 * c[to[i] * N + j] + bias[j]);
	bg_problem p = {.struct_size = sizeof p, .m = M, .n = N, .k = K, .lda = K, .ldb = N, .ldc = N,
	                .alpha = 1, .beta = 2,
	                .rows_a = 0, .rows_c = M, .weights = 2 * M};
	return p;
}

static void test_parts(bg_device device) {
	uint32_t rows[3 * M];
	float c[ROWS * N], want[ROWS * N];
	bg_problem p = all_parts(rows, c, want);
	bg_program program = prepare(device, &p, parts);
	bg_operands o = {.struct_size = sizeof o, .a = upload(device, a, ROWS * K), .b = upload(device, b, K * N),
	                 .c = upload(device, c, ROWS * N),
	                 .bias = upload(device, bias, N), .rows = upload(device, rows, 3 * M)};
	OK(bg_run_operands(program, &o));
	OK(bg_buffer_read(o.c, 0, c, ROWS * N, BG_NO_TIMEOUT));
	CHECK(memcmp(c, want, sizeof want) == 0);

	FAILS(bg_run(program, o.a, o.b, o.c), BG_ERR_INVALID, "Bias");
	FAILS(bg_run_operands(program, NULL), BG_ERR_INVALID, "operands is NULL");
	bg_operands wrong = o;
	wrong.struct_size = 8;
	FAILS(bg_run_operands(program, &wrong), BG_ERR_INVALID, "struct_size 8");
	wrong = o, wrong.zero = 1;
	FAILS(bg_run_operands(program, &wrong), BG_ERR_INVALID, "does not know");
	wrong = o, wrong.c = 0;
	FAILS(bg_run_operands(program, &wrong), BG_ERR_HANDLE, "");
}

static void test_gated(bg_device device) {
	float c[M * N], want[M * N];
	for (int i = 0; i < M * N; i++)
		want[i] = relu(dot(i / N, i % N, b) + bias[i % N]) * (dot(i / N, i % N, b2) + bias[N + i % N]);
	bg_problem p = bg_problem_of(M, N, K);
	bg_program program = prepare(device, &p,
		"{\"epilogue\": {\"activation\": \"relu\", \"bias\": true, \"gated\": true}}");
	bg_operands o = {.struct_size = sizeof o, .a = upload(device, a, ROWS * K), .b = upload(device, b, K * N),
	                 .c = upload(device, want, M * N),
	                 .b2 = upload(device, b2, K * N), .bias = upload(device, bias, 2 * N)};
	OK(bg_run_operands(program, &o));
	OK(bg_buffer_read(o.c, 0, c, M * N, BG_NO_TIMEOUT));
	CHECK(memcmp(c, want, sizeof c) == 0);
}

/* The same on host memory, and what is wrong there, which leaves c as it was. */
static void test_host(bg_device device) {
	uint32_t rows[3 * M];
	float c[ROWS * N], want[ROWS * N];
	bg_problem p = all_parts(rows, c, want);
	bg_host_operands o = {.struct_size = sizeof o, .a = a, .len_a = ROWS * K, .b = b, .len_b = K * N, .c = c,
	                      .len_c = ROWS * N,
	                      /* a pointer to nothing may be any */
	                      .b2 = (void *)8, .bias = bias, .len_bias = N, .rows = rows, .len_rows = 3 * M};
	OK(bg_gemm_operands(device, &p, 1, parts, &o, BG_NO_TIMEOUT));
	CHECK(memcmp(c, want, sizeof want) == 0);
	p = all_parts(rows, c, want);
	bg_read read;
	OK(bg_gemm_operands_async(device, &p, 1, parts, &o, &read));
	OK(bg_read_wait(read, BG_NO_TIMEOUT));
	OK(bg_close(read));
	CHECK(memcmp(c, want, sizeof want) == 0);

	FAILS(bg_gemm_operands(device, &p, 1, parts, NULL, 0), BG_ERR_INVALID, "host_operands is NULL");
	FAILS(bg_gemm_operands_async(device, &p, 1, parts, NULL, &read), BG_ERR_INVALID, "host_operands is NULL");
	FAILS(bg_gemm_operands_async(device, &p, 1, parts, &o, NULL), BG_ERR_INVALID, "read is NULL");
	bg_host_operands wrong = o;
	wrong.struct_size -= 8;
	FAILS(bg_gemm_operands(device, &p, 1, parts, &wrong, 0), BG_ERR_INVALID,
		"must be sizeof(bg_host_operands)");
	wrong = o, wrong.zero = 1;
	FAILS(bg_gemm_operands(device, &p, 1, parts, &wrong, 0), BG_ERR_INVALID, "does not know");
	wrong = o, wrong.len_bias = 1;
	FAILS(bg_gemm_operands(device, &p, 1, parts, &wrong, 0), BG_ERR_INVALID,
		"problem 0: bias needs elements [0, 2) of a buffer of 1");
	wrong = o, wrong.rows = NULL;
	FAILS(bg_gemm_operands(device, &p, 1, parts, &wrong, 0), BG_ERR_INVALID, "rows is NULL");
	wrong = o, wrong.len_rows = -1;
	FAILS(bg_gemm_operands(device, &p, 1, parts, &wrong, 0), BG_ERR_INVALID, "rows: length -1 is negative");
	wrong = o, wrong.len_b2 = 1, wrong.b2 = b2;
	FAILS(bg_gemm_operands(device, &p, 1, parts, &wrong, 0), BG_ERR_INVALID,
		"B2 has 1 elements, but the epilogue does not use it");
	FAILS(bg_gemm_of(device, &p, 1, parts, a, ROWS * K, b, K * N, c, ROWS * N, 0), BG_ERR_INVALID,
		"bias needs elements");
	CHECK(memcmp(c, want, sizeof want) == 0);
	OK(bg_gemm_of(device, &p, 1, "{\"epilogue\": {\"activation\": \"relu\"}}", a, ROWS * K, b, K * N, c,
		ROWS * N, 0));
}

/* Records of a program with an epilogue have bias, lists and all. */
static void test_records(bg_device device) {
	uint32_t rows[3 * M];
	float c[ROWS * N], want[ROWS * N];
	all_parts(rows, c, want);
	bg_ragged r = {.struct_size = sizeof r, .form = BG_RECORDS, .groups = 2, .m = M, .n = N, .k = K,
	               .len_a = ROWS * K, .len_b = K * N,
	               .len_c = ROWS * N, .len_bias = N, .len_rows = 3 * M};
	bg_program program;
	OK(bg_prepare_ragged(device, &r, parts, &program));
	bg_epilogue_record records[2] = {{.record = {.m = M, .n = N, .k = K, .lda = K, .ldb = N, .ldc = N,
		.alpha = 1, .beta = 2}, .rows_c = M, .weights = 2 * M}};
	CHECK(sizeof *records == 80);
	bg_operands o = {.struct_size = sizeof o, .a = upload(device, a, ROWS * K), .b = upload(device, b, K * N),
	                 .c = upload(device, c, ROWS * N),
	                 .sizes = upload(device, records, sizeof records / 4), .bias = upload(device, bias, N),
	                 .rows = upload(device, rows, 3 * M)};
	OK(bg_run_operands(program, &o));
	OK(bg_buffer_read(o.c, 0, c, ROWS * N, BG_NO_TIMEOUT));
	CHECK(memcmp(c, want, sizeof want) == 0);
	OK(bg_program_status(program, BG_NO_TIMEOUT));
	records[0].weights++;
	OK(bg_buffer_write(o.sizes, 0, records, sizeof records / 4, BG_NO_TIMEOUT));
	OK(bg_run_operands(program, &o));
	FAILS(bg_program_status(program, BG_NO_TIMEOUT), BG_ERR_INVALID, "problem 0: sizes do not fit");
	r.struct_size = offsetof(bg_ragged, len_b2); /* of before these */
	OK(bg_prepare_ragged(device, &r, NULL, &program));
}

static void put(uint32_t *rows, const float *numbers, size_t n) {
	memcpy(rows, numbers, n * sizeof *numbers);
}

/* Elements of 8 bits, with scales of the rows of A that are gathered and of the columns of B: in a
 * problem, on host memory, by ends and by records. The bits are those of a and b. */
static void test_scales(bg_device device, const char *type, const uint8_t bits_a[ROWS * K],
	const uint8_t bits_b[K * N]) {
	enum { SCALES = M, OF_B = M + ROWS, WORDS = OF_B + N };
	const int32_t from[M] = {2, -1, 3};
	const float scale_a[ROWS] = {100, 200, 0.5f, -2}, scale_b[N] = {3, 0.25f};
	uint32_t rows[WORDS];
	memcpy(rows, from, sizeof from), put(rows + SCALES, scale_a, ROWS), put(rows + OF_B, scale_b, N);
	float c[M * N], want[M * N];
	for (int i = 0; i < M * N; i++) {
		int row = from[i / N];
		want[i] = row < 0 ? 0 : dot(row, i % N, b) * scale_a[row] * scale_b[i % N];
	}
	char scaled[128];
	snprintf(scaled, sizeof scaled, "{\"type_a\": \"%s\", \"epilogue\": {\"gather_rows\": 4, \"scale_a\": "
		"\"row\", \"scale_b\": \"row\"}}", type);
	bg_problem p = {.struct_size = sizeof p, .m = M, .n = N, .k = K, .lda = K, .ldb = N, .ldc = N, .alpha = 1,
		.scale_a = SCALES, .scale_b = OF_B};
	bg_host_operands host = {.struct_size = sizeof host, .a = bits_a, .len_a = ROWS * K, .b = bits_b,
	                         .len_b = K * N, .c = c, .len_c = M * N,
	                         .rows = rows, .len_rows = WORDS};
	OK(bg_gemm_operands(device, &p, 1, scaled, &host, BG_NO_TIMEOUT));
	CHECK(memcmp(c, want, sizeof want) == 0);
	host.len_rows--;
	FAILS(bg_gemm_operands(device, &p, 1, scaled, &host, 0), BG_ERR_INVALID,
		"problem 0: scales of B need words [7, 9) of a buffer of 8");
	FAILS(bg_gemm_operands(device, &p, 1, "{\"epilogue\": {\"scale_a\": \"row\"}}", &host, 0), BG_ERR_INVALID,
		"scales are for elements of e4m3 or int8, not f32");

	bg_ragged ends = {.struct_size = sizeof ends, .form = BG_ENDS_OF_ROWS, .groups = 1, .m = M, .n = N,
	                  .k = K, .lda = K, .ldb = N, .ldc = N, .alpha = 1,
	                  .scale_a = SCALES, .scale_b = OF_B};
	bg_ragged any = {.struct_size = sizeof any, .form = BG_RECORDS, .groups = 1, .m = M, .n = N, .k = K,
	                 .len_a = ROWS * K, .len_b = K * N,
	                 .len_c = M * N, .len_rows = WORDS};
	bg_scaled_record record = {.record = {.record = {.m = M, .n = N, .k = K, .lda = K, .ldb = N, .ldc = N,
		.alpha = 1}}, .scale_a = SCALES, .scale_b = OF_B};
	const int32_t end = M;
	bg_operands o = {.struct_size = sizeof o, .rows = upload(device, rows, WORDS)};
	OK(bg_buffer_new_of(device, type, ROWS * K, &o.a));
	OK(bg_buffer_write(o.a, 0, bits_a, ROWS * K, BG_NO_TIMEOUT));
	OK(bg_buffer_new_of(device, type, K * N, &o.b));
	OK(bg_buffer_write(o.b, 0, bits_b, K * N, BG_NO_TIMEOUT));
	for (int records = 0; records < 2; records++) {
		bg_program program;
		OK(bg_prepare_ragged(device, records ? &any : &ends, scaled, &program));
		o.sizes = records ? upload(device, &record, sizeof record / 4) : upload(device, &end, 1);
		memset(c, 0, sizeof c);
		o.c = upload(device, c, M * N);
		OK(bg_run_operands(program, &o));
		OK(bg_program_status(program, BG_NO_TIMEOUT));
		OK(bg_buffer_read(o.c, 0, c, M * N, BG_NO_TIMEOUT));
		CHECK(memcmp(c, want, sizeof want) == 0);
	}
}

/* Programs of before the epilogue have shorter structs. */
static void test_shorter(bg_device device) {
	bg_problem p = {.struct_size = offsetof(bg_problem, offset_b2), .m = M, .n = N, .k = K, .lda = K,
		.ldb = N, .ldc = N, .alpha = 1};
	bg_plan plan;
	OK(bg_plan_new(device, &p, 1, NULL, &plan));
	bg_problem before_pointers = p;
	before_pointers.struct_size = offsetof(bg_problem, pointers), before_pointers.ldb2 = N;
	OK(bg_plan_new(device, &before_pointers, 1, "{\"epilogue\": {\"gated\": true}}", &plan));
	before_pointers.struct_size = offsetof(bg_problem, scale_a);
	OK(bg_plan_new(device, &before_pointers, 1, "{\"epilogue\": {\"gated\": true}}", &plan));
	p.struct_size -= 8;
	FAILS(bg_plan_new(device, &p, 1, NULL, &plan), BG_ERR_INVALID, "must be sizeof(bg_problem)");
}

/* The CPU has no pointers. */
static void test_pointers(bg_device device) {
	bg_problem p = bg_problem_of(M, N, K);
	bg_plan plan;
	bg_buffer buffer = upload(device, a, 1);
	uint64_t address = 1;
	FAILS(bg_plan_new(device, &p, 1, "{\"epilogue\": {\"pointers\": {\"b\": true}}}", &plan), BG_ERR_INVALID,
		"has no kernels for pointers");
	FAILS(bg_buffer_address(buffer, &address), BG_ERR_FAILED, "backend cpu has no addresses of buffers");
	CHECK(address == 0);
}

int main(void) {
	bg_device device;
	OK(bg_open("cpu", -1, &device));
	test_parts(device);
	test_gated(device);
	test_host(device);
	test_records(device);
	test_scales(device, "e4m3", (const uint8_t[]){0x38, 0x40, 0x44, 0xc8, 0x4a, 0x4c, 0xce, 0x50},
		(const uint8_t[]){0x38, 0xc0, 0x44, 0x38});
	test_scales(device, "int8", (const uint8_t[]){1, 2, 3, 0xfc, 5, 6, 0xf9, 8},
		(const uint8_t[]){1, 0xfe, 3, 1});
	test_shorter(device);
	test_pointers(device);
	OK(bg_close(device));
	puts("ok");
	return 0;
}
