// What the fakes of vendors' libraries share: settings, counters, memory,
// streams, events and the queue of work. A fake runs on the CPU, in order and as late
// as may be, and is strict where a real library is: the device must be current in
// the calling thread, memory must have been allocated, objects are counted so that
// leaks show, and so are uses that a real library need not survive.
//
// This is written with the names of CUDA's driver API; the fake of another
// library renames them before it includes this file. It defines current_device,
// which says what the thread has made current, make_current, which changes it as
// a caller would, and execute, which runs a kernel.
//
// The environment changes what happens, at any time:
//   FAKE_FAIL     name=code:n: calls of that name fail after n that succeed;
//                 name=code:n:m: m of them; the name * is every call
//   FAKE_COUNT    devices
//   FAKE_INTEGRATED  GPUs share the host's memory
//   FAKE_UUID     the bytes of UUIDs; 0: there are none
//   FAKE_BUSY     events are not reached
//   FAKE_THREADS  the largest workgroup of kernels
//   FAKE_CAPTURING  streams of others are captured
//   FAKE_ALIEN    streams and memory are another device's
//   FAKE_ANY_MEMORY  copies of ordinary memory are no mistake: the program waits for them itself
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int CUresult, CUdevice;
typedef unsigned long long CUdeviceptr;

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_CONTEXT = 201,
       NOT_FOUND = 500,
       NOT_READY = 600, ILLEGAL_ADDRESS = 700 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// Counted objects, in the order of the attributes from 10000 on.
enum { ALLOCATIONS, PINNED, CONTEXTS, MODULES, STREAMS, EVENTS, GRAPHS, LAUNCHES, EARLY_LAUNCHES,
       GRAPH_LAUNCHES, COPIES, INJECTED, MISUSES,
       COUNTERS };
static int counters[COUNTERS];
static void count(int what, int by) { __atomic_add_fetch(&counters[what], by, __ATOMIC_SEQ_CST); }

// misuse reports what a real library need not survive.
static void misuse(const char *what) {
	fprintf(stderr, "fake: %s\n", what);
	count(MISUSES, 1);
}

static int setting(const char *name, int otherwise) {
	const char *value = getenv(name);
	return value && *value ? atoi(value) : otherwise;
}

static CUresult injected(const char *name) {
	static char last[64];
	static int passed; // calls of the name under the setting
	const char *fail = getenv("FAKE_FAIL");
	if (!fail) fail = "";
	size_t n = *fail == '*' ? 1 : strlen(name);
	int code = 0, after, times = INT32_MAX, fails = 0;
	pthread_mutex_lock(&lock);
	if (strcmp(last, fail)) snprintf(last, sizeof last, "%s", fail), passed = 0;
	if (*fail && (*fail == '*' || !strncmp(fail, name, n)) && fail[n] == '=') {
		if (sscanf(fail + n + 1, "%d:%d:%d", &code, &after, &times) < 2) abort();
		fails = passed >= after && passed - after < times;
		passed++;
	}
	pthread_mutex_unlock(&lock);
	if (fails) count(INJECTED, 1);
	return fails ? code : SUCCESS;
}

// What a thread has made current: nothing, a device, or what is another library's.
enum { NOTHING, DEVICE, ANOTHER };
static int current_device(void);
static void make_current(int what); // NOTHING or ANOTHER

#define CALL \
	do { \
		CUresult error_ = injected(__func__); \
		if (error_) return error_; \
	} while (0)
#define ON_DEVICE \
	CALL; \
	if (current_device() != DEVICE) return INVALID_CONTEXT

// The queue of work: one for all streams, so that everything is in order. Work
// is done one piece each time somebody asks for an event that was not reached, all of
// it before memory is freed, and the oldest piece when the queue is full, where
// calls of a real library wait.
typedef struct {
	void *f;
	unsigned x, y, threads, cluster;
	int wave;
	int early; // CUDA: it may begin while the one in front ends
	uint64_t params[10]; // items, table, A, B, C, workspace, B2, bias, rows, what an epilogue does
} launch;
typedef struct {
	launch *list;
	size_t n;
	int queued, destroyed, borrowed; // borrowed: on a stream of others
} graph;
typedef struct { uint64_t recorded, reached; } event; // numbers
typedef struct {
	void *to; // a copy, if there is a size
	const void *from;
	size_t size;
	void *staged;  // what from is, if the library owns it
	launch launch; // if there is f
	graph *graph;  // or NULL
	event *event;  // or NULL
	uint64_t number;
} work;

static CUresult execute(const launch *l); // holding lock

enum { QUEUE = 1024 };
static work queue[QUEUE];
static unsigned oldest, queued;
static CUresult broken; // of a kernel that failed

static void work_once(void) {
	work *w = &queue[oldest];
	oldest = (oldest + 1) % QUEUE, queued--;
	if (w->size) memcpy(w->to, w->from, w->size);
	free(w->staged);
	CUresult result = w->launch.f ? execute(&w->launch) : SUCCESS;
	if (w->graph) {
		for (size_t i = 0; i < w->graph->n && !result; i++) result = execute(&w->graph->list[i]);
		w->graph->queued--;
	}
	if (result) broken = result;
	if (w->event && w->event->reached < w->number) w->event->reached = w->number;
}
static CUresult enqueue(work w) {
	pthread_mutex_lock(&lock);
	if (queued == QUEUE) work_once();
	if (w.event) w.number = ++w.event->recorded;
	if (w.graph) w.graph->queued++;
	queue[(oldest + queued++) % QUEUE] = w;
	pthread_mutex_unlock(&lock);
	return SUCCESS;
}

CUresult cuDeviceGetCount(int *n) { CALL; return *n = setting("FAKE_COUNT", 1), SUCCESS; }
CUresult cuDeviceGet(CUdevice *d, int ordinal) { CALL; return *d = ordinal, SUCCESS; }
CUresult cuDeviceTotalMem_v2(size_t *size, CUdevice d) { CALL; return *size = 64ull << 30, SUCCESS; }
// One UUID for each device, or zeros, as of GPUs that have none.
CUresult cuDeviceGetUuid_v2(unsigned char *uuid, CUdevice d) {
	CALL;
	memset(uuid, setting("FAKE_UUID", 0xa0), 16);
	return uuid[15] += uuid[15] ? d : 0, SUCCESS;
}

// Memory. Blocks are known by address, so that stray pointers are found.
typedef struct block { char *at; size_t size; struct block *next; } block;
static block *blocks;

static block *among(block *b, CUdeviceptr p, size_t size) {
	while (b && !((char *)p >= b->at && (char *)p + size <= b->at + b->size)) b = b->next;
	return b;
}
static block *find(CUdeviceptr p, size_t size) { return among(blocks, p, size); }
CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t size) {
	ON_DEVICE;
	block *b = size <= 1ull << 40 ? malloc(sizeof *b) : NULL;
	if (!b) return OUT_OF_MEMORY;
	if (posix_memalign((void **)&b->at, 256, size)) return free(b), OUT_OF_MEMORY;
	pthread_mutex_lock(&lock);
	b->size = size, b->next = blocks, blocks = b;
	pthread_mutex_unlock(&lock);
	count(ALLOCATIONS, 1);
	return *p = (CUdeviceptr)b->at, SUCCESS;
}
CUresult cuMemFree_v2(CUdeviceptr p) {
	ON_DEVICE;
	pthread_mutex_lock(&lock);
	while (queued) work_once();
	block **at = &blocks;
	while (*at && (*at)->at != (char *)p) at = &(*at)->next;
	block *b = *at;
	if (b) *at = b->next;
	pthread_mutex_unlock(&lock);
	if (!b) return INVALID_VALUE;
	count(ALLOCATIONS, -1);
	return free(b->at), free(b), SUCCESS;
}
// Page-locked memory.
static block *locked;

CUresult cuMemHostAlloc(void **p, size_t size, unsigned flags) {
	ON_DEVICE;
	count(PINNED, 1);
	block *b = malloc(sizeof *b);
	pthread_mutex_lock(&lock);
	*b = (block){malloc(size), size, locked}, locked = b;
	pthread_mutex_unlock(&lock);
	return *p = b->at, SUCCESS;
}
CUresult cuMemFreeHost(void *p) {
	ON_DEVICE;
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < queued; i++) {
		work *w = &queue[(oldest + i) % QUEUE];
		if (w->size && (w->to == p || w->from == p))
			misuse("page-locked memory is freed before it is copied");
	}
	block **at = &locked;
	while (*at && (*at)->at != (char *)p) at = &(*at)->next;
	block *b = *at;
	if (b) *at = b->next, free(b->at), free(b);
	pthread_mutex_unlock(&lock);
	if (!b) return INVALID_VALUE;
	count(PINNED, -1);
	return SUCCESS;
}
// STAGES is how many bytes of ordinary memory the library takes at once.
#ifndef STAGES
#define STAGES 0
#endif
static CUresult copy(void *to, const void *from, size_t size, CUdeviceptr device, const void *host) {
	pthread_mutex_lock(&lock);
	CUresult result = find(device, size) ? SUCCESS : INVALID_VALUE;
	int ordinary = !among(locked, (CUdeviceptr)host, size) && !setting("FAKE_ANY_MEMORY", 0);
	pthread_mutex_unlock(&lock);
	count(COPIES, 1);
	work w = {.to = to, .from = from, .size = size};
	if (ordinary && (from != host || size > STAGES)) misuse("a copy that may wait for the device");
	else if (ordinary && !result) w.from = w.staged = memcpy(malloc(size), from, size);
	return result ? result : enqueue(w);
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, void *stream) {
	ON_DEVICE; return copy((void *)to, from, n, to, from);
}
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, void *stream) {
	ON_DEVICE; return copy(to, (void *)from, n, from, to);
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, void *stream) {
	ON_DEVICE;
	pthread_mutex_lock(&lock);
	int known = find(to, n) && find(from, n);
	pthread_mutex_unlock(&lock);
	return known ? enqueue((work){.to = (void *)to, .from = (void *)from, .size = n}) : INVALID_VALUE;
}
CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr p) {
	ON_DEVICE;
	pthread_mutex_lock(&lock);
	block *b = find(p, 1);
	if (b && attribute == 9) *(int *)value = setting("FAKE_ALIEN", 0);
	if (b && attribute == 11) *(CUdeviceptr *)value = (CUdeviceptr)b->at;
	if (b && attribute == 12) *(size_t *)value = b->size;
	pthread_mutex_unlock(&lock);
	return b ? SUCCESS : INVALID_VALUE;
}

// own_attribute gives the attributes that only fakes have: counters, the low and the
// high half of the newest allocation's address, and what is current in this thread;
// asking for the last two makes nothing current, or what is another library's.
static int own_attribute(int *v, int attribute) {
	if (attribute < 10000) return 0;
	pthread_mutex_lock(&lock);
	uint64_t newest = blocks ? (uint64_t)blocks->at : 0;
	pthread_mutex_unlock(&lock);
	switch (attribute) {
	case 20000: *v = (int)newest; break;
	case 20001: *v = (int)(newest >> 32); break;
	case 20002: *v = current_device(); break;
	case 20003: make_current(NOTHING); break;
	case 20004: make_current(ANOTHER); break;
	default: *v = __atomic_load_n(&counters[attribute - 10000], __ATOMIC_SEQ_CST);
	}
	return 1;
}

CUresult cuFuncGetAttribute(int *v, int attribute, void *f) {
	ON_DEVICE; return *v = setting("FAKE_THREADS", 1024), SUCCESS;
}

typedef struct { int capturing; graph recorded; } stream;

CUresult cuStreamCreate(stream **s, unsigned flags) {
	ON_DEVICE; count(STREAMS, 1); return *s = calloc(1, sizeof **s), SUCCESS;
}
CUresult cuStreamDestroy_v2(stream *s) { ON_DEVICE; count(STREAMS, -1); return free(s), SUCCESS; }
CUresult cuEventCreate(event **e, unsigned flags) {
	ON_DEVICE; count(EVENTS, 1); return *e = calloc(1, sizeof **e), SUCCESS;
}
CUresult cuEventDestroy_v2(event *e) {
	ON_DEVICE;
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < queued; i++)
		if (queue[(oldest + i) % QUEUE].event == e) queue[(oldest + i) % QUEUE].event = NULL;
	pthread_mutex_unlock(&lock);
	count(EVENTS, -1);
	return free(e), SUCCESS;
}
CUresult cuEventRecord(event *e, stream *s) { ON_DEVICE; return enqueue((work){.event = e}); }
CUresult cuEventQuery(event *e) {
	ON_DEVICE;
	if (setting("FAKE_BUSY", 0)) return NOT_READY;
	pthread_mutex_lock(&lock);
	int reached = e->reached == e->recorded;
	if (!reached) work_once();
	CUresult result = broken ? broken : reached ? SUCCESS : NOT_READY;
	pthread_mutex_unlock(&lock);
	return result;
}
CUresult cuEventElapsedTime(float *ms, event *start, event *end) { ON_DEVICE; return *ms = 0.001f, SUCCESS; }
