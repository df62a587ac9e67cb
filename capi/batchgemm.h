/* batchgemm.h: batches of matrix products of different sizes, from C and C++.
 *
 *     C_i = alpha_i * op(A_i) * op(B_i) + beta_i * C_i        every i with its own M, N, K
 *
 * Host memory, one call:
 *
 *     bg_device device;
 *     bg_problem problems[] = {bg_problem_of(2, 3, 4), bg_problem_of(100, 50, 30)}; ... offsets ...
 *     if (bg_open(NULL, -1, &device)) fprintf(stderr, "%s\n", bg_last_error());
 *     bg_gemm(device, problems, count, a, len_a, b, len_b, c, len_c, BG_NO_TIMEOUT);
 *     bg_close(device);
 *
 * Operands that stay on the device: bg_plan_new and bg_prepare once, then bg_run. bg_update takes other
 * sizes. If the sizes are on the device: bg_prepare_ragged and bg_run_ragged. On a CUDA stream and in memory
 * of the caller: bg_open_on_stream and bg_buffer_wrap, or bg_run_at.
 *
 * Results. Every function that can fail returns a bg_status. After a failure, what it returns by pointer is
 * 0, and bg_last_error has the failure in words. If an argument is wrong, no operand is written.
 *
 * Handles are numbers that are never used again, and never 0. A handle that is unknown, was closed, or is of
 * another kind gives BG_ERR_HANDLE.
 *
 * Threads. Any thread may call anything at any time, also with the same handles. An object that is closed
 * while another call uses it lives until that call ends. A call leaves the calling thread's current CUDA
 * context, or HIP device, as it was.
 *
 * Processes. The library runs threads of its own (it is written in Go), and a child of fork() has none of
 * them: there every call returns BG_ERR_FORKED. Start processes by fork() and exec, or before this library is
 * loaded. It cannot be unloaded: dlclose does nothing. It changes no environment variables, and prints
 * nothing but a few lines of wgpu's when a GPU is lost.
 *
 * Signals. Handlers need no SA_ONSTACK, with the exceptions below. They would run on the small stacks of Go,
 * so the library's threads block signals, and a thread blocks them while it is in a call. If no other thread
 * takes a signal to the process, a thread of the library with a large stack handles it within about 10 ms,
 * unless the calling thread blocks it. A signal to the calling thread waits until the call ends. Go does not
 * let its threads block SIGCHLD, SIGPROF, SIGSTKFLT and signal 34 (SIGRTMIN of glibc): handlers of these
 * without SA_ONSTACK can crash the process. The library installs handlers of SIGSEGV, SIGBUS, SIGFPE, SIGPIPE
 * and SIGURG. They pass what does not come from Go to the handlers that were there before. A handler that
 * replaces one of them needs SA_ONSTACK, and calls the one that it replaces.
 *
 * Pointers are used during the call only, except those of bg_buffer_wrap, bg_buffer_read_async, bg_gemm_async
 * and bg_gemm_operands_async. */
#ifndef BATCHGEMM_H
#define BATCHGEMM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The binary interface that this header describes. A new number means that programs must be compiled again.
 * New functions, status codes, and fields at the end of structs do not change it. */
#define BG_ABI_VERSION 1

/* bg_abi_version returns the BG_ABI_VERSION of the loaded library. A program that loads it by dlopen compares
 * the two first. For a linked program the loader does, as every symbol carries the version BATCHGEMM_1. */
uint32_t bg_abi_version(void);

/* The version of the library that this header belongs to. bg_version returns that of the loaded library: it
 * may be another of the same BG_ABI_VERSION. */
#define BG_VERSION "0.2.0"
const char *bg_version(void);

typedef int32_t bg_status;
enum {
	BG_OK = 0,
	BG_ERR_INVALID = 1,       /* an argument is wrong, or objects do not fit; the text names it */
	BG_ERR_HANDLE = 2,        /* a handle is unknown, closed, or of another kind */
	BG_ERR_UNAVAILABLE = 3,   /* the backend cannot run here */
	BG_ERR_OUT_OF_MEMORY = 4, /* of device or host; earlier results are intact, and the device is usable */
	BG_ERR_DEVICE_LOST = 5,   /* the device failed, and so will every later call on it */
	BG_ERR_TIMEOUT = 6,       /* the time limit was reached */
	BG_ERR_FORKED = 7,        /* the process is a child of fork() */
	BG_ERR_FAILED = 8,        /* the driver failed, or the backend cannot do this */
	BG_ERR_INTERNAL = 9       /* a mistake of this library */
};

/* bg_last_error returns the text of the calling thread's last call that failed, in UTF-8; "" if none did. It
 * is valid until the next call that fails on that thread, or the thread ends. */
const char *bg_last_error(void);

typedef uint64_t bg_device, bg_plan, bg_program, bg_buffer, bg_read;

/* Time limits are in milliseconds. */
#define BG_NO_TIMEOUT 0

/* A problem of a batch. op(A) is m x k, op(B) is k x n. All matrices are row-major, of float32 unless options
 * say otherwise. Offsets and leading dimensions count elements: element (i, j) of the stored A is a[offset_a
 * + i*lda + j]. A is stored m x k, or k x m with BG_TRANS_A; B k x n, or n x k with BG_TRANS_B; C m x n.
 *
 * As in BLAS: m = 0 or n = 0 writes nothing; k = 0 or alpha = 0 gives beta*C and reads no A and B; beta = 0
 * never reads C. The C of two problems must not share an element. Offsets in multiples of 4 are faster.
 *
 * bg_problem_of makes a problem with alpha 1. In a struct of zeros alpha is 0, and C becomes 0. */
typedef struct bg_problem {
	uint32_t struct_size; /* sizeof(bg_problem); the same in all problems of a batch */
	uint32_t flags;       /* BG_TRANS_A | BG_TRANS_B */
	int64_t m, n, k;      /* from 0 to 2^31 - 1, as leading dimensions */
	int64_t offset_a, lda;
	int64_t offset_b, ldb;
	int64_t offset_c, ldc;
	float alpha, beta;
	/* For the parts of an epilogue that the options name; else 0. A struct may end before these, before
	 * pointers, before scale_a, or before alpha64. */
	int64_t offset_b2, ldb2;         /* of the second operand of gated units, stored as B is */
	int64_t bias;                    /* first element in the buffer bias: n of them, 2n when gated */
	int64_t rows_a, rows_c, weights; /* first words in the buffer rows, m of each */
	int64_t pointers;                /* first of 8 words in rows: uint64_t addresses of A, B, C and B2 */
	int64_t scale_a, scale_b;        /* first words in rows of the scales of A and of B */
	double alpha64, beta64;          /* added to alpha and beta; all bits of the sums count with "f64" */
} bg_problem;

#define BG_TRANS_A 1u
#define BG_TRANS_B 2u

/* bg_problem_of is C = A*B of dense matrices at the beginning of their arrays. Set what is different. */
static inline bg_problem bg_problem_of(int64_t m, int64_t n, int64_t k) {
	bg_problem p;
	memset(&p, 0, sizeof p);
	p.struct_size = (uint32_t)sizeof p;
	p.m = m, p.n = n, p.k = k;
	p.lda = k, p.ldb = n, p.ldc = n, p.ldb2 = n;
	p.alpha = 1;
	return p;
}

/* bg_open opens a device of a backend: "cuda", "hip", "webgpu" or "cpu". NULL: the backend that the
 * environment variable BATCHGEMM_BACKEND names, or the first that has a GPU, or the CPU. "f64": the same, of
 * those that multiply elements of this type, or of another one that is named so. index counts the
 * backend's GPUs in the driver's order (CUDA: those visible to the process, of compute capability 8.0 on); -1
 * is the best. If there is no such backend or index, it returns BG_ERR_INVALID, and the text lists those that
 * there are. If the backend cannot run here, it returns BG_ERR_UNAVAILABLE. */
bg_status bg_open(const char *backend, int32_t index, bg_device *device);

/* bg_open_on_stream opens a device's GPU again, with all work on a stream of the caller, in order with the
 * caller's own work. CUDA: a CUstream or cudaStream_t of the GPU's primary context; 0 is the default stream.
 * bg_run and bg_run_ragged only queue kernels there, so a CUDA graph can capture them. During a capture, call
 * no other function with the new device or its objects. The stream must outlive the new device, which is
 * independent of the first one. */
bg_status bg_open_on_stream(bg_device device, uintptr_t stream, bg_device *opened);

/* bg_device_info describes a device as JSON: backend, index, name, driver, and the facts that planning uses.
 *
 * Texts are returned so: *needed, unless needed is NULL, is their size with the final 0. Then text receives
 * them, unless it is NULL. If size is smaller than that: BG_ERR_INVALID. */
bg_status bg_device_info(bg_device device, char *text, size_t size, size_t *needed);

/* bg_plan_new plans a batch for a device: tile shapes, schedule, launches. A plan is independent of the
 * device's life. options is NULL, or a JSON object with these names, any of
 *     "type_a"    elements of A: "f32" (default), "bf16", "f16", "e4m3" (OCP's e4m3fn, without infinities),
 *                 "int8" (int8_t), "f64" (double; cuda, hip, cpu)
 *     "type_b"    elements of B: as "type_a" (default), or "int4", "mxfp4", "nvfp4" with "scale_b" of groups
 *     "type_c"    elements of C: "f32" (default), or the same as "type_a"; with "e4m3" and "int8" "f32",
 *                 "bf16" or "f16"; with "f64" "f64"
 *     "compute"   "f32-emulated" (default: the fastest that errs no more than fp32), "f32", "tf32"
 *     "rule"      "cost" (default), "zhang2025"
 *     "schedule"  "data-parallel", "batched", "split-k", "stream-k", "lpt", "dynamic", "cluster" (default:
 *                 the cheapest)
 *     "tile"      a row of the tile table, for all problems
 *     "invariant" true: a row of C has the same bits whatever rows are beside it (ragged programs alone)
 *     "tlp", "threshold"  parameters of zhang2025
 *     "warmed"    true: only tile shapes that bg_warm has made ready
 *     "epilogue"  an object: what is done to C in fp32 (with "f64" in fp64) before it is rounded, any of
 *         "activation"    "relu", "gelu", "silu"
 *         "bias"          true: elements of C's type are added to each row
 *         "gated"         true: C = act(A*B + bias) * (A*B2 + the second n of bias)
 *         "gather_rows"   how many rows A has: row i is its row rows[rows_a + i], or 0s (as for -1)
 *         "scatter_rows"  how many rows C has: row i goes to its row rows[rows_c + i], if it has one
 *         "weights"       true: row i is multiplied by the float rows[weights + i]
 *         "scale_a", "scale_b"  A*B of "e4m3" or "int8" is multiplied by floats, of B2 after those of B
 *             "tensor"    rows[scale_a] for A, rows[scale_b] for B
 *             "row"       one for each row of A, or of its gather_rows, and one for each column of B
 *             "block"     of both, with "e4m3". With kb = k/128 rounded up, rows[scale_a + i*kb + l/128] for
 *                         a (i, l) and rows[scale_b + j/128*kb + l/128] for b (l, j). The sum of each 128 k's
 *                         is multiplied by the product of both: 0, or from 2^-126 to 2^119. Not with
 *                         BG_ENDS_OF_DEPTH, nor on gfx908
 *             "group-64", "group-128"  scale_b alone, with "type_a" "bf16" or "f16": B has weights from 0 to
 *                         15 (bg_pack_int4). Each group of so many k's of a column has a word with a scale
 *                         and a zero point (bg_group_words), rows[scale_b + l/group*ldb + j]: weight (l, j)
 *                         stands for scale * (weight - zero). In weights, B has k*ldb, ldb is a multiple of
 *                         8, offset_b and stride_b of 32; k is a multiple of the group. Not with BG_TRANS_A,
 *                         BG_TRANS_B or BG_ENDS_OF_DEPTH. In bg_gemm_operands len_b counts weights
 *             "group-32", "group-16"  scale_b alone, of "mxfp4" and of "nvfp4": see bg_pack_fp4
 *         "zero_a"        true, with "int8", scale_a "tensor" or "row", scale_b "row": A stands for its
 *                         distance from zero points. After each scale of A is the int32 of its zero point,
 *                         from -128 to 127, after each of B the int32 sum of its column (bg_sum_columns):
 *                         words 2*i and 2*i + 1 from scale_a or scale_b on. Sums lose zero * sum before
 *                         scales; rows of 0 lose nothing
 *         "pointers"      an object, CUDA and HIP. "a", "b", "c": true if such matrices begin offset_a,
 *                         offset_b or offset_c elements after an address of the problem's own, in rows from
 *                         word pointers on; "b" is of b2 too. "aligned": true promises that addresses are
 *                         multiples of 16, which is faster. Nobody checks what is there, or whether C overlap
 */
bg_status bg_plan_new(bg_device device, const bg_problem *problems, int64_t count, const char *options,
	bg_plan *plan);

/* bg_warm makes kernels ready for plans with such options, ragged programs included, of any sizes. Plans with
 * the option "warmed" use only these, and wait for no compiler. On WebGPU they are few, chosen to serve all
 * sizes, and take seconds; others may take another kernel, and compile it. Elsewhere they are all there are,
 * and take next to nothing. flags: BG_TRANS_A, BG_TRANS_B of the problems to come; one call for each
 * combination. What is ready when time is over stays so. */
bg_status bg_warm(bg_device device, const char *options, uint32_t flags, int64_t timeout_ms);

/* bg_plan_explain describes a plan as JSON. The text is returned as by bg_device_info. */
bg_status bg_plan_explain(bg_plan plan, char *text, size_t size, size_t *needed);

/* bg_prepare makes a plan ready on a device of the kind that it was made for: it loads kernels, uploads
 * arrays and allocates workspace. The plan may be closed then. */
bg_status bg_prepare(bg_device device, bg_plan plan, bg_program *program);

/* bg_update gives a program another batch, of any sizes, scalars and offsets, planned with the options of its
 * plan. Runs that were queued before compute the batch that they were queued for. It makes one copy to the
 * device, and waits for runs only if memory must grow. After a failure the program is as before. A CUDA graph
 * cannot capture it. */
bg_status bg_update(bg_program program, const bg_problem *problems, int64_t count);

/* A ragged batch: its sizes are on the device when it runs, in a buffer of 32-bit words. Each group is a
 * problem, and this struct has what the groups share and what bounds them. The sizes have one of three forms:
 *     BG_ENDS_OF_ROWS   an int32 for each group: where its rows of op(A) and C end. The first begins at 0.
 *                       Each group has its own B, stride_b elements after the last
 *     BG_ENDS_OF_DEPTH  an int32 for each group: where its columns of op(A) and rows of op(B) end. Each group
 *                       has its own C, stride_c elements after the last
 *     BG_RECORDS        a bg_record for each group; with an epilogue a bg_epilogue_record, with scales a
 *                       bg_scaled_record, with "f64" a bg_double_record. A group with m 0 has no rows
 * Ends must not go down or be negative, and sizes must fit the bounds. The first group that breaks this is
 * refused, with all after it: they are not computed, bg_program_status tells, and nothing beyond what is
 * described here is read or written. BG_ZERO_ROWS and BG_NAN_ROWS fill the C that no group computes; without
 * them it stays as it is. */
typedef struct bg_ragged {
	uint32_t struct_size;           /* sizeof(bg_ragged) */
	uint32_t flags;                 /* BG_TRANS_A | BG_TRANS_B, and BG_ZERO_ROWS or BG_NAN_ROWS */
	uint32_t form, groups;          /* groups from 1 to 4096 */
	/* Bounds of all groups together: m with ends of rows and records, k with ends of depth. Bounds of each: n
	 * and k with records. The others are sizes of each group. */
	int64_t m, n, k;
	int64_t mean_m, mean_n, mean_k; /* of a group as it is expected; 0: its share, or the bound */
	int64_t offset_a, lda;          /* these up to stride_c are for ends: records have their own */
	int64_t offset_b, ldb;
	int64_t offset_c, ldc;
	int64_t stride_b, stride_c;
	int64_t len_a, len_b, len_c;    /* elements of the buffers that records may reach */
	float alpha, beta;              /* for ends; alpha is 1 for A*B; see alpha64 */
	/* As in a bg_problem, of the first group, for ends. The B2 of a group is where its B is. */
	int64_t offset_b2, ldb2;
	int64_t bias, stride_bias;
	int64_t rows_a, rows_c, weights; /* of the first row of all groups: m in all, m each with ends of depth */
	/* Of the first group; those of the next group follow. An operand that groups share begins at its address
	 * as it would in a buffer. If each B, or C, has an address, stride_b, or stride_c, is 0. */
	int64_t pointers;
	int64_t len_b2, len_bias, len_rows; /* what records may reach, with an epilogue; len_rows in words */
	/* Of the first group. Scales of A are of m rows, with ends of depth of m for each group. Scales of B of
	 * the next group follow. */
	int64_t scale_a, scale_b;
	double alpha64, beta64; /* as in a bg_problem */
} bg_ragged;

#define BG_ENDS_OF_ROWS 1u
#define BG_ENDS_OF_DEPTH 2u
#define BG_RECORDS 3u
/* With ends, and without an epilogue: fill the C that no group computes with 0, or NaN. With ends of rows
 * that is the rows after the last group that is not refused, up to m or the extent of the run; with ends of
 * depth the whole C of each group that is refused. */
#define BG_ZERO_ROWS 4u
#define BG_NAN_ROWS 8u

/* bg_ragged_of is C = A*B of dense matrices, as bg_problem_of. With ends of rows the B follow each other,
 * with ends of depth the C. */
static inline bg_ragged bg_ragged_of(uint32_t form, uint32_t groups, int64_t m, int64_t n, int64_t k) {
	bg_ragged r;
	memset(&r, 0, sizeof r);
	r.struct_size = (uint32_t)sizeof r;
	r.form = form, r.groups = groups;
	r.m = m, r.n = n, r.k = k;
	r.lda = k, r.ldb = n, r.ldc = n, r.ldb2 = n;
	r.stride_b = form == BG_ENDS_OF_ROWS ? k * n : 0;
	r.stride_c = form == BG_ENDS_OF_DEPTH ? m * n : 0;
	r.alpha = 1;
	return r;
}

typedef struct bg_record {
	uint32_t m, n, k;
	uint32_t lda, ldb, ldc;
	uint32_t offset_a, offset_b, offset_c;
	float alpha, beta;
	uint32_t zero; /* 0 */
} bg_record;

/* A record of a program with an epilogue, with what a bg_problem has for it. */
typedef struct bg_epilogue_record {
	bg_record record;
	uint32_t offset_b2, ldb2;
	uint32_t bias, rows_a, rows_c, weights, pointers;
	uint32_t zero; /* 0 */
} bg_epilogue_record;

/* A record of a program with scales in its epilogue. */
typedef struct bg_scaled_record {
	bg_epilogue_record record;
	uint32_t scale_a, scale_b;
	uint32_t zeros[2]; /* 0 */
} bg_scaled_record;

/* A record of a program of "f64", with or without an epilogue. alpha and beta of its bg_record are the bits
 * of the upper halves of doubles, and these the lower ones. */
typedef struct bg_double_record {
	bg_epilogue_record record;
	uint32_t alpha_low, beta_low;
	uint32_t zeros[2]; /* 0 */
} bg_double_record;

/* bg_prepare_ragged makes a ragged batch ready to run on a device. options are those of bg_plan_new, without
 * rule and schedule. bg_update does not take such programs. */
bg_status bg_prepare_ragged(bg_device device, const bg_ragged *ragged, const char *options,
	bg_program *program);

/* bg_buffer_new allocates device memory of count float32 (type NULL), contents undefined. bg_buffer_new_of is
 * bg_buffer_new for elements of a type: "f32", "bf16", "f16", "e4m3", "int8", "int4", "mxfp4", "nvfp4" or
 * "f64". */
bg_status bg_buffer_new(bg_device device, int64_t count, bg_buffer *buffer);
bg_status bg_buffer_new_of(bg_device device, const char *type, int64_t count, bg_buffer *buffer);

/* bg_buffer_address gives the address of a buffer of a CUDA or HIP device (elsewhere BG_ERR_FAILED), for the
 * pointers of an epilogue. It is good until the buffer is closed; a run by pointers does not delay that. */
bg_status bg_buffer_address(bg_buffer buffer, uint64_t *address);

/* bg_buffer_wrap makes a buffer of count >= 1 float32 in memory of the GPU that the caller allocated (CUDA: a
 * CUdeviceptr), without a copy. The address is a multiple of 16 bytes. Kernels may read the whole line of 16
 * bytes that holds the last element. The memory must stay until queued work that uses it is done. The buffer
 * may be closed before that, and closing it frees nothing. bg_buffer_wrap_of is for elements of a type, as
 * bg_buffer_new_of. */
bg_status bg_buffer_wrap(bg_device device, uintptr_t address, int64_t count, bg_buffer *buffer);
bg_status bg_buffer_wrap_of(bg_device device, const char *type, uintptr_t address, int64_t count,
	bg_buffer *buffer);

/* bg_buffer_write copies count elements of the buffer's type from host memory to it, from element offset on,
 * after the runs queued before. If it begins or ends within a word of two 16-bit elements, or of four of 8
 * bits, it waits for these runs. bg_buffer_read waits for them and copies to host memory. Elements of 4 bits
 * move as words of 32 bits with eight in each (bg_pack_int4), so offset and count are multiples of 8. After a
 * time-out that part of the buffer, or of dst, is undefined. */
bg_status bg_buffer_write(bg_buffer buffer, int64_t offset, const void *src, int64_t count,
	int64_t timeout_ms);
bg_status bg_buffer_read(bg_buffer buffer, int64_t offset, void *dst, int64_t count, int64_t timeout_ms);

/* bg_buffer_slice makes a buffer of count elements of a buffer, from offset on, in the same memory. offset is
 * a multiple of 256 bytes. Unless the slice ends where the buffer does, count is a multiple of 4 bytes: even
 * with 16 bits, a multiple of 4 with 8 bits, of 8 with 4 bits. A slice is good until its buffer is closed,
 * and closing it frees nothing. C of a run is in another buffer than what the run reads. */
bg_status bg_buffer_slice(bg_buffer buffer, int64_t offset, int64_t count, bg_buffer *slice);

/* bg_copy queues a copy of the whole src to dst, and returns without waiting. dst is another buffer with as
 * many elements of the same type. Copy parts as slices. */
bg_status bg_copy(bg_device device, bg_buffer dst, bg_buffer src);

/* bg_buffer_read_async queues bg_buffer_read after the runs before it, and returns without waiting. dst
 * belongs to the read until bg_read_wait has returned its result, or the read is closed: bg_close ends a read
 * that is under way. Close every read; closing the device closes them too. */
bg_status bg_buffer_read_async(bg_buffer buffer, int64_t offset, void *dst, int64_t count, bg_read *read);

/* bg_read_wait waits for a read, and returns what bg_buffer_read would have. After BG_ERR_TIMEOUT the read
 * goes on. bg_read_done sets *done to 1 if bg_read_wait would not wait, else to 0. */
bg_status bg_read_wait(bg_read read, int64_t timeout_ms);
bg_status bg_read_done(bg_read read, int32_t *done);

/* bg_read_notify adds 1 to an eventfd of the caller once bg_read_wait would not wait any more, for loops that
 * wait by poll, epoll and the like. That may be at once. The descriptor is duplicated: the caller may close
 * it at any time. If it is not open: BG_ERR_INVALID. A pipe gets the 8 bytes that an eventfd would, unless it
 * is full: its reader has something to read then, and asks bg_read_done of all its reads. */
bg_status bg_read_notify(bg_read read, int fd);

/* bg_run queues one execution of a program, after the runs before, and returns without waiting (on the CPU:
 * unless 256 are queued). All objects are of one device. The buffers are as long as the problems reach; C is
 * neither A nor B. */
bg_status bg_run(bg_program program, bg_buffer a, bg_buffer b, bg_buffer c);

/* bg_run_ragged is bg_run of a ragged program. sizes has a word for each group, or a bg_record; it is not C.
 * The run reads it when it starts, after whatever was queued before. bg_buffer_write copies an array of
 * int32_t to a buffer of float32 unchanged, and bg_buffer_wrap takes memory of int32_t as it takes that of
 * float. */
bg_status bg_run_ragged(bg_program program, bg_buffer sizes, bg_buffer a, bg_buffer b, bg_buffer c);

/* bg_run_operands is bg_run, or bg_run_ragged if there are sizes, with the buffers of an epilogue. rows has
 * 32-bit words: the lists of rows and, as bits of float, the weights. What the program does not use is 0; so
 * may be a, b, c and b2 that it has by pointers. */
typedef struct bg_operands {
	uint32_t struct_size, zero; /* sizeof(bg_operands), 0 */
	bg_buffer a, b, c;
	bg_buffer sizes;
	bg_buffer b2, bias, rows;
} bg_operands;

bg_status bg_run_operands(bg_program program, const bg_operands *operands);

/* bg_run_at is bg_run_operands on memory, and on a stream, of the caller. It is less work for the host than
 * bg_open_on_stream and bg_buffer_wrap, as nobody checks the memory. Operands are as long as the problems
 * reach; those of a ragged program as its bounds and extent say. Addresses are multiples of 16. CUDA, HIP: of
 * the device; kernels may read the whole line of 16 bytes that holds the last element. CPU: of the host. What
 * the program does not use is 0. C is no other operand. Memory and stream stay until the work is done.
 * BG_ERR_FAILED with WebGPU, which has no such memory.
 *
 * stream is one of the GPU, as for bg_open_on_stream. The run only queues kernels there, so a CUDA graph can
 * capture it; keep a program that a graph has captured as long as the graph. The CPU has stream 0, and
 * bg_wait waits for it. The runs of a program share its workspace: the caller orders those on different
 * streams. Before the first run, call bg_wait for the preparation of the program.
 *
 * extent is how much of a ragged program's bound is there in this run, so that one program serves operands of
 * many lengths. With ends of rows it counts rows of op(A) and C, with their entries in lists; with ends of
 * depth columns of op(A) and rows of op(B). A group that ends beyond it is refused as one beyond the bound,
 * and nothing beyond it is read or written, whatever the sizes are. It is from 1 to the bound; 0 stands for
 * the bound. It is 0 with records, and for programs that are not ragged. A struct may end before it. */
typedef struct bg_addresses {
	uint32_t struct_size, zero; /* sizeof(bg_addresses), 0 */
	uint64_t a, b, c;
	uint64_t sizes;
	uint64_t b2, bias, rows;
	int64_t extent;
} bg_addresses;

bg_status bg_run_at(bg_program program, uintptr_t stream, const bg_addresses *addresses);

/* bg_program_status waits for queued work. If a run since the last call refused sizes, it returns
 * BG_ERR_INVALID, and the text names the group. The first of such runs counts. */
bg_status bg_program_status(bg_program program, int64_t timeout_ms);

/* bg_wait returns when all queued work of a device is done. */
bg_status bg_wait(bg_device device, int64_t timeout_ms);

/* bg_gemm computes a batch on host memory: arrays of len_a, len_b and len_c float32. The result is in c when
 * it returns. Elements between the problems' C are as before, and after a failure all of c is, but if the CPU
 * is stopped (by a time limit or bg_close) C has old and new elements, or parts of sums: it uses arrays where
 * they are, unless c shares memory. Plans are kept: a batch of the same sizes, scalars and offsets costs no
 * planning. Calls on one device wait for each other. A pointer may be NULL if its length is 0. */
bg_status bg_gemm(bg_device device, const bg_problem *problems, int64_t count, const float *a, int64_t len_a,
	const float *b, int64_t len_b, float *c, int64_t len_c, int64_t timeout_ms);

/* bg_gemm_of is bg_gemm with the options of bg_plan_new, on arrays of the types that these name. With types
 * other than "f32" each call on a GPU plans and allocates. More operands of epilogues: bg_gemm_operands. */
bg_status bg_gemm_of(bg_device device, const bg_problem *problems, int64_t count, const char *options,
	const void *a, int64_t len_a, const void *b, int64_t len_b, void *c, int64_t len_c, int64_t timeout_ms);

/* bg_gemm_async starts bg_gemm_of, and returns. a, b and c belong to the call until bg_read_wait has returned
 * its result, or read is closed: bg_close ends a call that is under way, and c is as after a failure. Close
 * read in any case: closing the device, which may happen meanwhile, does not close it. */
bg_status bg_gemm_async(bg_device device, const bg_problem *problems, int64_t count, const char *options,
	const void *a, int64_t len_a, const void *b, int64_t len_b, void *c, int64_t len_c, bg_read *read);

/* bg_gemm_operands is bg_gemm_of with all operands of an epilogue. b2 has elements of b's type, bias of c's.
 * rows has 32-bit words: the lists of rows and, as bits of float, the weights. What the epilogue does not use
 * is empty. Of an A of float32, only the rows that are gathered travel to the device. The option pointers is
 * refused. */
typedef struct bg_host_operands {
	uint32_t struct_size, zero; /* sizeof(bg_host_operands), 0 */
	const void *a; int64_t len_a;
	const void *b; int64_t len_b;
	void *c; int64_t len_c;
	const void *b2; int64_t len_b2;
	const void *bias; int64_t len_bias;
	const void *rows; int64_t len_rows;
} bg_host_operands;

bg_status bg_gemm_operands(bg_device device, const bg_problem *problems, int64_t count, const char *options,
	const bg_host_operands *operands, int64_t timeout_ms);

/* bg_gemm_operands_async is bg_gemm_async with these. The struct itself is used during the call alone. */
bg_status bg_gemm_operands_async(bg_device device, const bg_problem *problems, int64_t count,
	const char *options, const bg_host_operands *operands, bg_read *read);

/* bg_pack_int4 makes a B of "int4" from n rows of k weights from 0 to 15 (the lower 4 bits of each byte). Row
 * j, as a layer stores it, becomes column j of B, k x n. The leading dimension ld is n rounded up to a
 * multiple of 8; columns from n on are 0. B lies in panels of 64 k's. In a panel a column has 8 words, each
 * of eight weights of k, k+1, ..., k+7: word k/64*8*ld + 8*j + k%64/8 is of column j. In a word:
 *     bits  31..28  27..24  23..20  19..16  15..12  11..8  7..4  3..0
 *     k + ?      7       5       3       1       6      4     2     0
 * so that 0, 1, ..., 7 make 0x75316420. k is a multiple of 64; words has k*ld / 8. bg_unpack_int4 is its
 * inverse. */
bg_status bg_pack_int4(const uint8_t *weights, int64_t n, int64_t k, uint32_t *words);
bg_status bg_unpack_int4(const uint32_t *words, int64_t n, int64_t k, uint8_t *weights);

/* bg_group_words makes the words of count groups (the option scale_b). The upper 28 bits are those of a
 * scale, rounded to 20 bits of precision; bf16 and fp16 have fewer. The lower 4 are a zero point from 0 to
 * 15: 8 if weights were from -8 to 7 before 8 was added. bg_split_group_words is its inverse. */
bg_status bg_group_words(const float *scales, const uint8_t *zeros, int64_t count, uint32_t *words);
bg_status bg_split_group_words(const uint32_t *words, int64_t count, float *scales, uint8_t *zeros);

/* bg_quantize_int4 makes a B from n rows of k numbers, as bg_pack_int4 does, and the words of its groups:
 * k/group rows of ld. The group is 64 or 128, and k a multiple of it. Each group has the zero point 8, and a
 * scale that makes its largest number -8 or 7, whichever errs less in sum of squares. words has k*ld / 8,
 * groups k*ld / group. NaN and infinities are an error that names row and column, before anything is
 * written. */
bg_status bg_quantize_int4(const float *numbers, int64_t n, int64_t k, int32_t group, uint32_t *words,
	uint32_t *groups);

/* bg_sum_columns sums each of the cols columns of op(B), rows x cols, of "int8" (the option zero_a). Stored
 * rows of b are ld apart: rows of op(B), or with BG_TRANS_B in flags its columns. rows is up to 131071. */
bg_status bg_sum_columns(const int8_t *b, int64_t rows, int64_t cols, int64_t ld, uint32_t flags,
	int32_t *sums);

/* bg_close closes a device, plan, program, buffer or read. A device waits for its queued work (the CPU
 * abandons it), and its programs and buffers are closed with it. The handle is gone whatever the result is;
 * closing it again is BG_ERR_HANDLE. */
bg_status bg_close(uint64_t handle);

#ifdef __cplusplus
}
#endif

#include "batchgemm_experts.h"

#endif
