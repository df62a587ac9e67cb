//go:build cgo && linux && (amd64 || arm64)

package main

// #include "internal.h"
import "C"

import (
	"context"
	"errors"
	"fmt"

	"github.com/batchgemm/batchgemm/dispatch"
)

var (
	errHandle   = errors.New("invalid handle")
	errInternal = errors.New("internal error")
)

// marked is an error with the kind that determines its status; its text does not repeat the kind.
type marked struct {
	error
	kind error
}

func (m marked) Unwrap() []error { return []error{m.error, m.kind} }

func invalid(format string, args ...any) error {
	return marked{fmt.Errorf(format, args...), dispatch.ErrInvalid}
}

// statuses lists the errors with a status of their own, by priority.
var statuses = []struct {
	kind   error
	status C.bg_status
}{
	{errInternal, C.BG_ERR_INTERNAL},
	{dispatch.ErrInvalid, C.BG_ERR_INVALID},
	{errHandle, C.BG_ERR_HANDLE},
	{dispatch.ErrDeviceLost, C.BG_ERR_DEVICE_LOST},
	{dispatch.ErrOutOfMemory, C.BG_ERR_OUT_OF_MEMORY},
	{dispatch.ErrUnavailable, C.BG_ERR_UNAVAILABLE},
	{dispatch.ErrClosed, C.BG_ERR_HANDLE},
	{context.DeadlineExceeded, C.BG_ERR_TIMEOUT},
}

func statusOf(err error) C.bg_status {
	for _, s := range statuses {
		if errors.Is(err, s.kind) {
			return s.status
		}
	}
	return C.BG_ERR_FAILED
}

// call runs the Go part of a function; mask is the signal mask of its caller. A Go function that C calls
// stays on the caller's thread, so the error is stored for that thread.
func call(mask *C.sigset_t, f func() error) C.bg_status {
	v := begin(mask)
	defer v.end()
	err := guard(f)
	if err == nil {
		return C.BG_OK
	}
	C.capi_set_error(C.CString(err.Error()))
	return statusOf(err)
}

// guard converts a panic, which would end the process in C, to an error.
func guard(f func() error) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = marked{fmt.Errorf("internal error: %v", reason), errInternal}
		}
	}()
	return f()
}
