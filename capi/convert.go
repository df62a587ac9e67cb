//go:build cgo && linux && (amd64 || arm64)

package main

// #include "internal.h"
import "C"

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"
	"unsafe"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// numbers returns an array of C as a slice.
func numbers[T element.Number | int8 | uint8 | uint16 | int32 | uint32](name string, data unsafe.Pointer,
	length C.int64_t) ([]T, error) {
	size := C.int64_t(unsafe.Sizeof(*new(T)))
	switch {
	case length < 0:
		return nil, invalid("%s: length %d is negative", name, length)
	case length == 0:
		return nil, nil
	case data == nil:
		return nil, invalid("%s is NULL", name)
	case length > math.MaxInt64/size:
		return nil, invalid("%s: %d elements are more than the address space has", name, length)
	}
	return unsafe.Slice((*T)(data), int(length)), nil
}

const (
	knownFlags = C.BG_TRANS_A | C.BG_TRANS_B
	restFlags  = C.BG_ZERO_ROWS | C.BG_NAN_ROWS // of bg_ragged
)

// The sizes of the structs in their first version.
const (
	firstProblem = unsafe.Offsetof(C.bg_problem{}.offset_b2)
	firstRagged  = unsafe.Offsetof(C.bg_ragged{}.offset_b2)

	firstAddresses = unsafe.Offsetof(C.bg_addresses{}.extent)
)

// versioned copies a caller's struct of a size. It may be shorter, if it was compiled for an older version.
// It may also be longer, if it was compiled for a newer version, as long as the unknown fields are 0; ok
// reports that.
func versioned[T any](from *T, size int) (known T, ok bool) {
	if size == int(unsafe.Sizeof(*from)) {
		return *from, true
	}
	return otherVersion(from, size)
}

func otherVersion[T any](from *T, size int) (known T, ok bool) {
	own := unsafe.Slice((*byte)(unsafe.Pointer(&known)), unsafe.Sizeof(known))
	more := unsafe.Slice((*byte)(unsafe.Pointer(from)),
		size)[copy(own, unsafe.Slice((*byte)(unsafe.Pointer(from)), size)):]
	return known, len(bytes.TrimLeft(more, "\x00")) == 0
}

// structOf is versioned for a bg_ struct of a name, which starts with struct_size and a word that is 0.
// first is the size of its first version.
func structOf[T any](name string, from *T, first uintptr) (own T, err error) {
	if from == nil {
		return own, invalid("%s is NULL", name)
	}
	size := *(*C.uint32_t)(unsafe.Pointer(from))
	if uintptr(size) < first {
		return own, invalid("%s: struct_size %d, must be sizeof(bg_%s), %d here", name, size, name,
			unsafe.Sizeof(own))
	}
	own, ok := versioned(from, int(size))
	if zero := (*[2]C.uint32_t)(unsafe.Pointer(&own))[1]; zero != 0 || !ok {
		return own, invalid("%s: a field asks for what this version of the library does not know", name)
	}
	return own, nil
}

// flagged is versioned for a bg_ struct of a name, which starts with struct_size and flags. first is the size
// of its first version, known its flags, and last its last field.
func flagged[T any](name string, from *T, first uintptr, known C.uint32_t, last string) (own T, err error) {
	if from == nil {
		return own, invalid("%s is NULL", name)
	}
	size := *(*C.uint32_t)(unsafe.Pointer(from))
	if uintptr(size) < first {
		return own, invalid("%s: struct_size %d, must be sizeof(bg_%s), %d here", name, size, name,
			unsafe.Sizeof(own))
	}
	own, ok := versioned(from, int(size))
	if flags := (*[2]C.uint32_t)(unsafe.Pointer(&own))[1]; flags&^known != 0 || !ok {
		return own, invalid("%s: flags %#x, or a field after %s, ask for what this version of the library "+
			"does not know", name, flags, last)
	}
	return own, nil
}

// elementOf returns element i of an array of a bg_ struct of a name, whose elements all have the struct_size
// of the first. first is the size of the first version.
func elementOf[T any](name string, array *T, i int, first uintptr) (*T, error) {
	size := *(*C.uint32_t)(unsafe.Pointer(array))
	if uintptr(size) < first || uintptr(size)%unsafe.Alignof(*array) != 0 {
		return nil, invalid("%s 0: struct_size %d, must be sizeof(bg_%s), %d here", name, size, name,
			unsafe.Sizeof(*array))
	}
	at := unsafe.Add(unsafe.Pointer(array), i*int(size))
	if own := *(*C.uint32_t)(at); own != size {
		return nil, invalid("%s %d: struct_size %d, that of %s 0 is %d", name, i, own, name, size)
	}
	return (*T)(at), nil
}

// batchOf copies problems.
func batchOf(problems *C.bg_problem, count C.int64_t) (planner.Batch, error) {
	switch {
	case count < 0:
		return nil, invalid("count %d is negative", count)
	case count > math.MaxInt32:
		return nil, invalid("count %d is above the limit %d", count, math.MaxInt32)
	case count == 0:
		return nil, nil
	case problems == nil:
		return nil, invalid("problems is NULL")
	}
	if _, err := elementOf("problem", problems, 0, firstProblem); err != nil {
		return nil, err // before there is memory for them
	}
	batch := make(planner.Batch, count)
	for i := range batch {
		p, err := elementOf("problem", problems, i, firstProblem)
		if err != nil {
			return nil, err
		}
		own, ok := versioned(p, int(p.struct_size))
		if own.flags&^knownFlags != 0 || !ok {
			return nil, invalid("problem %d: flags %#x, or a field after beta64, ask for what this "+
				"version of the library does not know", i, own.flags)
		}
		batch[i] = problemOf(&own)
	}
	return batch, nil
}

func problemOf(p *C.bg_problem) planner.Problem {
	return planner.Problem{
		M: int(p.m), N: int(p.n), K: int(p.k),
		TransA: p.flags&C.BG_TRANS_A != 0, TransB: p.flags&C.BG_TRANS_B != 0,
		Alpha: planner.Scale(float64(p.alpha) + float64(p.alpha64)),
		Beta:  float64(p.beta) + float64(p.beta64),
		A:     planner.Matrix{Offset: int(p.offset_a), LD: int(p.lda)},
		B:     planner.Matrix{Offset: int(p.offset_b), LD: int(p.ldb)},
		C:     planner.Matrix{Offset: int(p.offset_c), LD: int(p.ldc)},

		B2:   planner.Matrix{Offset: int(p.offset_b2), LD: int(p.ldb2)},
		Bias: int(p.bias), RowsA: int(p.rows_a), RowsC: int(p.rows_c), Weights: int(p.weights),
		Pointers: int(p.pointers),
		ScaleA:   int(p.scale_a), ScaleB: int(p.scale_b),
	}
}

// restOf returns what flags say about C that no group computes.
func restOf(flags C.uint32_t) (planner.Rest, error) {
	switch flags {
	case 0:
		return planner.RestKept, nil
	case C.BG_ZERO_ROWS:
		return planner.RestZero, nil
	case C.BG_NAN_ROWS:
		return planner.RestNaN, nil
	}
	return planner.RestKept, invalid("ragged: flags ask for rows of zeros and for rows of NaN")
}

// raggedOf copies a ragged batch. Newer versions follow the rule of batchOf.
func raggedOf(r *C.bg_ragged) (none planner.Ragged, err error) {
	own, err := flagged("ragged", r, firstRagged, knownFlags|restFlags, "beta64")
	if err != nil {
		return none, err
	}
	r = &own
	rest, err := restOf(r.flags & restFlags)
	if err != nil {
		return none, err
	}
	return planner.Ragged{
		Form: planner.RaggedForm(r.form), Groups: int(r.groups), M: int(r.m), N: int(r.n), K: int(r.k),
		Mean:   planner.Sizes{M: int(r.mean_m), N: int(r.mean_n), K: int(r.mean_k)},
		TransA: r.flags&C.BG_TRANS_A != 0, TransB: r.flags&C.BG_TRANS_B != 0, Rest: rest,
		Alpha:   planner.Scale(float64(r.alpha) + float64(r.alpha64)),
		Beta:    float64(r.beta) + float64(r.beta64),
		A:       planner.Matrix{Offset: int(r.offset_a), LD: int(r.lda)},
		B:       planner.Matrix{Offset: int(r.offset_b), LD: int(r.ldb)},
		C:       planner.Matrix{Offset: int(r.offset_c), LD: int(r.ldc)},
		StrideB: int(r.stride_b), StrideC: int(r.stride_c),
		LenA: int(r.len_a), LenB: int(r.len_b), LenC: int(r.len_c),
		LenB2: int(r.len_b2), LenBias: int(r.len_bias), LenRows: int(r.len_rows),

		B2:   planner.Matrix{Offset: int(r.offset_b2), LD: int(r.ldb2)},
		Bias: int(r.bias), StrideBias: int(r.stride_bias), RowsA: int(r.rows_a), RowsC: int(r.rows_c),
		Weights:  int(r.weights),
		Pointers: int(r.pointers), ScaleA: int(r.scale_a), ScaleB: int(r.scale_b),
	}, nil
}

// toPlan returns the inputs of a plan.
func toPlan(device C.bg_device, problems *C.bg_problem, count C.int64_t, options *C.char) (d *dispatch.Device,
	batch planner.Batch, o planner.Options, err error) {
	if d, err = find[*dispatch.Device](device); err != nil {
		return nil, nil, o, err
	}
	if batch, err = batchOf(problems, count); err != nil {
		return nil, nil, o, err
	}
	o, err = optionsOf(d, options)
	return d, batch, o, err
}

// typeOf returns the type of a name; NULL is float32.
func typeOf(name *C.char) (element.Type, error) {
	if name == nil {
		return element.F32, nil
	}
	var of element.Type
	if err := of.UnmarshalText([]byte(C.GoString(name))); err != nil {
		return of, invalid("type: %w", err)
	}
	return of, nil
}

// within calls a function with a time limit in milliseconds.
func within(timeout C.int64_t, do func(context.Context) error) error {
	switch {
	case timeout < 0:
		return invalid("timeout_ms %d is negative", timeout)
	case timeout == C.BG_NO_TIMEOUT, timeout > math.MaxInt64/C.int64_t(time.Millisecond):
		return do(context.Background())
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(timeout)*time.Millisecond)
	defer cancel()
	err := do(ctx)
	if statusOf(err) == C.BG_ERR_TIMEOUT {
		return marked{fmt.Errorf("the time limit of %d ms was reached", timeout), err}
	}
	return err
}

// giveJSON copies the JSON of a value to the caller's memory.
func giveJSON(text *C.char, size C.size_t, needed *C.size_t, get func() (any, error)) error {
	if needed != nil {
		*needed = 0
	}
	value, err := get()
	if err != nil {
		return err
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return err
	}
	encoded = append(encoded, 0)
	if needed != nil {
		*needed = C.size_t(len(encoded))
	}
	switch {
	case text == nil:
		return nil
	case uint64(size) < uint64(len(encoded)):
		return invalid("text has %d bytes, %d are needed", size, len(encoded))
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(text)), len(encoded)), encoded)
	return nil
}
