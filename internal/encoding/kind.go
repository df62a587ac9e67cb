package encoding

// KernelKind says which rates of the tile table are those of a device's kernels.
type KernelKind string

const (
	KernelsWGSL   KernelKind = "wgsl"
	KernelsNative KernelKind = "native" // CUDA and HIP
	KernelsCPU    KernelKind = "cpu"
)
