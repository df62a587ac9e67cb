//go:build cgo && !nocuda && linux && (amd64 || arm64)

#include "library.h"

#include <dlfcn.h>
#include <stdio.h>

// Values of cuda.h and cublas_v2.h.
enum {
	STREAM_NON_BLOCKING = 1,
	CAPTURE_RELAXED = 2,
	CUDA_R_64F = 1,
	CUBLAS_DEFAULT_MATH = 0, // fp32 throughout: neither TF32 nor emulation
	CUBLAS_COMPUTE_32F = 68,
};

// TRY returns from the function when a call fails.
#define TRY(call) \
	do { \
		int error_ = (call); \
		if (error_) return error_; \
	} while (0)

static void *open_library(const char *path, char *message, size_t size) {
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) snprintf(message, size, "%s", dlerror());
	return library;
}

#define OPT(name)
#define REQ(name) \
	if (!api->name) { \
		snprintf(message, size, "no symbol %s", #name); \
		return -1; \
	}

int bgb_load_cuda(const char *path, bgb_cuda *api, char *message, size_t size) {
	void *library = open_library(path, message, size);
	if (!library) return -1;
#define CUDA(need, name, params) \
	*(void **)&api->name = dlsym(library, #name); \
	need(name)
#include "symbols.h"
	return 0;
}

int bgb_load_cublas(const char *path, bgb_cublas *api, char *message, size_t size) {
	void *library = open_library(path, message, size);
	if (!library) return -1;
#define CUBLAS(need, name, params) \
	*(void **)&api->name = dlsym(library, #name); \
	need(name)
#include "symbols.h"
	return 0;
}

const char *bgb_error_name(const bgb_cuda *api, int error) {
	const char *text = NULL;
	return api->cuGetErrorName(error, &text) || !text ? "unknown CUDA error" : text;
}

static int enter(const bgb_stream *s) { return s->api->cuCtxSetCurrent(s->context); }

int bgb_open(bgb_stream *s, const bgb_cuda *api, int ordinal) {
	*s = (bgb_stream){.api = api};
	TRY(api->cuInit(0));
	TRY(api->cuDeviceGet(&s->device, ordinal));
	TRY(api->cuDevicePrimaryCtxRetain(&s->context, s->device));
	int error = enter(s);
	if (!error) error = api->cuStreamCreate(&s->stream, STREAM_NON_BLOCKING);
	if (!error) error = api->cuEventCreate(&s->start, 0);
	if (!error) error = api->cuEventCreate(&s->end, 0);
	if (error) bgb_close(s);
	return error;
}

void bgb_close(bgb_stream *s) {
	enter(s);
	if (s->start) s->api->cuEventDestroy_v2(s->start);
	if (s->end) s->api->cuEventDestroy_v2(s->end);
	if (s->stream) s->api->cuStreamDestroy_v2(s->stream);
	s->api->cuDevicePrimaryCtxRelease_v2(s->device);
}

int bgb_start(const bgb_stream *s) {
	TRY(enter(s));
	return s->api->cuEventRecord(s->start, s->stream);
}

int bgb_stop(const bgb_stream *s, float *milliseconds) {
	TRY(enter(s));
	TRY(s->api->cuEventRecord(s->end, s->stream));
	TRY(s->api->cuStreamSynchronize(s->stream));
	return s->api->cuEventElapsedTime(milliseconds, s->start, s->end);
}

int bgb_begin_capture(const bgb_stream *s) {
	TRY(enter(s));
	return s->api->cuStreamBeginCapture_v2(s->stream, CAPTURE_RELAXED);
}

int bgb_end_capture(const bgb_stream *s, void **exec) {
	void *graph = NULL;
	*exec = NULL;
	TRY(enter(s));
	TRY(s->api->cuStreamEndCapture(s->stream, &graph));
	int error = s->api->cuGraphInstantiateWithFlags(exec, graph, 0);
	s->api->cuGraphDestroy(graph);
	return error;
}

int bgb_launch(const bgb_stream *s, void *exec) {
	TRY(enter(s));
	return s->api->cuGraphLaunch(exec, s->stream);
}

int bgb_free_graph(const bgb_stream *s, void *exec) {
	TRY(enter(s));
	return s->api->cuGraphExecDestroy(exec);
}

int bgb_upload(const bgb_stream *s, const void *from, size_t size, uint64_t *memory) {
	TRY(bgb_alloc(s, size, memory));
	return s->api->cuMemcpyHtoD_v2(*memory, from, size);
}

int bgb_alloc(const bgb_stream *s, size_t size, uint64_t *memory) {
	TRY(enter(s));
	return s->api->cuMemAlloc_v2(memory, size);
}

int bgb_free(const bgb_stream *s, uint64_t memory) {
	TRY(enter(s));
	return s->api->cuMemFree_v2(memory);
}

int bgb_create(const bgb_stream *s, const bgb_cublas *api, uint64_t workspace, size_t size, void **handle,
	int *version) {
	TRY(enter(s));
	TRY(api->cublasCreate_v2(handle));
	TRY(api->cublasGetVersion_v2(*handle, version));
	TRY(api->cublasSetMathMode(*handle, CUBLAS_DEFAULT_MATH));
	// Setting the stream also drops the workspace, so that comes second.
	TRY(api->cublasSetStream_v2(*handle, s->stream));
	return api->cublasSetWorkspace_v2(*handle, (void *)workspace, size);
}

int bgb_destroy(const bgb_stream *s, const bgb_cublas *api, void *handle) {
	TRY(enter(s));
	return api->cublasDestroy_v2(handle);
}

int bgb_loop(const bgb_stream *s, const bgb_cublas *api, void *handle, const bgb_batch *b) {
	TRY(enter(s));
	for (int i = 0; i < b->n; i++)
		TRY(api->cublasSgemm_v2(handle, b->transa[i], b->transb[i], b->rows[i], b->cols[i],
		                        b->depth[i], &b->alpha[i],
		                        (const float *)b->pa[i], b->lda[i], (const float *)b->pb[i],
		                        b->ldb[i], &b->beta[i],
		                        (float *)b->pc[i], b->ldc[i]));
	return 0;
}

int bgb_grouped(const bgb_stream *s, const bgb_cublas *api, void *handle, const bgb_batch *b) {
	TRY(enter(s));
	if (b->type == CUDA_R_64F)
		return api->cublasDgemmGroupedBatched(handle, b->transa, b->transb, b->rows, b->cols, b->depth,
		                                      b->alpha64, (const double *const *)b->device_pa, b->lda,
		                                      (const double *const *)b->device_pb, b->ldb, b->beta64,
		                                      (double *const *)b->device_pc, b->ldc, b->n, b->ones);
	if (b->type)
		return api->cublasGemmGroupedBatchedEx(handle, b->transa, b->transb, b->rows, b->cols,
		                                       b->depth, b->alpha,
		                                       (const void *const *)b->device_pa, b->type, b->lda,
		                                       (const void *const *)b->device_pb,
		                                       b->type, b->ldb, b->beta, (void *const *)b->device_pc,
		                                       b->type_c, b->ldc, b->n, b->ones,
		                                       CUBLAS_COMPUTE_32F);
	return api->cublasSgemmGroupedBatched(handle, b->transa, b->transb, b->rows, b->cols, b->depth, b->alpha,
	                                      (const float *const *)b->device_pa, b->lda,
	                                      (const float *const *)b->device_pb, b->ldb, b->beta,
	                                      (float *const *)b->device_pc, b->ldc, b->n, b->ones);
}
