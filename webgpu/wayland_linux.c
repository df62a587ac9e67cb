//go:build cgo && !nowebgpu && amd64

// Mesa's device selection layer for Vulkan looks for a Wayland display in every
// instance, and libwayland-client prints an error where it has no directory to look in.
// The layer has no setting but NODEVICE_SELECT in the environment, which belongs to
// the host of a library. So these errors go to Go's log.
#include "shim.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void logged(const char *format, va_list arguments) {
	char line[256];
	vsnprintf(line, sizeof line, format, arguments);
	line[strcspn(line, "\n")] = 0;
	webgpuLogged(LOG_WARN, line);
}

// A host that uses Wayland has the directory, and keeps the handler of its own.
void gpu_quiet(void) {
	const char *directory = getenv("XDG_RUNTIME_DIR");
	if (directory && *directory == '/')
		return;
	void *library = dlopen("libwayland-client.so.0", RTLD_LAZY); // stays, with the handler
	if (!library)
		return; // nor can the layer load it
	typedef void (*handler)(const char *, va_list);
	void (*set)(handler) = (void (*)(handler))dlsym(library, "wl_log_set_handler_client");
	if (set)
		set(logged);
}
