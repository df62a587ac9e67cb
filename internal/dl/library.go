//go:build cgo && linux && (amd64 || arm64)

package dl

// // Programs are 50 KB smaller without debug information of C.
// #cgo CFLAGS: -g0
// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "dl.h"
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/hardware"
)

// library is a loaded library. It is never unloaded.
type library struct {
	vendor  *Vendor
	api     *C.dl_api
	version int
	graphs  bool
}

// load opens the first of the vendor's libraries that exists.
func load(v *Vendor) (*library, error) {
	api := (*C.dl_api)(C.calloc(1, C.sizeof_dl_api))
	if api == nil {
		return nil, hardware.ErrOutOfMemory
	}
	var tried attempts
	for _, path := range v.Libraries {
		*api = C.dl_api{}
		reason := open(api, path, v.Symbols)
		var version C.int
		C.dl_version(api, &version)
		if version > 0 {
			if err := v.Refuse(int(version)); err != nil {
				C.free(unsafe.Pointer(api))
				return nil, fmt.Errorf("%w: the %s (%s) %w", hardware.ErrUnavailable, v.Driver, path, err)
			}
		}
		if reason == nil {
			return &library{v, api, int(version), C.dl_has_graphs(api) != 0}, nil
		}
		tried.add(path, reason.Error())
	}
	C.free(unsafe.Pointer(api))
	return nil, fmt.Errorf("%w: no %s: tried %s", hardware.ErrUnavailable, v.Driver, tried)
}

// attempts are libraries that could not be used, with the reason. Consecutive ones with the same reason
// share it.
type attempts []struct{ paths, reason string }

func (a *attempts) add(path, reason string) {
	if n := len(*a); n > 0 && (*a)[n-1].reason == reason {
		(*a)[n-1].paths += ", " + path
		return
	}
	*a = append(*a, struct{ paths, reason string }{path, reason})
}

func (a attempts) String() string {
	parts := make([]string, len(a))
	for i, attempt := range a {
		parts[i] = attempt.paths + ": " + attempt.reason
	}
	return strings.Join(parts, "; ")
}

// open fills api from the library at path, even if it returns an error.
func open(api *C.dl_api, path string, symbols []Symbol) error {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var message [512]C.char
	opened := C.dl_load(name, &message[0], C.size_t(len(message)))
	if opened == nil {
		return errors.New(strings.TrimPrefix(C.GoString(&message[0]), path+": "))
	}
	var errs []error
	for _, s := range symbols {
		if err := bind(api, opened, s); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return errs[0]
	}
	if entry := C.dl_lacks(api); entry != nil {
		return fmt.Errorf("no symbol is known for %s", C.GoString(entry))
	}
	return nil
}

func bind(api *C.dl_api, opened unsafe.Pointer, s Symbol) error {
	entry, name := C.CString(s.Entry), C.CString(s.Name)
	defer C.free(unsafe.Pointer(entry))
	defer C.free(unsafe.Pointer(name))
	switch result := C.dl_bind(api, opened, entry, name); {
	case result == -2:
		return fmt.Errorf("no entry %s", s.Entry)
	case result != 0 && !s.Optional:
		return fmt.Errorf("no symbol %s", s.Name)
	}
	return nil
}

// errorOf converts a failure to an error with its name.
func (l *library) errorOf(result C.dl_result) error {
	name := "unknown " + l.vendor.API + " error"
	if text := C.dl_error_name(l.api, result); text != nil {
		name = C.GoString(text)
	}
	err := fmt.Sprintf("%s (%d)", name, int(result))
	if text := C.dl_error_text(l.api, result); text != nil {
		err += ": " + C.GoString(text)
	}
	return errors.New(err)
}

// count starts the driver and counts its devices.
func (l *library) count() (int, error) {
	var n C.int
	switch result := C.dl_count(l.api, &n); {
	case result == C.DL_NO_DEVICE || result == 0 && n == 0:
		return 0, fmt.Errorf("%w: the %s shows no GPU: %s", hardware.ErrUnavailable, l.vendor.Driver,
			l.vendor.NoGPU)
	case result != 0:
		return 0, fmt.Errorf("%w: the %s does not start: %w", hardware.ErrUnavailable, l.vendor.Driver,
			l.errorOf(result))
	}
	return int(n), nil
}

// facts implements Facts.
type facts struct {
	library *library
	ordinal int
}

func (f facts) Version() int { return f.library.version }

func (f facts) Name() (string, error) {
	var name [256]C.char
	if result := C.dl_name(f.library.api, C.int(f.ordinal), &name[0], C.int(len(name))); result != 0 {
		return "", fmt.Errorf("name: %w", f.library.errorOf(result))
	}
	return C.GoString(&name[0]), nil
}

func (f facts) Attribute(number int) (int, error) {
	var value C.int
	if result := C.dl_attribute(f.library.api, C.int(f.ordinal), C.int(number), &value); result != 0 {
		return 0, fmt.Errorf("attribute %d: %w", number, f.library.errorOf(result))
	}
	return int(value), nil
}

// memory returns the bytes of the GPU's memory.
func (f facts) memory() (int64, error) {
	var size C.size_t
	if result := C.dl_memory(f.library.api, C.int(f.ordinal), &size); result != 0 {
		return 0, fmt.Errorf("memory: %w", f.library.errorOf(result))
	}
	return int64(size), nil
}

// uuid returns the UUID of the GPU, or zeros if the library has none.
func (f facts) uuid() (uuid [16]byte, err error) {
	result := C.dl_uuid(f.library.api, C.int(f.ordinal), unsafe.Pointer(&uuid))
	if result != 0 && result != C.DL_NOT_SUPPORTED {
		return uuid, fmt.Errorf("UUID: %w", f.library.errorOf(result))
	}
	return uuid, nil
}

// identify sets what distinguishes a GPU from others. If there is no UUID, it is the address on the bus.
func (f facts) identify(info *driver.Info) error {
	v := f.library.vendor
	var integrated, domain, bus, slot int
	if err := ReadAttributes(f, []Attribute{{&integrated, v.Integrated}, {&domain, v.PCI[0]},
		{&bus, v.PCI[1]}, {&slot, v.PCI[2]}}); err != nil {
		return err
	}
	uuid, err := f.uuid()
	if err != nil {
		return err
	}
	info.ID = fmt.Sprintf("%s:%04x:%02x:%02x", v.Backend, domain, bus, slot)
	if uuid != [16]byte{} {
		info.ID = v.Backend + ":" + backend.FormatUUID(uuid)
	}
	info.Vendor, info.Kind = v.Maker, hardware.KindDiscrete
	if integrated != 0 {
		info.Kind = hardware.KindIntegrated
	}
	info.Memory, err = f.memory()
	return err
}

// propertyBytes is ten times the largest struct of properties (hipDeviceProp_tR0600, 1472 bytes).
const propertyBytes = 16 << 10

func (f facts) Properties() ([]byte, error) {
	memory := C.calloc(1, propertyBytes)
	if memory == nil {
		return nil, hardware.ErrOutOfMemory
	}
	defer C.free(memory)
	if result := C.dl_properties(f.library.api, C.int(f.ordinal), memory); result != 0 {
		return nil, fmt.Errorf("properties: %w", f.library.errorOf(result))
	}
	return C.GoBytes(memory, propertyBytes), nil
}
