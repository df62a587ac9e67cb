//go:build cgo && linux && (amd64 || arm64)

package dl

// #include <stdlib.h>
// #include "dl.h"
import "C"

import (
	"context"
	"unsafe"
)

// ReadGlobal implements Globals.
func (d *device) ReadGlobal(ctx context.Context, image, name string, to []byte) error {
	if err := d.state.Ready(ctx); err != nil {
		return err
	}
	memory, size, err := d.global(image, name)
	switch {
	case err != nil:
		return err
	case len(to) > size:
		return d.errorf("variable %s: %d bytes asked for, it has %d", name, len(to), size)
	case len(to) == 0:
		return nil
	}
	return transfer{d, memory, to, toHost}.run(ctx)
}

// global finds a variable of an image, and loads the image if necessary.
func (d *device) global(image, name string) (memory C.dl_pointer, size int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	module, err := d.module(image)
	if err != nil {
		return 0, 0, err
	}
	symbol := C.CString(name)
	defer C.free(unsafe.Pointer(symbol))
	var bytes C.size_t
	err = d.check("variable "+name, C.dl_global(d.handle, module.code, symbol, &memory, &bytes))
	return memory, int(bytes), err
}
