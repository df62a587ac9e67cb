//go:build cgo && linux && (amd64 || arm64)

// The functions of batchgemm.h. Unless the process was forked, each enters Go with signals blocked. It
// passes NULL for an empty array. Its pointer may be any number, and Go may end the process if it finds a
// number below 4096 where its stack has a pointer.

#include "internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "_cgo_export.h"

// The error of a thread is in thread-specific data, not in a __thread variable. Libraries that are loaded
// late share little memory for such variables, and pthreads frees this data when its thread ends.
static pthread_key_t last_error;
static int has_key;
static volatile int forked;

static void after_fork(void) { forked = 1; }

// A handler without SA_ONSTACK runs on the stack that it interrupts, and stacks of goroutines have no room
// for it. So Go runs with signals blocked, except those that it needs: SIGURG stops goroutines, and
// instructions raise the others.
static sigset_t in_go;
static const int needed_by_go[] = {SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, SIGURG};

static sigset_t while_loading;

// Go starts its first thread in a constructor without a priority: after this constructor, and before those
// of the C files. Its threads inherit the mask, except that Go unblocks SIGCHLD, SIGPROF and signals 16 and
// 34.
__attribute__((constructor(101))) static void block_signals(void) {
	sigfillset(&in_go);
	for (size_t i = 0; i < sizeof needed_by_go / sizeof *needed_by_go; i++)
		sigdelset(&in_go, needed_by_go[i]);
	pthread_sigmask(SIG_SETMASK, &in_go, &while_loading);
}

__attribute__((constructor)) static void start(void) {
	pthread_sigmask(SIG_SETMASK, &while_loading, NULL);
	has_key = pthread_key_create(&last_error, free) == 0;
	pthread_atfork(NULL, NULL, after_fork);
}

void capi_handle_signals(const sigset_t *mask) {
	sigset_t before;
	pthread_sigmask(SIG_SETMASK, mask, &before);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void capi_set_error(char *text) {
	char *before = has_key ? pthread_getspecific(last_error) : text;
	if (has_key && pthread_setspecific(last_error, text)) before = text; // no memory: the old text stays
	free(before);
}

const char *bg_last_error(void) {
	const char *text = has_key ? pthread_getspecific(last_error) : NULL;
	return text ? text : "";
}

uint32_t bg_abi_version(void) { return BG_ABI_VERSION; }

const char *bg_version(void) { return BG_VERSION; }

static bg_status refuse(void) {
	capi_set_error(strdup("this process is a child of fork(), where batchgemm cannot run: start it by exec"));
	return BG_ERR_FORKED;
}

#define ENTER(call)                                     \
	do {                                                \
		if (forked) return refuse();                    \
		sigset_t mask;                                  \
		pthread_sigmask(SIG_SETMASK, &in_go, &mask);    \
		bg_status status = (call);                      \
		pthread_sigmask(SIG_SETMASK, &mask, NULL);      \
		return status;                                  \
	} while (0)
#define ARRAY(pointer, length) ((length) > 0 ? (pointer) : NULL)

bg_status bg_open(const char *backend, int32_t index, bg_device *device) {
	ENTER(goOpen(&mask, (char *)backend, index, device));
}

bg_status bg_open_on_stream(bg_device device, uintptr_t stream, bg_device *opened) {
	ENTER(goOpenOnStream(&mask, device, stream, opened));
}

bg_status bg_device_info(bg_device device, char *text, size_t size, size_t *needed) {
	ENTER(goDeviceInfo(&mask, device, text, size, needed));
}

bg_status bg_plan_new(bg_device device, const bg_problem *problems, int64_t count, const char *options,
	bg_plan *plan) {
	ENTER(goPlanNew(&mask, device, (bg_problem *)ARRAY(problems, count), count, (char *)options, plan));
}

bg_status bg_warm(bg_device device, const char *options, uint32_t flags, int64_t timeout_ms) {
	ENTER(goWarm(&mask, device, (char *)options, flags, timeout_ms));
}

bg_status bg_plan_explain(bg_plan plan, char *text, size_t size, size_t *needed) {
	ENTER(goPlanExplain(&mask, plan, text, size, needed));
}

bg_status bg_prepare(bg_device device, bg_plan plan, bg_program *program) {
	ENTER(goPrepare(&mask, device, plan, program));
}

bg_status bg_update(bg_program program, const bg_problem *problems, int64_t count) {
	ENTER(goUpdate(&mask, program, (bg_problem *)ARRAY(problems, count), count));
}

bg_status bg_prepare_ragged(bg_device device, const bg_ragged *ragged, const char *options,
	bg_program *program) {
	ENTER(goPrepareRagged(&mask, device, (bg_ragged *)ragged, (char *)options, program));
}

bg_status bg_prepare_routing(bg_device device, const bg_choices *choices, const char *type,
	bg_program *program) {
	ENTER(goPrepareRouting(&mask, device, (bg_choices *)choices, (char *)type, program));
}

bg_status bg_prepare_combine(bg_device device, const bg_choices *choices, int64_t hidden, const char *type,
	bg_program *program) {
	ENTER(goPrepareCombine(&mask, device, (bg_choices *)choices, hidden, (char *)type, program));
}

bg_status bg_prepare_gate(bg_device device, const bg_choices *choices, const bg_gate *gate, const char *type,
	bg_program *program) {
	ENTER(goPrepareGate(&mask, device, (bg_choices *)choices, (bg_gate *)gate, (char *)type, 0, program));
}

bg_status bg_prepare_gate_backward(bg_device device, const bg_choices *choices, const bg_gate *gate,
	const char *type, bg_program *program) {
	ENTER(goPrepareGate(&mask, device, (bg_choices *)choices, (bg_gate *)gate, (char *)type, 1, program));
}

bg_status bg_run_all_at(uintptr_t stream, const bg_program *programs, const bg_addresses *addresses,
	size_t count) {
	ENTER(goRunAllAt(&mask, stream, (bg_program *)ARRAY(programs, count),
		(bg_addresses *)ARRAY(addresses, count), count));
}

bg_status bg_prepare_experts(bg_device device, const bg_experts *experts, const char *weights,
	const char *options, bg_program *program) {
	ENTER(goPrepareExperts(&mask, device, (bg_experts *)experts, (char *)weights, (char *)options, program));
}

bg_status bg_experts_scales(bg_program program, int64_t *gate_up, int64_t *down, int64_t *words) {
	ENTER(goExpertsScales(&mask, program, gate_up, down, words));
}

bg_status bg_run_experts(bg_program program, const bg_expert_operands *operands) {
	ENTER(goRunExperts(&mask, program, (bg_expert_operands *)operands));
}

bg_status bg_run_experts_at(bg_program program, uintptr_t stream, const bg_expert_addresses *addresses) {
	ENTER(goRunExpertsAt(&mask, program, stream, (bg_expert_addresses *)addresses));
}

bg_status bg_buffer_new(bg_device device, int64_t count, bg_buffer *buffer) {
	ENTER(goBufferNew(&mask, device, NULL, count, buffer));
}

bg_status bg_buffer_new_of(bg_device device, const char *type, int64_t count, bg_buffer *buffer) {
	ENTER(goBufferNew(&mask, device, (char *)type, count, buffer));
}

bg_status bg_buffer_wrap(bg_device device, uintptr_t address, int64_t count, bg_buffer *buffer) {
	ENTER(goBufferWrap(&mask, device, NULL, address, count, buffer));
}

bg_status bg_buffer_wrap_of(bg_device device, const char *type, uintptr_t address, int64_t count,
	bg_buffer *buffer) {
	ENTER(goBufferWrap(&mask, device, (char *)type, address, count, buffer));
}

bg_status bg_buffer_address(bg_buffer buffer, uint64_t *address) {
	ENTER(goBufferAddress(&mask, buffer, address));
}

bg_status bg_buffer_write(bg_buffer buffer, int64_t offset, const void *src, int64_t count,
	int64_t timeout_ms) {
	ENTER(goBufferWrite(&mask, buffer, offset, (void *)ARRAY(src, count), count, timeout_ms));
}

bg_status bg_buffer_read(bg_buffer buffer, int64_t offset, void *dst, int64_t count, int64_t timeout_ms) {
	ENTER(goBufferRead(&mask, buffer, offset, ARRAY(dst, count), count, timeout_ms));
}

bg_status bg_buffer_slice(bg_buffer buffer, int64_t offset, int64_t count, bg_buffer *slice) {
	ENTER(goBufferSlice(&mask, buffer, offset, count, slice));
}

bg_status bg_copy(bg_device device, bg_buffer dst, bg_buffer src) { ENTER(goCopy(&mask, device, dst, src)); }

bg_status bg_buffer_read_async(bg_buffer buffer, int64_t offset, void *dst, int64_t count, bg_read *read) {
	ENTER(goBufferReadAsync(&mask, buffer, offset, ARRAY(dst, count), count, read));
}

bg_status bg_read_done(bg_read read, int32_t *done) { ENTER(goReadDone(&mask, read, done)); }

bg_status bg_read_notify(bg_read read, int fd) { ENTER(goReadNotify(&mask, read, fd)); }

bg_status bg_read_wait(bg_read read, int64_t timeout_ms) { ENTER(goReadWait(&mask, read, timeout_ms)); }

bg_status bg_run(bg_program program, bg_buffer a, bg_buffer b, bg_buffer c) {
	ENTER(goRun(&mask, program, a, b, c));
}

bg_status bg_run_ragged(bg_program program, bg_buffer sizes, bg_buffer a, bg_buffer b, bg_buffer c) {
	ENTER(goRunRagged(&mask, program, sizes, a, b, c));
}

bg_status bg_run_operands(bg_program program, const bg_operands *operands) {
	ENTER(goRunOperands(&mask, program, (bg_operands *)operands));
}

bg_status bg_run_at(bg_program program, uintptr_t stream, const bg_addresses *addresses) {
	ENTER(goRunAt(&mask, program, stream, (bg_addresses *)addresses));
}

bg_status bg_program_status(bg_program program, int64_t timeout_ms) {
	ENTER(goProgramStatus(&mask, program, timeout_ms));
}

bg_status bg_wait(bg_device device, int64_t timeout_ms) { ENTER(goWait(&mask, device, timeout_ms)); }

bg_status bg_gemm(bg_device device, const bg_problem *problems, int64_t count, const float *a, int64_t len_a,
	const float *b, int64_t len_b, float *c, int64_t len_c, int64_t timeout_ms) {
	return bg_gemm_of(device, problems, count, NULL, a, len_a, b, len_b, c, len_c, timeout_ms);
}

bg_status bg_gemm_of(bg_device device, const bg_problem *problems, int64_t count, const char *options,
	const void *a,
	int64_t len_a, const void *b, int64_t len_b, void *c, int64_t len_c, int64_t timeout_ms) {
	ENTER(goGEMM(&mask, device, (bg_problem *)ARRAY(problems, count), count, (char *)options,
		(void *)ARRAY(a, len_a), len_a,
		(void *)ARRAY(b, len_b), len_b, ARRAY(c, len_c), len_c, timeout_ms));
}

bg_status bg_gemm_async(bg_device device, const bg_problem *problems, int64_t count, const char *options,
	const void *a,
	int64_t len_a, const void *b, int64_t len_b, void *c, int64_t len_c, bg_read *read) {
	ENTER(goGEMMAsync(&mask, device, (bg_problem *)ARRAY(problems, count), count, (char *)options,
		(void *)ARRAY(a, len_a), len_a,
		(void *)ARRAY(b, len_b), len_b, ARRAY(c, len_c), len_c, read));
}

bg_status bg_gemm_operands(bg_device device, const bg_problem *problems, int64_t count, const char *options,
	const bg_host_operands *operands, int64_t timeout_ms) {
	ENTER(goGEMMOperands(&mask, device, (bg_problem *)ARRAY(problems, count), count, (char *)options,
		(bg_host_operands *)operands, timeout_ms));
}

bg_status bg_gemm_operands_async(bg_device device, const bg_problem *problems, int64_t count,
	const char *options,
	const bg_host_operands *operands, bg_read *read) {
	ENTER(goGEMMOperandsAsync(&mask, device, (bg_problem *)ARRAY(problems, count), count, (char *)options,
		(bg_host_operands *)operands, read));
}

/* ARRAY of a matrix: it has elements if neither size is 0. */
#define MATRIX(pointer, n, k) ARRAY(pointer, (n) < (k) ? (n) : (k))

bg_status bg_pack_int4(const uint8_t *weights, int64_t n, int64_t k, uint32_t *words) {
	ENTER(goPackInt4(&mask, (void *)MATRIX(weights, n, k), n, k, MATRIX(words, n, k)));
}

bg_status bg_unpack_int4(const uint32_t *words, int64_t n, int64_t k, uint8_t *weights) {
	ENTER(goUnpackInt4(&mask, (void *)MATRIX(words, n, k), n, k, MATRIX(weights, n, k)));
}

bg_status bg_group_words(const float *scales, const uint8_t *zeros, int64_t count, uint32_t *words) {
	ENTER(goGroupWords(&mask, (void *)ARRAY(scales, count), (void *)ARRAY(zeros, count), count,
		ARRAY(words, count)));
}

bg_status bg_split_group_words(const uint32_t *words, int64_t count, float *scales, uint8_t *zeros) {
	ENTER(goSplitGroupWords(&mask, (void *)ARRAY(words, count), count, ARRAY(scales, count),
		ARRAY(zeros, count)));
}

bg_status bg_quantize_int4(const float *numbers, int64_t n, int64_t k, int32_t group, uint32_t *words,
	uint32_t *groups) {
	ENTER(goQuantizeInt4(&mask, (void *)MATRIX(numbers, n, k), n, k, group, MATRIX(words, n, k),
		MATRIX(groups, n, k)));
}

bg_status bg_pack_fp4(const char *type, const uint8_t *pairs, const uint8_t *scales, float scale, int64_t n,
	int64_t k, uint32_t *words, uint32_t *groups) {
	ENTER(goPackFP4(&mask, (char *)type, (void *)MATRIX(pairs, n, k), (void *)MATRIX(scales, n, k), scale, n,
		k, MATRIX(words, n, k), MATRIX(groups, n, k)));
}

bg_status bg_unpack_fp4(const char *type, const uint32_t *words, const uint32_t *groups, int64_t n, int64_t k,
	uint8_t *pairs, uint8_t *scales, float *scale) {
	ENTER(goUnpackFP4(&mask, (char *)type, (void *)MATRIX(words, n, k), (void *)MATRIX(groups, n, k), n, k,
		MATRIX(pairs, n, k), MATRIX(scales, n, k), scale));
}

bg_status bg_pack_checkpoint(const char *format, const uint32_t *qweight, const uint32_t *qzeros,
	const float *scales, int64_t n, int64_t k, int32_t group, uint32_t *words, uint32_t *groups) {
	ENTER(goPackCheckpoint(&mask, (char *)format, (void *)MATRIX(qweight, n, k), (void *)MATRIX(qzeros, n, k),
		(void *)MATRIX(scales, n, k), n, k, group, MATRIX(words, n, k), MATRIX(groups, n, k)));
}

bg_status bg_unpack_checkpoint(const char *format, const uint32_t *words, const uint32_t *groups, int64_t n,
	int64_t k, int32_t group, uint32_t *qweight, uint32_t *qzeros, float *scales) {
	ENTER(goUnpackCheckpoint(&mask, (char *)format, (void *)MATRIX(words, n, k), (void *)MATRIX(groups, n, k),
		n, k, group, MATRIX(qweight, n, k), MATRIX(qzeros, n, k), MATRIX(scales, n, k)));
}

bg_status bg_sum_columns(const int8_t *b, int64_t rows, int64_t cols, int64_t ld, uint32_t flags,
	int32_t *sums) {
	ENTER(goSumColumns(&mask, (void *)MATRIX(b, rows, cols), rows, cols, ld, flags, ARRAY(sums, cols)));
}

bg_status bg_close(uint64_t handle) { ENTER(goClose(&mask, handle)); }
