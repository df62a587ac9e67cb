//go:build cgo && !nowebgpu && ((linux && amd64) || darwin || (windows && amd64))

#include "shim.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

// Prototypes of wgpu-native 0.17.0.2 (webgpu.h, wgpu.h). Descriptors that are
// passed as NULL have type void here.
typedef void (*error_callback)(uint32_t type, const char *message, void *userdata);
typedef void (*status_callback)(uint32_t status, void *userdata);

void wgpuDeviceSetUncapturedErrorCallback(handle, error_callback, void *);
handle wgpuDeviceCreateCommandEncoder(handle, const void *);
bool wgpuDevicePoll(handle, bool wait, const void *);
handle wgpuCommandEncoderBeginComputePass(handle, const void *);
void wgpuCommandEncoderClearBuffer(handle, handle buffer, uint64_t offset, uint64_t size);
void wgpuCommandEncoderCopyBufferToBuffer(handle, handle source, uint64_t, handle destination, uint64_t,
	uint64_t size);
handle wgpuCommandEncoderFinish(handle, const void *);
void wgpuCommandEncoderRelease(handle);
void wgpuCommandEncoderResolveQuerySet(handle, handle queries, uint32_t first, uint32_t count,
	handle destination, uint64_t offset);
void wgpuCommandEncoderWriteTimestamp(handle, handle queries, uint32_t index);
void wgpuComputePassEncoderDispatchWorkgroups(handle, uint32_t, uint32_t, uint32_t);
void wgpuComputePassEncoderEnd(handle);
void wgpuComputePassEncoderRelease(handle);
void wgpuComputePassEncoderSetBindGroup(handle, uint32_t index, handle group, size_t, const uint32_t *);
void wgpuComputePassEncoderSetPipeline(handle, handle pipeline);
void wgpuCommandBufferRelease(handle);
void wgpuQueueSubmit(handle, size_t, const handle *);
void wgpuQueueOnSubmittedWorkDone(handle, status_callback, void *);
void wgpuBufferMapAsync(handle, uint32_t mode, size_t offset, size_t size, status_callback, void *);
uint64_t wgpuBufferGetSize(handle);
void wgpuSetLogCallback(void (*)(uint32_t level, const char *message, void *userdata), void *);
void wgpuSetLogLevel(uint32_t level);
void wgpuQueueRelease(handle);
void wgpuDeviceRelease(handle);

enum { MAP_READ = 1 };


static void failed(uint32_t type, const char *message, void *userdata) {
	gpu *g = userdata;
	(void)type;
	if (g->errors++ == 0)
		snprintf(g->message, sizeof g->message, "%s", message);
}

static void finished(uint32_t status, void *userdata) {
	(void)status; // always success: wgpu-native knows no other
	((gpu *)userdata)->done++;
}

static void mapped(uint32_t status, void *userdata) { *(int *)userdata = (int)status; }

gpu *gpu_new(handle device, handle queue) {
	gpu *g = calloc(1, sizeof *g);
	if (g) {
		g->device = device, g->queue = queue;
		wgpuDeviceSetUncapturedErrorCallback(device, failed, g);
	}
	return g;
}

void gpu_forget(gpu *g) { g->errors = 0; }

static void record_pass(handle encoder, const gpu_dispatch *list, size_t n) {
	handle pass = wgpuCommandEncoderBeginComputePass(encoder, NULL);
	handle pipeline = 0, group = 0;
	for (size_t i = 0; i < n; i++) {
		if (list[i].pipeline != pipeline)
			wgpuComputePassEncoderSetPipeline(pass, pipeline = list[i].pipeline);
		if (list[i].group != group)
			wgpuComputePassEncoderSetBindGroup(pass, 0, group = list[i].group, 0, NULL);
		wgpuComputePassEncoderDispatchWorkgroups(pass, list[i].count, list[i].pieces, 1);
	}
	wgpuComputePassEncoderEnd(pass);
	wgpuComputePassEncoderRelease(pass);
}

// call runs a function that asks the GPU something.
static void call(gpu *g, void (*function)(void *), void *argument) {
	if (!g->lost && guard(function, argument)) {
		g->lost = 1;
		failed(0, "wgpu gave up, for a reason that it wrote to stderr", g);
	}
}

struct submission {
	gpu *g;
	const handle *clears;
	size_t nclears;
	const gpu_dispatch *list;
	size_t n;
	gpu_copy copy;
};

static void submit(void *argument) {
	struct submission *s = argument;
	gpu *g = s->g;
	gpu_copy copy = s->copy;
	handle encoder = wgpuDeviceCreateCommandEncoder(g->device, NULL);
	for (size_t i = 0; i < s->nclears; i++)
		wgpuCommandEncoderClearBuffer(encoder, s->clears[i], 0, wgpuBufferGetSize(s->clears[i]));
	if (copy.queries)
		wgpuCommandEncoderWriteTimestamp(encoder, copy.queries, 0);
	if (s->n)
		record_pass(encoder, s->list, s->n);
	if (copy.queries) {
		wgpuCommandEncoderWriteTimestamp(encoder, copy.queries, 1);
		wgpuCommandEncoderResolveQuerySet(encoder, copy.queries, 0, 2, copy.resolved, 0);
	}
	if (copy.source)
		wgpuCommandEncoderCopyBufferToBuffer(encoder, copy.source, copy.offset, copy.destination,
			copy.to, copy.size);
	handle commands = wgpuCommandEncoderFinish(encoder, NULL);
	// Submitting invalid commands panics.
	if (!g->errors) {
		wgpuQueueSubmit(g->queue, 1, &commands);
		wgpuQueueOnSubmittedWorkDone(g->queue, finished, g);
	}
	wgpuCommandBufferRelease(commands);
	wgpuCommandEncoderRelease(encoder);
}

int gpu_submit(gpu *g, const handle *clears, size_t nclears,
               const gpu_dispatch *list, size_t n, gpu_copy copy) {
	struct submission s = {g, clears, nclears, list, n, copy};
	gpu_forget(g);
	call(g, submit, &s);
	return g->errors || g->lost;
}

struct wait {
	gpu *g;
	uint64_t wanted;
	int turns;
};

static void poll(void *argument) {
	struct wait *w = argument;
	while (w->g->done < w->wanted && w->turns-- > 0)
		wgpuDevicePoll(w->g->device, false, NULL);
}

void gpu_poll(gpu *g, uint64_t wanted, int turns) {
	struct wait w = {g, wanted, turns};
	call(g, poll, &w);
}

enum { PENDING = -1, MAP_TURNS = 100 };

struct map {
	gpu *g;
	handle buffer;
	size_t size;
	int *status;
};

static void map(void *argument) {
	struct map *m = argument;
	wgpuBufferMapAsync(m->buffer, MAP_READ, 0, m->size, mapped, m->status);
	// The buffer is idle, so that the first poll answers.
	for (int i = 0; i < MAP_TURNS && *m->status == PENDING && !m->g->errors; i++)
		wgpuDevicePoll(m->g->device, false, NULL);
}

int gpu_map(gpu *g, handle buffer, size_t size) {
	struct map m = {g, buffer, size, malloc(sizeof *m.status)};
	gpu_forget(g);
	if (!m.status) {
		failed(0, "no memory for a map status", g);
		return 1;
	}
	*m.status = PENDING;
	call(g, map, &m);
	int result = *m.status;
	if (result != PENDING)
		free(m.status); // else the library may still write to it
	if (result != 0 && !g->errors)
		failed(0, result == PENDING ? "mapping an idle buffer does not end" : "mapping failed", g);
	return result;
}

static void release(void *argument) {
	gpu *g = argument;
	wgpuQueueRelease(g->queue);
	wgpuDeviceRelease(g->device); // which package wgpu holds for the queue
	wgpuDeviceRelease(g->device);
}

void gpu_release(gpu *g) { call(g, release, g); }

uint64_t gpu_buffer_size(handle buffer) { return wgpuBufferGetSize(buffer); }

static void logged(uint32_t level, const char *message, void *userdata) {
	(void)userdata;
	webgpuLogged(level, (char *)message);
}

void gpu_log(void) {
	wgpuSetLogCallback(logged, NULL);
	wgpuSetLogLevel(LOG_WARN);
}
