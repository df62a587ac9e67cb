// A Vulkan driver for tests that passes everything on to the driver
// FAKE_VULKAN_DRIVER, until FAKE_VULKAN_LOST names one of the functions below: that
// one says from then on that the device is lost. They are those that may say so
// (Vulkan 1.3 specification, "Return Codes" of each) and that wgpu calls.
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICE_LOST = -4 };

typedef void (*function)(void);
typedef function (*get_proc)(void *handle, const char *name);

static get_proc instance_proc, device_proc; // the driver's

static int lost(const char *name) {
	const char *wanted = getenv("FAKE_VULKAN_LOST");
	return wanted && strcmp(wanted, name) == 0;
}

#define FUNCTIONS(F) \
	F(vkCreateDevice, (void *gpu, void *info, void *alloc, void *device), (gpu, info, alloc, device)) \
	F(vkQueueSubmit, (void *queue, uint32_t n, void *list, uint64_t fence), (queue, n, list, fence)) \
	F(vkGetSemaphoreCounterValue, (void *device, uint64_t semaphore, void *value), \
		(device, semaphore, value)) \
	F(vkWaitSemaphores, (void *device, void *info, uint64_t timeout), (device, info, timeout)) \
	F(vkGetFenceStatus, (void *device, uint64_t fence), (device, fence)) \
	F(vkWaitForFences, (void *device, uint32_t n, void *list, uint32_t all, uint64_t timeout), \
		(device, n, list, all, timeout)) \
	F(vkDeviceWaitIdle, (void *device), (device)) \
	F(vkQueueWaitIdle, (void *queue), (queue))

#define WRAPPER(name, parameters, arguments) \
	static int (*driver_##name) parameters; \
	static int my_##name parameters { return lost(#name) ? DEVICE_LOST : driver_##name arguments; }
FUNCTIONS(WRAPPER)

static function wrapper(const char *name, function driver) {
#define CHOOSE(f, parameters, arguments) \
	if (driver && (strcmp(name, #f) == 0 || strcmp(name, #f "KHR") == 0)) { \
		driver_##f = (int(*) parameters)driver; \
		return (function)my_##f; \
	}
	FUNCTIONS(CHOOSE)
	return driver;
}

static function my_device_proc(void *device, const char *name) {
	return wrapper(name, device_proc(device, name));
}

static function entry(const char *name) {
	static void *library;
	if (!library)
		library = dlopen(getenv("FAKE_VULKAN_DRIVER"), RTLD_NOW | RTLD_LOCAL);
	return library ? (function)dlsym(library, name) : NULL;
}

// The three functions that Vulkan's loader asks a driver for.

function vk_icdGetInstanceProcAddr(void *instance, const char *name) {
	if (!instance_proc)
		instance_proc = (get_proc)entry("vk_icdGetInstanceProcAddr");
	function driver = instance_proc ? instance_proc(instance, name) : NULL;
	if (driver && strcmp(name, "vkGetDeviceProcAddr") == 0) {
		device_proc = (get_proc)driver;
		return (function)my_device_proc;
	}
	return wrapper(name, driver);
}

function vk_icdGetPhysicalDeviceProcAddr(void *instance, const char *name) {
	get_proc driver = (get_proc)entry("vk_icdGetPhysicalDeviceProcAddr");
	return driver ? driver(instance, name) : NULL;
}

int vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version) {
	int (*driver)(uint32_t *) = (int (*)(uint32_t *))entry("vk_icdNegotiateLoaderICDInterfaceVersion");
	return driver ? driver(version) : -9; // VK_ERROR_INCOMPATIBLE_DRIVER
}
