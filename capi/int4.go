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
func goPackInt4(mask *C.sigset_t, from unsafe.Pointer, n, k C.int64_t, to unsafe.Pointer) C.bg_status {
	return call(mask, func() error {
		weights, words, err := packed(from, n, k, to)
		if err != nil {
			return err
		}
		element.PackInt4(words, weights, int(n), int(k))
		return nil
	})
}

//export goUnpackInt4
func goUnpackInt4(mask *C.sigset_t, from unsafe.Pointer, n, k C.int64_t, to unsafe.Pointer) C.bg_status {
	return call(mask, func() error {
		weights, words, err := packed(to, n, k, from)
		if err != nil {
			return err
		}
		element.UnpackInt4(weights, words, int(n), int(k))
		return nil
	})
}

// packed returns n rows of k weights, one in each byte, and the words of their B.
func packed(bytes unsafe.Pointer, n, k C.int64_t, in unsafe.Pointer) (weights []uint8,
	words []uint32, err error) {
	if err := ofPanels(n, k, element.Int4Panel, "a panel"); err != nil {
		return nil, nil, err
	}
	if weights, err = numbers[uint8]("weights", bytes, n*k); err != nil {
		return nil, nil, err
	}
	words, err = wordsOf("words", in, n, k, element.Int4.PerWord())
	return weights, words, err
}

// ofPanels fails for sizes that a B of 4 bits cannot have: k is a multiple of a unit.
func ofPanels(n, k C.int64_t, unit int, what string) error {
	for _, size := range [...]struct {
		name  string
		value C.int64_t
	}{{"n", n}, {"k", k}} {
		if size.value < 0 || size.value > planner.MaxDim {
			return invalid("%s %d is not in [0, %d]", size.name, size.value, planner.MaxDim)
		}
	}
	return multiple("k", k, unit, what)
}

// ofUnits fails for sizes that a B of Int4 with groups cannot have.
func ofUnits(n, k C.int64_t, group int) error {
	if group != planner.PerGroup64.Group() && group != planner.PerGroup128.Group() {
		return invalid("group %d: must be %d or %d", group, planner.PerGroup64.Group(),
			planner.PerGroup128.Group())
	}
	return ofPanels(n, k, group, "the group")
}

// multiple fails for a value that is not a multiple of unit.
func multiple(name string, value C.int64_t, unit int, what string) error {
	if value%C.int64_t(unit) != 0 {
		return invalid("%s %d is no multiple of %d, %s", name, value, unit, what)
	}
	return nil
}

// wordsOf returns the words of a B with the least leading dimension: one for each `each` elements.
func wordsOf(name string, data unsafe.Pointer, n, k C.int64_t, each int) ([]uint32, error) {
	return numbers[uint32](name, data, k/C.int64_t(each)*C.int64_t(element.Int4LD(int(n))))
}

//export goGroupWords
func goGroupWords(mask *C.sigset_t, from, zerosFrom unsafe.Pointer, count C.int64_t,
	to unsafe.Pointer) C.bg_status {
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
func goSplitGroupWords(mask *C.sigset_t, from unsafe.Pointer, count C.int64_t, to,
	zerosTo unsafe.Pointer) C.bg_status {
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

// ofGroups returns the scales, zero points and words of count groups.
func ofGroups(atScales, atZeros unsafe.Pointer, count C.int64_t, atWords unsafe.Pointer) (scales []float32,
	zeros []uint8, words []uint32, err error) {
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
func goQuantizeInt4(mask *C.sigset_t, from unsafe.Pointer, n, k C.int64_t, group C.int32_t, to,
	groupsTo unsafe.Pointer) C.bg_status {
	return call(mask, func() error {
		unit := int(group)
		if err := ofUnits(n, k, unit); err != nil {
			return err
		}
		rows, err := numbers[float32]("numbers", from, n*k)
		if err != nil {
			return err
		}
		words, err := wordsOf("words", to, n, k, element.Int4.PerWord())
		if err != nil {
			return err
		}
		groups, err := wordsOf("groups", groupsTo, n, k, unit)
		if err != nil {
			return err
		}
		return element.QuantizeInt4(words, groups, rows, int(n), int(k), unit)
	})
}
