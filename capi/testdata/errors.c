/* Mistakes of callers: each has its status and its words, and changes nothing. */
#include "check.h"

#include <pthread.h>

static bg_problem one; /* 2x2 times 2x2 */
static float a[4] = {1, 2, 3, 4}, c[4] = {7, 7, 7, 7};

static bg_status gemm(bg_device device, bg_problem p, int64_t len_c) {
	return bg_gemm(device, &p, 1, a, 4, a, 4, c, len_c, BG_NO_TIMEOUT);
}

static void test_open(void) {
	bg_device device = 99;
	FAILS(bg_open("metal", -1, &device), BG_ERR_INVALID, "unknown backend \"metal\"");
	CHECK(device == 0);
	FAILS(bg_open("metal", 3, &device), BG_ERR_INVALID, "(known: cuda, hip, webgpu, cpu)");
	FAILS(bg_open("cpu", 5, &device), BG_ERR_INVALID, "no device 5 (known: 0 ");
	FAILS(bg_open("cpu", -2, &device), BG_ERR_INVALID, "no device -2");
	FAILS(bg_open(NULL, 0, &device), BG_ERR_INVALID, "device 0 needs a backend");
	FAILS(bg_open("hip", -1, &device), BG_ERR_UNAVAILABLE, "hip");
	FAILS(bg_open("hip", 5, &device), BG_ERR_UNAVAILABLE, "hip");
	FAILS(bg_open("cpu", -1, NULL), BG_ERR_INVALID, "device is NULL");
}

static void test_problems(bg_device device) {
	bg_problem p = one;
	p.m = -1;
	FAILS(gemm(device, p, 4), BG_ERR_INVALID, "problem 0: M -1 is negative");
	p = one, p.lda = 1;
	FAILS(gemm(device, p, 4), BG_ERR_INVALID, "problem 0: lda 1 < row length 2");
	p = one, p.offset_c = 1;
	FAILS(gemm(device, p, 4), BG_ERR_INVALID, "problem 0: C needs elements [1, 5) of a buffer of 4");
	p = one, p.offset_a = INT64_MAX;
	FAILS(gemm(device, p, 4), BG_ERR_INVALID, "problem 0: A does not fit");
	p = one, p.flags = 4;
	FAILS(gemm(device, p, 4), BG_ERR_INVALID, "problem 0: flags 0x4");
	p = one, p.struct_size = 0;
	FAILS(gemm(device, p, 4), BG_ERR_INVALID, "struct_size 0");
	p = one, p.struct_size += 1;
	FAILS(gemm(device, p, 4), BG_ERR_INVALID, "struct_size");
	bg_problem two[2] = {one, one};
	two[1].struct_size = 8;
	FAILS(bg_gemm(device, two, 2, a, 4, a, 4, c, 4, 0), BG_ERR_INVALID, "problem 1: struct_size 8");
	two[1] = one;
	FAILS(bg_gemm(device, two, 2, a, 4, a, 4, c, 4, 0), BG_ERR_INVALID, "problem 1");
	FAILS(bg_gemm(device, &one, -1, a, 4, a, 4, c, 4, 0), BG_ERR_INVALID, "count -1");
	FAILS(bg_gemm(device, &one, INT64_MAX, a, 4, a, 4, c, 4, 0), BG_ERR_INVALID, "count");
	FAILS(bg_gemm(device, NULL, 1, a, 4, a, 4, c, 4, 0), BG_ERR_INVALID, "problems is NULL");
	FAILS(bg_gemm(device, &one, 1, NULL, 4, a, 4, c, 4, 0), BG_ERR_INVALID, "a is NULL");
	FAILS(bg_gemm(device, &one, 1, a, 4, a, -4, c, 4, 0), BG_ERR_INVALID, "b: length -4 is negative");
	FAILS(bg_gemm(device, &one, 1, a, 4, a, 4, c, INT64_MAX, 0), BG_ERR_INVALID, "c: ");
	FAILS(bg_gemm(device, &one, 1, a, 4, a, 4, c, INT64_MAX / 4 + 1, 0), BG_ERR_INVALID,
		"c: 2305843009213693952 elements are more than");
	FAILS(bg_gemm(device, &one, 1, a, 4, a, 4, c, 4, -1), BG_ERR_INVALID, "timeout_ms -1");
	for (int i = 0; i < 4; i++) CHECK(c[i] == 7);
	OK(gemm(device, one, INT64_MAX / 4)); /* it needs 4 of these */
	CHECK(c[0] == 7 && c[1] == 10 && c[2] == 15 && c[3] == 22);
}

static void test_options(bg_device device) {
	static const struct { const char *options, *words; } cases[] = {
		{"", "options"}, {"[]", "options"}, {"{\"tiles\": 1}", "tiles"}, {"{} {}", "text follows"},
		{"{\"tile\": \"huge\"}", "unknown tile \"huge\""}, {"{\"rule\": \"luck\"}", "unknown rule"},
		{"{\"compute\": \"f64\"}", "unknown compute"}, {"{\"schedule\": 3}", "options"},
		{"{\"Compute\": \"f32\"}", "options: unknown field \"Compute\""},
		{"{\"WARMED\": true}", "unknown field \"WARMED\""},
		{"{\"\": 1}", "unknown field \"\""}, {"{\"-\": 1}", "unknown field \"-\""},
		{"{\"Options\": {}}", "unknown field \"Options\""},
		{"{\"epilogue\": {\"Bias\": true}}", "unknown field \"epilogue.Bias\""},
		{"{\"epilogue\": {\"pointers\": {\"A\": true}}}", "unknown field \"epilogue.pointers.A\""},
		{"{\"tile\": \"tiny\", \"tile\": \"small\"}", "field \"tile\" occurs twice"},
		{"{\"epilogue\": {\"bias\": true, \"bias\": true}}", "field \"epilogue.bias\" occurs twice"},
		{"{\"epilogue\": 3}", "options"}, {"{\"tile\": {\"a\": 1}}", "options"}, {"{\"tile\"}", "options"},
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		bg_plan plan = 99;
		FAILS(bg_plan_new(device, &one, 1, cases[i].options, &plan), BG_ERR_INVALID, cases[i].words);
		CHECK(plan == 0);
	}
}

static void test_buffers(bg_device device) {
	bg_buffer b;
	float x[5] = {0};
	FAILS(bg_buffer_new(device, -1, &b), BG_ERR_INVALID, "buffer of -1 elements");
	FAILS(bg_buffer_new(device, INT64_MAX, &b), BG_ERR_OUT_OF_MEMORY, "out of memory");
	FAILS(bg_buffer_new(device, 4, NULL), BG_ERR_INVALID, "buffer is NULL");
	FAILS(bg_buffer_wrap(device, 4096, 4, &b), BG_ERR_FAILED, "cpu");
	FAILS(bg_buffer_wrap(device, 4096, 0, &b), BG_ERR_INVALID, "wrap 0 elements");
	FAILS(bg_buffer_wrap(device, 4096, INT64_MAX, &b), BG_ERR_INVALID, "elements: addresses do not reach");
	FAILS(bg_open_on_stream(device, 2, &b), BG_ERR_FAILED, "cpu");
	OK(bg_buffer_new(device, 4, &b));
	FAILS(bg_buffer_write(b, 0, x, 5, 0), BG_ERR_INVALID, "5 elements from 0 on, in a buffer of 4");
	FAILS(bg_buffer_read(b, INT64_MAX, x, 1, 0), BG_ERR_INVALID, "in a buffer of 4");
	FAILS(bg_buffer_read(b, -1, x, 1, 0), BG_ERR_INVALID, "in a buffer of 4");
	FAILS(bg_buffer_read(b, 0, NULL, 1, 0), BG_ERR_INVALID, "dst is NULL");
	FAILS(bg_buffer_write(b, 0, NULL, 1, 0), BG_ERR_INVALID, "src is NULL");
	OK(bg_buffer_write(b, 4, (float *)1, 0, 0));
	OK(bg_buffer_read(b, 4, (float *)1, 0, 0));
	OK(bg_close(b));
	OK(bg_buffer_new(device, 0, &b));
	OK(bg_close(b));
}

static void test_handles(bg_device device) {
	bg_device other;
	bg_plan plan;
	bg_program program;
	bg_buffer x, y, z, small, foreign;
	OK(bg_open("cpu", -1, &other));
	OK(bg_plan_new(device, &one, 1, NULL, &plan));
	OK(bg_prepare(device, plan, &program));
	OK(bg_buffer_new(device, 4, &x));
	OK(bg_buffer_new(device, 4, &y));
	OK(bg_buffer_new(device, 4, &z));
	OK(bg_buffer_new(device, 3, &small));
	OK(bg_buffer_new(other, 4, &foreign));
	OK(bg_run(program, x, y, z));
	OK(bg_run(program, x, x, z));
	FAILS(bg_run(program, x, y, x), BG_ERR_INVALID, "C is also A");
	FAILS(bg_run(program, x, y, small), BG_ERR_INVALID, "C has 3 elements, the plan needs 4");
	FAILS(bg_run(program, x, foreign, z), BG_ERR_INVALID, "belongs to another device");
	FAILS(bg_run(program, x, plan, z), BG_ERR_HANDLE, "b: buffer: handle");
	FAILS(bg_run(program, x, plan, z), BG_ERR_HANDLE, "is a plan");
	FAILS(bg_run(x, x, y, z), BG_ERR_HANDLE, "is a buffer");
	FAILS(bg_run(0, x, y, z), BG_ERR_HANDLE, "the handle is 0");
	FAILS(bg_run(program, 0, y, z), BG_ERR_HANDLE, "a is missing: its handle is 0");
	FAILS(bg_run(program, x, 0, z), BG_ERR_HANDLE, "b is missing: its handle is 0");
	FAILS(bg_run(program, x, y, 0), BG_ERR_HANDLE, "c is missing: its handle is 0");
	FAILS(bg_run_ragged(program, 0, x, y, z), BG_ERR_HANDLE, "sizes is missing: its handle is 0");
	FAILS(bg_run(program, x, UINT64_MAX, z), BG_ERR_HANDLE,
		"b: buffer: handle 18446744073709551615 is unknown");
	FAILS(bg_wait(program, 0), BG_ERR_HANDLE, "is a program");
	FAILS(bg_plan_explain(device, NULL, 0, NULL), BG_ERR_HANDLE, "is a device");
	size_t needed = 99;
	FAILS(bg_device_info(UINT64_MAX, NULL, 0, &needed), BG_ERR_HANDLE, "unknown");
	CHECK(needed == 0);
	FAILS(bg_close(0), BG_ERR_HANDLE, "the handle is 0");
	uint64_t out = 9; /* 0 after a failure */
	int32_t done = 9;
	FAILS(bg_buffer_address(program, &out), BG_ERR_HANDLE, "is a program");
	CHECK(out == 0);
	FAILS(bg_read_done(x, &done), BG_ERR_HANDLE, "is a buffer");
	CHECK(done == 0);
	out = 9;
	FAILS(bg_buffer_slice(program, 0, 4, &out), BG_ERR_HANDLE, "is a program");
	CHECK(out == 0);
	OK(bg_close(x));
	FAILS(bg_close(x), BG_ERR_HANDLE, "was closed");
	FAILS(bg_run(program, x, y, z), BG_ERR_HANDLE, "was closed");

	/* A device takes its programs and buffers with it, plans stay. */
	OK(bg_close(device));
	FAILS(bg_close(device), BG_ERR_HANDLE, "was closed");
	FAILS(bg_close(program), BG_ERR_HANDLE, "was closed");
	FAILS(bg_buffer_read(y, 0, a, 1, 0), BG_ERR_HANDLE, "was closed");
	FAILS(bg_wait(device, 0), BG_ERR_HANDLE, "was closed");
	OK(bg_plan_explain(plan, NULL, 0, NULL));
	OK(bg_prepare(other, plan, &program));
	OK(bg_close(plan));
	OK(bg_buffer_write(foreign, 0, a, 4, 0));
	OK(bg_close(other));
}

static void *quiet(void *unused) {
	CHECK(strcmp(bg_last_error(), "") == 0); /* another thread's errors are not ours */
	FAILS(bg_close(12345678), BG_ERR_HANDLE, "12345678");
	return unused;
}

static void test_threads(void) {
	pthread_t thread;
	FAILS(bg_close(0), BG_ERR_HANDLE, "the handle is 0");
	const char *text = bg_last_error();
	CHECK(pthread_create(&thread, NULL, quiet, NULL) == 0 && pthread_join(thread, NULL) == 0);
	CHECK(text == bg_last_error() && strstr(text, "the handle is 0"));
}

/* A time limit that no processor keeps: 1 ms for 34 G multiply-adds. */
static void test_timeout(bg_device device) {
	enum { SIZE = 2048, COUNT = 4 };
	bg_problem p[COUNT];
	float *x = numbers((int64_t)SIZE * SIZE, 1), *y = numbers((int64_t)COUNT * SIZE * SIZE, 5);
	for (int i = 0; i < COUNT; i++)
		p[i] = bg_problem_of(SIZE, SIZE, SIZE), p[i].offset_c = (int64_t)i * SIZE * SIZE;
	FAILS(bg_gemm(device, p, COUNT, x, SIZE * SIZE, x, SIZE * SIZE, y, (int64_t)COUNT * SIZE * SIZE, 1),
		BG_ERR_TIMEOUT, "the time limit of 1 ms was reached");
	/* what the CPU leaves is old or new, or part of a sum of ones */
	for (int64_t i = 0; i < (int64_t)COUNT * SIZE * SIZE; i++) CHECK(y[i] >= 0 && y[i] <= SIZE);
	free(x), free(y);
}

int main(void) {
	CHECK(bg_abi_version() == BG_ABI_VERSION);
	CHECK(strcmp(bg_version(), BG_VERSION) == 0);
	CHECK(strcmp(bg_last_error(), "") == 0);
	one = bg_problem_of(2, 2, 2);
	bg_device device;
	test_open();
	OK(bg_open("cpu", -1, &device));
	test_problems(device);
	test_options(device);
	test_buffers(device);
	test_threads();
	test_timeout(device);
	test_handles(device);
	puts("ok");
	return 0;
}
