/* Memory and a stream of the caller, through libcuda: the installed one, or the one
 * of native/cuda/testdata, which runs on the CPU and counts its objects. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <dlfcn.h>

typedef unsigned long long pointer;
static int (*cuInit)(unsigned), (*cuDeviceGet)(int *, int), (*cuDeviceGetAttribute)(int *, int, int);
static int (*cuDevicePrimaryCtxRetain)(void **, int), (*cuDevicePrimaryCtxRelease_v2)(int);
static int (*cuCtxGetCurrent)(void **), (*cuCtxSetCurrent)(void *);
static int (*cuStreamCreate)(void **, unsigned), (*cuStreamDestroy_v2)(void *);
static int (*cuMemAlloc_v2)(pointer *, size_t), (*cuMemFree_v2)(pointer);
static int (*cuMemcpyHtoDAsync_v2)(pointer, const void *, size_t, void *),
	(*cuMemcpyDtoHAsync_v2)(void *, pointer, size_t, void *);
static int (*cuStreamBeginCapture_v2)(void *, int), (*cuStreamEndCapture)(void *, void **);
static int (*cuGraphInstantiateWithFlags)(void **, void *, unsigned long long),
	(*cuGraphLaunch)(void *, void *);
static int (*cuGraphDestroy)(void *), (*cuGraphExecDestroy)(void *);

static void load(void) {
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	CHECK(library);
#define LOAD(name) CHECK((*(void **)&name = dlsym(library, #name)))
	LOAD(cuInit);
	LOAD(cuDeviceGet);
	LOAD(cuDeviceGetAttribute);
	LOAD(cuDevicePrimaryCtxRetain);
	LOAD(cuDevicePrimaryCtxRelease_v2);
	LOAD(cuCtxGetCurrent);
	LOAD(cuCtxSetCurrent);
	LOAD(cuStreamCreate);
	LOAD(cuStreamDestroy_v2);
	LOAD(cuMemAlloc_v2);
	LOAD(cuMemFree_v2);
	LOAD(cuMemcpyHtoDAsync_v2);
	LOAD(cuMemcpyDtoHAsync_v2);
	LOAD(cuStreamBeginCapture_v2);
	LOAD(cuStreamEndCapture);
	LOAD(cuGraphInstantiateWithFlags);
	LOAD(cuGraphLaunch);
	LOAD(cuGraphDestroy);
	LOAD(cuGraphExecDestroy);
}

static pointer allocate(int64_t count) {
	pointer p;
	CHECK(cuMemAlloc_v2(&p, 4 * (size_t)count) == 0);
	return p;
}

/* capture records a run in a graph of the caller. */
static void *capture(bg_program program, bg_buffer a, bg_buffer b, bg_buffer c, void *stream) {
	void *graph, *launchable;
	CHECK(cuStreamBeginCapture_v2(stream, 0) == 0);
	OK(bg_run(program, a, b, c));
	CHECK(cuStreamEndCapture(stream, &graph) == 0);
	CHECK(cuGraphInstantiateWithFlags(&launchable, graph, 0) == 0 && cuGraphDestroy(graph) == 0);
	return launchable;
}

/* A program of a device with a stream of its own, on the stream and in the memory of the caller, and in a
 * graph. */
static void test_at(bg_device device, bg_device on_stream, void *stream) {
	batch t = new_batch(20, 90, 6);
	bg_addresses at = {.struct_size = sizeof at, .a = allocate(t.len_a), .b = allocate(t.len_b),
		.c = allocate(t.len_c)};
	bg_plan plan;
	bg_program program;
	OK(bg_plan_new(device, t.problems, t.count, "{\"compute\": \"f32\"}", &plan));
	OK(bg_prepare(device, plan, &program));
	OK(bg_wait(device, 60000));
	CHECK(cuMemcpyHtoDAsync_v2(at.a, t.a, 4 * (size_t)t.len_a, stream) == 0);
	CHECK(cuMemcpyHtoDAsync_v2(at.b, t.b, 4 * (size_t)t.len_b, stream) == 0);
	void *graph, *launchable;
	CHECK(cuStreamBeginCapture_v2(stream, 0) == 0);
	OK(bg_run_at(program, (uintptr_t)stream, &at));
	CHECK(cuStreamEndCapture(stream, &graph) == 0);
	CHECK(cuGraphInstantiateWithFlags(&launchable, graph, 0) == 0 && cuGraphDestroy(graph) == 0);
	for (int run = 0; run < 4; run++) {
		CHECK(cuMemcpyHtoDAsync_v2(at.c, t.before, 4 * (size_t)t.len_c, stream) == 0);
		if (run % 2) CHECK(cuGraphLaunch(launchable, stream) == 0);
		else OK(bg_run_at(program, (uintptr_t)stream, &at));
		memset(t.c, 0, 4 * (size_t)t.len_c);
		CHECK(cuMemcpyDtoHAsync_v2(t.c, at.c, 4 * (size_t)t.len_c, stream) == 0);
		OK(bg_wait(on_stream, 60000));
		check_batch(&t);
	}
	FAILS(bg_run_at(program, (uintptr_t)stream, &(bg_addresses){.struct_size = sizeof at, .a = at.a + 4,
		.b = at.b, .c = at.c}),
		BG_ERR_INVALID, "is not a multiple of 16");
	CHECK(cuGraphExecDestroy(launchable) == 0);
	OK(bg_close(program));
	OK(bg_close(plan));
	CHECK(cuMemFree_v2(at.a) == 0 && cuMemFree_v2(at.b) == 0 && cuMemFree_v2(at.c) == 0);
	free_batch(&t);
}

/* The caller's copies, a run and the caller's copy back, without a wait between them. */
static void test_run(bg_device device, void *stream) {
	batch t = new_batch(20, 90, 5);
	pointer a = allocate(t.len_a), b = allocate(t.len_b), c = allocate(t.len_c);
	bg_plan plan;
	bg_program program;
	bg_buffer wa, wb, wc;
	OK(bg_plan_new(device, t.problems, t.count, "{\"compute\": \"f32\"}", &plan));
	OK(bg_prepare(device, plan, &program));
	OK(bg_buffer_wrap(device, (uintptr_t)a, t.len_a, &wa));
	OK(bg_buffer_wrap(device, (uintptr_t)b, t.len_b, &wb));
	OK(bg_buffer_wrap(device, (uintptr_t)c, t.len_c, &wc));
	for (int run = 0; run < 3; run++) {
		CHECK(cuMemcpyHtoDAsync_v2(a, t.a, 4 * (size_t)t.len_a, stream) == 0);
		CHECK(cuMemcpyHtoDAsync_v2(b, t.b, 4 * (size_t)t.len_b, stream) == 0);
		CHECK(cuMemcpyHtoDAsync_v2(c, t.before, 4 * (size_t)t.len_c, stream) == 0);
		OK(bg_run(program, wa, wb, wc));
		memset(t.c, 0, 4 * (size_t)t.len_c);
		CHECK(cuMemcpyDtoHAsync_v2(t.c, c, 4 * (size_t)t.len_c, stream) == 0);
		OK(bg_wait(device, 60000));
		check_batch(&t);
	}
	if (stream) { /* the default stream cannot be captured */
		void *graph = capture(program, wa, wb, wc, stream);
		memset(t.c, 0, 4 * (size_t)t.len_c);
		CHECK(cuMemcpyHtoDAsync_v2(c, t.before, 4 * (size_t)t.len_c, stream) == 0);
		CHECK(cuGraphLaunch(graph, stream) == 0);
		CHECK(cuMemcpyDtoHAsync_v2(t.c, c, 4 * (size_t)t.len_c, stream) == 0);
		OK(bg_wait(device, 60000));
		check_batch(&t);
		CHECK(cuGraphExecDestroy(graph) == 0);
	}
	/* Closing a wrapped buffer neither waits nor frees. */
	memset(t.c, 0, 4 * (size_t)t.len_c);
	CHECK(cuMemcpyHtoDAsync_v2(c, t.before, 4 * (size_t)t.len_c, stream) == 0);
	OK(bg_run(program, wa, wb, wc));
	OK(bg_close(wa));
	OK(bg_close(wb));
	OK(bg_close(wc));
	CHECK(cuMemcpyDtoHAsync_v2(t.c, c, 4 * (size_t)t.len_c, stream) == 0);
	OK(bg_wait(device, BG_NO_TIMEOUT));
	check_batch(&t);
	CHECK(cuMemFree_v2(a) == 0 && cuMemFree_v2(b) == 0 && cuMemFree_v2(c) == 0);
	OK(bg_close(plan));
	free_batch(&t);
}

/* The caller's memory by its addresses, one of them 4 bytes after the start, and offsets. */
static void test_pointers(bg_device device) {
	enum { M = 3, N = 2, K = 2 };
	const float x[] = {9, 1, 2, 3, -4, 5, 6}, y[] = {9, 9, 1, -2, 3, 1};
	float got[M * N + 1];
	pointer a = allocate(7), b = allocate(6), c = allocate(M * N + 1);
	CHECK(cuMemcpyHtoDAsync_v2(a, x, sizeof x, NULL) == 0 && cuMemcpyHtoDAsync_v2(b, y, sizeof y, NULL) == 0);
	bg_problem p = {.struct_size = sizeof p, .m = M, .n = N, .k = K, .lda = K, .offset_b = 2, .ldb = N,
		.ldc = N, .alpha = 1, .pointers = 1};
	bg_plan plan;
	bg_program program;
	bg_buffer rows, wrapped;
	uint64_t address, words[] = {(uint64_t)a + 4, b, (uint64_t)c + 4, 0};
	FAILS(bg_plan_new(device, &p, 1, "{\"epilogue\": {\"pointers\": {\"aligned\": true}}}", &plan),
		BG_ERR_INVALID, "none of A, B and C");
	OK(bg_plan_new(device, &p, 1, "{\"epilogue\": {\"pointers\": {\"a\": true, \"b\": true, \"c\": true}}}",
		&plan));
	OK(bg_prepare(device, plan, &program));
	OK(bg_buffer_new(device, 9, &rows));
	OK(bg_buffer_write(rows, 1, words, 8, BG_NO_TIMEOUT));
	OK(bg_run_operands(program, &(bg_operands){.struct_size = sizeof(bg_operands), .rows = rows}));
	OK(bg_wait(device, BG_NO_TIMEOUT));
	CHECK(cuMemcpyDtoHAsync_v2(got, c, sizeof got, NULL) == 0);
	OK(bg_wait(device, BG_NO_TIMEOUT));
	for (int i = 0; i < M; i++)
		for (int j = 0; j < N; j++)
			CHECK(got[1 + i * N + j] == x[1 + i * K] * y[2 + j] + x[2 + i * K] * y[2 + N + j]);
	FAILS(bg_run_operands(program, &(bg_operands){.struct_size = sizeof(bg_operands)}), BG_ERR_INVALID,
		"Rows is nil");

	OK(bg_buffer_wrap(device, (uintptr_t)a, 7, &wrapped));
	OK(bg_buffer_address(wrapped, &address));
	CHECK(address == a);
	OK(bg_close(wrapped));
	FAILS(bg_buffer_address(wrapped, &address), BG_ERR_HANDLE, "closed");
	CHECK(address == 0);
	FAILS(bg_buffer_address(rows, NULL), BG_ERR_INVALID, "address is NULL");
	OK(bg_close(rows));
	OK(bg_close(program));
	OK(bg_close(plan));
	CHECK(cuMemFree_v2(a) == 0 && cuMemFree_v2(b) == 0 && cuMemFree_v2(c) == 0);
}

static void test_refuses(bg_device device) {
	bg_buffer b;
	pointer p = allocate(64);
	FAILS(bg_buffer_wrap(device, (uintptr_t)p + 4, 1, &b), BG_ERR_INVALID, "multiple of 16 bytes");
	FAILS(bg_buffer_wrap(device, (uintptr_t)p + 16, INT64_MAX, &b), BG_ERR_INVALID, "addresses do not reach");
	FAILS(bg_buffer_wrap(device, (uintptr_t)p + 16, INT64_MAX / 8, &b), BG_ERR_INVALID, "the allocation has");
	FAILS(bg_buffer_wrap_of(device, "f8", (uintptr_t)p, 1, &b), BG_ERR_INVALID, "f8");
	OK(bg_buffer_wrap_of(device, "bf16", (uintptr_t)p, 3, &b));
	OK(bg_close(b));
	FAILS(bg_buffer_wrap(device, 64, 1, &b), BG_ERR_INVALID, "does not know this memory");
	FAILS(bg_buffer_wrap(device, 0, 1, &b), BG_ERR_INVALID, "does not know this memory");
	CHECK(cuMemFree_v2(p) == 0);
}

/* counted asks the library on the CPU for its objects of a kind, as attributes from
 * 10000 on: memory, page-locked memory, contexts, modules, streams, events, graphs.
 * A real library counts nothing. */
enum { KINDS = 7 };
static int counted(int kind) {
	int n = 0;
	return cuDeviceGetAttribute(&n, 10000 + kind, 0) ? 0 : n;
}

int main(void) {
	int ordinal, before[KINDS];
	void *context, *stream, *current;
	bg_device device, on_stream, on_default;
	load();
	CHECK(cuInit(0) == 0 && cuDeviceGet(&ordinal, 0) == 0 &&
		cuDevicePrimaryCtxRetain(&context, ordinal) == 0);
	CHECK(cuCtxSetCurrent(context) == 0 && cuStreamCreate(&stream, 1) == 0);
	for (int i = 0; i < KINDS; i++) before[i] = counted(i);

	CHECK(cuCtxSetCurrent(NULL) == 0);
	OK(bg_open("cuda", 0, &device));
	CHECK(cuCtxGetCurrent(&current) == 0 && current == NULL);
	CHECK(cuCtxSetCurrent(context) == 0);
	OK(bg_open_on_stream(device, (uintptr_t)stream, &on_stream));
	OK(bg_open_on_stream(device, 0, &on_default));
	test_refuses(device);
	test_at(device, on_stream, stream);
	OK(bg_close(device)); /* the others are independent of it */
	test_run(on_stream, stream);
	test_run(on_default, NULL);
	test_pointers(on_default);
	OK(bg_close(on_stream));
	OK(bg_close(on_default));

	CHECK(cuCtxGetCurrent(&current) == 0 && current == context);
	for (int i = 0; i < KINDS; i++) CHECK(counted(i) == before[i]);
	CHECK(cuStreamDestroy_v2(stream) == 0 && cuDevicePrimaryCtxRelease_v2(ordinal) == 0);
	puts("ok");
	return 0;
}
