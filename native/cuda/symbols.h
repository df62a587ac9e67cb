// The entry points of libcuda that this package uses, with the names of the
// binary interface of CUDA 12.0: where NVIDIA's headers rename a function, the
// renamed one (_v2). All return CUresult. A library without one that is REQ is
// refused; one that is OPT is NULL then.
//
// No include guard: gcu.h and gcu.c expand this list in different ways.

// The first three, so that failures to load the others can be explained.
REQ(cuGetErrorName, (CUresult error, const char **text))
REQ(cuGetErrorString, (CUresult error, const char **text))
REQ(cuDriverGetVersion, (int *version))

REQ(cuInit, (unsigned flags))
REQ(cuDeviceGetCount, (int *count))
REQ(cuDeviceGet, (CUdevice *device, int ordinal))
REQ(cuDeviceGetName, (char *name, int size, CUdevice device))
REQ(cuDeviceGetAttribute, (int *value, int attribute, CUdevice device))

REQ(cuDevicePrimaryCtxRetain, (CUcontext *context, CUdevice device))
REQ(cuDevicePrimaryCtxRelease_v2, (CUdevice device))
REQ(cuCtxSetCurrent, (CUcontext context))

REQ(cuModuleLoadDataEx, (CUmodule *module, const void *image, unsigned count, int *options, void **values))
REQ(cuModuleUnload, (CUmodule module))
REQ(cuModuleGetFunction, (CUfunction *function, CUmodule module, const char *name))
REQ(cuFuncGetAttribute, (int *value, int attribute, CUfunction function))
REQ(cuFuncSetAttribute, (CUfunction function, int attribute, int value))
OPT(cuFuncLoad, (CUfunction function)) // since CUDA 12.4

REQ(cuMemAlloc_v2, (CUdeviceptr *memory, size_t size))
REQ(cuMemFree_v2, (CUdeviceptr memory))
REQ(cuMemHostAlloc, (void **memory, size_t size, unsigned flags))
REQ(cuMemFreeHost, (void *memory))
REQ(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t size, CUstream stream))
REQ(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t size, CUstream stream))
REQ(cuPointerGetAttribute, (void *value, int attribute, CUdeviceptr memory))

REQ(cuStreamCreate, (CUstream *stream, unsigned flags))
REQ(cuStreamDestroy_v2, (CUstream stream))
REQ(cuStreamGetCtx, (CUstream stream, CUcontext *context))
REQ(cuEventCreate, (CUevent *event, unsigned flags))
REQ(cuEventDestroy_v2, (CUevent event))
REQ(cuEventRecord, (CUevent event, CUstream stream))
REQ(cuEventQuery, (CUevent event))
REQ(cuEventElapsedTime, (float *milliseconds, CUevent start, CUevent end))

REQ(cuLaunchKernel, (CUfunction function, unsigned x, unsigned y, unsigned z, unsigned threads_x, unsigned threads_y,
                     unsigned threads_z, unsigned shared, CUstream stream, void **params, void **extra))
REQ(cuStreamBeginCapture_v2, (CUstream stream, int mode))
REQ(cuStreamEndCapture, (CUstream stream, CUgraph *graph))
REQ(cuGraphInstantiateWithFlags, (CUgraphExec *exec, CUgraph graph, unsigned long long flags))
REQ(cuGraphDestroy, (CUgraph graph))
REQ(cuGraphLaunch, (CUgraphExec exec, CUstream stream))
REQ(cuGraphExecDestroy, (CUgraphExec exec))
