// A libcuda that runs on the CPU (see fake.h). It executes the work of a plan as
// the kernels define it, and where native/internal/emulator is linked to it, the kernels
// themselves that make items.
//
// TILES is the tile table, as rows {"name", TM, TN}. The environment changes what
// happens, beside fake.h's settings:
//   FAKECUDA_VERSION, FAKECUDA_MAJOR, FAKECUDA_UNITS, FAKECUDA_NAME
//   FAKECUDA_OLD: how many devices, from the first, are too old
#define STAGES (48 << 10) // of the 64 that the description promises
#include "../../../internal/dl/dltest/fake.h"

#include "../../internal/emulator/shim.h"
// So that the library can be built without kernels.
#pragma weak bg_shim_launch
#pragma weak bg_shim_error
#pragma weak bg_shim_has

enum { LAUNCH_FAILED = 719, CAPTURE_INVALID = 901 };

static __thread int *current;
static int primary, another;

static int current_device(void) {
	if (current == &primary && counters[CONTEXTS] > 0) return DEVICE;
	return current ? ANOTHER : NOTHING;
}
static void make_current(int what) { current = what == ANOTHER ? &another : NULL; }

CUresult cuGetErrorName(CUresult e, const char **text) {
	static const struct { int code; const char *name; } names[] = {
		{INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"}, {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
		{ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"}, {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"}};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (names[i].code == e) return *text = names[i].name, SUCCESS;
	return INVALID_VALUE;
}
CUresult cuGetErrorString(CUresult e, const char **text) { return *text = "a description", SUCCESS; }
CUresult cuDriverGetVersion(int *v) { return *v = setting("FAKECUDA_VERSION", 13000), SUCCESS; }
CUresult cuInit(unsigned flags) { CALL; return SUCCESS; }
CUresult cuDeviceGetName(char *name, int size, CUdevice d) {
	CALL;
	const char *s = getenv("FAKECUDA_NAME");
	snprintf(name, size, "%s", s && *s ? s : "NVIDIA H200");
	return SUCCESS;
}
CUresult cuDeviceGetAttribute(int *v, int attribute, CUdevice d) {
	CALL;
	if (own_attribute(v, attribute)) return SUCCESS;
	switch (attribute) {
	case 1: *v = 1024; break;
	case 10: *v = 32; break;
	case 13: *v = 1980000; break;
	case 16: *v = setting("FAKECUDA_UNITS", 132); break;
	case 18: *v = setting("FAKE_INTEGRATED", 0); break;
	case 33: *v = 0x1b + d; break;
	case 34: *v = 1; break;
	case 36: *v = 3201000; break;
	case 37: *v = 6144; break;
	case 38: *v = 60 << 20; break;
	case 39: *v = 2048; break;
	case 50: *v = 2; break;
	case 75: *v = d < setting("FAKECUDA_OLD", 0) ? 7 : setting("FAKECUDA_MAJOR", 9); break;
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

CUresult cuDevicePrimaryCtxRetain(int **c, CUdevice d) { CALL; count(CONTEXTS, 1); return *c = &primary,
    SUCCESS; }
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice d) { count(CONTEXTS, -1); return SUCCESS; }
CUresult cuCtxGetCurrent(int **c) { CALL; return *c = current, SUCCESS; }
CUresult cuCtxSetCurrent(int *c) { CALL; return current = c, SUCCESS; }

// Kernels.
enum type { F32, BF16, F16, E4M3, INT8, F64 };
typedef struct { char name[64]; int emulated, epilogue, aligned, warpgroups, gated, tm, tn, trans_a,
    trans_b, fixup; enum type type; int *module; } kernel;
static const struct { const char *name; int tm, tn; } tiles[] = {TILES};

CUresult cuModuleLoadDataEx(int **m, const void *image, unsigned n, int *options, void **values) {
	ON_DEVICE;
	count(MODULES, 1);
	return *m = malloc(sizeof(int)), SUCCESS;
}
CUresult cuModuleUnload(int *m) { ON_DEVICE; count(MODULES, -1); return free(m), SUCCESS; }
static kernel kernels[512 * sizeof tiles / sizeof *tiles];
CUresult cuModuleGetFunction(kernel **f, int *m, const char *name) {
	ON_DEVICE;
	const int emulated = !strncmp(name, "bg_ragged_", 10) || !strncmp(name, "bg_route_", 9) ||
	    !strncmp(name, "bg_combine_", 11) || !strncmp(name, "bg_gate_", 8);
	if (emulated && bg_shim_has && bg_shim_has(name)) {
		static kernel found[64];
		pthread_mutex_lock(&lock);
		kernel *k = found;
		while (*k->name && strcmp(k->name, name)) k++;
		snprintf(k->name, sizeof k->name, "%s", name);
		k->emulated = 1;
		pthread_mutex_unlock(&lock);
		return *f = k, SUCCESS;
	}
	for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
		size_t n = strlen(tiles[i].name);
		if (strncmp(name, "bg_", 3) || strncmp(name + 3, tiles[i].name, n)) continue;
		if (!strncmp(name + 3, "f64_", 4)) { // for all transpositions and epilogues
			int fixup = !strcmp(name + 3 + n, "_fixup");
			if (!fixup && strcmp(name + 3 + n, "_gemm")) continue;
			kernel *k = &kernels[512 * i + fixup];
			*k = (kernel){.tm = tiles[i].tm, .tn = tiles[i].tn, .fixup = fixup, .epilogue = 1, .type = F64,
			    .module = m};
			return *f = k, SUCCESS;
		}
		char variant[64]; // without _e, of kernels with an epilogue
		snprintf(variant, sizeof variant, "%s", name + 3 + n);
		size_t length = strlen(variant);
		int epilogue = length > 2 && !strcmp(variant + length - 2, "_e");
		if (epilogue) variant[length -= 2] = 0;
		int aligned = !strncmp(tiles[i].name, "aligned_", 8), gated = epilogue && aligned && length > 6 &&
		    !strcmp(variant + length - 6, "_gated");
		if (gated) variant[length - 6] = 0;
		int fixup = !strncmp(variant, "_fixup", 6);
		if (!fixup && (strlen(variant) < 3 || variant[0] != '_' || !strchr("nt", variant[1]) ||
		    !strchr("nt", variant[2]))) continue;
		const char *mode = variant + (fixup ? 6 : 3);
		enum type type = !strncmp(mode, "_bf16", 5) ? BF16 : !strncmp(mode, "_f16", 4) ? F16 :
		    !strncmp(mode, "_e4m3", 5) ? E4M3 : !strncmp(mode, "_int8", 5) ? INT8 : F32;
		mode += type == F32 ? 0 : type == F16 ? 4 : 5;
		if (type == F32 && !fixup && !strncmp(mode, "_tf32", 5)) mode += 5;
		if (*mode && (fixup || epilogue || (strcmp(mode, "_cluster") && strcmp(mode, "_partials") &&
		    strcmp(mode, "_boxes")))) continue;
		kernel *k = &kernels[512 * i + 256 * gated + 128 * epilogue + 16 * type +
		    (fixup ? 4 : 2 * (variant[1] == 't') + (variant[2] == 't'))];
		*k = (kernel){.tm = tiles[i].tm, .tn = tiles[i].tn, .trans_a = variant[1] == 't',
		    .trans_b = variant[2] == 't', .fixup = fixup, .epilogue = epilogue, .aligned = aligned,
		    .warpgroups = aligned || strstr(tiles[i].name, "wgmma") || strstr(tiles[i].name, "stream"),
		    .gated = gated, .type = type, .module = m};
		return *f = k, SUCCESS;
	}
	return NOT_FOUND;
}
CUresult cuFuncSetAttribute(kernel *f, int attribute, int v) { ON_DEVICE; return attribute == 8 &&
    v <= 232448 ? SUCCESS : INVALID_VALUE; }

// The clocks of native/kernels.cu. A group takes 1000 ns on each multiprocessor in
// turn, and 500 ns pass between launches. Cycles are 0.5 ns long and begin anywhere;
// globaltimer ticks every 1024 ns.
static struct {
	struct { uint64_t start, end, nanoseconds; uint32_t unit, group; } ring[1 << 16];
	uint32_t count, pad;
} clocks;

static void record(const launch *l) {
	static uint64_t now = 1000000;
	unsigned units = setting("FAKECUDA_UNITS", 132), groups = l->x * l->cluster * l->y;
	for (unsigned i = 0; i < groups; i++) {
		uint64_t start = now + 1000 * (i / units), end = start + 1000, origin = 7777777ull * (i % units);
		uint32_t at = clocks.count++ % (1 << 16);
		clocks.ring[at].start = origin + 2 * start;
		clocks.ring[at].end = origin + 2 * end;
		clocks.ring[at].nanoseconds = end / 1024 * 1024;
		clocks.ring[at].unit = i % units;
		clocks.ring[at].group = i % (l->x * l->cluster);
	}
	now += 1000ull * ((groups + units - 1) / units) + 500;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *p, size_t *size, int *m, const char *name) {
	ON_DEVICE;
	static block known = {(char *)&clocks, sizeof clocks, NULL};
	if (strcmp(name, "bg_clocks")) return NOT_FOUND;
	pthread_mutex_lock(&lock);
	block **at = &blocks;
	while (*at && *at != &known) at = &(*at)->next;
	*at = &known; // the last one
	pthread_mutex_unlock(&lock);
	*p = (CUdeviceptr)&clocks;
	return *size = sizeof clocks, SUCCESS;
}

static float bits(uint32_t w) { float f; return memcpy(&f, &w, 4), f; }

// Elements of 16 and 8 bits, as planner/element has them. Those of F16 and E4M3 are looked up: loops have
// little else to do.
static float f16[1 << 16], e4m3[1 << 8];
__attribute__((constructor)) static void fill_e4m3(void) {
	for (int b = 0; b < 1 << 8; b++) {
		int exponent = b >> 3 & 15, fraction = b & 7;
		float size = (b & 127) == 127 ? NAN : exponent ? ldexpf(8 + fraction, exponent - 10) :
		    ldexpf(fraction, -9);
		e4m3[b] = b >> 7 ? -size : size;
	}
}
__attribute__((constructor)) static void fill_f16(void) {
	// the exponent of F32 begins 112 lower: what is 0 there is a fraction of 2^-14 here
	for (uint32_t h = 0; h < 1 << 16; h++) {
		uint32_t w = (h & 0x7fff) << 13, exponent = h & 0x7c00;
		float size = exponent == 0x7c00 ? bits(w + (224u << 23)) : exponent ? bits(w + (112u << 23)) :
		    bits(w + (113u << 23)) - bits(113u << 23);
		f16[h] = h >> 15 ? -size : size;
	}
}
static float number(enum type type, const void *p, size_t i) {
	if (type == F32) return ((const float *)p)[i];
	if (type == E4M3) return e4m3[((const uint8_t *)p)[i]];
	if (type == INT8) return ((const int8_t *)p)[i];
	uint16_t h = ((const uint16_t *)p)[i];
	return type == BF16 ? bits((uint32_t)h << 16) : f16[h];
}
static uint16_t half_bits(enum type type, float x) {
	uint32_t w;
	memcpy(&w, &x, 4);
	uint16_t sign = w >> 16 & 0x8000;
	if (isnan(x)) return sign | (type == BF16 ? 0x7fc0 : 0x7e00);
	if (type == BF16) return (w + 0x7fff + (w >> 16 & 1)) >> 16;
	float size = fabsf(x);
	if (size >= 65520) return sign | 0x7c00;
	if (size < ldexpf(1, -14)) return sign | (uint16_t)rintf(ldexpf(size, 24));
	w &= 0x7fffffff;
	return sign | (uint16_t)((w - (112u << 23) + 0xfff + (w >> 13 & 1)) >> 13);
}
static void store(enum type type, void *c, size_t i, float alpha, float sum, float beta) {
	float x = alpha * sum + (beta ? beta * number(type, c, i) : 0);
	if (type == F32) ((float *)c)[i] = x;
	else ((uint16_t *)c)[i] = half_bits(type, x);
}

// What a launch has for an epilogue, as encoding.Epilogue.Word has the flags, and the words of an
// item, or a fix-up's, from the first of these on.
enum { RELU = 1, SILU = 3, ACTIVATION = 3, BIAS = 4, GATED = 8, GATHER = 16, SCATTER = 32, WEIGHTS = 64,
       POINTERS_A = 128, POINTERS_B = 256, POINTERS_C = 512, ALIGNED = 1024, SCALE_A = 2048, ROWS_A = 4096,
           SCALE_B = 8192, COLUMNS_B = 16384, GROUPS_64 = 32768, GROUPS_128 = 65536, BLOCKS = 131072,
       PAIRS = 262144, ZEROS = 524288, GROUPS_32 = 1048576, GROUPS_16 = 2097152 };
typedef struct { const void *b2, *bias; const uint32_t *rows; uint32_t flags; } epilogue;

// pointer is an address of a problem's record: of A, B, C and B2.
static void *pointer(const epilogue *e, uint32_t record, int which) {
	const uint32_t *at = e->rows + record + 2 * which;
	return (void *)(uintptr_t)(at[0] | (uint64_t)at[1] << 32);
}
static float activated(uint32_t flags, float v) {
	flags &= ACTIVATION;
	if (!flags) return v;
	if (flags == RELU) return v < 0 ? 0 : v;
	float z = flags == SILU ? v : v * (1.5957691216f + 0.0713548162726f * v * v);
	return z <= -88 ? 0 : v / (1 + expf(-z));
}
// weight is a number of B of 4 bits, of a column j from w[1] on (planner/element/int4.go, fp4.go): w is the
// item.
static float weight(const epilogue *e, const uint32_t *w, const uint32_t *b, size_t k, size_t j) {
	static const float e2m1[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
	size_t ld = w[5];
	const uint32_t *words = e->rows + w[20] + j;
	uint32_t word = b[w[1] / 8 + k / 64 * 8 * ld + 8 * j + k % 64 / 8];
	uint32_t q = word >> (k % 8 / 2 * 4 + k % 2 * 16) & 15;
	float x = q & 8 ? -e2m1[q & 7] : e2m1[q & 7];
	if (e->flags & GROUPS_32) {
		uint32_t scale = words[k / 128 * ld] >> k % 128 / 32 * 8 & 255;
		return scale == 255 ? NAN : ldexpf(x, (int)scale - 127);
	}
	if (e->flags & GROUPS_16)
		return x * (e4m3[words[(1 + k / 64) * ld] >> k % 64 / 16 * 8 & 255] * bits(words[0]));
	uint32_t group = words[k / (e->flags & GROUPS_64 ? 64 : 128) * ld];
	return bits(group & ~15u) * ((int)q - (int)(group & 15));
}

// block_scale is the scale of 128 k's of a row of A, or of a block of columns of B, of those from `at` on.
static float block_scale(const epilogue *e, const uint32_t *w, uint32_t at, uint32_t number, uint32_t k) {
	return bits(e->rows[at + number * ((w[3] + 127) / 128) + k / 128]);
}

// scaled takes off a sum what the zero point of its row is worth, and multiplies by alpha and the scales of
// the row and the column. gather: gatherAt, gatherRows; scales: scaleAAt, scaleBAt.
static float scaled(const epilogue *e, const uint32_t *gather, const uint32_t *scales, int i, int j,
    float alpha, float sum) {
	uint32_t row = e->flags & GATHER ? e->rows[gather[0] + i] : (uint32_t)i, each = e->flags & PAIRS ? 2 : 1;
	int none = e->flags & GATHER && row >= gather[1];
	const uint32_t *a = e->rows + scales[0] + (e->flags & ROWS_A && !none ? each * row : 0),
	    *b = e->rows + scales[1] + (e->flags & COLUMNS_B ? each * j : 0);
	if (e->flags & ZEROS && !none) sum = fmaf(-(float)(int32_t)a[1], (float)(int32_t)b[1], sum);
	float x = alpha * sum;
	if (e->flags & SCALE_A && !(none && e->flags & ROWS_A)) x *= bits(*a);
	if (e->flags & SCALE_B) x *= bits(*b);
	return x;
}
// finish does what an epilogue says to an element, alpha times the sum, scaled. words: scatterAt,
// scatterRows, weightsAt, biasAt. kept: of a gated tile, where the first item leaves what the second, which
// has `second`, takes.
static void finish(const epilogue *e, const uint32_t *words, enum type type, void *c, uint32_t ldc, int i,
    int j, float x, float beta, float *kept, int second) {
	uint32_t row = e->flags & SCATTER ? e->rows[words[0] + i] : i;
	int is = !(e->flags & SCATTER) || row < words[1];
	size_t at = row * (size_t)ldc + j;
	x += beta && is ? beta * number(type, c, at) : 0;
	if (e->flags & BIAS) x += number(type, e->bias, words[3] + j);
	x = second ? *kept * x : activated(e->flags, x);
	if (kept && !second) *kept = x;
	else if (is) store(type, c, at, e->flags & WEIGHTS ? bits(e->rows[words[2] + i]) : 1, x, 0);
}

static void fixup(const kernel *k, const uint32_t *w, const epilogue *e, void *c, const float *workspace) {
	int rows = w[2] & 0xffff, cols = w[2] >> 16;
	if (k->epilogue && e->flags & POINTERS_C) c = pointer(e, w[7], 2);
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < cols; j++) {
			float sum = 0;
			for (uint32_t s = 0; s < w[6]; s++) sum += workspace[((size_t)(w[3] + s) * k->tm + i) * k->tn +
			    j];
			if (k->epilogue) finish(e, w + 8, k->type, (char *)c + (size_t)w[0] * (k->type == F32 ? 4 : 2),
			    w[1], i, j, scaled(e, w + 12, w + 14, i, j, bits(w[4]), sum), bits(w[5]), NULL, 0);
			else store(k->type, c, w[0] + i * (size_t)w[1] + j, bits(w[4]), sum, bits(w[5]));
		}
}
#include "fakedoubles.h"

// multiply adds to the sums of a row, in the order of k.
#if defined(__x86_64__) && defined(__GLIBC__)
__attribute__((target_clones("arch=x86-64-v3", "default"))) // others call fmaf
#endif
static void multiply(float *restrict sums, const float *restrict x, const float *restrict y, int depth,
    int cols) {
	for (int p = 0; p < depth; p++)
		for (int j = 0; j < cols; j++) sums[j] = fmaf(x[p], y[(size_t)p * cols + j], sums[j]);
}
// own has the first product of a gated tile of kernels that need no workspace for that.
static _Thread_local float own[128 * 128];
// items are those of the launch, w is one of them.
static void segment(const kernel *k, const uint32_t *items, const uint32_t *w, const epilogue *e,
    const void *a, const void *b, void *c, float *workspace, unsigned worker) {
	if (k->type == F64) return segment_double(k, w, e, a, b, c, (double *)workspace, worker);
	int depth = w[3], rows = w[7] & 0xffff, cols = w[7] >> 16, second = w[11] & 4;
	size_t lda = w[4], ldb = w[5], ldc = w[6];
	// ItemFloatC, ItemF16C
	enum type to = w[11] & 2 ? F32 : k->type < E4M3 ? k->type : w[11] & 16 ? F16 : BF16;
	if (second) b = e->b2;
	if (k->epilogue) {
		int apart = (e->flags & (POINTERS_A | POINTERS_B)) != 0;
		if (apart && !(e->flags & ALIGNED) && w[11] & 1) return; // ItemVector, which nobody promised
		if (depth && e->flags & POINTERS_A) a = pointer(e, w[18], 0);
		if (depth && e->flags & POINTERS_B) b = pointer(e, w[18], second ? 3 : 1);
		if (e->flags & POINTERS_C) c = pointer(e, w[18], 2);
	}
	int grouped = k->epilogue && e->flags & (GROUPS_64 | GROUPS_128 | GROUPS_32 | GROUPS_16);
	int blocks = k->epilogue && e->flags & BLOCKS;
	// a row of A, of C, and B
	float *x = malloc(sizeof *x * (depth + cols + (size_t)depth * cols)), *sums = x + depth, *y = sums + cols;
	for (int p = 0; p < depth; p++)
		for (int j = 0; j < cols; j++) y[(size_t)p * cols + j] = grouped ? weight(e, w, b, p, j) :
		    number(k->type, b, w[1] + (k->trans_b ? j * ldb + p : p * ldb + j)) * (blocks ?
		    block_scale(e, w, w[20], j / 128, p) : 1);
	for (int i = 0; i < rows; i++) {
		uint32_t row = k->epilogue && e->flags & GATHER ? e->rows[w[12] + i] : i;
		int none = k->epilogue && e->flags & GATHER && row >= w[13];
		for (int p = 0; p < depth && !none; p++)
			x[p] = number(k->type, a, w[0] + (k->trans_a ? p * lda + i : row * lda + p)) * (blocks ?
			    block_scale(e, w, w[19], row, p) : 1);
		memset(sums, 0, sizeof *sums * cols);
		if (!none) multiply(sums, x, y, depth, cols);
		for (int j = 0; j < cols; j++) {
			float sum = sums[j];
			float alpha = depth ? bits(w[8]) : 0, *kept = !k->epilogue ||
			    !(e->flags & GATED) ? NULL : workspace ? &workspace[((size_t)worker * k->tm + i) * k->tn +
			    j] : &own[i * k->tn + j];
			if (w[10] != UINT32_MAX) workspace[((size_t)w[10] * k->tm + i) * k->tn + j] = sum;
			else if (k->epilogue) finish(e, w + 14, to, (char *)c + (size_t)w[2] * (to == F32 ? 4 : 2), ldc,
			    i, j, depth ? scaled(e, w + 12, w + 19, i, j, alpha, sum) : 0, bits(w[9]), kept, second);
			else store(to, c, w[2] + i * ldc + j, alpha, sum, bits(w[9]));
		}
	}
	free(x);
	if (!(w[11] & 8)) return; // ItemPartial: of fp32, without an epilogue
	const uint32_t *tile = items + 4 * (size_t)w[2];
	uint32_t *stored = (uint32_t *)items + w[6];
	if (++*stored < tile[6]) return;
	*stored = 0;
	fixup(k, tile, e, c, workspace);
}
// pieces is how many thread groups a tile of so many parts takes in a launch of fix-ups: see slotSets in
// store.cuh.
static unsigned pieces(const kernel *f, uint32_t parts, unsigned threads) {
	unsigned vectors = f->tm * f->tn / 4, sets = 1;
	while (sets < 8 && (sets < parts || vectors * sets < threads)) sets *= 2;
	return vectors * sets / threads;
}
static CUresult execute(const launch *l) {
	const kernel *f = l->f;
	const uint32_t *items = (void *)l->params[0], *table = (void *)l->params[1];
	const void *a = (void *)l->params[2], *b = (void *)l->params[3];
	void *c = (void *)l->params[4];
	float *workspace = (void *)l->params[5];
	record(l);
	if (f->emulated) {
		void *params[10];
		for (int i = 0; i < 10; i++) params[i] = (void *)&l->params[i];
		if (!bg_shim_launch(f->name, l->x, l->y, l->threads, params)) return SUCCESS;
		fprintf(stderr, "fakecuda: %s\n", bg_shim_error());
		return LAUNCH_FAILED;
	}
	const int marked = (uintptr_t)table & 1; // which fix-ups and clusters cannot read
	if (marked && (f->fixup || l->cluster > 1)) return LAUNCH_FAILED;
	if (marked) table = (void *)((uintptr_t)table - 1);
	if ((uintptr_t)table & 2) { // an early launch, which warpgroups alone tell beside the other mark
		if (!l->early || (marked && !f->warpgroups)) return LAUNCH_FAILED;
		table = (uintptr_t)table == 2 ? NULL : (void *)((uintptr_t)table - 2);
	}
	const epilogue e = {(void *)l->params[6], (void *)l->params[7], (void *)l->params[8], l->params[9]};
	const uint32_t each = f->epilogue && e.flags & GATED ? 2 : 1; // items that a worker takes together
	// gated tiles of these have kernels of their own
	if (f->aligned && !f->fixup && f->gated != (each == 2)) return INVALID_VALUE;
	// the first product of a gated tile in registers
	const int keeps = f->aligned && (f->tn == 64 || (f->tm == 128 && f->type < E4M3));
	if (each == 2 && !f->fixup && !keeps && !workspace) return LAUNCH_FAILED;
	const size_t words = f->fixup ? (f->epilogue ? 16 : 8) : f->epilogue ? 24 : 12;
	static int launches; // workers begin in one order and in the other
	int back = launches++ % 2;
	for (unsigned i = 0; i < l->x; i++) {
		unsigned x = back ? l->x - 1 - i : i;
		if (f->fixup) {
			const uint32_t *tile = items + words * x;
			if (l->y < pieces(f, tile[6], l->threads)) return LAUNCH_FAILED;
			if (f->type == F64) fixup_double(f, tile, &e, c, (const double *)workspace);
			else fixup(f, tile, &e, c, workspace);
			continue;
		}
		// table: the next chunk, the end, the first item of chunk 0, items of a chunk, the last chunk
		if (marked) {
			uint32_t *turns = (uint32_t *)table, first = turns[2] - turns[3] * (l->x - x);
			while (first < turns[1]) {
				uint32_t end = first + turns[3] < turns[1] ? first + turns[3] : turns[1];
				for (uint32_t i = each * first; i < each * end; i++) segment(f, items, items + words * i, &e,
				    a, b, c, workspace, x);
				first = turns[2] + turns[3] * *turns;
				*turns = *turns >= turns[4] ? 0 : *turns + 1;
			}
			continue;
		}
		for (uint32_t i = table ? table[x] : x; i < (table ? table[x + 1] : x + 1); i++) segment(f, items,
		    items + words * i, &e, a, b, c, workspace, x);
	}
	return SUCCESS;
}

// Streams, graphs.
CUresult cuStreamGetCtx(stream *s, int **c) { ON_DEVICE; return *c = setting("FAKE_ALIEN", 0) ? &another :
    &primary, SUCCESS; }
static CUresult start(launch l, stream *s) {
	if (s && s->capturing) {
		s->recorded.list = realloc(s->recorded.list, (s->recorded.n + 1) * sizeof l);
		s->recorded.list[s->recorded.n++] = l;
		return SUCCESS;
	}
	count(LAUNCHES, 1);
	return enqueue((work){.launch = l});
}
// A cluster works as one group.
struct config {
	unsigned grid[3], threads[3], shared;
	stream *s;
	struct { int id, pad; unsigned value[3]; char rest[52]; } *attributes;
	unsigned count;
};
CUresult cuLaunchKernelEx(const struct config *c, kernel *f, void **params, void **extra) {
	ON_DEVICE;
	unsigned size = 1, early = 0;
	for (unsigned i = 0; i < c->count; i++) {
		unsigned id = c->attributes[i].id, value = c->attributes[i].value[0];
		if (id == 4 ? value < 2 || value > 8 || c->grid[1] != 1 : id != 6 || value != 1) return INVALID_VALUE;
		if (id == 4) size = value;
		if (id == 6) count(EARLY_LAUNCHES, early = 1);
	}
	if (!c->count || !c->grid[0] || c->grid[0] % size || !c->grid[1] || c->grid[2] != 1 ||
	    !c->threads[0]) return INVALID_VALUE;
	launch l = {.f = f, .x = c->grid[0] / size, .y = c->grid[1], .threads = c->threads[0], .cluster = size,
	    .early = early};
	for (int i = 0; i < 10; i++) memcpy(&l.params[i], params[i], 8);
	return start(l, c->s);
}
CUresult cuLaunchKernel(kernel *f, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty, unsigned tz,
    unsigned shared, stream *s, void **params, void **extra) {
	ON_DEVICE;
	if (!x || !y || z != 1 || !tx || ty != 1 || tz != 1) return INVALID_VALUE;
	launch l = {.f = f, .x = x, .y = y, .threads = tx, .cluster = 1};
	for (int i = 0; i < 10; i++) memcpy(&l.params[i], params[i], 8);
	return start(l, s);
}
CUresult cuStreamBeginCapture_v2(stream *s,
    int mode) { ON_DEVICE; s->recorded = (graph){0}; return s->capturing = 1, SUCCESS; }
CUresult cuStreamEndCapture(stream *s, graph **g) {
	if (!s->capturing) return CAPTURE_INVALID;
	s->capturing = 0; // in any case
	CUresult error = injected(__func__);
	if (error) return free(s->recorded.list), error;
	count(GRAPHS, 1);
	*g = malloc(sizeof **g);
	return **g = s->recorded, SUCCESS;
}
CUresult cuGraphInstantiateWithFlags(graph **e, graph *g, unsigned long long flags) {
	ON_DEVICE;
	count(GRAPHS, 1);
	*e = malloc(sizeof **e);
	**e = (graph){.list = malloc(g->n * sizeof(launch)), .n = g->n};
	memcpy((*e)->list, g->list, g->n * sizeof(launch));
	return SUCCESS;
}
CUresult cuGraphDestroy(graph *g) { count(GRAPHS, -1); return free(g->list), free(g), SUCCESS; }
CUresult cuStreamIsCapturing(stream *s, int *status) {
	ON_DEVICE;
	return *status = s ? s->capturing : setting("FAKE_CAPTURING", 0), SUCCESS;
}
// What is destroyed stays in memory, so that its use shows. CUDA promises to finish
// a graph that is in flight; HIP does not. The caller counts on that for streams of others alone.
CUresult cuGraphExecDestroy(graph *g) {
	ON_DEVICE;
	pthread_mutex_lock(&lock);
	if (g->destroyed) misuse("a graph is destroyed twice");
	if (g->queued && !g->borrowed) misuse("a graph is destroyed before it has run");
	else if (!g->queued) free(g->list), g->list = NULL;
	g->destroyed = 1;
	pthread_mutex_unlock(&lock);
	count(GRAPHS, -1);
	return SUCCESS;
}
#ifndef WITHOUT_GRAPHS
CUresult cuGraphLaunch(graph *g, stream *s) {
	ON_DEVICE;
	if (g->destroyed) return misuse("a graph is launched that was destroyed"), INVALID_VALUE;
	if (s ? s->capturing : setting("FAKE_CAPTURING", 0)) return CAPTURE_INVALID;
	g->borrowed = !s;
	count(GRAPH_LAUNCHES, 1);
	count(LAUNCHES, g->n);
	return enqueue((work){.graph = g});
}
#endif
