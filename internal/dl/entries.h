// The entry points of a vendor's library that this package calls, under names of
// its own: ENTRY(need, type, name, params). A backend says which symbol of its
// library fills which entry. NEEDED entries must be filled, a call checks an
// OPTIONAL one for NULL.
//
// CUDA's driver API gives the types. HIP's are the same in the binary interface
// of amd64 and arm64, where hipDeviceptr_t is a pointer and CUdeviceptr a number.
//
// No include guard: dl.h and dl.c expand this list in different ways.

ENTRY(NEEDED, int, version, (int *version))
ENTRY(OPTIONAL, dl_result, init, (unsigned flags)) // HIP starts by itself
ENTRY(NEEDED, dl_result, deviceCount, (int *count))
ENTRY(NEEDED, dl_result, device, (int *device, int ordinal))
ENTRY(NEEDED, dl_result, deviceName, (char *name, int size, int device))
ENTRY(NEEDED, dl_result, deviceAttribute, (int *value, int attribute, int device))
ENTRY(NEEDED, dl_result, deviceMemory, (size_t *size, int device))
ENTRY(OPTIONAL, dl_result, deviceUUID, (void *uuid, int device)) // 16 bytes
ENTRY(OPTIONAL, dl_result, deviceProperties, (void *properties, int device)) // a struct of HIP

// The name and the description of a result, in CUDA's form or in HIP's.
ENTRY(OPTIONAL, dl_result, errorName, (dl_result error, const char **text))
ENTRY(OPTIONAL, dl_result, errorText, (dl_result error, const char **text))
ENTRY(OPTIONAL, const char *, errorNameOf, (dl_result error))
ENTRY(OPTIONAL, const char *, errorTextOf, (dl_result error))

// What makes a device current in a thread: its primary context, or its number.
ENTRY(OPTIONAL, dl_result, contextRetain, (dl_context *context, int device))
ENTRY(OPTIONAL, dl_result, contextRelease, (int device))
ENTRY(OPTIONAL, dl_result, contextGet, (dl_context *context))
ENTRY(OPTIONAL, dl_result, contextSet, (dl_context context))
ENTRY(OPTIONAL, dl_result, deviceGet, (int *device))
ENTRY(OPTIONAL, dl_result, deviceSet, (int device))

ENTRY(OPTIONAL, dl_result, moduleLoadEx, (dl_module *module, const void *image, unsigned count, int *options,
	void **values))
ENTRY(OPTIONAL, dl_result, moduleLoad, (dl_module *module, const void *image))
ENTRY(NEEDED, dl_result, moduleUnload, (dl_module module))
ENTRY(NEEDED, dl_result, moduleFunction, (dl_function *function, dl_module module, const char *name))
ENTRY(OPTIONAL, dl_result, moduleGlobal, (dl_pointer *memory, size_t *size, dl_module module,
	const char *name))
ENTRY(OPTIONAL, dl_result, functionLoad, (dl_function function))
ENTRY(OPTIONAL, dl_result, functionSetAttribute, (dl_function function, int attribute, int value))
ENTRY(NEEDED, dl_result, functionAttribute, (int *value, int attribute, dl_function function))

ENTRY(NEEDED, dl_result, alloc, (dl_pointer *memory, size_t size))
ENTRY(NEEDED, dl_result, free, (dl_pointer memory))
ENTRY(NEEDED, dl_result, hostAlloc, (void **memory, size_t size, unsigned flags))
ENTRY(NEEDED, dl_result, hostFree, (void *memory))
ENTRY(NEEDED, dl_result, copyToDevice, (dl_pointer to, const void *from, size_t size, dl_stream stream))
ENTRY(NEEDED, dl_result, copyToHost, (void *to, dl_pointer from, size_t size, dl_stream stream))
ENTRY(NEEDED, dl_result, copyOnDevice, (dl_pointer to, dl_pointer from, size_t size, dl_stream stream))
ENTRY(NEEDED, dl_result, pointerAttribute, (void *value, int attribute, dl_pointer memory))

ENTRY(NEEDED, dl_result, streamCreate, (dl_stream *stream, unsigned flags))
ENTRY(NEEDED, dl_result, streamDestroy, (dl_stream stream))
ENTRY(OPTIONAL, dl_result, streamContext, (dl_stream stream, dl_context *context))
ENTRY(OPTIONAL, dl_result, streamDevice, (dl_stream stream, int *device))
ENTRY(NEEDED, dl_result, eventCreate, (dl_event *event, unsigned flags))
ENTRY(NEEDED, dl_result, eventDestroy, (dl_event event))
ENTRY(NEEDED, dl_result, eventRecord, (dl_event event, dl_stream stream))
ENTRY(NEEDED, dl_result, eventQuery, (dl_event event))
ENTRY(NEEDED, dl_result, eventElapsed, (float *milliseconds, dl_event start, dl_event end))

ENTRY(NEEDED, dl_result, launch, (dl_function function, unsigned x, unsigned y, unsigned z,
                                  unsigned threads_x,
                                  unsigned threads_y, unsigned threads_z, unsigned shared, dl_stream stream,
                                  void **params,
                                  void **extra))

// A launch in clusters of workgroups, or one that begins while another ends.
ENTRY(OPTIONAL, dl_result, launchEx, (const dl_launch_config *config, dl_function function, void **params,
	void **extra))

// Graphs: all of them, or none.
ENTRY(OPTIONAL, dl_result, captureBegin, (dl_stream stream, int mode))
ENTRY(OPTIONAL, dl_result, captureEnd, (dl_stream stream, dl_graph *graph))
ENTRY(OPTIONAL, dl_result, graphInstantiate, (dl_graph_exec *exec, dl_graph graph, unsigned long long flags))
ENTRY(OPTIONAL, dl_result, graphDestroy, (dl_graph graph))
ENTRY(OPTIONAL, dl_result, graphLaunch, (dl_graph_exec exec, dl_stream stream))
ENTRY(OPTIONAL, dl_result, graphExecDestroy, (dl_graph_exec exec))
// Whether a caller captures a stream: 0 if not. Only a library that finishes graphs that are destroyed in
// flight has it here.
ENTRY(OPTIONAL, dl_result, streamCapturing, (dl_stream stream, int *status))
