//go:build cgo && !nohip && linux && (amd64 || arm64)

package hip

import (
	"fmt"
	"os"
	"strings"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/dl"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/native"
	"github.com/batchgemm/batchgemm/native/products"
)

// Driver returns the HIP backend.
func Driver() driver.Driver { return dl.Driver(&vendor) }

// vendor describes libamdhip64. Its libraries are on the loader's search path, under the name that ROCm's
// development packages link or the names of the releases, and where ROCm installs them without telling the
// loader.
var vendor = dl.Vendor{
	Backend: "hip",
	Maker:   "AMD",
	API:     "HIP",
	Driver:  "HIP runtime",
	NoGPU: "is there an AMD GPU, may this user open /dev/kfd (group render), and is the GPU visible to " +
		"this " +
		"process (HIP_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES)?",
	Owner: "this GPU",
	Libraries: []string{
		"libamdhip64.so",
		"libamdhip64.so.7",
		"libamdhip64.so.6",
		"libamdhip64.so.5",
		"/opt/rocm/lib/libamdhip64.so",
		"/opt/rocm/lib/libamdhip64.so.7",
		"/opt/rocm/lib/libamdhip64.so.6",
		"/opt/rocm/lib/libamdhip64.so.5",
	},
	Symbols:  symbols,
	Refuse:   refuse,
	Describe: describe,

	Integrated: 16, // hipDeviceAttribute_t
	PCI:        [3]int{69, 67, 68},

	Lost: []int{ // hipError_t
		4,        // deinitialized
		214,      // uncorrectable ECC error
		700, 702, // illegal address; launch timeout
		709, 710, // context is destroyed; device-side assert
		719, // launch failure
	},
}

// symbols are those of HIP 5.0; later ones are Optional. They include no graphs: see the package comment.
var symbols = []dl.Symbol{
	// These three are first, so that failures to load the others can be explained.
	{Entry: "errorNameOf", Name: "hipGetErrorName"},
	{Entry: "errorTextOf", Name: "hipGetErrorString"},
	{Entry: "version", Name: "hipRuntimeGetVersion"},

	{Entry: "deviceCount", Name: "hipGetDeviceCount"},
	{Entry: "device", Name: "hipDeviceGet"},
	{Entry: "deviceName", Name: "hipDeviceGetName"},
	{Entry: "deviceAttribute", Name: "hipDeviceGetAttribute"},
	{Entry: "deviceMemory", Name: "hipDeviceTotalMem"},
	{Entry: "deviceUUID", Name: "hipDeviceGetUuid", Optional: true}, // since ROCm 5.2
	// Both return the same in different layouts; the last one that exists is used.
	{Entry: "deviceProperties", Name: "hipGetDeviceProperties", Optional: true},
	{Entry: "deviceProperties", Name: "hipGetDevicePropertiesR0600", Optional: true}, // since ROCm 6.0
	{Entry: "deviceGet", Name: "hipGetDevice"},
	{Entry: "deviceSet", Name: "hipSetDevice"},

	{Entry: "moduleLoad", Name: "hipModuleLoadData"},
	{Entry: "moduleUnload", Name: "hipModuleUnload"},
	{Entry: "moduleFunction", Name: "hipModuleGetFunction"},
	{Entry: "functionAttribute", Name: "hipFuncGetAttribute"},

	{Entry: "alloc", Name: "hipMalloc"},
	{Entry: "free", Name: "hipFree"},
	{Entry: "hostAlloc", Name: "hipHostMalloc"},
	{Entry: "hostFree", Name: "hipHostFree"},
	{Entry: "copyToDevice", Name: "hipMemcpyHtoDAsync"},
	{Entry: "copyToHost", Name: "hipMemcpyDtoHAsync"},
	{Entry: "copyOnDevice", Name: "hipMemcpyDtoDAsync"},
	{Entry: "pointerAttribute", Name: "hipPointerGetAttribute"},

	{Entry: "streamCreate", Name: "hipStreamCreateWithFlags"},
	{Entry: "streamDestroy", Name: "hipStreamDestroy"},
	{Entry: "streamDevice", Name: "hipStreamGetDevice", Optional: true}, // since ROCm 5.6
	{Entry: "eventCreate", Name: "hipEventCreateWithFlags"},
	{Entry: "eventDestroy", Name: "hipEventDestroy"},
	{Entry: "eventRecord", Name: "hipEventRecord"},
	{Entry: "eventQuery", Name: "hipEventQuery"},
	{Entry: "eventElapsed", Name: "hipEventElapsedTime"},

	{Entry: "launch", Name: "hipModuleLaunchKernel"},
}

// minVersion is HIP 5.0, the first with hipPointerGetAttribute.
const minVersion = 50000000 // 10^7*major + 10^5*minor + patch

func refuse(v int) error {
	if v >= minVersion {
		return nil
	}
	return fmt.Errorf("has version %s, 5.0 or newer is needed: update ROCm", version(v))
}

func version(v int) string { return fmt.Sprintf("%d.%d.%d", v/10000000, v/100000%100, v%100000) }

// describe reads the facts of a GPU, if there is code for it.
func describe(from dl.Facts) (*dl.GPU, error) {
	f, err := read(from)
	if err != nil {
		return nil, err
	}
	arch, err := native.HIP(f.arch)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.name, err)
	}
	facts, err := f.planner(arch)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.name, err)
	}
	system := "HIP " + version(from.Version())
	if release, err := os.ReadFile("/sys/module/amdgpu/version"); err == nil {
		system = "amdgpu " + strings.TrimSpace(string(release)) + ", " + system
	}
	return &dl.GPU{
		Name:     fmt.Sprintf("%s (%s)", f.name, f.arch),
		Driver:   system,
		Subgroup: fmt.Sprintf("%d (wavefront)", f.wave),
		Planner:  facts,
		Image:    products.HIP.Read,
		Kernel: func(k encoding.Kernel) dl.Kernel {
			threads, _ := native.Geometry(k) // the code has its shared memory
			return dl.Kernel{Image: arch.Image(k), Symbol: arch.KernelName(k), Threads: threads}
		},
		Pieces: native.Pieces,
	}, nil
}
