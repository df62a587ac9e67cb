//go:build cgo && !nowebgpu && amd64

// What Vulkan knows about a GPU and the binding does not tell.
#include <stdint.h>

typedef struct {
	uint32_t vendor, device; // PCI ids, as wgpu reports them
	uint32_t type;           // VkPhysicalDeviceType
	uint8_t uuid[16];        // zeros: unknown
	uint64_t memory;         // bytes of the largest heap that is the device's; 0: unknown
	uint32_t subgroup;       // default subgroup size; 0: unknown
	uint32_t units;          // SMs or CUs; 0: unknown
	uint32_t warps;          // resident subgroups of a unit; 0: unknown
	float period;            // nanoseconds of a timestamp tick
	char name[256];
} vulkan_gpu;

// vulkan_query fills list with up to max GPUs and returns their number, 0 when
// there is no Vulkan.
int vulkan_query(vulkan_gpu *list, int max);
