//go:build cgo && !nocuda && linux && (amd64 || arm64)

// What this package does through libcuda and cuBLAS, without NVIDIA's headers.
// Every function sets the device's context before it acts, because the current
// context belongs to a thread and goroutines change threads.
#ifndef BGB_LIBRARY_H
#define BGB_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

// Entry points. All return CUresult or cublasStatus_t; 0 is success in both.
typedef struct {
#define CUDA(need, name, params) int(*name) params;
#include "symbols.h"
} bgb_cuda;

typedef struct {
#define CUBLAS(need, name, params) int(*name) params;
#include "symbols.h"
} bgb_cublas;

// These open a library, for good, and fill the table. On failure they say why
// in message.
int bgb_load_cuda(const char *path, bgb_cuda *api, char *message, size_t size);
int bgb_load_cublas(const char *path, bgb_cublas *api, char *message, size_t size);
const char *bgb_error_name(const bgb_cuda *api, int error);

// bgb_stream is a stream in a device's primary context, with two events.
typedef struct {
	const bgb_cuda *api;
	void *context, *stream, *start, *end;
	int device;
} bgb_stream;

int bgb_open(bgb_stream *s, const bgb_cuda *api, int ordinal);
void bgb_close(bgb_stream *s);
int bgb_start(const bgb_stream *s);                    // marks the start of a time
int bgb_stop(const bgb_stream *s, float *milliseconds); // marks its end and waits
int bgb_begin_capture(const bgb_stream *s);
int bgb_end_capture(const bgb_stream *s, void **exec); // *exec is NULL after an error
int bgb_launch(const bgb_stream *s, void *exec);
int bgb_free_graph(const bgb_stream *s, void *exec);
int bgb_upload(const bgb_stream *s, const void *from, size_t size, uint64_t *memory);
int bgb_alloc(const bgb_stream *s, size_t size, uint64_t *memory);
int bgb_free(const bgb_stream *s, uint64_t memory);

int bgb_create(const bgb_stream *s, const bgb_cublas *api, uint64_t workspace, size_t size, void **handle,
	int *version);
int bgb_destroy(const bgb_stream *s, const bgb_cublas *api, void *handle);

// bgb_batch holds n products in cuBLAS' terms (matrices by columns), as arrays
// of n. pa, pb and pc are pointers into device memory; device_pa and so on are
// copies of these arrays in device memory.
typedef struct {
	int n;
	const int *transa, *transb, *rows, *cols, *depth, *lda, *ldb, *ldc, *ones;
	const float *alpha, *beta;
	const double *alpha64, *beta64; // of double
	const uint64_t *pa, *pb, *pc;
	uint64_t device_pa, device_pb, device_pc;
	int type, type_c; // cudaDataType of A and B, and of C; 0: float
} bgb_batch;

int bgb_loop(const bgb_stream *s, const bgb_cublas *api, void *handle, const bgb_batch *b);
int bgb_grouped(const bgb_stream *s, const bgb_cublas *api, void *handle, const bgb_batch *b);

#endif
