//go:build cgo && linux && (amd64 || arm64)

// What this package does through a vendor's library, without the vendor's
// headers. The current device belongs to a thread, which may be a caller's, and
// goroutines change threads: every function makes its device current before it acts,
// and what was current before when it returns.
#ifndef DL_H
#define DL_H

#include <stddef.h>
#include <stdint.h>

typedef int dl_result; // 0: success
typedef uint64_t dl_pointer;
typedef struct dl_context_st *dl_context;
typedef struct dl_module_st *dl_module;
typedef struct dl_function_st *dl_function;
typedef struct dl_stream_st *dl_stream;
typedef struct dl_event_st *dl_event;
typedef struct dl_graph_st *dl_graph;
typedef struct dl_graph_exec_st *dl_graph_exec;

// dl_launch_config is CUlaunchConfig with what is needed of CUlaunchAttribute.
typedef struct {
	int id, pad;
	union {
		unsigned cluster[3];
		int allowed;
		char bytes[64];
	} value;
} dl_launch_attribute;
typedef struct {
	unsigned grid[3], threads[3], shared;
	dl_stream stream;
	dl_launch_attribute *attributes;
	unsigned count; // of attributes
} dl_launch_config;

// dl_api holds the entry points of a library.
typedef struct {
#define ENTRY(need, type, name, params) type(*name) params;
#include "entries.h"
#undef ENTRY
} dl_api;

// dl_load opens a library, for good. On failure it returns NULL and what dlopen
// said in message.
void *dl_load(const char *path, char *message, size_t size);
// dl_bind fills an entry. It returns 0, or -1 when the library has no such
// symbol, which leaves the entry as it is, or -2 when there is no such entry.
int dl_bind(dl_api *api, void *library, const char *entry, const char *symbol);
// dl_lacks names an entry that is needed and empty, or returns NULL.
const char *dl_lacks(const dl_api *api);
int dl_has_graphs(const dl_api *api);

// Calls without a current device.
dl_result dl_version(const dl_api *api, int *version);
dl_result dl_count(const dl_api *api, int *count); // starts the driver
dl_result dl_name(const dl_api *api, int ordinal, char *name, int size);
dl_result dl_attribute(const dl_api *api, int ordinal, int attribute, int *value);
dl_result dl_memory(const dl_api *api, int ordinal, size_t *size);
// 16 bytes; DL_NOT_SUPPORTED where the library has none
dl_result dl_uuid(const dl_api *api, int ordinal, void *uuid);
dl_result dl_properties(const dl_api *api, int ordinal, void *properties);
const char *dl_error_name(const dl_api *api, dl_result error);
const char *dl_error_text(const dl_api *api, dl_result error);

// dl_device is an open device and the stream of its work.
typedef struct {
	const dl_api *api;
	int device;
	int foreign;        // the stream is the caller's
	dl_context context; // NULL: the device is set by its number
	dl_stream stream;   // of all work
	dl_stream capture;  // on which graphs are recorded, or NULL
} dl_device;

// dl_open makes a stream, dl_open_on takes the caller's, a number here as in dl_submit_on: not a pointer of
// Go's. dl_close frees what they made.
dl_result dl_open(dl_device *d, const dl_api *api, int ordinal);
dl_result dl_open_on(dl_device *d, const dl_device *other, uintptr_t stream);
void dl_close(dl_device *d);

dl_result dl_alloc(const dl_device *d, size_t size, dl_pointer *memory);
dl_result dl_free(const dl_device *d, dl_pointer memory);
dl_result dl_host_alloc(const dl_device *d, size_t size, void **memory); // page-locked
dl_result dl_host_free(const dl_device *d, void *memory);

// dl_extent finds the allocation that a pointer lies in.
dl_result dl_extent(const dl_device *d, dl_pointer memory, int *ordinal, dl_pointer *start, size_t *size);

// dl_module_load loads an image. What a compiler says about it goes to log.
dl_result dl_module_load(const dl_device *d, const void *image, dl_module *module, char *log, size_t size);
dl_result dl_module_free(const dl_device *d, dl_module module);
// dl_find finds a kernel, makes it resident, allows it that much dynamic shared
// memory and returns the largest workgroup that it can run with.
dl_result dl_find(const dl_device *d, dl_module module, const char *name, int shared, dl_function *function,
	int *threads);

// dl_global finds a variable of a module.
dl_result dl_global(const dl_device *d, dl_module module, const char *name, dl_pointer *memory, size_t *size);

// dl_launch is a launch of a plan. Addresses are in bytes.
typedef struct {
	dl_function function;
	uint32_t count, pieces, threads, shared; // grid of count x pieces workgroups
	// adjacent workgroups of a cluster, which divide count; 0: no clusters
	uint32_t cluster;
	// the kernel waits for the launch before it: begin while that ends
	uint32_t waits;
	// it makes items: the run's sizes take the place of the table, its extent that of A
	uint32_t ragged;
	// it is of a step of a layer of experts: sizes as above, the extent is the lower half of the epilogue
	uint32_t layer;
	dl_pointer items, table, workspace;      // table and workspace: 0 when not used
	uint64_t a, b, c, b2;                    // offsets into the operands
	uint64_t epilogue;                       // encoding.Epilogue.Word
} dl_launch;

// dl_run is one execution of a plan: its launches on buffers, or the graph
// that was recorded of them.
typedef struct {
	dl_graph_exec graph; // NULL: launch one by one
	const dl_launch *launches;
	size_t count;
	dl_pointer a, b, c, sizes;
	uint64_t extent; // driver.Run.Extent
	dl_pointer b2, bias, rows; // 0 where the plan's epilogue has none
} dl_run;

// dl_submit queues the runs, between two events if they are not NULL.
dl_result dl_submit(const dl_device *d, const dl_run *runs, size_t n, dl_event start, dl_event end);

// dl_submit_on queues runs on a stream of the caller, launch by launch, or by their graph if there is one.
dl_result dl_submit_on(const dl_device *d, uintptr_t stream, const dl_run *runs, size_t n,
	dl_graph_exec graph);
// dl_repeats reports whether runs on a stream of the caller may be a graph: not if the stream is captured.
int dl_repeats(const dl_device *d, uintptr_t stream);

// dl_record makes a graph of runs, one node a launch. The library has graphs.
dl_result dl_record(const dl_device *d, const dl_run *runs, size_t n, dl_graph_exec *graph);
dl_result dl_graph_free(const dl_device *d, dl_graph_exec graph);

// dl_write and dl_read queue a copy from or to page-locked memory, and the event
// that marks its end. Without an event the memory that dl_write reads may be any.
dl_result dl_write(const dl_device *d, dl_pointer to, const void *from, size_t size, dl_event done);
dl_result dl_read(const dl_device *d, void *to, dl_pointer from, size_t size, dl_event done);

// dl_copy queues a copy between buffers.
dl_result dl_copy(const dl_device *d, dl_pointer to, dl_pointer from, size_t size);

dl_result dl_event_make(const dl_device *d, int timing, dl_event *event);
dl_result dl_event_free(const dl_device *d, dl_event event);
dl_result dl_mark(const dl_device *d, dl_event event); // after all queued work
dl_result dl_elapsed(const dl_device *d, dl_event start, dl_event end, float *milliseconds);
// dl_poll asks, at most turns times, whether an event was reached. While it was
// not the result is DL_NOT_READY.
dl_result dl_poll(const dl_device *d, dl_event event, int turns);

// Results that cuda.h and hip_runtime_api.h number alike.
enum {
	DL_INVALID_VALUE = 1,
	DL_OUT_OF_MEMORY = 2,
	DL_NO_DEVICE = 100,
	DL_NOT_READY = 600,
	DL_NOT_SUPPORTED = 801,
};

#endif
