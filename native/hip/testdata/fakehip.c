// A libamdhip64 that runs on the CPU (see fake.h). hipModuleLoadData takes code
// objects of the device's architecture only, and a launch runs the kernel of that
// name, compiled for the CPU, with the parameters that it was given
// (native/internal/emulator).
//
// The environment changes what happens, beside fake.h's settings:
//   FAKEHIP_VERSION
//   FAKEHIP_ARCH    what gcnArchName says
//   FAKEHIP_NAME
// HIP_5 leaves out what came with ROCm 5.6 and 6.0.
#define _GNU_SOURCE
#define cuDeviceGetCount hipGetDeviceCount
#define cuDeviceGet hipDeviceGet
#define cuDeviceTotalMem_v2 hipDeviceTotalMem
#define cuDeviceGetUuid_v2 hipDeviceGetUuid
#define cuMemAlloc_v2 hipMalloc
#define cuMemFree_v2 hipFree
#define cuMemHostAlloc hipHostMalloc
#define cuMemFreeHost hipHostFree
#define cuMemcpyHtoDAsync_v2 hipMemcpyHtoDAsync
#define cuMemcpyDtoHAsync_v2 hipMemcpyDtoHAsync
#define cuMemcpyDtoDAsync_v2 hipMemcpyDtoDAsync
#define cuPointerGetAttribute hipPointerGetAttribute
#define cuFuncGetAttribute hipFuncGetAttribute
#define cuStreamCreate hipStreamCreateWithFlags
#define cuStreamDestroy_v2 hipStreamDestroy
#define cuEventCreate hipEventCreateWithFlags
#define cuEventDestroy_v2 hipEventDestroy
#define cuEventRecord hipEventRecord
#define cuEventQuery hipEventQuery
#define cuEventElapsedTime hipEventElapsedTime
#include "../../../internal/dl/dltest/fake.h"

#include <elf.h>

#include "../../internal/emulator/shim.h"
// So that the library can be built without kernels.
#pragma weak bg_shim_launch
#pragma weak bg_shim_error
#pragma weak bg_shim_wave_size
#pragma weak bg_shim_has

typedef CUresult hipError_t;

enum { INVALID_IMAGE = 200, NO_BINARY_FOR_GPU = 209, INVALID_CONFIGURATION = 9, LAUNCH_FAILURE = 719 };

// Stricter than HIP, where every thread begins with device 0.
enum { NO_ORDINAL = 1000, ANOTHER_ORDINAL };
static __thread int current = NO_ORDINAL;
static int current_device(void) { return current < NO_ORDINAL ? DEVICE : current == ANOTHER_ORDINAL ?
    ANOTHER : NOTHING; }
static void make_current(int what) { current = what == ANOTHER ? ANOTHER_ORDINAL : NO_ORDINAL; }

const char *hipGetErrorName(hipError_t e) {
	switch (e) {
	case INVALID_VALUE: return "hipErrorInvalidValue";
	case OUT_OF_MEMORY: return "hipErrorOutOfMemory";
	case NO_DEVICE: return "hipErrorNoDevice";
	case NO_BINARY_FOR_GPU: return "hipErrorNoBinaryForGpu";
	case ILLEGAL_ADDRESS: return "hipErrorIllegalAddress";
	case LAUNCH_FAILURE: return "hipErrorLaunchFailure";
	}
	return "hipErrorUnknown";
}
const char *hipGetErrorString(hipError_t e) { return "a description"; }
hipError_t hipRuntimeGetVersion(int *v) { return *v = setting("FAKEHIP_VERSION", 60343483), SUCCESS; }
hipError_t hipGetDevice(int *device) { CALL; return *device = current, SUCCESS; }
hipError_t hipSetDevice(int device) { CALL; return current = device, SUCCESS; }
hipError_t hipDeviceGetName(char *name, int size, int device) {
	CALL;
	const char *s = getenv("FAKEHIP_NAME");
	snprintf(name, size, "%s", s ? s : "AMD Instinct MI210");
	return SUCCESS;
}

// The architectures, with EF_AMDGPU_MACH of LLVM's AMDGPU usage.
static const struct { const char *name; unsigned mach; int wave, units, clock; } archs[] = {
	{"gfx908", 0x30, 64, 120, 1502000}, {"gfx90a", 0x3f, 64, 104, 1700000},
	    {"gfx942", 0x4c, 64, 304, 2100000},
	{"gfx1030", 0x36, 32, 40, 2250000}, {"gfx1100", 0x41, 32, 48, 2500000},
	    {"gfx906", 0x2f, 64, 60, 1800000}};

static const char *arch_name(void) {
	const char *s = getenv("FAKEHIP_ARCH");
	return s && *s ? s : "gfx90a:sramecc+:xnack-";
}
static int arch(void) {
	for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
		if (!strncmp(arch_name(), archs[i].name, strcspn(arch_name(), ":"))) return i;
	return 1;
}

hipError_t hipDeviceGetAttribute(int *v, int attribute, int device) {
	CALL;
	if (own_attribute(v, attribute)) return SUCCESS;
	switch (attribute) {
	case 5: *v = archs[arch()].clock; break;
	case 16: *v = setting("FAKE_INTEGRATED", 0); break;
	case 56: *v = 1024; break;
	case 63: *v = archs[arch()].units; break;
	case 67: *v = 0x1b + device; break;
	case 68: *v = 1; break;
	case 69: *v = 2; break;
	case 74: *v = 65536; break;
	case 87: *v = archs[arch()].wave; break;
	default: return INVALID_VALUE;
	}
	return SUCCESS;
}
// gcnArchName lies elsewhere in the two layouts: at 1160 in R0600, and in the
// older one at 396 (HIP 5.2).
static hipError_t properties(char *p, int size, int at) {
	memset(p, 0, size);
	hipDeviceGetName(p, 256, 0);
	snprintf(p + at, 256, "%s", arch_name());
	return SUCCESS;
}
#ifndef WITHOUT_PROPERTIES
hipError_t hipGetDeviceProperties(char *p, int device) { CALL; return properties(p, 792, 396); }
#ifndef HIP_5
hipError_t hipGetDevicePropertiesR0600(char *p, int device) { CALL; return properties(p, 1472, 1160); }
#endif
#endif

// Modules. Like the real library this one keeps the address of the image.
typedef struct { const char *image; } module;
typedef struct { char name[64]; } kernel;

hipError_t hipModuleLoadData(module **m, const char *image) {
	ON_DEVICE;
	const Elf64_Ehdr *e = (const void *)image;
	if (memcmp(e->e_ident, ELFMAG, SELFMAG) || e->e_machine != 224) return INVALID_IMAGE; // EM_AMDGPU
	if ((e->e_flags & 0xff) != archs[arch()].mach) return NO_BINARY_FOR_GPU;
	count(MODULES, 1);
	*m = malloc(sizeof **m);
	return (*m)->image = image, SUCCESS;
}
hipError_t hipModuleUnload(module *m) { ON_DEVICE; count(MODULES, -1); return free(m), SUCCESS; }

// has reports whether an image defines a symbol.
static int has(const char *image, const char *name) {
	const Elf64_Ehdr *e = (const void *)image;
	const Elf64_Shdr *sections = (const void *)(image + e->e_shoff);
	for (int i = 0; i < e->e_shnum; i++) {
		if (sections[i].sh_type != SHT_DYNSYM) continue;
		const Elf64_Sym *symbols = (const void *)(image + sections[i].sh_offset);
		const char *strings = image + sections[sections[i].sh_link].sh_offset;
		for (size_t j = 0; j < sections[i].sh_size / sizeof *symbols; j++)
			if (!strcmp(strings + symbols[j].st_name, name)) return 1;
	}
	return 0;
}

static kernel kernels[256]; // found so far
hipError_t hipModuleGetFunction(kernel **f, module *m, const char *name) {
	ON_DEVICE;
	char descriptor[80]; // what the hardware starts from
	snprintf(descriptor, sizeof descriptor, "%s.kd", name);
	if (!has(m->image, name) || !has(m->image, descriptor) || !bg_shim_has(name)) return NOT_FOUND;
	pthread_mutex_lock(&lock);
	kernel *k = kernels;
	while (k->name[0] && strcmp(k->name, name)) k++;
	snprintf(k->name, sizeof k->name, "%s", name);
	pthread_mutex_unlock(&lock);
	return *f = k, SUCCESS;
}

#ifndef HIP_5
hipError_t hipStreamGetDevice(stream *s, int *device) { ON_DEVICE; return *device = setting("FAKE_ALIEN", 0),
    SUCCESS; }
#endif

hipError_t hipModuleLaunchKernel(kernel *f, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty,
    unsigned tz,
                                 unsigned shared, stream *s, void **params, void **extra) {
	ON_DEVICE;
	if (!x || !y || z != 1 || !tx || ty != 1 || tz != 1 || shared || extra) return INVALID_VALUE;
	if ((uint64_t)x * tx > UINT32_MAX) return INVALID_CONFIGURATION;
	// Addresses, but for the numbers of kernels that make items, and of a layer of experts.
	const int makes = !strncmp(f->name, "bg_ragged_", 10);
	const int step = !strncmp(f->name, "bg_route_", 9) || !strncmp(f->name, "bg_combine_", 11);
	const int gate = !strncmp(f->name, "bg_gate_", 8);
	for (int i = 0; i < 9; i++) {
		CUdeviceptr p;
		memcpy(&p, params[i], sizeof p);
		if (gate ? i == 6 : step ? i == 3 || i == 6 : makes && (i == 2 || i == 3)) continue;
		pthread_mutex_lock(&lock);
		int known = !p || find(p, 1);
		pthread_mutex_unlock(&lock);
		if (!known) return ILLEGAL_ADDRESS;
	}
	count(LAUNCHES, 1);
	launch l = {.f = f, .x = x, .y = y, .threads = tx, .wave = archs[arch()].wave};
	for (int i = 0; i < 10; i++) memcpy(&l.params[i], params[i], 8);
	return enqueue((work){.launch = l});
}
static CUresult execute(const launch *l) {
	void *params[10];
	for (int i = 0; i < 10; i++) params[i] = (void *)&l->params[i];
	bg_shim_wave_size(l->wave);
	if (!bg_shim_launch(((kernel *)l->f)->name, l->x, l->y, l->threads, params)) return SUCCESS;
	fprintf(stderr, "fakehip: %s\n", bg_shim_error());
	return LAUNCH_FAILURE;
}
