//go:build cgo && !nowebgpu && (darwin || (windows && amd64))

#include "shim.h"

int guard(void (*call)(void *), void *argument) { call(argument); return 0; }
