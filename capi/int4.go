//go:build cgo && linux && (amd64 || arm64)

package main

// #include "internal.h"
import "C"

import (
	"unsafe"

	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

//export goPackInt4
func goPackInt4(mask *C.sigset_t, from unsafe.Pointer, count C.int64_t, to unsafe.Pointer) C.bg_status {
	return call(mask, func() error {
		weights, words, err := packed(from, count, to)
		if err != nil {
			return err
		}
		element.PackInt4(words, weights)
		return nil
	})
}

//export goUnpackInt4
func goUnpackInt4(mask *C.sigset_t, from unsafe.Pointer, count C.int64_t, to unsafe.Pointer) C.bg_status {
	return call(mask, func() error {
		weights, words, err := packed(to, count, from)
		if err != nil {
			return err
		}
		element.UnpackInt4(weights, words)
		return nil
	})
}

// packed shows so many weights, a byte each, and their words.
func packed(bytes unsafe.Pointer, count C.int64_t, in unsafe.Pointer) (weights []uint8, words []uint32, err error) {
	if err := multiple(count, element.Int4.PerWord(), "the elements of a word"); err != nil {
		return nil, nil, err
	}
	if weights, err = numbers[uint8]("weights", bytes, count); err != nil {
		return nil, nil, err
	}
	words, err = numbers[uint32]("words", in, count/C.int64_t(element.Int4.PerWord()))
	return weights, words, err
}

// multiple fails for a count that is none of a unit.
func multiple(count C.int64_t, unit int, what string) error {
	if count%C.int64_t(unit) != 0 {
		return invalid("count %d is no multiple of %d, %s", count, unit, what)
	}
	return nil
}

//export goGroupWords
func goGroupWords(mask *C.sigset_t, from, zerosFrom unsafe.Pointer, count C.int64_t, to unsafe.Pointer) C.bg_status {
	return call(mask, func() error {
		scales, zeros, words, err := ofGroups(from, zerosFrom, count, to)
		if err != nil {
			return err
		}
		for i, scale := range scales {
			words[i] = element.GroupWord(scale, int(zeros[i]))
		}
		return nil
	})
}

//export goSplitGroupWords
func goSplitGroupWords(mask *C.sigset_t, from unsafe.Pointer, count C.int64_t, to, zerosTo unsafe.Pointer) C.bg_status {
	return call(mask, func() error {
		scales, zeros, words, err := ofGroups(to, zerosTo, count, from)
		if err != nil {
			return err
		}
		for i, word := range words {
			scale, zero := element.GroupOf(word)
			scales[i], zeros[i] = scale, uint8(zero)
		}
		return nil
	})
}

// ofGroups shows what so many groups have.
func ofGroups(atScales, atZeros unsafe.Pointer, count C.int64_t, atWords unsafe.Pointer) (scales []float32, zeros []uint8, words []uint32, err error) {
	if scales, err = numbers[float32]("scales", atScales, count); err != nil {
		return nil, nil, nil, err
	}
	if zeros, err = numbers[uint8]("zeros", atZeros, count); err != nil {
		return nil, nil, nil, err
	}
	words, err = numbers[uint32]("words", atWords, count)
	return scales, zeros, words, err
}

//export goQuantizeInt4
func goQuantizeInt4(mask *C.sigset_t, from unsafe.Pointer, count C.int64_t, group C.int32_t, to, groupsTo unsafe.Pointer) C.bg_status {
	return call(mask, func() error {
		unit := int(group)
		if unit != planner.PerGroup64.Group() && unit != planner.PerGroup128.Group() {
			return invalid("group %d: must be %d or %d", unit, planner.PerGroup64.Group(), planner.PerGroup128.Group())
		}
		if err := multiple(count, unit, "the group"); err != nil {
			return err
		}
		rows, err := numbers[float32]("numbers", from, count)
		if err != nil {
			return err
		}
		words, err := numbers[uint32]("words", to, count/C.int64_t(element.Int4.PerWord()))
		if err != nil {
			return err
		}
		groups, err := numbers[uint32]("groups", groupsTo, count/C.int64_t(unit))
		if err != nil {
			return err
		}
		element.QuantizeInt4(words, groups, rows, unit)
		return nil
	})
}
