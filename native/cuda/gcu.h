//go:build cgo && linux && (amd64 || arm64)

// What this package does through libcuda, without NVIDIA's headers. The current
// context belongs to a thread and goroutines change threads: every function
// sets the device's context before it acts, in the same call.
#ifndef GCU_H
#define GCU_H

#include <stddef.h>
#include <stdint.h>

// Types of the binary interface, as NVIDIA's cuda.h has them.
typedef int CUresult; // 0: success
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;

// gcu_api holds the entry points of a library.
typedef struct {
#define REQ(name, params) CUresult(*name) params;
#define OPT REQ
#include "symbols.h"
#undef REQ
#undef OPT
} gcu_api;

// gcu_load opens a library, for good, and fills api. On failure it says why in
// message: what dlopen said, or the first required symbol that is missing.
int gcu_load(const char *path, gcu_api *api, char *message, size_t size);

// Calls without a context.
CUresult gcu_version(const gcu_api *api, int *version);
CUresult gcu_count(const gcu_api *api, int *count); // starts the driver
CUresult gcu_name(const gcu_api *api, int ordinal, char *name, int size);
CUresult gcu_attribute(const gcu_api *api, int ordinal, int attribute, int *value);
const char *gcu_error_name(const gcu_api *api, CUresult error);
const char *gcu_error_text(const gcu_api *api, CUresult error);

// gcu is an open device: its primary context and the stream of its work.
typedef struct {
	const gcu_api *api;
	CUdevice device;
	CUcontext context;
	CUstream stream;  // of all work
	CUstream capture; // on which graphs are recorded; NULL on a caller's stream
} gcu;

// gcu_stream makes a handle of the number that callers pass.
static inline CUstream gcu_stream(uintptr_t handle) { return (CUstream)handle; }

// gcu_open makes a stream, or takes the caller's. gcu_close frees what gcu_open made.
CUresult gcu_open(gcu *g, const gcu_api *api, int ordinal);
CUresult gcu_open_on(gcu *g, const gcu *other, CUstream stream);
void gcu_close(gcu *g);

CUresult gcu_alloc(const gcu *g, size_t size, CUdeviceptr *memory);
CUresult gcu_free(const gcu *g, CUdeviceptr memory);
CUresult gcu_host_alloc(const gcu *g, size_t size, void **memory); // page-locked
CUresult gcu_host_free(const gcu *g, void *memory);

// gcu_extent finds the allocation that a pointer lies in.
CUresult gcu_extent(const gcu *g, CUdeviceptr memory, int *ordinal, CUdeviceptr *start, size_t *size);

// gcu_module loads a cubin or PTX text. The compiler's messages go to log.
CUresult gcu_module(const gcu *g, const void *image, CUmodule *module, char *log, size_t size);
CUresult gcu_module_free(const gcu *g, CUmodule module);
// gcu_function finds a kernel, makes it resident, allows it that much dynamic
// shared memory and returns the largest workgroup that it can run with.
CUresult gcu_function(const gcu *g, CUmodule module, const char *name, int shared, CUfunction *function, int *threads);

// gcu_launch is a launch of a plan. Addresses are in bytes.
typedef struct {
	CUfunction function;
	uint32_t count, pieces, threads, shared; // grid of count x pieces workgroups
	CUdeviceptr items, table, workspace;     // table and workspace: 0 when not used
	uint64_t a, b, c;                        // offsets into the operands
} gcu_launch;

// gcu_run is one execution of a plan: its launches on three buffers, or the
// graph that was recorded of them.
typedef struct {
	CUgraphExec graph; // NULL: launch one by one
	const gcu_launch *launches;
	size_t count;
	CUdeviceptr a, b, c;
} gcu_run;

// gcu_submit queues the runs, between two events if they are not NULL.
CUresult gcu_submit(const gcu *g, const gcu_run *runs, size_t n, CUevent start, CUevent end);

// gcu_record makes a graph of a run, one node a launch.
CUresult gcu_record(const gcu *g, const gcu_run *run, CUgraphExec *graph);
CUresult gcu_graph_free(const gcu *g, CUgraphExec graph);

// gcu_write and gcu_read queue a copy from or to page-locked memory, and the
// event that marks its end.
CUresult gcu_write(const gcu *g, CUdeviceptr to, const void *from, size_t size, CUevent done);
CUresult gcu_read(const gcu *g, void *to, CUdeviceptr from, size_t size, CUevent done);

CUresult gcu_event(const gcu *g, int timing, CUevent *event);
CUresult gcu_event_free(const gcu *g, CUevent event);
CUresult gcu_mark(const gcu *g, CUevent event); // behind all queued work
CUresult gcu_elapsed(const gcu *g, CUevent start, CUevent end, float *milliseconds);
// gcu_poll asks, at most turns times, whether an event was reached. While it
// was not the result is GCU_NOT_READY.
CUresult gcu_poll(const gcu *g, CUevent event, int turns);

// gcu_pause sleeps. Go's timers round up to 1 ms when the process is idle.
void gcu_pause(unsigned microseconds);

// Values of cuda.h.
enum {
	GCU_INVALID_VALUE = 1,
	GCU_OUT_OF_MEMORY = 2,
	GCU_DEVICE_UNAVAILABLE = 46,
	GCU_NO_DEVICE = 100,
	GCU_NOT_READY = 600,

	GCU_MAX_THREADS = 1, // CUdevice_attribute
	GCU_WARP = 10,
	GCU_CLOCK = 13, // kHz
	GCU_UNITS = 16,
	GCU_UNIT_THREADS = 39,
	GCU_MAJOR = 75,
	GCU_MINOR = 76,
	GCU_UNIT_SHARED = 81,
	GCU_UNIT_REGISTERS = 82,
	GCU_GROUP_SHARED = 97, // with opt-in
	GCU_UNIT_GROUPS = 106,
	GCU_RESERVED_SHARED = 111,
};

#endif
