// The entry points of libcuda and of cuBLAS that this package uses, with their
// names in the binary interface. A library without one that is REQ is refused;
// one that is OPT is NULL then.
//
// No include guard: library.h and library.c expand this list in different ways.

#ifdef CUDA
CUDA(REQ, cuInit, (unsigned flags))
CUDA(REQ, cuDeviceGet, (int *device, int ordinal))
CUDA(REQ, cuDevicePrimaryCtxRetain, (void **context, int device))
CUDA(REQ, cuDevicePrimaryCtxRelease_v2, (int device))
CUDA(REQ, cuCtxSetCurrent, (void *context))
CUDA(REQ, cuMemAlloc_v2, (uint64_t *memory, size_t size))
CUDA(REQ, cuMemFree_v2, (uint64_t memory))
CUDA(REQ, cuMemcpyHtoD_v2, (uint64_t to, const void *from, size_t size))
CUDA(REQ, cuStreamCreate, (void **stream, unsigned flags))
CUDA(REQ, cuStreamDestroy_v2, (void *stream))
CUDA(REQ, cuStreamSynchronize, (void *stream))
CUDA(REQ, cuStreamBeginCapture_v2, (void *stream, int mode))
CUDA(REQ, cuStreamEndCapture, (void *stream, void **graph))
CUDA(REQ, cuEventCreate, (void **event, unsigned flags))
CUDA(REQ, cuEventDestroy_v2, (void *event))
CUDA(REQ, cuEventRecord, (void *event, void *stream))
CUDA(REQ, cuEventElapsedTime, (float *milliseconds, void *start, void *end))
CUDA(REQ, cuGraphInstantiateWithFlags, (void **exec, void *graph, unsigned long long flags))
CUDA(REQ, cuGraphDestroy, (void *graph))
CUDA(REQ, cuGraphLaunch, (void *exec, void *stream))
CUDA(REQ, cuGraphExecDestroy, (void *exec))
CUDA(REQ, cuGetErrorName, (int error, const char **text))
#undef CUDA
#endif

#ifdef CUBLAS
CUBLAS(REQ, cublasCreate_v2, (void **handle))
CUBLAS(REQ, cublasDestroy_v2, (void *handle))
CUBLAS(REQ, cublasGetVersion_v2, (void *handle, int *version))
CUBLAS(REQ, cublasSetStream_v2, (void *handle, void *stream))
CUBLAS(REQ, cublasSetWorkspace_v2, (void *handle, void *workspace, size_t size))
CUBLAS(REQ, cublasSetMathMode, (void *handle, int mode))
CUBLAS(REQ, cublasSgemm_v2, (void *handle, int transa, int transb, int m, int n, int k, const float *alpha,
                             const float *a, int lda, const float *b, int ldb, const float *beta,
                             float *c, int ldc))
CUBLAS(OPT, cublasSgemmGroupedBatched, // since CUDA 12.5
       (void *handle, const int *transa, const int *transb, const int *m, const int *n, const int *k,
        const float *alpha,
        const float *const *a, const int *lda, const float *const *b, const int *ldb, const float *beta,
        float *const *c,
        const int *ldc, int groups, const int *group_size))
CUBLAS(OPT, cublasGemmGroupedBatchedEx, // the same
       (void *handle, const int *transa, const int *transb, const int *m, const int *n, const int *k,
        const void *alpha,
        const void *const *a, int type_a, const int *lda, const void *const *b, int type_b, const int *ldb,
        const void *beta,
        void *const *c, int type_c, const int *ldc, int groups, const int *group_size, int compute))
CUBLAS(OPT, cublasDgemmGroupedBatched, // the same
       (void *handle, const int *transa, const int *transb, const int *m, const int *n, const int *k,
        const double *alpha,
        const double *const *a, const int *lda, const double *const *b, const int *ldb, const double *beta,
        double *const *c,
        const int *ldc, int groups, const int *group_size))
#undef CUBLAS
#endif
