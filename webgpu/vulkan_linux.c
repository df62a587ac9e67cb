//go:build cgo && !nowebgpu && amd64

// A query of libvulkan.so.1 without its headers: the few structures that it
// needs, as the Vulkan 1.1 specification lays them out on 64-bit machines.
#include "vulkan_linux.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum {
	API_1_1 = 1 << 22 | 1 << 12,
	APPLICATION_INFO = 0, // VkStructureType
	INSTANCE_CREATE_INFO = 1,
	PROPERTIES_2 = 1000059001,
	SUBGROUP_PROPERTIES = 1000094000,
	ID_PROPERTIES = 1000071004,
	SM_BUILTINS_PROPERTIES_NV = 1000154001,
	SHADER_CORE_PROPERTIES_AMD = 1000185000,
};

typedef struct {
	uint32_t type;
	const void *next;
	const char *application;
	uint32_t application_version;
	const char *engine;
	uint32_t engine_version, api_version;
} application_info;

typedef struct {
	uint32_t type;
	const void *next;
	uint32_t flags;
	const application_info *application;
	uint32_t layers;
	const char *const *layer_names;
	uint32_t extensions;
	const char *const *extension_names;
} instance_info;

typedef struct {
	uint32_t api_version, driver_version, vendor, device, type;
	char name[256];
	uint8_t cache_uuid[16];
	uint8_t limits_before[720 - 292]; // VkPhysicalDeviceLimits up to timestampPeriod
	float timestamp_period;
	uint8_t rest[824 - 724];
} properties;

typedef struct {
	uint32_t type;
	void *next;
	_Alignas(8) properties core;
} properties_2;

typedef struct {
	uint32_t type;
	void *next;
	uint32_t size, stages, operations, quad;
} subgroup_properties;

typedef struct {
	uint32_t type;
	void *next;
	uint8_t device[16], driver[16], luid[8];
	uint32_t node_mask, luid_valid;
} id_properties;

typedef struct {
	uint32_t type;
	void *next;
	uint32_t count, warps;
} sm_properties;

typedef struct {
	uint32_t type;
	void *next;
	uint32_t engines, arrays_per_engine, units_per_array, simds_per_unit, waves_per_simd, wave_size;
	uint32_t registers[8];
} core_properties_amd;

typedef struct {
	char name[256];
	uint32_t version;
} extension;

enum { HEAP_DEVICE_LOCAL = 1 };

typedef struct {
	uint32_t types;
	struct { uint32_t flags, heap; } type[32];
	uint32_t heaps;
	struct { uint64_t size; uint32_t flags; } heap[16];
} memory_properties;

_Static_assert(sizeof(memory_properties) == 520, "VkPhysicalDeviceMemoryProperties");
_Static_assert(sizeof(properties) == 824, "VkPhysicalDeviceProperties");
_Static_assert(sizeof(properties_2) == 840, "VkPhysicalDeviceProperties2");

typedef void (*function)(void);
typedef function (*get_proc)(void *instance, const char *name);
typedef int (*create_instance)(const instance_info *, const void *, void **);
typedef void (*destroy_instance)(void *, const void *);
typedef int (*enumerate_devices)(void *, uint32_t *, void **);
typedef int (*enumerate_extensions)(void *, const char *, uint32_t *, extension *);
typedef void (*get_properties)(void *, properties *);
typedef void (*get_properties_2)(void *, properties_2 *);
typedef void (*get_memory)(void *, memory_properties *);

typedef struct {
	enumerate_extensions extensions;
	get_properties properties;
	get_properties_2 properties_2;
	get_memory memory;
} functions;

static int has_extension(const functions *vk, void *gpu, const char *name) {
	uint32_t n = 0;
	if (vk->extensions(gpu, NULL, &n, NULL) != 0 || n == 0)
		return 0;
	extension *list = calloc(n, sizeof *list);
	int found = 0;
	if (list && vk->extensions(gpu, NULL, &n, list) >= 0)
		for (uint32_t i = 0; i < n && !found; i++)
			found = strcmp(list[i].name, name) == 0;
	free(list);
	return found;
}

// largest_heap is the size of the largest heap of the device: of one GPU others may be windows on it.
static uint64_t largest_heap(const functions *vk, void *gpu) {
	memory_properties m = {0};
	vk->memory(gpu, &m);
	uint64_t largest = 0;
	for (uint32_t i = 0; i < m.heaps && i < 16; i++)
		if (m.heap[i].flags & HEAP_DEVICE_LOCAL && m.heap[i].size > largest)
			largest = m.heap[i].size;
	return largest;
}

static void describe(const functions *vk, void *gpu, vulkan_gpu *out) {
	properties p = {0};
	vk->properties(gpu, &p);
	out->vendor = p.vendor, out->device = p.device, out->type = p.type;
	out->period = p.timestamp_period;
	memcpy(out->name, p.name, sizeof out->name);
	out->memory = largest_heap(vk, gpu);
	if (p.api_version < API_1_1)
		return;
	// A structure may be chained only if the device lists its extension.
	subgroup_properties subgroup = {.type = SUBGROUP_PROPERTIES};
	sm_properties sm = {.type = SM_BUILTINS_PROPERTIES_NV};
	core_properties_amd amd = {.type = SHADER_CORE_PROPERTIES_AMD};
	id_properties id = {.type = ID_PROPERTIES, .next = &subgroup};
	properties_2 all = {.type = PROPERTIES_2, .next = &id};
	if (has_extension(vk, gpu, "VK_NV_shader_sm_builtins"))
		sm.next = all.next, all.next = &sm;
	if (has_extension(vk, gpu, "VK_AMD_shader_core_properties"))
		amd.next = all.next, all.next = &amd;
	vk->properties_2(gpu, &all);
	out->subgroup = subgroup.size;
	memcpy(out->uuid, id.device, sizeof out->uuid);
	out->units = sm.count, out->warps = sm.warps;
	if (amd.engines) {
		out->units = amd.engines * amd.arrays_per_engine * amd.units_per_array;
		out->warps = amd.simds_per_unit * amd.waves_per_simd;
	}
}

static int list_devices(get_proc proc, void *instance, vulkan_gpu *out, int max) {
	enumerate_devices enumerate = (enumerate_devices)proc(instance, "vkEnumeratePhysicalDevices");
	functions vk = {
		(enumerate_extensions)proc(instance, "vkEnumerateDeviceExtensionProperties"),
		(get_properties)proc(instance, "vkGetPhysicalDeviceProperties"),
		(get_properties_2)proc(instance, "vkGetPhysicalDeviceProperties2"),
		(get_memory)proc(instance, "vkGetPhysicalDeviceMemoryProperties"),
	};
	uint32_t n = 0;
	if (!enumerate || !vk.extensions || !vk.properties || !vk.properties_2 || !vk.memory ||
	    enumerate(instance, &n, NULL) != 0 || n == 0)
		return 0;
	void **gpus = calloc(n, sizeof *gpus);
	if (!gpus || enumerate(instance, &n, gpus) < 0)
		n = 0;
	if (n > (uint32_t)max)
		n = (uint32_t)max;
	for (uint32_t i = 0; i < n; i++)
		describe(&vk, gpus[i], &out[i]);
	free(gpus);
	return (int)n;
}

int vulkan_query(vulkan_gpu *list, int max) {
	// The library stays loaded: some drivers do not survive dlclose.
	void *library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
	get_proc proc = library ? (get_proc)dlsym(library, "vkGetInstanceProcAddr") : NULL;
	create_instance create = proc ? (create_instance)proc(NULL, "vkCreateInstance") : NULL;
	application_info application = {.type = APPLICATION_INFO, .api_version = API_1_1};
	instance_info info = {.type = INSTANCE_CREATE_INFO, .application = &application};
	void *instance = NULL;
	if (!create || create(&info, NULL, &instance) != 0)
		return 0;
	int n = list_devices(proc, instance, list, max);
	destroy_instance destroy = (destroy_instance)proc(instance, "vkDestroyInstance");
	if (destroy)
		destroy(instance, NULL);
	return n;
}
