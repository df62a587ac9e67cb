package encoding

// KernelKind selects the rates of the tile table that apply to a device's kernels.
type KernelKind string

const (
	KernelsWGSL   KernelKind = "wgsl"
	KernelsNative KernelKind = "native" // CUDA and HIP
	KernelsCPU    KernelKind = "cpu"
)
