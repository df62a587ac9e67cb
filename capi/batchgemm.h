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
 * Operands that stay on the device: bg_plan_new and bg_prepare once, then bg_run, and
 * bg_update where sizes change; bg_prepare_ragged and bg_run_ragged where the device has them.
 * On a CUDA stream and in memory of the caller: bg_open_on_stream, bg_buffer_wrap.
 *
 * Results. Every function that can fail returns a bg_status; what it returns by
 * pointer is 0 after a failure. bg_last_error has the failure in words. Nothing is
 * written to operands when an argument is wrong.
 *
 * Handles are numbers that are never used again, and never 0. A handle that is
 * unknown, was closed, or is of another kind gives BG_ERR_HANDLE.
 *
 * Threads. Any thread may call anything at any time, also with the same handles.
 * What is closed while another call uses it lives until that call ends. The calling
 * thread's current CUDA context, or HIP device, is after a call what it was before.
 *
 * Processes. The library runs threads of its own (it is written in Go), and a
 * child of fork() has none of them: there every call returns BG_ERR_FORKED. Start
 * processes by fork() and exec, or before this library is loaded. It cannot be
 * unloaded: dlclose does nothing. It changes no environment variables, and prints
 * nothing but a few lines of wgpu's when a GPU is lost.
 *
 * Signals. Handlers need no SA_ONSTACK, with exceptions below. Since they would run on
 * the small stacks of Go, the library's threads block signals, and so does a thread
 * while it is in a call. A signal to the process that no other thread takes is handled
 * within about 10 ms by a thread of the library with a large stack, unless the calling
 * thread blocks it; a signal to the calling thread waits until the call ends. Go does
 * not let its threads block SIGCHLD, SIGPROF, SIGSTKFLT and signal 34 (SIGRTMIN of
 * glibc): without SA_ONSTACK, handlers of these can crash the process. The library
 * installs handlers of SIGSEGV, SIGBUS, SIGFPE, SIGPIPE and SIGURG, which pass on what
 * does not come from Go to the handlers that were there before. A handler that
 * replaces one of them needs SA_ONSTACK, and calls what it replaces.
 *
 * Pointers are used during the call only, except those of bg_buffer_wrap,
 * bg_buffer_read_async, bg_gemm_async and bg_gemm_operands_async.
 */
#ifndef BATCHGEMM_H
#define BATCHGEMM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The binary interface that this header describes. It changes when programs must
 * be compiled again. New functions, new status codes and new fields at the end of
 * bg_problem, bg_ragged and bg_addresses do not change it. */
#define BG_ABI_VERSION 1

/* bg_abi_version returns the BG_ABI_VERSION of the loaded library. A program that
 * loads it by dlopen compares the two first; for a linked program the loader does,
 * since every symbol carries the version BATCHGEMM_1. */
uint32_t bg_abi_version(void);

/* The version of the library that this header is of, and bg_version that of the loaded one, which is the
 * same or, where BG_ABI_VERSION is, another. */
#define BG_VERSION "0.2.0"
const char *bg_version(void);

typedef int32_t bg_status;
enum {
	BG_OK = 0,
	/* an argument is wrong, or objects do not go together; the text names it, and the problem */
	BG_ERR_INVALID = 1,
	BG_ERR_HANDLE = 2,        /* a handle is unknown, closed, or of another kind */
	BG_ERR_UNAVAILABLE = 3,   /* the backend cannot run here */
	BG_ERR_OUT_OF_MEMORY = 4, /* of device or host; earlier results are intact, and the device is usable */
	BG_ERR_DEVICE_LOST = 5,   /* the device failed, and so will every later call on it */
	BG_ERR_TIMEOUT = 6,       /* the time limit was reached */
	BG_ERR_FORKED = 7,        /* the process is a child of fork() */
	BG_ERR_FAILED = 8,        /* the driver failed, or the backend cannot do this */
	BG_ERR_INTERNAL = 9       /* a mistake of this library */
};

/* bg_last_error returns the text of the calling thread's last call that failed,
 * UTF-8, "" if none did. It is valid until the next one that fails on that thread,
 * or the thread ends. */
const char *bg_last_error(void);

typedef uint64_t bg_device;
typedef uint64_t bg_plan;
typedef uint64_t bg_program;
typedef uint64_t bg_buffer;
typedef uint64_t bg_read;

/* Time limits are in milliseconds. */
#define BG_NO_TIMEOUT 0

/* A problem of a batch. op(A) is m x k, op(B) is k x n. All matrices are row-major,
 * of float32 unless options say otherwise; offsets and leading dimensions count elements: element (i, j) of
 * the stored A is a[offset_a + i*lda + j]. A is stored m x k, or k x m with
 * BG_TRANS_A; B k x n, or n x k with BG_TRANS_B; C m x n.
 *
 * As in BLAS: m = 0 or n = 0 writes nothing; k = 0 or alpha = 0 gives beta*C
 * without reading A and B; beta = 0 never reads C. The C of two problems must not
 * share an element. Offsets that are multiples of 4 are faster.
 *
 * bg_problem_of makes one that has alpha 1. In a struct of zeros alpha is 0 and C becomes 0. */
typedef struct bg_problem {
	uint32_t struct_size; /* sizeof(bg_problem); the same in all problems of a batch */
	uint32_t flags;       /* BG_TRANS_A | BG_TRANS_B */
	int64_t m, n, k;      /* from 0 to 2^31 - 1, as leading dimensions */
	int64_t offset_a, lda;
	int64_t offset_b, ldb;
	int64_t offset_c, ldc;
	float alpha, beta;
	/* With an epilogue (bg_plan_new), for the parts of it that the options name; else 0. A struct that ends
	 * before these, of pointers or of scale_a, is good too. */
	int64_t offset_b2, ldb2;         /* of the second operand of gated units, stored as B is */
	int64_t bias;                    /* first element in the buffer bias: n of them, 2n when gated */
	int64_t rows_a, rows_c, weights; /* first words in the buffer rows, m of each */
	/* first of 8 words in rows: the addresses of A, B, C and B2, uint64_t each */
	int64_t pointers;
	int64_t scale_a, scale_b;        /* first words in rows of the scales of A and of B */
} bg_problem;

#define BG_TRANS_A 1u
#define BG_TRANS_B 2u

/* bg_problem_of is C = A*B of dense matrices at the beginning of their arrays. What is otherwise is set
 * then. */
static inline bg_problem bg_problem_of(int64_t m, int64_t n, int64_t k) {
	bg_problem p;
	memset(&p, 0, sizeof p);
	p.struct_size = (uint32_t)sizeof p;
	p.m = m, p.n = n, p.k = k;
	p.lda = k, p.ldb = n, p.ldc = n, p.ldb2 = n;
	p.alpha = 1;
	return p;
}

/* bg_open opens a device of a backend: "cuda", "hip", "webgpu" or "cpu". NULL: that
 * of the environment variable BATCHGEMM_BACKEND, or the first that has a GPU, else
 * the CPU. index counts the backend's GPUs in the driver's order (CUDA: those
 * visible to the process, of compute capability 8.0 on); -1: the best. A backend that
 * there is not, and an index of none of its devices, are BG_ERR_INVALID, and the text
 * lists those that there are; a backend that cannot run here is BG_ERR_UNAVAILABLE. */
bg_status bg_open(const char *backend, int32_t index, bg_device *device);

/* bg_open_on_stream opens a device's GPU again, with all work on a stream of the
 * caller, where it is ordered with the caller's own. CUDA: a CUstream or
 * cudaStream_t of the GPU's primary context; 0 is the default stream. bg_run and
 * bg_run_ragged do nothing there but queue kernels, so that they may be captured in a
 * CUDA graph; no other function may be called with the new device or its objects meanwhile. The
 * stream must outlive the new device, which is independent of the first one. */
bg_status bg_open_on_stream(bg_device device, uintptr_t stream, bg_device *opened);

/* bg_device_info describes a device as JSON: backend, index, name, driver, and the
 * facts that planning uses. Texts are returned so: *needed is their size with the
 * final 0. If size is at least that, text receives them. If text is NULL nothing
 * else happens; a size that is too small is BG_ERR_INVALID. needed may be NULL. */
bg_status bg_device_info(bg_device device, char *text, size_t size, size_t *needed);

/* bg_plan_new plans a batch for a device: tile shapes, schedule, launches. A plan
 * is independent of the device's life. options: NULL, or a JSON object, with names as they are here, any of
 *     "type_a"    elements of A: "f32" (default), "bf16", "f16", "e4m3" (8 bits: OCP's
 *                 e4m3fn, without infinities), "int8" (int8_t: -128 to 127)
 *     "type_b"    elements of B: the same as "type_a" (default), or "int4", with "scale_b" of groups
 *     "type_c"    elements of C: "f32" (default), or the same as "type_a"; where that is "e4m3" or "int8"
 *                 "bf16" or "f16" instead
 *     "compute"   "f32-emulated" (default: whatever is fastest and errs no more than
 *                 fp32), "f32", "tf32"
 *     "rule"      "cost" (default), "zhang2025"
 *     "schedule"  "data-parallel", "batched", "split-k", "stream-k", "lpt", "dynamic",
 *                 "cluster" (default: the cheapest)
 *     "tile"      a row of the tile table, for all problems
 *     "tlp", "threshold"  parameters of zhang2025
 *     "warmed"    true: only tile shapes that bg_warm has made ready
 *     "epilogue"  an object, what is done to C in fp32 before it is rounded; any of
 *         "activation"  "relu", "gelu", "silu"
 *         "bias"        true: elements of C's type are added to each row
 *         "gated"       true: C = act(A*B + bias) * (A*B2 + bias after it)
 *         "gather_rows" the rows that A has: row i is row rows[rows_a + i] of it; of
 *                       zeros where that is not one of them, as -1
 *         "scatter_rows" the rows that C has: row i goes to row rows[rows_c + i], if there is one
 *         "weights"     true: row i is multiplied by the float rows[weights + i]
 *         "scale_a", "scale_b"  with "type_a" "e4m3" or "int8": A*B is multiplied by floats.
 *                       "tensor": one for A, rows[scale_a], and one for B, rows[scale_b], with one of b2
 *                       after it when gated
 *                       "row": one for each row, or each of the gather_rows of A, and one for each column of
 *                       B, with those of b2 after them
 *                       "block", of both and with "e4m3": one for each 128 k's of a row of A, rows[scale_a +
 *                       i*n + k/128] of a (i, k), n being k/128 rounded up, and one for each 128 k's of 128
 *                       columns of B, rows[scale_b + j/128*n + k/128] of b (k, j), with those of b2 after
 *                       them. Sums of each 128 k's are multiplied by the product of both, which is 0 or in
 *                       [2^-126, 2^119]. Not with BG_ENDS_OF_DEPTH; WebGPU and the CPU
 *         "zero_a"      true, with "type_a" "int8", a scale_a of "tensor" or "row" and a scale_b of "row": A
 *                       stands for its distance from zero points. Each scale of A has a word after it, the
 *                       int32 of its zero point, from -128 to 127, and each of B one, the int32 that is the
 *                       sum of its column (bg_sum_columns): words 2*i and 2*i + 1 from scale_a or scale_b on.
 *                       Before scales a sum of products loses zero * sum. Rows of zeros lose nothing
 *         "scale_b"     also "group-64" or "group-128", with "type_a" "bf16" or "f16", "type_b" "int4" and
 *                       without scale_a: B has weights from 0 to 15 (bg_pack_int4). Each group of so many
 *                       k's of a column has a word, of a scale and a zero point (bg_group_words): weight
 *                       (k, j) of B stands for scale * (weight - zero), of word rows[scale_b + k/group*ldb
 *                       + j], with those of b2 after them, with ldb2. Neither BG_TRANS_A nor BG_TRANS_B; B
 *                       has k*ldb weights, and in units of these ldb is a multiple of 8, offset_b and
 *                       stride_b of 32; k is a multiple of the group. Not with BG_ENDS_OF_DEPTH, nor by
 *                       bg_gemm and what is like it
 *         "pointers"    an object, CUDA and HIP: "a", "b", "c": true where such matrices begin offset_a,
 *                       offset_b or offset_c elements after an address of the problem's own, which is in
 *                       rows from word pointers on; "b" is of b2 too. "aligned": true promises that all
 *                       addresses are multiples of 16, which is faster. Nobody checks what is at the
 *                       addresses, or whether C overlap */
bg_status bg_plan_new(bg_device device, const bg_problem *problems, int64_t count, const char *options,
	bg_plan *plan);

/* bg_warm makes every kernel ready that plans with such options, and ragged programs, may choose, whatever
 * the sizes of their problems are, so that nothing later waits for a compiler: on WebGPU that takes seconds
 * to minutes, elsewhere next to nothing. flags: BG_TRANS_A, BG_TRANS_B as of the problems to come; a call for
 * each. What is ready when time is over stays so, and the option "warmed" keeps plans to it. */
bg_status bg_warm(bg_device device, const char *options, uint32_t flags, int64_t timeout_ms);

/* bg_plan_explain describes a plan as JSON, returned as by bg_device_info. */
bg_status bg_plan_explain(bg_plan plan, char *text, size_t size, size_t *needed);

/* bg_prepare makes a plan ready on a device of the kind it was made for: kernels
 * loaded, arrays uploaded, workspace allocated. The plan may be closed then. */
bg_status bg_prepare(bg_device device, bg_plan plan, bg_program *program);

/* bg_update gives a program another batch, of any sizes, scalars and offsets, planned
 * with the options of its plan. Runs queued before compute the batch that they were
 * queued for. It waits for none unless memory must grow; one copy to the device. After
 * a failure the program is as before. A graph that is being captured cannot hold an
 * update. */
bg_status bg_update(bg_program program, const bg_problem *problems, int64_t count);

/* A ragged batch: its sizes are on the device when it runs, in a buffer of 32-bit words.
 * Each group is a problem, and this is what they have in common and what bounds them. The
 * sizes have one of three forms:
 *     BG_ENDS_OF_ROWS   an int32 for each group, where its rows of op(A) and C end; the
 *                       first begins at 0. B is its own: stride_b elements after the last
 *     BG_ENDS_OF_DEPTH  an int32 for each group, where its columns of op(A) and rows of
 *                       op(B) end. C is its own: stride_c elements after the last
 *     BG_RECORDS        a bg_record for each group, which has no rows where m is 0; with an
 *                       epilogue a bg_epilogue_record, and where that has scales a bg_scaled_record
 * Sizes that go down, are negative, or do not fit the bounds name a group that is refused:
 * neither it nor any after it is computed, bg_program_status tells, and nothing beyond what
 * is described here is read or written. BG_ZERO_ROWS and BG_NAN_ROWS fill the C that no group
 * computes; without them it stays as it is. */
typedef struct bg_ragged {
	uint32_t struct_size;           /* sizeof(bg_ragged) */
	uint32_t flags;                 /* BG_TRANS_A | BG_TRANS_B, and BG_ZERO_ROWS or BG_NAN_ROWS */
	uint32_t form, groups;          /* groups from 1 to 4096 */
	/* of each group; m with ends of rows and records, k with ends of depth: of all together, at most;
	 * n and k with records: of each, at most */
	int64_t m, n, k;
	int64_t mean_m, mean_n, mean_k; /* of a group as it is expected; 0: its share, or the bound */
	int64_t offset_a, lda;          /* this and the next are for ends: records have their own */
	int64_t offset_b, ldb;
	int64_t offset_c, ldc;
	int64_t stride_b, stride_c;
	int64_t len_a, len_b, len_c;    /* elements of the buffers that records may reach */
	float alpha, beta;              /* for ends; alpha is 1 for A*B */
	/* as in a bg_problem, of the first group, for ends; b2 of a group is where its b is */
	int64_t offset_b2, ldb2;
	int64_t bias, stride_bias;
	/* of the first row of all groups, which have m in all; with ends of depth m each */
	int64_t rows_a, rows_c, weights;
	/* of the first group; the next one's are after them. What groups share begins at its address as it would
	 * in a buffer; where each B, or C, has an address, stride_b, or stride_c, is 0 */
	int64_t pointers;
	int64_t len_b2, len_bias, len_rows; /* what records may reach, with an epilogue; len_rows in words */
	/* of the first group: those of A are of m rows, or with ends of depth of m for each group; those of B of
	 * the next group are after these */
	int64_t scale_a, scale_b;
} bg_ragged;

#define BG_ENDS_OF_ROWS 1u
#define BG_ENDS_OF_DEPTH 2u
#define BG_RECORDS 3u
/* With ends, and without an epilogue: the C that no group computes is 0, or NaN. With ends of rows that is
 * the rows after the last group that is not refused, up to m or the extent of the run; with ends of depth
 * the whole C of each group that is refused. */
#define BG_ZERO_ROWS 4u
#define BG_NAN_ROWS 8u

/* bg_ragged_of is C = A*B of dense matrices, as bg_problem_of. The B of ends of rows lie one after the
 * other, and the C of ends of depth. */
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

/* A record of a program whose epilogue has scales. */
typedef struct bg_scaled_record {
	bg_epilogue_record record;
	uint32_t scale_a, scale_b;
	uint32_t zeros[2]; /* 0 */
} bg_scaled_record;

/* bg_prepare_ragged makes a ragged batch ready to run on a device. options are those of
 * bg_plan_new, but for rule and schedule. bg_update does not take such programs. */
bg_status bg_prepare_ragged(bg_device device, const bg_ragged *ragged, const char *options,
	bg_program *program);

/* bg_buffer_new allocates device memory of count float32, contents undefined. */
bg_status bg_buffer_new(bg_device device, int64_t count, bg_buffer *buffer);

/* bg_buffer_new_of is bg_buffer_new for elements of a type: "f32" (NULL), "bf16", "f16", "e4m3", "int8",
 * "int4". */
bg_status bg_buffer_new_of(bg_device device, const char *type, int64_t count, bg_buffer *buffer);

/* bg_buffer_address gives the address of a buffer in the memory of a CUDA or HIP device, for the
 * pointers of an epilogue, and is BG_ERR_FAILED elsewhere. It is good until the buffer is closed, which a run
 * by pointers does not delay. */
bg_status bg_buffer_address(bg_buffer buffer, uint64_t *address);

/* bg_buffer_wrap makes a buffer of count >= 1 float32 in memory of the GPU that the
 * caller allocated (CUDA: a CUdeviceptr), without a copy. The address is a multiple
 * of 16 bytes, and kernels may read the line of 16 bytes that holds the last element
 * whole. The memory must stay until queued work that uses it is done; the buffer may
 * be closed before that, and closing it frees nothing. */
bg_status bg_buffer_wrap(bg_device device, uintptr_t address, int64_t count, bg_buffer *buffer);

/* bg_buffer_wrap_of is bg_buffer_wrap for elements of a type, as of bg_buffer_new_of. */
bg_status bg_buffer_wrap_of(bg_device device, const char *type, uintptr_t address, int64_t count,
	bg_buffer *buffer);

/* bg_buffer_write copies count elements of the buffer's type from host memory to it, from
 * element offset on, after the runs queued before (where it begins or ends within a word of
 * two 16-bit elements, or four of 8 bits, it waits for them). bg_buffer_read waits for these runs and
 * copies to host memory. Elements of "int4" are moved as words of 32 bits with eight in each (bg_pack_int4),
 * so that offset and count are multiples of 8. After a time-out that part of the buffer, or of dst, is
 * undefined. */
bg_status bg_buffer_write(bg_buffer buffer, int64_t offset, const void *src, int64_t count,
	int64_t timeout_ms);
bg_status bg_buffer_read(bg_buffer buffer, int64_t offset, void *dst, int64_t count, int64_t timeout_ms);

/* bg_buffer_slice makes a buffer of count elements of a buffer, from offset on, in the same memory: nothing
 * is copied. offset is a multiple of 256 bytes; of 16 bits, count is even, of 8 a multiple of 4, and of 4 of
 * 8, unless the slice ends where the buffer does. A slice is good until its buffer is closed, and closing it
 * frees nothing. C of a run is of another buffer than what the run reads. */
bg_status bg_buffer_slice(bg_buffer buffer, int64_t offset, int64_t count, bg_buffer *slice);

/* bg_copy queues a copy of src, whole, to dst, which has as many elements of the same type and is of another
 * buffer, and returns without waiting, as bg_run does. Parts are copied as slices. */
bg_status bg_copy(bg_device device, bg_buffer dst, bg_buffer src);

/* bg_buffer_read_async queues bg_buffer_read after the runs before it and returns without waiting. dst is
 * the read's until bg_read_wait has returned what became of it, or it is closed: bg_close ends a read that is
 * under way. A read is to be closed in any case, and is closed with its device. */
bg_status bg_buffer_read_async(bg_buffer buffer, int64_t offset, void *dst, int64_t count, bg_read *read);

/* bg_read_done sets *done to 1 where bg_read_wait would not wait, else to 0. */
bg_status bg_read_done(bg_read read, int32_t *done);

/* bg_read_notify adds 1 to an eventfd of the caller when bg_read_wait will not wait any more, at once if that
 * is so now, for loops that wait by poll, epoll and the like. It is duplicated: the caller may close it at
 * any time. What is not an open file descriptor is BG_ERR_INVALID. A pipe gets the 8 bytes that an eventfd
 * would, unless it has no room: whoever reads it has something to read already, and asks bg_read_done of all
 * its reads then. */
bg_status bg_read_notify(bg_read read, int fd);

/* bg_read_wait waits for a read, and returns what bg_buffer_read would have. After BG_ERR_TIMEOUT it goes
 * on. */
bg_status bg_read_wait(bg_read read, int64_t timeout_ms);

/* bg_run queues one execution of a program, after the runs before, and returns
 * without waiting (on the CPU: unless 256 are queued). All objects are of one device.
 * The buffers are as long as the problems reach; C is neither A nor B. */
bg_status bg_run(bg_program program, bg_buffer a, bg_buffer b, bg_buffer c);

/* bg_run_ragged is bg_run of a ragged program. sizes has a word for each group, or a
 * bg_record; it is not C. The run reads it when its turn comes, after whatever was queued
 * before. bg_buffer_write copies an array of int32_t to a buffer of float32 as it is, and
 * bg_buffer_wrap takes memory of int32_t as it takes that of float. */
bg_status bg_run_ragged(bg_program program, bg_buffer sizes, bg_buffer a, bg_buffer b, bg_buffer c);

/* bg_run_operands is bg_run, or bg_run_ragged where there are sizes, with the buffers of
 * an epilogue: rows has 32-bit words, the lists of rows and, as bits of float, the weights.
 * What the program does not use is 0, and a, b, c and b2 may be where it has them by pointers. */
typedef struct bg_operands {
	uint32_t struct_size, zero; /* sizeof(bg_operands), 0 */
	bg_buffer a, b, c;
	bg_buffer sizes;
	bg_buffer b2, bias, rows;
} bg_operands;

bg_status bg_run_operands(bg_program program, const bg_operands *operands);

/* bg_run_at is bg_run_operands on memory, and on a stream, of the caller: less work for the host than
 * bg_open_on_stream and bg_buffer_wrap, which check what nobody checks here. Operands are as long as the
 * problems reach, and those of a ragged program as its bounds and extent say. Addresses are multiples of 16;
 * CUDA, HIP: of the device, where kernels may read the line of 16 bytes that holds the last element whole;
 * CPU: of the host. What the program does not use is 0. C is no other operand. Memory and stream stay until
 * the work is done.
 *
 * stream is one of the GPU, as for bg_open_on_stream, and the run only queues kernels there, so that it may
 * be captured in a CUDA graph; the CPU has stream 0, which bg_wait waits for. The runs of a program share its
 * workspace: on different streams the caller orders them, and the first comes after a bg_wait for what
 * prepared it. A program that a graph has captured is kept as long as the graph. BG_ERR_FAILED with WebGPU,
 * which has no such memory.
 *
 * extent is how much of a ragged program's bound is there in this run: with ends of rows so many rows of
 * op(A) and C, with their entries in lists, with ends of depth so many columns of op(A) and rows of op(B). A
 * group that ends beyond it is refused, as one beyond the bound, and nothing beyond it is read or written
 * whatever the sizes are. So one program serves operands of many lengths. It is from 1 to the bound; 0 stands
 * for the bound. It is 0 with records, and where the program is not ragged. A struct that ends before it
 * is good too. */
typedef struct bg_addresses {
	uint32_t struct_size, zero; /* sizeof(bg_addresses), 0 */
	uint64_t a, b, c;
	uint64_t sizes;
	uint64_t b2, bias, rows;
	int64_t extent;
} bg_addresses;

bg_status bg_run_at(bg_program program, uintptr_t stream, const bg_addresses *addresses);

/* bg_program_status waits for queued work. It is BG_ERR_INVALID, and the text names the
 * group, when a run since the last call refused sizes: the first of such runs counts. */
bg_status bg_program_status(bg_program program, int64_t timeout_ms);

/* bg_wait returns when all queued work of a device is done. */
bg_status bg_wait(bg_device device, int64_t timeout_ms);

/* bg_gemm computes a batch on host memory: arrays of len_a, len_b and len_c
 * float32. The result is in c when it returns, and elements between the problems'
 * C are as before; after a failure all of c is. Plans of the last batches are kept,
 * so that a batch of the same sizes, scalars and offsets costs no planning. Calls
 * on one device take turns. A pointer may be NULL where its length is 0. */
bg_status bg_gemm(bg_device device, const bg_problem *problems, int64_t count, const float *a, int64_t len_a,
	const float *b, int64_t len_b, float *c, int64_t len_c, int64_t timeout_ms);

/* bg_gemm_of is bg_gemm with the options of bg_plan_new, on arrays of the types that these
 * say. With types other than "f32" each call plans and allocates anew as yet. An epilogue that has
 * more operands needs bg_gemm_operands. */
bg_status bg_gemm_of(bg_device device, const bg_problem *problems, int64_t count, const char *options,
	const void *a,
	int64_t len_a, const void *b, int64_t len_b, void *c, int64_t len_c, int64_t timeout_ms);

/* bg_gemm_async starts bg_gemm_of and returns. a, b and c are the call's until bg_read_wait has returned what
 * became of it, or read is closed: bg_close ends a call that is under way, and c is as before then. read is
 * to be closed in any case, and is not closed with the device, which may be closed meanwhile. */
bg_status bg_gemm_async(bg_device device, const bg_problem *problems, int64_t count, const char *options,
	const void *a,
	int64_t len_a, const void *b, int64_t len_b, void *c, int64_t len_c, bg_read *read);

/* bg_gemm_operands is bg_gemm_of with what an epilogue has beside a, b and c: arrays of b's type, of c's, and
 * of 32-bit words, which are the lists of rows and, as bits of float, the weights. What the epilogue has no
 * use for is empty. Of float32, only rows that are gathered travel to the device. There are no pointers (an
 * option of the epilogue). */
typedef struct bg_host_operands {
	uint32_t struct_size, zero; /* sizeof(bg_host_operands), 0 */
	const void *a;
	int64_t len_a;
	const void *b;
	int64_t len_b;
	void *c;
	int64_t len_c;
	const void *b2;
	int64_t len_b2;
	const void *bias;
	int64_t len_bias;
	const void *rows;
	int64_t len_rows;
} bg_host_operands;

bg_status bg_gemm_operands(bg_device device, const bg_problem *problems, int64_t count, const char *options,
	const bg_host_operands *operands, int64_t timeout_ms);

/* bg_gemm_operands_async is bg_gemm_async with these; the struct itself is used during the call alone. */
bg_status bg_gemm_operands_async(bg_device device, const bg_problem *problems, int64_t count,
	const char *options,
	const bg_host_operands *operands, bg_read *read);

/* bg_pack_int4 makes a B of "int4" of n rows of k weights from 0 to 15, of which the lower 4 bits are taken:
 * row j, as weights of a layer are stored, is column j of B, k x n. Its leading dimension ld is n, rounded up
 * to a multiple of 8, and columns from n on are of zeros. B lies in panels of 64 k's, in each of which a
 * column has 8 words of eight weights, of k, k+1, ..., k+7: word k/64*8*ld + 8*j + k%64/8 is of column j. In
 * a word weight 0 has bits 0 to 3, and after it are 2, 4, 6, 1, 3, 5 and 7, so that 0, 1, ..., 7 make
 * 0x75316420. k is a multiple of 64; words has k*ld / 8. bg_unpack_int4 is its inverse. */
bg_status bg_pack_int4(const uint8_t *weights, int64_t n, int64_t k, uint32_t *words);
bg_status bg_unpack_int4(const uint32_t *words, int64_t n, int64_t k, uint8_t *weights);

/* bg_group_words makes the words of count groups (the option scale_b): the upper 28 bits are those of a
 * scale, rounded to 20 bits of precision, of which bf16 and fp16 need fewer, and the lower 4 a zero point
 * from 0 to 15: 8 where weights were from -8 to 7 before 8 was added. bg_split_group_words is its inverse. */
bg_status bg_group_words(const float *scales, const uint8_t *zeros, int64_t count, uint32_t *words);
bg_status bg_split_group_words(const uint32_t *words, int64_t count, float *scales, uint8_t *zeros);

/* bg_quantize_int4 makes a B, as bg_pack_int4 does, and the words of its groups, k/group rows of ld, of n
 * rows of k numbers. k is a multiple of the group, 64 or 128. Each group has the zero point 8 and a scale by
 * which its largest number is -8 or 7, whichever errs less in sum of squares. words has k*ld / 8, groups k*ld
 * / group. NaN and infinities are an error that names row and column of the numbers, before anything is
 * written. */
bg_status bg_quantize_int4(const float *numbers, int64_t n, int64_t k, int32_t group, uint32_t *words,
	uint32_t *groups);

/* bg_sum_columns makes the sums of the cols columns of op(B), rows x cols, of "int8" (the option zero_a).
 * Rows of b as stored are ld apart: those of op(B), cols long, or with BG_TRANS_B in flags, 0 without, its
 * columns, rows long. rows is up to 131071. */
bg_status bg_sum_columns(const int8_t *b, int64_t rows, int64_t cols, int64_t ld, uint32_t flags,
	int32_t *sums);

/* bg_close closes a device, plan, program, buffer or read. A device waits for its queued
 * work (the CPU abandons it), and its programs and buffers are closed with it. The
 * handle is gone whatever the result; closing it again is BG_ERR_HANDLE. */
bg_status bg_close(uint64_t handle);

#ifdef __cplusplus
}
#endif

#endif
