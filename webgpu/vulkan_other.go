//go:build cgo && !nowebgpu && (darwin || (windows && amd64))

package webgpu

// vulkanGPUs returns nothing: only Linux is asked.
func vulkanGPUs() []vulkanGPU { return nil }

// quiet does nothing: only Linux has Mesa's layer.
func quiet() {}
