//go:build cgo && linux && (amd64 || arm64)

package main

// #include "internal.h"
import "C"

import (
	"unsafe"

	"github.com/batchgemm/batchgemm/planner/element"
)

//export goPackCheckpoint
func goPackCheckpoint(mask *C.sigset_t, format *C.char, qweight, qzeros, scales unsafe.Pointer,
	n, k C.int64_t, group C.int32_t, words, groups unsafe.Pointer) C.bg_status {
	return call(mask, func() error {
		x, err := checkpointOf(n, k, group, qweight, qzeros, scales, words, groups)
		if err != nil {
			return err
		}
		return element.PackCheckpoint(C.GoString(format), x.words, x.groups, x.qweight, x.qzeros, x.scales,
			int(n), int(k), int(group))
	})
}

//export goUnpackCheckpoint
func goUnpackCheckpoint(mask *C.sigset_t, format *C.char, words, groups unsafe.Pointer, n, k C.int64_t,
	group C.int32_t, qweight, qzeros, scales unsafe.Pointer) C.bg_status {
	return call(mask, func() error {
		x, err := checkpointOf(n, k, group, qweight, qzeros, scales, words, groups)
		if err != nil {
			return err
		}
		return element.UnpackCheckpoint(C.GoString(format), x.qweight, x.qzeros, x.scales, x.words, x.groups,
			int(n), int(k), int(group))
	})
}

// checkpoint is a layer of AWQ's or GPTQ's, and its B.
type checkpoint struct {
	qweight, qzeros, words, groups []uint32
	scales                         []float32
}

func checkpointOf(n, k C.int64_t, group C.int32_t, qweight, qzeros, scales, words,
	groups unsafe.Pointer) (x checkpoint, err error) {
	if err := ofUnits(n, k, int(group)); err != nil {
		return x, err
	}
	all := k / C.int64_t(group) * n
	for _, of := range [...]struct {
		to   *[]uint32
		name string
		data unsafe.Pointer
		len  C.int64_t
	}{{&x.qweight, "qweight", qweight, k / 8 * n}, {&x.qzeros, "qzeros", qzeros, all / 8},
		{&x.words, "words", words, k / 8 * n}, {&x.groups, "groups", groups, all}} {
		if *of.to, err = numbers[uint32](of.name, of.data, of.len); err != nil {
			return x, err
		}
	}
	x.scales, err = numbers[float32]("scales", scales, all)
	return x, err
}
