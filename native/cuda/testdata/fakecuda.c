// A libcuda that runs on the CPU, for tests without a GPU. It executes the work
// of a plan as the kernels define it, at once and in order, and is strict where
// the real one is: calls need a current context of their thread, memory must
// have been allocated, and objects are counted so that leaks show.
//
// TILES is the tile table, as rows {"name", TM, TN}. The environment changes
// what happens, at any time:
//   FAKECUDA_FAIL     name=code: the call fails with that result
//   FAKECUDA_VERSION, FAKECUDA_COUNT, FAKECUDA_MAJOR, FAKECUDA_UNITS, FAKECUDA_NAME
//   FAKECUDA_BUSY     events are not reached
//   FAKECUDA_THREADS  the largest workgroup of kernels
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int CUresult, CUdevice;
typedef unsigned long long CUdeviceptr;

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_CONTEXT = 201, NO_IMAGE = 200, NOT_FOUND = 500,
       NOT_READY = 600, ILLEGAL_ADDRESS = 700, CAPTURE_INVALID = 901 };

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
	const char *fail = getenv("FAKECUDA_FAIL");
	size_t n = strlen(name);
	return fail && !strncmp(fail, name, n) && fail[n] == '=' ? atoi(fail + n + 1) : SUCCESS;
}

static __thread int *current;
static int primary;

#define CALL \
	do { \
		CUresult error_ = injected(__func__); \
		if (error_) return error_; \
	} while (0)
#define IN_CONTEXT \
	CALL; \
	if (current != &primary || counters[CONTEXTS] == 0) return INVALID_CONTEXT

CUresult cuGetErrorName(CUresult e, const char **text) {
	static const struct { int code; const char *name; } names[] = {
		{INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"}, {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
		{ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"}, {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"}};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (names[i].code == e) return *text = names[i].name, SUCCESS;
	return INVALID_VALUE;
}
CUresult cuGetErrorString(CUresult e, const char **text) { return *text = "a description", SUCCESS; }
CUresult cuDriverGetVersion(int *v) { return *v = setting("FAKECUDA_VERSION", 12000), SUCCESS; }
CUresult cuInit(unsigned flags) { CALL; return SUCCESS; }
CUresult cuDeviceGetCount(int *n) { CALL; return *n = setting("FAKECUDA_COUNT", 1), SUCCESS; }
CUresult cuDeviceGet(CUdevice *d, int ordinal) { CALL; return *d = ordinal, SUCCESS; }
CUresult cuDeviceGetName(char *name, int size, CUdevice d) {
	const char *s = getenv("FAKECUDA_NAME");
	snprintf(name, size, "%s", s && *s ? s : "NVIDIA H200");
	return SUCCESS;
}
CUresult cuDeviceGetAttribute(int *v, int attribute, CUdevice d) {
	CALL;
	if (attribute >= 10000) return *v = __atomic_load_n(&counters[attribute - 10000], __ATOMIC_SEQ_CST), SUCCESS;
	switch (attribute) {
	case 1: *v = 1024; break;
	case 10: *v = 32; break;
	case 13: *v = 1980000; break;
	case 16: *v = setting("FAKECUDA_UNITS", 132); break;
	case 39: *v = 2048; break;
	case 75: *v = setting("FAKECUDA_MAJOR", 9); break;
	case 76: *v = 0; break;
	case 81: *v = 233472; break;
	case 82: *v = 65536; break;
	case 97: *v = 232448; break;
	case 106: *v = 32; break;
	case 111: *v = 1024; break;
	default: return INVALID_VALUE;
	}
	return SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(int **c, CUdevice d) { CALL; count(CONTEXTS, 1); return *c = &primary, SUCCESS; }
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice d) { count(CONTEXTS, -1); return SUCCESS; }
CUresult cuCtxSetCurrent(int *c) { CALL; return current = c, SUCCESS; }

// Memory. Blocks are known by address, so that stray pointers are found.
typedef struct block { char *at; size_t size; struct block *next; } block;
static block *blocks;

static block *find(CUdeviceptr p, size_t size) {
	for (block *b = blocks; b; b = b->next)
		if ((char *)p >= b->at && (char *)p + size <= b->at + b->size) return b;
	return NULL;
}
CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t size) {
	IN_CONTEXT;
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
	IN_CONTEXT;
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
CUresult cuMemHostAlloc(void **p, size_t size, unsigned flags) { IN_CONTEXT; count(PINNED, 1); return *p = malloc(size), SUCCESS; }
CUresult cuMemFreeHost(void *p) { IN_CONTEXT; count(PINNED, -1); return free(p), SUCCESS; }
static CUresult copy(void *to, const void *from, size_t size, CUdeviceptr device) {
	pthread_mutex_lock(&lock);
	CUresult result = find(device, size) ? SUCCESS : INVALID_VALUE;
	if (!result) memcpy(to, from, size);
	pthread_mutex_unlock(&lock);
	count(COPIES, 1);
	return result;
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, void *stream) { IN_CONTEXT; return copy((void *)to, from, n, to); }
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, void *stream) { IN_CONTEXT; return copy(to, (void *)from, n, from); }
CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr p) {
	IN_CONTEXT;
	pthread_mutex_lock(&lock);
	block *b = find(p, 1);
	if (b && attribute == 9) *(int *)value = 0;
	if (b && attribute == 11) *(CUdeviceptr *)value = (CUdeviceptr)b->at;
	if (b && attribute == 12) *(size_t *)value = b->size;
	pthread_mutex_unlock(&lock);
	return b ? SUCCESS : INVALID_VALUE;
}

// Kernels.
typedef struct { char name[64]; int tm, tn, trans_a, trans_b, fixup; int *module; } kernel;
static const struct { const char *name; int tm, tn; } tiles[] = {TILES};

CUresult cuModuleLoadDataEx(int **m, const void *image, unsigned n, int *options, void **values) {
	IN_CONTEXT;
	count(MODULES, 1);
	return *m = malloc(sizeof(int)), SUCCESS;
}
CUresult cuModuleUnload(int *m) { IN_CONTEXT; count(MODULES, -1); return free(m), SUCCESS; }
static kernel kernels[256];
CUresult cuModuleGetFunction(kernel **f, int *m, const char *name) {
	IN_CONTEXT;
	for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
		size_t n = strlen(tiles[i].name);
		if (strncmp(name, "bg_", 3) || strncmp(name + 3, tiles[i].name, n)) continue;
		const char *variant = name + 3 + n;
		int fixup = !strcmp(variant, "_fixup");
		if (!fixup && (variant[0] != '_' || !strchr("nt", variant[1]) || !strchr("nt", variant[2]) || strlen(variant) != 3)) continue;
		kernel *k = &kernels[8 * i + (fixup ? 4 : 2 * (variant[1] == 't') + (variant[2] == 't'))];
		*k = (kernel){.tm = tiles[i].tm, .tn = tiles[i].tn, .trans_a = variant[1] == 't', .trans_b = variant[2] == 't', .fixup = fixup, .module = m};
		return *f = k, SUCCESS;
	}
	return NOT_FOUND;
}
CUresult cuFuncGetAttribute(int *v, int attribute, kernel *f) { IN_CONTEXT; return *v = setting("FAKECUDA_THREADS", 1024), SUCCESS; }
CUresult cuFuncSetAttribute(kernel *f, int attribute, int v) { IN_CONTEXT; return attribute == 8 && v <= 232448 ? SUCCESS : INVALID_VALUE; }

typedef struct { kernel *f; unsigned x, y; uint64_t params[6]; } launch;

static float bits(uint32_t w) { float f; return memcpy(&f, &w, 4), f; }

static void store(float *c, float alpha, float sum, float beta) { *c = alpha * sum + (beta ? beta * *c : 0); }

static void segment(const kernel *k, const uint32_t *w, const float *a, const float *b, float *c, float *workspace) {
	int depth = w[3], rows = w[7] & 0xffff, cols = w[7] >> 16;
	size_t lda = w[4], ldb = w[5], ldc = w[6];
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < cols; j++) {
			float sum = 0;
			for (int p = 0; p < depth; p++)
				sum = fmaf(a[w[0] + (k->trans_a ? p * lda + i : i * lda + p)], b[w[1] + (k->trans_b ? j * ldb + p : p * ldb + j)], sum);
			if (w[10] != UINT32_MAX) workspace[((size_t)w[10] * k->tm + i) * k->tn + j] = sum;
			else store(&c[w[2] + i * ldc + j], depth ? bits(w[8]) : 0, sum, bits(w[9]));
		}
}
static void fixup(const kernel *k, const uint32_t *w, float *c, const float *workspace) {
	int rows = w[2] & 0xffff, cols = w[2] >> 16;
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < cols; j++) {
			float sum = 0;
			for (uint32_t s = 0; s < w[6]; s++) sum += workspace[((size_t)(w[3] + s) * k->tm + i) * k->tn + j];
			store(&c[w[0] + i * (size_t)w[1] + j], bits(w[4]), sum, bits(w[5]));
		}
}
static void execute(const launch *l) {
	const uint32_t *items = (void *)l->params[0], *table = (void *)l->params[1];
	const float *a = (void *)l->params[2], *b = (void *)l->params[3];
	float *c = (void *)l->params[4], *workspace = (void *)l->params[5];
	count(LAUNCHES, 1);
	for (unsigned x = 0; x < l->x; x++) {
		if (l->f->fixup) {
			fixup(l->f, items + 8 * x, c, workspace);
			continue;
		}
		for (uint32_t i = table ? table[x] : x; i < (table ? table[x + 1] : x + 1); i++) segment(l->f, items + 12 * i, a, b, c, workspace);
	}
}

// Streams, graphs, events.
typedef struct { launch *list; size_t n; } graph;
typedef struct { int capturing; graph recorded; } stream;

CUresult cuStreamCreate(stream **s, unsigned flags) { IN_CONTEXT; count(STREAMS, 1); return *s = calloc(1, sizeof **s), SUCCESS; }
CUresult cuStreamDestroy_v2(stream *s) { IN_CONTEXT; count(STREAMS, -1); return free(s), SUCCESS; }
CUresult cuStreamGetCtx(stream *s, int **c) { IN_CONTEXT; return *c = &primary, SUCCESS; }
CUresult cuLaunchKernel(kernel *f, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty, unsigned tz, unsigned shared, stream *s, void **params, void **extra) {
	IN_CONTEXT;
	if (!x || !y || z != 1 || !tx || ty != 1 || tz != 1) return INVALID_VALUE;
	launch l = {.f = f, .x = x, .y = y};
	for (int i = 0; i < 6; i++) memcpy(&l.params[i], params[i], 8);
	pthread_mutex_lock(&lock);
	if (s && s->capturing) {
		s->recorded.list = realloc(s->recorded.list, (s->recorded.n + 1) * sizeof l);
		s->recorded.list[s->recorded.n++] = l;
	} else {
		execute(&l);
	}
	pthread_mutex_unlock(&lock);
	return SUCCESS;
}
CUresult cuStreamBeginCapture_v2(stream *s, int mode) { IN_CONTEXT; s->recorded = (graph){0}; return s->capturing = 1, SUCCESS; }
CUresult cuStreamEndCapture(stream *s, graph **g) {
	if (!s->capturing) return CAPTURE_INVALID;
	s->capturing = 0;
	count(GRAPHS, 1);
	*g = malloc(sizeof **g);
	return **g = s->recorded, SUCCESS;
}
CUresult cuGraphInstantiateWithFlags(graph **e, graph *g, unsigned long long flags) {
	IN_CONTEXT;
	count(GRAPHS, 1);
	*e = malloc(sizeof **e);
	**e = (graph){malloc(g->n * sizeof(launch)), g->n};
	memcpy((*e)->list, g->list, g->n * sizeof(launch));
	return SUCCESS;
}
CUresult cuGraphDestroy(graph *g) { count(GRAPHS, -1); return free(g->list), free(g), SUCCESS; }
CUresult cuGraphExecDestroy(graph *g) { IN_CONTEXT; return cuGraphDestroy(g); }
#ifndef WITHOUT_GRAPHS
CUresult cuGraphLaunch(graph *g, stream *s) {
	IN_CONTEXT;
	pthread_mutex_lock(&lock);
	count(GRAPH_LAUNCHES, 1);
	for (size_t i = 0; i < g->n; i++) execute(&g->list[i]);
	pthread_mutex_unlock(&lock);
	return SUCCESS;
}
#endif
CUresult cuEventCreate(int **e, unsigned flags) { IN_CONTEXT; count(EVENTS, 1); return *e = malloc(sizeof(int)), SUCCESS; }
CUresult cuEventDestroy_v2(int *e) { IN_CONTEXT; count(EVENTS, -1); return free(e), SUCCESS; }
CUresult cuEventRecord(int *e, stream *s) { IN_CONTEXT; return SUCCESS; }
CUresult cuEventQuery(int *e) { IN_CONTEXT; return setting("FAKECUDA_BUSY", 0) ? NOT_READY : SUCCESS; }
CUresult cuEventElapsedTime(float *ms, int *start, int *end) { IN_CONTEXT; return *ms = 0.001f, SUCCESS; }
