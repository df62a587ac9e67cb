package main

import "os"

// Where there is no display, Mesa's device selection layer for Vulkan prints an error
// each time that it looks for one. Only the environment stops it, which is the
// command's own to change before it runs C; libraries leave that of their host alone.
func init() {
	if os.Getenv("XDG_RUNTIME_DIR") == "" {
		os.Setenv("NODEVICE_SELECT", "1")
	}
}
