// What the fakes of vendors' libraries share: settings, counters, memory,
// streams and events. A fake runs on the CPU, at once and in order, and is strict
// where a real library is: the device must be current in the calling thread,
// memory must have been allocated, and objects are counted so that leaks show.
//
// This is written with the names of CUDA's driver API; the fake of another
// library renames them before it includes this file. It defines current_device,
// which says whether the thread has made the device current.
//
// The environment changes what happens, at any time:
//   FAKE_FAIL     name=code:n: calls of that name fail after n that succeed
//   FAKE_COUNT    devices
//   FAKE_BUSY     events are not reached
//   FAKE_THREADS  the largest workgroup of kernels
//   FAKE_ALIEN    streams are another device's
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int CUresult, CUdevice;
typedef unsigned long long CUdeviceptr;

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, INVALID_CONTEXT = 201, NOT_FOUND = 500,
       NOT_READY = 600, ILLEGAL_ADDRESS = 700 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// Counted objects, in the order of the attributes from 10000 on.
enum { ALLOCATIONS, PINNED, CONTEXTS, MODULES, STREAMS, EVENTS, GRAPHS, LAUNCHES, GRAPH_LAUNCHES, COPIES, COUNTERS };
static int counters[COUNTERS];
static void count(int what, int by) { __atomic_add_fetch(&counters[what], by, __ATOMIC_SEQ_CST); }

static int setting(const char *name, int otherwise) {
	const char *value = getenv(name);
	return value && *value ? atoi(value) : otherwise;
}

static CUresult injected(const char *name) {
	static char last[64];
	static int passed; // calls that succeeded under the setting
	const char *fail = getenv("FAKE_FAIL");
	size_t n = strlen(name);
	if (!fail || !*fail || strncmp(fail, name, n) || fail[n] != '=') return SUCCESS;
	int code, after;
	if (sscanf(fail + n + 1, "%d:%d", &code, &after) != 2) abort();
	pthread_mutex_lock(&lock);
	if (strcmp(last, fail)) snprintf(last, sizeof last, "%s", fail), passed = 0;
	int fails = passed++ >= after;
	pthread_mutex_unlock(&lock);
	return fails ? code : SUCCESS;
}

static int current_device(void);

#define CALL \
	do { \
		CUresult error_ = injected(__func__); \
		if (error_) return error_; \
	} while (0)
#define ON_DEVICE \
	CALL; \
	if (!current_device()) return INVALID_CONTEXT

CUresult cuDeviceGetCount(int *n) { CALL; return *n = setting("FAKE_COUNT", 1), SUCCESS; }
CUresult cuDeviceGet(CUdevice *d, int ordinal) { CALL; return *d = ordinal, SUCCESS; }

// Memory. Blocks are known by address, so that stray pointers are found.
typedef struct block { char *at; size_t size; struct block *next; } block;
static block *blocks;

static block *find(CUdeviceptr p, size_t size) {
	for (block *b = blocks; b; b = b->next)
		if ((char *)p >= b->at && (char *)p + size <= b->at + b->size) return b;
	return NULL;
}
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
	block **at = &blocks;
	while (*at && (*at)->at != (char *)p) at = &(*at)->next;
	block *b = *at;
	if (b) *at = b->next;
	pthread_mutex_unlock(&lock);
	if (!b) return INVALID_VALUE;
	count(ALLOCATIONS, -1);
	return free(b->at), free(b), SUCCESS;
}
CUresult cuMemHostAlloc(void **p, size_t size, unsigned flags) { ON_DEVICE; count(PINNED, 1); return *p = malloc(size), SUCCESS; }
CUresult cuMemFreeHost(void *p) { ON_DEVICE; count(PINNED, -1); return free(p), SUCCESS; }
static CUresult copy(void *to, const void *from, size_t size, CUdeviceptr device) {
	pthread_mutex_lock(&lock);
	CUresult result = find(device, size) ? SUCCESS : INVALID_VALUE;
	if (!result) memcpy(to, from, size);
	pthread_mutex_unlock(&lock);
	count(COPIES, 1);
	return result;
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, void *stream) { ON_DEVICE; return copy((void *)to, from, n, to); }
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, void *stream) { ON_DEVICE; return copy(to, (void *)from, n, from); }
CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr p) {
	ON_DEVICE;
	pthread_mutex_lock(&lock);
	block *b = find(p, 1);
	if (b && attribute == 9) *(int *)value = 0;
	if (b && attribute == 11) *(CUdeviceptr *)value = (CUdeviceptr)b->at;
	if (b && attribute == 12) *(size_t *)value = b->size;
	pthread_mutex_unlock(&lock);
	return b ? SUCCESS : INVALID_VALUE;
}

// own_attribute gives the attributes that only fakes have: counters, and the low
// and the high half of the newest allocation's address.
static int own_attribute(int *v, int attribute) {
	if (attribute < 10000) return 0;
	pthread_mutex_lock(&lock);
	uint64_t newest = blocks ? (uint64_t)blocks->at : 0;
	pthread_mutex_unlock(&lock);
	if (attribute < 20000) *v = __atomic_load_n(&counters[attribute - 10000], __ATOMIC_SEQ_CST);
	else *v = (int)(newest >> (32 * (attribute - 20000)));
	return 1;
}

CUresult cuFuncGetAttribute(int *v, int attribute, void *f) { ON_DEVICE; return *v = setting("FAKE_THREADS", 1024), SUCCESS; }

typedef struct launch launch;
typedef struct { launch *list; size_t n; } graph;
typedef struct { int capturing; graph recorded; } stream;

CUresult cuStreamCreate(stream **s, unsigned flags) { ON_DEVICE; count(STREAMS, 1); return *s = calloc(1, sizeof **s), SUCCESS; }
CUresult cuStreamDestroy_v2(stream *s) { ON_DEVICE; count(STREAMS, -1); return free(s), SUCCESS; }
CUresult cuEventCreate(int **e, unsigned flags) { ON_DEVICE; count(EVENTS, 1); return *e = malloc(sizeof(int)), SUCCESS; }
CUresult cuEventDestroy_v2(int *e) { ON_DEVICE; count(EVENTS, -1); return free(e), SUCCESS; }
CUresult cuEventRecord(int *e, stream *s) { ON_DEVICE; return SUCCESS; }
CUresult cuEventQuery(int *e) { ON_DEVICE; return setting("FAKE_BUSY", 0) ? NOT_READY : SUCCESS; }
CUresult cuEventElapsedTime(float *ms, int *start, int *end) { ON_DEVICE; return *ms = 0.001f, SUCCESS; }
