// A CUDA driver and a cuBLAS whose device is the host: work is done when it is
// queued, and 1 ms passes between any two events.

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int token, capturing;

static int make(void **p) { return *p = &token, 0; }

int cuInit(unsigned flags) { return 0; }
int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, ordinal == 0 ? 0 : 101; }
int cuDevicePrimaryCtxRetain(void **context, int device) { return make(context); }
int cuDevicePrimaryCtxRelease_v2(int device) { return 0; }
int cuCtxSetCurrent(void *context) { return context == &token ? 0 : 201; }
int cuMemAlloc_v2(uint64_t *memory, size_t size) { return *memory = (uint64_t)malloc(size), 0; }
int cuMemFree_v2(uint64_t memory) { return free((void *)memory), 0; }
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) { return memcpy((void *)to, from, size), 0; }
int cuStreamCreate(void **stream, unsigned flags) { return make(stream); }
int cuStreamDestroy_v2(void *stream) { return 0; }
int cuStreamSynchronize(void *stream) { return capturing ? 900 : 0; }
int cuStreamBeginCapture_v2(void *stream, int mode) { return capturing = 1, 0; }
int cuStreamEndCapture(void *stream, void **graph) { return capturing = 0, make(graph); }
int cuEventCreate(void **event, unsigned flags) { return make(event); }
int cuEventDestroy_v2(void *event) { return 0; }
int cuEventRecord(void *event, void *stream) { return 0; }
int cuEventElapsedTime(float *milliseconds, void *start, void *end) { return *milliseconds = 1, 0; }
int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags) { return make(exec); }
int cuGraphDestroy(void *graph) { return 0; }
int cuGraphLaunch(void *exec, void *stream) { return capturing ? 900 : 0; }
int cuGraphExecDestroy(void *exec) { return 0; }
int cuGetErrorName(int error, const char **text) {
	return *text = error == 101 ? "CUDA_ERROR_INVALID_DEVICE" : "CUDA_ERROR", 0;
}

int cublasCreate_v2(void **handle) { return make(handle); }
int cublasDestroy_v2(void *handle) { return 0; }
int cublasGetVersion_v2(void *handle, int *version) { return *version = 120501, 0; }
int cublasSetStream_v2(void *handle, void *stream) { return 0; }
int cublasSetWorkspace_v2(void *handle, void *workspace, size_t size) { return 0; }
int cublasSetMathMode(void *handle, int mode) { return mode; }

enum { R_32F = 0, R_16F = 2, R_16BF = 14, COMPUTE_32F = 68 }; // cudaDataType, cublasComputeType_t

// Of elements of 16 bits normal numbers that they have alone.
static float number(int type, const void *p, int i) {
	if (type == R_32F) return ((const float *)p)[i];
	uint32_t h = ((const uint16_t *)p)[i], w = h << 16;
	if (type == R_16F) w = (h & 0x8000) << 16 | (h & 0x7fff ? (h & 0x7fff) + (112 << 10) : 0) << 13;
	float x;
	return memcpy(&x, &w, 4), x;
}
static void set(int type, void *p, int i, float x) {
	uint32_t w;
	memcpy(&w, &x, 4);
	if (type == R_32F) ((float *)p)[i] = x;
	else if (type == R_16BF) ((uint16_t *)p)[i] = w >> 16;
	else ((uint16_t *)p)[i] = (w >> 16 & 0x8000) | (w & 0x7fffffff ? (w >> 13 & 0x3ffff) - (112 << 10) : 0);
}

static int gemm(int type, int ta, int tb, int m, int n, int k, float alpha, const void *a, int lda,
                const void *b, int ldb,
                float beta, void *c, int ldc) {
	if (lda < (ta ? k : m) || ldb < (tb ? n : k) || ldc < m || lda < 1 || ldb < 1) return 7;
	for (int i = 0; i < m; i++)
		for (int j = 0; j < n; j++) {
			float sum = 0;
			for (int l = 0; l < k; l++)
				sum += number(type, a, ta ? l + i * lda : i + l * lda) * number(type, b,
					tb ? j + l * ldb : l + j * ldb);
			set(type, c, i + j * ldc, alpha * sum + (beta ? beta * number(type, c, i + j * ldc) : 0));
		}
	return 0;
}

#ifndef NO_SGEMM
int cublasSgemm_v2(void *handle, int ta, int tb, int m, int n, int k, const float *alpha,
                   const float *a, int lda,
                   const float *b, int ldb, const float *beta, float *c, int ldc) {
	return gemm(R_32F, ta, tb, m, n, k, *alpha, a, lda, b, ldb, *beta, c, ldc);
}
#endif

#ifndef NO_GROUPED
int cublasGemmGroupedBatchedEx(void *handle, const int *ta, const int *tb, const int *m,
                               const int *n, const int *k,
                               const float *alpha, const void *const *a, int type_a, const int *lda,
                               const void *const *b, int type_b,
                               const int *ldb, const float *beta, void *const *c, int type_c, const int *ldc,
                               int groups, const int *size,
                               int compute) {
	if (compute != COMPUTE_32F || type_a != type_b || type_b != type_c) return 15;
	for (int g = 0; g < groups; g++) {
		if (size[g] != 1) return 7;
		int error = gemm(type_a, ta[g], tb[g], m[g], n[g], k[g], alpha[g], a[g], lda[g], b[g], ldb[g],
			beta[g], c[g], ldc[g]);
		if (error) return error;
	}
	return 0;
}
int cublasSgemmGroupedBatched(void *handle, const int *ta, const int *tb, const int *m,
                              const int *n, const int *k,
                              const float *alpha, const float *const *a, const int *lda,
                              const float *const *b,
                              const int *ldb, const float *beta, float *const *c, const int *ldc, int groups,
                              const int *size) {
	return cublasGemmGroupedBatchedEx(handle, ta, tb, m, n, k, alpha, (void *)a, R_32F, lda, (void *)b, R_32F,
	                                  ldb, beta, (void *)c, R_32F,
	                                  ldc, groups, size, COMPUTE_32F);
}

int cublasDgemmGroupedBatched(void *handle, const int *ta, const int *tb, const int *m, const int *n,
                              const int *k, const double *alpha, const double *const *a, const int *lda,
                              const double *const *b, const int *ldb, const double *beta, double *const *c,
                              const int *ldc, int groups, const int *size) {
	for (int g = 0; g < groups; g++)
		for (int i = 0; i < m[g]; i++)
			for (int j = 0; j < n[g]; j++) {
				double sum = 0, *to = &c[g][i + j * ldc[g]];
				for (int l = 0; l < k[g]; l++)
					sum += a[g][ta[g] ? l + i * lda[g] : i + l * lda[g]] *
					       b[g][tb[g] ? j + l * ldb[g] : l + j * ldb[g]];
				*to = alpha[g] * sum + (beta[g] ? beta[g] * *to : 0);
			}
	return 0;
}
#endif
