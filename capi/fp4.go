//go:build cgo && linux && (amd64 || arm64)

package main

// #include "internal.h"
import "C"

import (
	"unsafe"

	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

//export goPackFP4
func goPackFP4(mask *C.sigset_t, name *C.char, pairs, scales unsafe.Pointer, scale C.float, n, k C.int64_t,
	words, groups unsafe.Pointer) C.bg_status {
	return call(mask, func() error {
		m, err := matrixFP4(name, n, k, pairs, scales, words, groups)
		if err == nil {
			element.PackFP4(m.of, m.words, m.groups, m.pairs, m.scales, float32(scale), int(n), int(k))
		}
		return err
	})
}

//export goUnpackFP4
func goUnpackFP4(mask *C.sigset_t, name *C.char, words, groups unsafe.Pointer, n, k C.int64_t, pairs,
	scales unsafe.Pointer, scale *C.float) C.bg_status {
	return call(mask, func() error {
		m, err := matrixFP4(name, n, k, pairs, scales, words, groups)
		if err != nil {
			return err
		}
		of := element.UnpackFP4(m.of, m.pairs, m.scales, m.words, m.groups, int(n), int(k))
		if scale != nil {
			*scale = C.float(of)
		}
		return nil
	})
}

// fp4 is a matrix as checkpoints hold it, and as a B.
type fp4 struct {
	of            element.Type
	pairs, scales []uint8
	words, groups []uint32
}

func matrixFP4(name *C.char, n, k C.int64_t, pairs, scales, words, groups unsafe.Pointer) (m fp4, err error) {
	by, each := planner.PerGroup32, C.int64_t(32)
	switch text := C.GoString(name); text {
	case element.MXFP4.String():
		m.of = element.MXFP4
	case element.NVFP4.String():
		m.of, by, each = element.NVFP4, planner.PerGroup16, 16
	default:
		return m, invalid("type %q: must be %s or %s", text, element.MXFP4, element.NVFP4)
	}
	if err := ofPanels(n, k, element.Int4Panel, "a panel"); err != nil {
		return m, err
	}
	if m.pairs, err = numbers[uint8]("pairs", pairs, n*k/2); err != nil {
		return m, err
	}
	if m.scales, err = numbers[uint8]("scales", scales, n*k/each); err != nil {
		return m, err
	}
	if m.words, err = wordsOf("words", words, n, k, element.Int4.PerWord()); err != nil {
		return m, err
	}
	m.groups, err = numbers[uint32]("groups", groups,
		C.int64_t(by.GroupWords(int(k), element.Int4LD(int(n)))))
	return m, err
}
