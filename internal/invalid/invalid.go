// Package invalid makes the errors of arguments that a caller can correct.
package invalid

import (
	"errors"
	"fmt"
)

// Err is what they wrap. Users know it as planner.ErrInvalid and dispatch.ErrInvalid.
var Err = errors.New("invalid argument")

// Errorf makes an error that says what is wrong and wraps Err, and what %w names.
func Errorf(format string, args ...any) error { return &wrapped{fmt.Errorf(format, args...)} }

type wrapped struct{ error }

// Unwrap returns Err, whose text would say nothing more.
func (w *wrapped) Unwrap() []error { return []error{Err, w.error} }
