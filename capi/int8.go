//go:build cgo && linux && (amd64 || arm64)

package main

// #include "internal.h"
import "C"

import (
	"unsafe"

	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

//export goSumColumns
func goSumColumns(mask *C.sigset_t, from unsafe.Pointer, rows, cols, ld C.int64_t, flags C.uint32_t,
	to unsafe.Pointer) C.bg_status {
	return call(mask, func() error {
		stored, length := rows, cols
		if flags&C.BG_TRANS_B != 0 {
			stored, length = cols, rows
		}
		switch {
		case flags&^C.BG_TRANS_B != 0:
			return invalid("flags %#x: only BG_TRANS_B is a flag here", flags)
		case rows < 0 || rows > planner.MaxWholeK:
			return invalid("rows %d is not in [0, %d]", rows, planner.MaxWholeK)
		case cols < 0 || cols > planner.MaxDim:
			return invalid("cols %d is not in [0, %d]", cols, planner.MaxDim)
		case ld < length || ld > planner.MaxDim:
			return invalid("ld %d is not in [%d, %d]", ld, length, planner.MaxDim)
		}
		elements := C.int64_t(0)
		if stored > 0 && length > 0 {
			elements = (stored-1)*ld + length
		}
		b, err := numbers[int8]("b", from, elements)
		if err != nil {
			return err
		}
		sums, err := numbers[int32]("sums", to, cols)
		if err != nil {
			return err
		}
		element.SumColumns(sums, b, int(rows), int(ld), flags&C.BG_TRANS_B != 0)
		return nil
	})
}
