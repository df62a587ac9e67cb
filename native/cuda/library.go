//go:build cgo && linux && (amd64 || arm64)

package cuda

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "gcu.h"
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/batchgemm/batchgemm/dispatch/driver"
)

// libraries are the paths tried, in order: the loader's search path, where
// containers mount the driver, where Windows puts it for its Linux subsystem,
// and last the name that may be the toolkit's stub.
var libraries = []string{
	"libcuda.so.1",
	"/usr/local/nvidia/lib64/libcuda.so.1",
	"/usr/lib/wsl/lib/libcuda.so.1",
	"libcuda.so",
}

// minVersion is CUDA 12.0: the oldest that loads the PTX of package native, and
// whose binary interface symbols.h names.
const minVersion = 12000

// library is a loaded libcuda. It is never unloaded.
type library struct {
	api     *C.gcu_api
	version int // 1000*major + 10*minor of CUDA
}

// load opens the first library of the list that there is.
func load(paths []string) (*library, error) {
	api := (*C.gcu_api)(C.calloc(1, C.sizeof_gcu_api))
	if api == nil {
		return nil, driver.ErrOutOfMemory
	}
	var tried []string
	for _, path := range paths {
		*api = C.gcu_api{}
		reason := open(path, api)
		l := &library{api: api}
		var version C.int
		C.gcu_version(api, &version)
		l.version = int(version)
		switch {
		case version > 0 && version < minVersion:
			return nil, fmt.Errorf("%w: the driver (%s) supports CUDA %s, %s is needed: update the NVIDIA driver to 525 or newer",
				driver.ErrUnavailable, path, cudaVersion(l.version), cudaVersion(minVersion))
		case reason == nil:
			return l, nil
		}
		tried = append(tried, fmt.Sprintf("%s: %v", path, reason))
	}
	C.free(unsafe.Pointer(api))
	return nil, fmt.Errorf("%w: no NVIDIA driver: tried %s", driver.ErrUnavailable, strings.Join(tried, "; "))
}

// open fills api from the library at path.
func open(path string, api *C.gcu_api) error {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var message [512]C.char
	if C.gcu_load(name, api, &message[0], C.size_t(len(message))) == 0 {
		return nil
	}
	return errors.New(strings.TrimPrefix(C.GoString(&message[0]), path+": "))
}

func cudaVersion(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

// errorOf names a result that is not success.
func (l *library) errorOf(result C.CUresult) error {
	return fmt.Errorf("%s (%d): %s", C.GoString(C.gcu_error_name(l.api, result)), int(result),
		C.GoString(C.gcu_error_text(l.api, result)))
}

// count starts the driver and counts its devices.
func (l *library) count() (int, error) {
	var n C.int
	switch result := C.gcu_count(l.api, &n); {
	case result == C.GCU_NO_DEVICE || result == 0 && n == 0:
		return 0, fmt.Errorf("%w: the NVIDIA driver shows no GPU: is it visible to this process "+
			"(CUDA_VISIBLE_DEVICES), and has a GPU in MIG mode an instance?", driver.ErrUnavailable)
	case result != 0:
		return 0, fmt.Errorf("%w: the NVIDIA driver does not start: %w", driver.ErrUnavailable, l.errorOf(result))
	}
	return int(n), nil
}

func (l *library) attribute(ordinal, attribute int) (int, error) {
	var value C.int
	if result := C.gcu_attribute(l.api, C.int(ordinal), C.int(attribute), &value); result != 0 {
		return 0, fmt.Errorf("attribute %d: %w", attribute, l.errorOf(result))
	}
	return int(value), nil
}

func (l *library) name(ordinal int) (string, error) {
	var name [256]C.char
	if result := C.gcu_name(l.api, C.int(ordinal), &name[0], C.int(len(name))); result != 0 {
		return "", fmt.Errorf("name: %w", l.errorOf(result))
	}
	return C.GoString(&name[0]), nil
}
