//go:build cgo && linux && (amd64 || arm64)

#include "gcu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
	STREAM_NON_BLOCKING = 1,
	EVENT_DISABLE_TIMING = 2,
	CAPTURE_RELAXED = 2, // other threads may allocate meanwhile
	FUNC_MAX_THREADS = 0,
	FUNC_SHARED = 8, // largest dynamic shared memory
	JIT_ERROR_LOG = 5,
	JIT_ERROR_LOG_SIZE = 6,
	POINTER_ORDINAL = 9,
	POINTER_START = 11,
	POINTER_SIZE = 12,
};

// TRY returns from the function when a call fails.
#define TRY(call) \
	do { \
		CUresult error_ = (call); \
		if (error_) return error_; \
	} while (0)

int gcu_load(const char *path, gcu_api *api, char *message, size_t size) {
	// All symbols are bound now: a driver that is half there fails here. The
	// library is never closed, since drivers do not survive that.
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		snprintf(message, size, "%s", dlerror());
		return -1;
	}
	const char *missing = NULL;
#define OPT(name, params) *(void **)&api->name = dlsym(library, #name);
#define REQ(name, params) \
	OPT(name, params) \
	if (!api->name && !missing) missing = #name;
#include "symbols.h"
#undef REQ
#undef OPT
	if (missing) {
		snprintf(message, size, "no symbol %s", missing);
		return -1;
	}
	return 0;
}

CUresult gcu_version(const gcu_api *api, int *version) {
	*version = 0;
	return api->cuDriverGetVersion ? api->cuDriverGetVersion(version) : 0;
}

CUresult gcu_count(const gcu_api *api, int *count) {
	TRY(api->cuInit(0));
	return api->cuDeviceGetCount(count);
}

CUresult gcu_name(const gcu_api *api, int ordinal, char *name, int size) {
	CUdevice device;
	TRY(api->cuDeviceGet(&device, ordinal));
	return api->cuDeviceGetName(name, size, device);
}

CUresult gcu_attribute(const gcu_api *api, int ordinal, int attribute, int *value) {
	CUdevice device;
	TRY(api->cuDeviceGet(&device, ordinal));
	return api->cuDeviceGetAttribute(value, attribute, device);
}

const char *gcu_error_name(const gcu_api *api, CUresult error) {
	const char *text = NULL;
	return api->cuGetErrorName(error, &text) || !text ? "unknown CUDA error" : text;
}

const char *gcu_error_text(const gcu_api *api, CUresult error) {
	const char *text = NULL;
	return api->cuGetErrorString(error, &text) || !text ? "" : text;
}

static CUresult enter(const gcu *g) { return g->api->cuCtxSetCurrent(g->context); }

CUresult gcu_open(gcu *g, const gcu_api *api, int ordinal) {
	*g = (gcu){.api = api};
	TRY(api->cuDeviceGet(&g->device, ordinal));
	TRY(api->cuDevicePrimaryCtxRetain(&g->context, g->device));
	CUresult error = enter(g);
	if (!error) error = api->cuStreamCreate(&g->stream, STREAM_NON_BLOCKING);
	if (!error) error = api->cuStreamCreate(&g->capture, STREAM_NON_BLOCKING);
	if (error) gcu_close(g);
	return error;
}

CUresult gcu_open_on(gcu *g, const gcu *other, CUstream stream) {
	*g = (gcu){.api = other->api, .device = other->device, .stream = stream};
	CUcontext context;
	TRY(enter(other)); // the default stream is the current context's
	TRY(g->api->cuStreamGetCtx(stream, &context));
	if (context != other->context) return GCU_INVALID_VALUE;
	return g->api->cuDevicePrimaryCtxRetain(&g->context, g->device);
}

void gcu_close(gcu *g) {
	enter(g);
	if (g->capture) {
		g->api->cuStreamDestroy_v2(g->capture);
		g->api->cuStreamDestroy_v2(g->stream);
	}
	g->api->cuDevicePrimaryCtxRelease_v2(g->device);
}

CUresult gcu_alloc(const gcu *g, size_t size, CUdeviceptr *memory) {
	TRY(enter(g));
	return g->api->cuMemAlloc_v2(memory, size);
}

CUresult gcu_free(const gcu *g, CUdeviceptr memory) {
	TRY(enter(g));
	return g->api->cuMemFree_v2(memory);
}

CUresult gcu_host_alloc(const gcu *g, size_t size, void **memory) {
	TRY(enter(g));
	return g->api->cuMemHostAlloc(memory, size, 0);
}

CUresult gcu_host_free(const gcu *g, void *memory) {
	TRY(enter(g));
	return g->api->cuMemFreeHost(memory);
}

CUresult gcu_extent(const gcu *g, CUdeviceptr memory, int *ordinal, CUdeviceptr *start, size_t *size) {
	TRY(enter(g));
	TRY(g->api->cuPointerGetAttribute(ordinal, POINTER_ORDINAL, memory));
	TRY(g->api->cuPointerGetAttribute(start, POINTER_START, memory));
	return g->api->cuPointerGetAttribute(size, POINTER_SIZE, memory);
}

CUresult gcu_module(const gcu *g, const void *image, CUmodule *module, char *log, size_t size) {
	TRY(enter(g));
	int options[] = {JIT_ERROR_LOG, JIT_ERROR_LOG_SIZE};
	void *values[] = {log, (void *)size};
	log[0] = 0;
	return g->api->cuModuleLoadDataEx(module, image, 2, options, values);
}

CUresult gcu_module_free(const gcu *g, CUmodule module) {
	TRY(enter(g));
	return g->api->cuModuleUnload(module);
}

CUresult gcu_function(const gcu *g, CUmodule module, const char *name, int shared, CUfunction *function, int *threads) {
	TRY(enter(g));
	TRY(g->api->cuModuleGetFunction(function, module, name));
	// Loading on the first launch would stop the device, and fail in a capture.
	if (g->api->cuFuncLoad) TRY(g->api->cuFuncLoad(*function));
	TRY(g->api->cuFuncSetAttribute(*function, FUNC_SHARED, shared));
	return g->api->cuFuncGetAttribute(threads, FUNC_MAX_THREADS, *function);
}

// launch queues the launches of a run on a stream.
static CUresult launch(const gcu *g, CUstream stream, const gcu_run *run) {
	for (size_t i = 0; i < run->count; i++) {
		const gcu_launch *l = &run->launches[i];
		// The parameters of every kernel of package native, in its order.
		CUdeviceptr items = l->items, table = l->table, workspace = l->workspace;
		CUdeviceptr a = run->a + l->a, b = run->b + l->b, c = run->c + l->c;
		void *params[] = {&items, &table, &a, &b, &c, &workspace};
		TRY(g->api->cuLaunchKernel(l->function, l->count, l->pieces, 1, l->threads, 1, 1, l->shared, stream, params, NULL));
	}
	return 0;
}

CUresult gcu_submit(const gcu *g, const gcu_run *runs, size_t n, CUevent start, CUevent end) {
	TRY(enter(g));
	if (start) TRY(g->api->cuEventRecord(start, g->stream));
	for (size_t i = 0; i < n; i++) {
		const gcu_run *run = &runs[i];
		TRY(run->graph ? g->api->cuGraphLaunch(run->graph, g->stream) : launch(g, g->stream, run));
	}
	return end ? g->api->cuEventRecord(end, g->stream) : 0;
}

CUresult gcu_record(const gcu *g, const gcu_run *run, CUgraphExec *exec) {
	TRY(enter(g));
	TRY(g->api->cuStreamBeginCapture_v2(g->capture, CAPTURE_RELAXED));
	CUresult error = launch(g, g->capture, run);
	CUgraph graph = NULL;
	CUresult ended = g->api->cuStreamEndCapture(g->capture, &graph); // in any case
	if (!error) error = ended;
	if (!error) error = g->api->cuGraphInstantiateWithFlags(exec, graph, 0);
	if (graph) g->api->cuGraphDestroy(graph);
	return error;
}

CUresult gcu_graph_free(const gcu *g, CUgraphExec graph) {
	TRY(enter(g));
	return g->api->cuGraphExecDestroy(graph);
}

CUresult gcu_write(const gcu *g, CUdeviceptr to, const void *from, size_t size, CUevent done) {
	TRY(enter(g));
	TRY(g->api->cuMemcpyHtoDAsync_v2(to, from, size, g->stream));
	return g->api->cuEventRecord(done, g->stream);
}

CUresult gcu_read(const gcu *g, void *to, CUdeviceptr from, size_t size, CUevent done) {
	TRY(enter(g));
	TRY(g->api->cuMemcpyDtoHAsync_v2(to, from, size, g->stream));
	return g->api->cuEventRecord(done, g->stream);
}

CUresult gcu_event(const gcu *g, int timing, CUevent *event) {
	TRY(enter(g));
	return g->api->cuEventCreate(event, timing ? 0 : EVENT_DISABLE_TIMING);
}

CUresult gcu_event_free(const gcu *g, CUevent event) {
	TRY(enter(g));
	return g->api->cuEventDestroy_v2(event);
}

CUresult gcu_mark(const gcu *g, CUevent event) {
	TRY(enter(g));
	return g->api->cuEventRecord(event, g->stream);
}

CUresult gcu_elapsed(const gcu *g, CUevent start, CUevent end, float *milliseconds) {
	TRY(enter(g));
	return g->api->cuEventElapsedTime(milliseconds, start, end);
}

CUresult gcu_poll(const gcu *g, CUevent event, int turns) {
	TRY(enter(g));
	CUresult state = GCU_NOT_READY;
	while (state == GCU_NOT_READY && turns-- > 0) state = g->api->cuEventQuery(event);
	return state;
}

void gcu_pause(unsigned microseconds) {
	struct timespec t = {.tv_nsec = 1000L * microseconds};
	nanosleep(&t, NULL);
}
