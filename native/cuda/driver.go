//go:build cgo && !nocuda && linux && (amd64 || arm64)

package cuda

import (
	"fmt"
	"os"
	"strings"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/dl"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/native"
	"github.com/batchgemm/batchgemm/native/products"
)

// Driver returns the CUDA backend. The library's own tools give other builds of the kernels.
func Driver(with ...func(native.Arch) backend.Build) driver.Driver {
	v := vendor
	for _, build := range with {
		v.Describe = builds(build).describe
	}
	return dl.Driver(&v)
}

// vendor describes libcuda. Its libraries are, in this order, on the loader's search path, where containers
// mount the driver, where Windows puts it for its Linux subsystem, and under a name that may be the
// toolkit's stub.
var vendor = dl.Vendor{
	Backend: "cuda",
	Maker:   "NVIDIA",
	API:     "CUDA",
	Driver:  "NVIDIA driver",
	NoGPU: "is it visible to this process (CUDA_VISIBLE_DEVICES), and has a GPU in MIG mode " +
		"an instance?",
	Owner: "this GPU's primary context",
	Libraries: []string{
		"libcuda.so.1",
		"/usr/local/nvidia/lib64/libcuda.so.1",
		"/usr/lib/wsl/lib/libcuda.so.1",
		"libcuda.so",
	},
	Symbols:  symbols,
	Refuse:   refuse,
	Describe: builds(build).describe,

	Integrated: 18, // CUdevice_attribute
	PCI:        [3]int{50, 33, 34},

	// The driver stages small copies in its own memory ("API synchronization behavior" in its description).
	// On an H200 this takes 2.2 µs; copy, event and polling the event take 4. From 48 KiB on staging takes
	// longer.
	Stages: 48 << 10,

	// "The context cannot be used" and "the process must be terminated and
	// relaunched" in the description of CUresult.
	Lost: []int{
		4,             // deinitialized
		201,           // invalid context
		214, 220, 226, // uncorrectable ECC error; NVLink error; contained error
		700, 702, // illegal address; launch timeout
		709, 710, // context is destroyed; device-side assert
		// hardware stack, instruction, misaligned, address space, PC, launch failed
		714, 715, 716, 717, 718, 719,
		999, // unknown
	},
	Reserved: []int{46}, // device unavailable
}

// symbols have the names of CUDA 12.0's binary interface. If NVIDIA's headers rename a function, it is the
// new name (_v2).
var symbols = []dl.Symbol{
	// These three are first, so that failures to load the others can be explained.
	{Entry: "errorName", Name: "cuGetErrorName"},
	{Entry: "errorText", Name: "cuGetErrorString"},
	{Entry: "version", Name: "cuDriverGetVersion"},

	{Entry: "init", Name: "cuInit"},
	{Entry: "deviceCount", Name: "cuDeviceGetCount"},
	{Entry: "device", Name: "cuDeviceGet"},
	{Entry: "deviceName", Name: "cuDeviceGetName"},
	{Entry: "deviceAttribute", Name: "cuDeviceGetAttribute"},
	{Entry: "deviceMemory", Name: "cuDeviceTotalMem_v2"},
	{Entry: "deviceUUID", Name: "cuDeviceGetUuid_v2"}, // a MIG instance has its own
	{Entry: "contextRetain", Name: "cuDevicePrimaryCtxRetain"},
	{Entry: "contextRelease", Name: "cuDevicePrimaryCtxRelease_v2"},
	{Entry: "contextGet", Name: "cuCtxGetCurrent"},
	{Entry: "contextSet", Name: "cuCtxSetCurrent"},

	{Entry: "moduleLoadEx", Name: "cuModuleLoadDataEx"},
	{Entry: "moduleUnload", Name: "cuModuleUnload"},
	{Entry: "moduleFunction", Name: "cuModuleGetFunction"},
	{Entry: "moduleGlobal", Name: "cuModuleGetGlobal_v2"},
	{Entry: "functionLoad", Name: "cuFuncLoad", Optional: true}, // since CUDA 12.4
	{Entry: "functionSetAttribute", Name: "cuFuncSetAttribute"},
	{Entry: "functionAttribute", Name: "cuFuncGetAttribute"},

	{Entry: "alloc", Name: "cuMemAlloc_v2"},
	{Entry: "free", Name: "cuMemFree_v2"},
	{Entry: "hostAlloc", Name: "cuMemHostAlloc"},
	{Entry: "hostFree", Name: "cuMemFreeHost"},
	{Entry: "copyToDevice", Name: "cuMemcpyHtoDAsync_v2"},
	{Entry: "copyToHost", Name: "cuMemcpyDtoHAsync_v2"},
	{Entry: "copyOnDevice", Name: "cuMemcpyDtoDAsync_v2"},
	{Entry: "pointerAttribute", Name: "cuPointerGetAttribute"},

	{Entry: "streamCreate", Name: "cuStreamCreate"},
	{Entry: "streamDestroy", Name: "cuStreamDestroy_v2"},
	{Entry: "streamContext", Name: "cuStreamGetCtx"},
	{Entry: "eventCreate", Name: "cuEventCreate"},
	{Entry: "eventDestroy", Name: "cuEventDestroy_v2"},
	{Entry: "eventRecord", Name: "cuEventRecord"},
	{Entry: "eventQuery", Name: "cuEventQuery"},
	{Entry: "eventElapsed", Name: "cuEventElapsedTime"},

	{Entry: "launch", Name: "cuLaunchKernel"},
	{Entry: "launchEx", Name: "cuLaunchKernelEx"},
	{Entry: "captureBegin", Name: "cuStreamBeginCapture_v2"},
	{Entry: "captureEnd", Name: "cuStreamEndCapture"},
	{Entry: "graphInstantiate", Name: "cuGraphInstantiateWithFlags"},
	{Entry: "graphDestroy", Name: "cuGraphDestroy"},
	{Entry: "graphLaunch", Name: "cuGraphLaunch"},
	{Entry: "graphExecDestroy", Name: "cuGraphExecDestroy"},
	{Entry: "streamCapturing", Name: "cuStreamIsCapturing"},
}

// minVersion is CUDA 12.0, the oldest that loads the PTX of package native and has the symbols.
const minVersion = 12000 // 1000*major + 10*minor

func refuse(v int) error {
	if v >= minVersion {
		return nil
	}
	return fmt.Errorf("supports CUDA %s, %s is needed: update the NVIDIA driver to 525 or newer", version(v),
		version(minVersion))
}

func version(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

// build returns the code that comes with the package.
func build(arch native.Arch) backend.Build {
	return backend.Build{Image: arch.Image, Read: products.CUDA.Read}
}

// builds returns the code of the kernels for an architecture.
type builds func(native.Arch) backend.Build

// describe reads the facts of a GPU, and refuses one that is too old.
func (of builds) describe(from dl.Facts) (*dl.GPU, error) {
	f, err := read(from)
	if err != nil {
		return nil, err
	}
	arch, err := native.CUDA(f.major, f.minor, from.Version())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.name, err)
	}
	facts, err := f.planner(arch)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.name, err)
	}
	build := of(arch)
	system := "CUDA " + version(from.Version())
	if release, err := os.ReadFile("/sys/module/nvidia/version"); err == nil {
		system = "NVIDIA " + strings.TrimSpace(string(release)) + ", " + system
	}
	return &dl.GPU{
		Name:     f.name,
		Driver:   system,
		Subgroup: fmt.Sprintf("%d (warp)", f.warp),
		Planner:  facts,
		Waits:    arch.Waits,
		Image:    build.Read,
		Kernel: func(k encoding.Kernel) dl.Kernel {
			threads, shared := native.Geometry(k)
			return dl.Kernel{Image: build.Image(k), Symbol: arch.KernelName(k), Threads: threads,
				Shared: shared}
		},
		Pieces: native.Pieces,
	}, nil
}
