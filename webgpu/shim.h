//go:build cgo && !nowebgpu && ((linux && amd64) || darwin || (windows && amd64))

// The calls that package wgpu makes unsafely, or that cost too much one by one.
// They go to the same library, which package wgpu links; handles are those of
// its objects. The caller holds the device's mutex.
#include <stddef.h>
#include <stdint.h>

typedef uintptr_t handle;

// gpu is what the library's callbacks write to. They run inside the calls
// below, on the caller's thread. It is never freed while work is queued.
typedef struct {
	handle device, queue;
	uint64_t done;     // finished submissions since gpu_new
	uint32_t errors;   // since the last gpu_forget
	char message[512]; // of the first of them
	uint32_t lost;     // the library panicked: no call may follow
} gpu;

// guard calls a function, and returns 1 if it ended by a panic of the library,
// which is how that tells of a lost GPU; where it cannot (macOS, Windows), the
// panic ends the process.
int guard(void (*call)(void *), void *argument);

// gpu_new returns the state of a device and catches its errors, which would
// abort the process otherwise.
gpu *gpu_new(handle device, handle queue);
void gpu_forget(gpu *g);

// gpu_dispatch is a grid of count x pieces workgroups of a pipeline.
typedef struct {
	handle pipeline, group;
	uint32_t count, pieces;
} gpu_dispatch;

// gpu_copy is what follows the dispatches. Handles are 0 for none.
typedef struct {
	handle queries, resolved;    // two timestamps around the dispatches, and where they go
	handle source, destination;  // copy [offset, offset+size) to destination, from to on
	uint64_t offset, to, size;
} gpu_copy;

// The calls below do nothing once g is lost.

// gpu_submit queues one submission: fills buffers with zeros, then runs the
// dispatches in one pass, each after the one before it, then copies. It returns
// 0, or nothing was queued and g has an error.
int gpu_submit(gpu *g, const handle *clears, size_t nclears,
               const gpu_dispatch *list, size_t n, gpu_copy copy);

// gpu_poll collects finished work, at most turns times, until done is wanted.
void gpu_poll(gpu *g, uint64_t wanted, int turns);

// gpu_map maps [0, size) of a buffer that no queued work uses, for reading. It
// returns 0 on success, or g has an error. -1: the library still owns the
// buffer, which must be abandoned.
int gpu_map(gpu *g, handle buffer, size_t size);

// gpu_release releases an idle device and its queue.
void gpu_release(gpu *g);

uint64_t gpu_buffer_size(handle buffer);

// webgpuLogged is Go's log; the levels are the library's (log.go).
enum { LOG_WARN = 2 };
void webgpuLogged(uint32_t level, char *message);

// gpu_quiet sends what libwayland prints where there is no display to the log.
void gpu_quiet(void);

// gpu_log sends the library's warnings and errors to the log.
void gpu_log(void);
