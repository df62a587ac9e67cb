//go:build cgo && linux && (amd64 || arm64)

#include "dl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

// Values that cuda.h and hip_runtime_api.h have in common.
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
		dl_result error_ = (call); \
		if (error_) return error_; \
	} while (0)

void *dl_load(const char *path, char *message, size_t size) {
	// All symbols are bound now: a driver that is half there fails here. The
	// library is never closed, since drivers do not survive that.
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) snprintf(message, size, "%s", dlerror());
	return library;
}

int dl_bind(dl_api *api, void *library, const char *entry, const char *symbol) {
	void *found = dlsym(library, symbol);
#define ENTRY(need, type, name, params) \
	if (!strcmp(entry, #name)) { \
		if (found) *(void **)&api->name = found; \
		return found ? 0 : -1; \
	}
#include "entries.h"
#undef ENTRY
	return -2;
}

const char *dl_lacks(const dl_api *api) {
#define OPTIONAL(name)
#define NEEDED(name) \
	if (!api->name) return #name;
#define ENTRY(need, type, name, params) need(name)
#include "entries.h"
#undef ENTRY
#undef NEEDED
#undef OPTIONAL
	if (!(api->errorName && api->errorText) && !(api->errorNameOf && api->errorTextOf)) return "errorName";
	int contexts = api->contextRetain && api->contextRelease && api->contextGet && api->contextSet &&
		api->streamContext;
	if (!contexts && !(api->deviceGet && api->deviceSet)) return "contextSet";
	if (!api->moduleLoadEx && !api->moduleLoad) return "moduleLoad";
	return NULL;
}

int dl_has_graphs(const dl_api *api) {
	return api->captureBegin && api->captureEnd && api->graphInstantiate && api->graphDestroy &&
	       api->graphLaunch &&
	       api->graphExecDestroy;
}

dl_result dl_version(const dl_api *api, int *version) {
	*version = 0;
	return api->version ? api->version(version) : 0;
}

dl_result dl_count(const dl_api *api, int *count) {
	if (api->init) TRY(api->init(0));
	return api->deviceCount(count);
}

dl_result dl_name(const dl_api *api, int ordinal, char *name, int size) {
	int device;
	TRY(api->device(&device, ordinal));
	return api->deviceName(name, size, device);
}

dl_result dl_attribute(const dl_api *api, int ordinal, int attribute, int *value) {
	int device;
	TRY(api->device(&device, ordinal));
	return api->deviceAttribute(value, attribute, device);
}

dl_result dl_memory(const dl_api *api, int ordinal, size_t *size) {
	int device;
	TRY(api->device(&device, ordinal));
	return api->deviceMemory(size, device);
}

dl_result dl_uuid(const dl_api *api, int ordinal, void *uuid) {
	if (!api->deviceUUID) return DL_NOT_SUPPORTED;
	int device;
	TRY(api->device(&device, ordinal));
	return api->deviceUUID(uuid, device);
}

dl_result dl_properties(const dl_api *api, int ordinal, void *properties) {
	if (!api->deviceProperties) return DL_NOT_SUPPORTED;
	int device;
	TRY(api->device(&device, ordinal));
	return api->deviceProperties(properties, device);
}

const char *dl_error_name(const dl_api *api, dl_result error) {
	const char *text = NULL;
	if (api->errorNameOf) return api->errorNameOf(error);
	return api->errorName(error, &text) ? NULL : text;
}

const char *dl_error_text(const dl_api *api, dl_result error) {
	const char *text = NULL;
	if (api->errorTextOf) return api->errorTextOf(error);
	return api->errorText(error, &text) ? NULL : text;
}

// current is what was current in the thread before enter changed it.
typedef struct {
	const dl_api *api; // NULL: it did not
	dl_context context;
	int device;
} current;

// enter makes the device current in this thread.
static dl_result enter(const dl_device *d, current *before) {
	const dl_api *api = d->api;
	if (d->context) {
		TRY(api->contextGet(&before->context));
		if (before->context == d->context) return 0;
		TRY(api->contextSet(d->context));
	} else {
		TRY(api->deviceGet(&before->device));
		if (before->device == d->device) return 0;
		TRY(api->deviceSet(d->device));
	}
	before->api = api;
	return 0;
}

// leave undoes enter. Its failure is nothing that a caller could do something about.
static void leave(current *before) {
	if (!before->api) return;
	if (before->api->contextSet) before->api->contextSet(before->context);
	else before->api->deviceSet(before->device);
}

// ENTER makes the device current until the function returns.
#define ENTER(d) \
	__attribute__((cleanup(leave))) current before_ = {0}; \
	TRY(enter(d, &before_))

static dl_result make_streams(dl_device *d) {
	ENTER(d);
	TRY(d->api->streamCreate(&d->stream, STREAM_NON_BLOCKING));
	return dl_has_graphs(d->api) ? d->api->streamCreate(&d->capture, STREAM_NON_BLOCKING) : 0;
}

dl_result dl_open(dl_device *d, const dl_api *api, int ordinal) {
	*d = (dl_device){.api = api};
	TRY(api->device(&d->device, ordinal));
	if (api->contextRetain) TRY(api->contextRetain(&d->context, d->device));
	dl_result error = make_streams(d);
	if (error) dl_close(d);
	return error;
}

// owner fails unless the stream is of the device, which is current.
static dl_result owner(const dl_device *d, dl_stream stream) {
	const dl_api *api = d->api;
	if (d->context) {
		dl_context context;
		TRY(api->streamContext(stream, &context));
		return context == d->context ? 0 : DL_INVALID_VALUE;
	}
	if (!stream) return 0; // the default stream is the current device's
	if (!api->streamDevice) return DL_NOT_SUPPORTED;
	int device;
	TRY(api->streamDevice(stream, &device));
	return device == d->device ? 0 : DL_INVALID_VALUE;
}

dl_result dl_open_on(dl_device *d, const dl_device *other, uintptr_t stream) {
	*d = (dl_device){.api = other->api, .device = other->device, .foreign = 1, .stream = (dl_stream)stream};
	ENTER(other);
	TRY(owner(other, d->stream));
	return d->api->contextRetain ? d->api->contextRetain(&d->context, d->device) : 0;
}

static dl_result free_streams(dl_device *d) {
	ENTER(d);
	if (d->capture) d->api->streamDestroy(d->capture);
	if (d->stream && !d->foreign) d->api->streamDestroy(d->stream);
	return 0;
}

void dl_close(dl_device *d) {
	free_streams(d);
	if (d->context) d->api->contextRelease(d->device);
}

dl_result dl_alloc(const dl_device *d, size_t size, dl_pointer *memory) {
	ENTER(d);
	return d->api->alloc(memory, size);
}

dl_result dl_free(const dl_device *d, dl_pointer memory) {
	ENTER(d);
	return d->api->free(memory);
}

dl_result dl_host_alloc(const dl_device *d, size_t size, void **memory) {
	ENTER(d);
	return d->api->hostAlloc(memory, size, 0);
}

dl_result dl_host_free(const dl_device *d, void *memory) {
	ENTER(d);
	return d->api->hostFree(memory);
}

dl_result dl_extent(const dl_device *d, dl_pointer memory, int *ordinal, dl_pointer *start, size_t *size) {
	ENTER(d);
	TRY(d->api->pointerAttribute(ordinal, POINTER_ORDINAL, memory));
	TRY(d->api->pointerAttribute(start, POINTER_START, memory));
	return d->api->pointerAttribute(size, POINTER_SIZE, memory);
}

dl_result dl_module_load(const dl_device *d, const void *image, dl_module *module, char *log, size_t size) {
	ENTER(d);
	log[0] = 0;
	if (!d->api->moduleLoadEx) return d->api->moduleLoad(module, image);
	int options[] = {JIT_ERROR_LOG, JIT_ERROR_LOG_SIZE};
	void *values[] = {log, (void *)size};
	return d->api->moduleLoadEx(module, image, 2, options, values);
}

dl_result dl_module_free(const dl_device *d, dl_module module) {
	ENTER(d);
	return d->api->moduleUnload(module);
}

dl_result dl_find(const dl_device *d, dl_module module, const char *name, int shared, dl_function *function,
	int *threads) {
	const dl_api *api = d->api;
	ENTER(d);
	TRY(api->moduleFunction(function, module, name));
	// Loading on the first launch would stop the device, and fail in a capture.
	if (api->functionLoad) TRY(api->functionLoad(*function));
	if (api->functionSetAttribute) TRY(api->functionSetAttribute(*function, FUNC_SHARED, shared));
	return api->functionAttribute(threads, FUNC_MAX_THREADS, *function);
}

dl_result dl_global(const dl_device *d, dl_module module, const char *name, dl_pointer *memory,
	size_t *size) {
	if (!d->api->moduleGlobal) return DL_NOT_SUPPORTED;
	ENTER(d);
	return d->api->moduleGlobal(memory, size, module, name);
}

// Of CUlaunchAttributeID: CLUSTER_DIMENSION, PROGRAMMATIC_STREAM_SERIALIZATION.
enum { ATTRIBUTE_CLUSTER = 4, ATTRIBUTE_EARLY = 6 };

// launch_with queues a launch that has attributes.
static dl_result launch_with(const dl_device *d, dl_stream stream, const dl_launch *l, void **params) {
	if (!d->api->launchEx) return DL_NOT_SUPPORTED;
	dl_launch_attribute attributes[2];
	dl_launch_config config = {
		.grid = {l->count, l->pieces, 1}, .threads = {l->threads, 1, 1}, .shared = l->shared,
		.stream = stream, .attributes = attributes,
	};
	if (l->cluster)
		attributes[config.count++] = (dl_launch_attribute){.id = ATTRIBUTE_CLUSTER,
			.value.cluster = {l->cluster, 1, 1}};
	if (l->waits)
		attributes[config.count++] = (dl_launch_attribute){.id = ATTRIBUTE_EARLY, .value.allowed = 1};
	return d->api->launchEx(&config, l->function, params, NULL);
}

// launch queues a launch of a run on a stream. One that makes items makes those of another run too, unless
// that is NULL.
static dl_result launch(const dl_device *d, dl_stream stream, const dl_run *run, dl_launch l,
	const dl_run *other) {
	// The parameters of every kernel of package native, in its order: those without an epilogue
	// have the first six alone, and no more are taken.
	dl_pointer items = l.items, workspace = l.workspace, table = l.ragged || l.layer ? run->sizes : l.table;
	dl_pointer a = run->a + l.a, b = run->b + l.b, c = run->c + l.c;
	dl_pointer b2 = run->b2 + l.b2, bias = run->bias, rows = run->rows;
	uint64_t epilogue = l.epilogue | (l.layer ? run->extent : 0);
	if (l.ragged) a = run->extent, b = c = 0;
	if (other) {
		const dl_launch *second = other->launches;
		b = l.count | second->epilogue << 32, c = second->workspace;
		l.count += second->count;
	}
	void *params[] = {&items, &table, &a, &b, &c, &workspace, &b2, &bias, &rows, &epilogue};
	if (l.cluster || l.waits) return launch_with(d, stream, &l, params);
	return d->api->launch(l.function, l.count, l.pieces, 1, l.threads, 1, 1, l.shared, stream, params, NULL);
}

// alike reports whether one launch makes the items of two runs: they are of two programs with one kernel for
// that, and have the same sizes, which no product writes.
static int alike(const dl_run *run, const dl_run *next) {
	const dl_launch *l = run->launches, *other = next->launches;
	return l->ragged && other->ragged && l != other && l->function == other->function &&
		run->sizes == next->sizes && run->extent == next->extent;
}

// launch_all queues runs, launch by launch.
static dl_result launch_all(const dl_device *d, dl_stream stream, const dl_run *runs, size_t n) {
	size_t made = 0; // runs before this one have items
	for (size_t i = 0; i < n; i++) {
		const dl_run *run = &runs[i],
			*other = i >= made && i + 1 < n && alike(run, run + 1) ? run + 1 : NULL;
		size_t first = i < made;
		if (other) made = i + 2;
		for (size_t j = first; j < run->count; j++)
			TRY(launch(d, stream, run, run->launches[j], j == 0 ? other : NULL));
	}
	return 0;
}

dl_result dl_submit(const dl_device *d, const dl_run *runs, size_t n, dl_event start, dl_event end) {
	ENTER(d);
	if (start) TRY(d->api->eventRecord(start, d->stream));
	for (size_t i = 0; i < n; i++) {
		const dl_run *run = &runs[i];
		TRY(run->graph ? d->api->graphLaunch(run->graph, d->stream) : launch_all(d, d->stream, run, 1));
	}
	return end ? d->api->eventRecord(end, d->stream) : 0;
}

dl_result dl_submit_on(const dl_device *d, uintptr_t stream, const dl_run *runs, size_t n,
	dl_graph_exec graph) {
	ENTER(d);
	return graph ? d->api->graphLaunch(graph, (dl_stream)stream) : launch_all(d, (dl_stream)stream, runs, n);
}

int dl_repeats(const dl_device *d, uintptr_t stream) {
	__attribute__((cleanup(leave))) current before = {0};
	int capturing;
	return d->capture && d->api->streamCapturing && !enter(d, &before) &&
		!d->api->streamCapturing((dl_stream)stream, &capturing) && !capturing;
}

dl_result dl_record(const dl_device *d, const dl_run *runs, size_t n, dl_graph_exec *exec) {
	ENTER(d);
	TRY(d->api->captureBegin(d->capture, CAPTURE_RELAXED));
	dl_result error = launch_all(d, d->capture, runs, n);
	dl_graph graph = NULL;
	dl_result ended = d->api->captureEnd(d->capture, &graph); // in any case
	if (!error) error = ended;
	if (!error) error = d->api->graphInstantiate(exec, graph, 0);
	if (graph) d->api->graphDestroy(graph);
	return error;
}

dl_result dl_graph_free(const dl_device *d, dl_graph_exec graph) {
	ENTER(d);
	return d->api->graphExecDestroy(graph);
}

dl_result dl_write(const dl_device *d, dl_pointer to, const void *from, size_t size, dl_event done) {
	ENTER(d);
	TRY(d->api->copyToDevice(to, from, size, d->stream));
	return done ? d->api->eventRecord(done, d->stream) : 0;
}

dl_result dl_read(const dl_device *d, void *to, dl_pointer from, size_t size, dl_event done) {
	ENTER(d);
	TRY(d->api->copyToHost(to, from, size, d->stream));
	return d->api->eventRecord(done, d->stream);
}

dl_result dl_copy(const dl_device *d, dl_pointer to, dl_pointer from, size_t size) {
	ENTER(d);
	return d->api->copyOnDevice(to, from, size, d->stream);
}

dl_result dl_event_make(const dl_device *d, int timing, dl_event *event) {
	ENTER(d);
	return d->api->eventCreate(event, timing ? 0 : EVENT_DISABLE_TIMING);
}

dl_result dl_event_free(const dl_device *d, dl_event event) {
	ENTER(d);
	return d->api->eventDestroy(event);
}

dl_result dl_mark(const dl_device *d, dl_event event) {
	ENTER(d);
	return d->api->eventRecord(event, d->stream);
}

dl_result dl_elapsed(const dl_device *d, dl_event start, dl_event end, float *milliseconds) {
	ENTER(d);
	return d->api->eventElapsed(milliseconds, start, end);
}

dl_result dl_poll(const dl_device *d, dl_event event, int turns) {
	ENTER(d);
	dl_result state = DL_NOT_READY;
	while (state == DL_NOT_READY && turns-- > 0) state = d->api->eventQuery(event);
	return state;
}
