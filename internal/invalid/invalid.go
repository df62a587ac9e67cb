// Package invalid makes errors for arguments that a caller can correct.
package invalid

import (
	"errors"
	"fmt"
)

// Err is the error that they wrap. Users know it as planner.ErrInvalid and dispatch.ErrInvalid.
var Err = errors.New("invalid argument")

// Errorf returns an error that wraps Err and the operands of %w. Its text says what is wrong.
func Errorf(format string, args ...any) error { return &wrapped{fmt.Errorf(format, args...)} }

type wrapped struct{ error }

// Unwrap returns Err too, which would add nothing to the text.
func (w *wrapped) Unwrap() []error { return []error{Err, w.error} }
