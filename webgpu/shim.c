//go:build cgo && ((linux && amd64) || darwin || (windows && amd64))

#include "shim.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// Prototypes of wgpu-native 0.17.0.2 (webgpu.h, wgpu.h). Descriptors that are
// passed as NULL have type void here.
typedef void (*error_callback)(uint32_t type, const char *message, void *userdata);
typedef void (*status_callback)(uint32_t status, void *userdata);

void wgpuDeviceSetUncapturedErrorCallback(handle, error_callback, void *);
handle wgpuDeviceCreateCommandEncoder(handle, const void *);
bool wgpuDevicePoll(handle, bool wait, const void *);
handle wgpuCommandEncoderBeginComputePass(handle, const void *);
void wgpuCommandEncoderClearBuffer(handle, handle buffer, uint64_t offset, uint64_t size);
void wgpuCommandEncoderCopyBufferToBuffer(handle, handle source, uint64_t, handle destination, uint64_t, uint64_t size);
handle wgpuCommandEncoderFinish(handle, const void *);
void wgpuCommandEncoderRelease(handle);
void wgpuCommandEncoderResolveQuerySet(handle, handle queries, uint32_t first, uint32_t count, handle destination, uint64_t offset);
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

int gpu_submit(gpu *g, const handle *clears, size_t nclears,
               const gpu_dispatch *list, size_t n, gpu_copy copy) {
	gpu_forget(g);
	handle encoder = wgpuDeviceCreateCommandEncoder(g->device, NULL);
	for (size_t i = 0; i < nclears; i++)
		wgpuCommandEncoderClearBuffer(encoder, clears[i], 0, wgpuBufferGetSize(clears[i]));
	if (copy.queries)
		wgpuCommandEncoderWriteTimestamp(encoder, copy.queries, 0);
	if (n)
		record_pass(encoder, list, n);
	if (copy.queries) {
		wgpuCommandEncoderWriteTimestamp(encoder, copy.queries, 1);
		wgpuCommandEncoderResolveQuerySet(encoder, copy.queries, 0, 2, copy.resolved, 0);
	}
	if (copy.source)
		wgpuCommandEncoderCopyBufferToBuffer(encoder, copy.source, copy.offset, copy.destination, 0, copy.size);
	handle commands = wgpuCommandEncoderFinish(encoder, NULL);
	// Submitting invalid commands aborts.
	if (!g->errors) {
		wgpuQueueSubmit(g->queue, 1, &commands);
		wgpuQueueOnSubmittedWorkDone(g->queue, finished, g);
	}
	wgpuCommandBufferRelease(commands);
	wgpuCommandEncoderRelease(encoder);
	return g->errors ? 1 : 0;
}

void gpu_poll(gpu *g, uint64_t wanted, int turns) {
	while (g->done < wanted && turns-- > 0)
		wgpuDevicePoll(g->device, false, NULL);
}

int gpu_map(gpu *g, handle buffer, size_t size) {
	enum { PENDING = -1, TURNS = 100 };
	int *status = malloc(sizeof *status);
	gpu_forget(g);
	if (!status) {
		failed(0, "no memory for a map status", g);
		return 1;
	}
	*status = PENDING;
	wgpuBufferMapAsync(buffer, MAP_READ, 0, size, mapped, status);
	// The buffer is idle, so that the first poll answers.
	for (int i = 0; i < TURNS && *status == PENDING && !g->errors; i++)
		wgpuDevicePoll(g->device, false, NULL);
	int result = *status;
	if (result != PENDING)
		free(status); // else the library may still write to it
	if (result != 0 && !g->errors)
		failed(0, result == PENDING ? "mapping an idle buffer does not end" : "mapping failed", g);
	return result;
}

uint64_t gpu_buffer_size(handle buffer) { return wgpuBufferGetSize(buffer); }

void gpu_pause(unsigned microseconds) { usleep(microseconds); }
