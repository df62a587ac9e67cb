package dispatch

import (
	"context"
	"math"
	"unsafe"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Element is an element type of Write, Read and ReadAsync. Numbers must have the buffer's type: float32,
// float64 for F64, those of package element, and int8 for Int8. Unsigned integers, and types based on them,
// are bits of any type of their size: a []uint16, or []float16.Float16 of another package, goes into buffers
// of BF16 and F16. A buffer of F32 also takes int32 and uint32, such as sizes and row indices. A buffer of
// 4 bits takes 32-bit words of eight elements (element.PackInt4); offsets are then multiples of 8.
type Element interface {
	~float32 | ~float64 | ~int32 | ~uint32 | ~uint16 | ~uint8 | ~int8
}

// Write copies src to elements [offset, offset+len(src)), after the runs queued before. src may change once
// Write has returned.
//
// Devices move 32-bit words. If src starts or ends within a word, Write waits for the runs queued before, to
// preserve the neighbouring elements.
func Write[T Element](ctx context.Context, b *Buffer, offset int, src []T) error {
	if err := checkElements[T]("write", b.of); err != nil {
		return err
	}
	switch unsafe.Sizeof(*new(T)) {
	case 1:
		return writeBits(ctx, b, offset, bitsOf[uint8](src))
	case 2:
		return writeBits(ctx, b, offset, bitsOf[uint16](src))
	}
	return b.moveWords(ctx, "write", offset, inWords(src), driver.Buffer.Write)
}

// Read waits for the runs queued before, then copies elements [offset, offset+len(dst)) to dst.
func Read[T Element](ctx context.Context, b *Buffer, offset int, dst []T) error {
	if err := checkElements[T]("read", b.of); err != nil {
		return err
	}
	switch unsafe.Sizeof(*new(T)) {
	case 1:
		return readBits(ctx, b, offset, bitsOf[uint8](dst))
	case 2:
		return readBits(ctx, b, offset, bitsOf[uint16](dst))
	}
	return b.moveWords(ctx, "read", offset, inWords(dst), driver.Buffer.Read)
}

// Upload makes a buffer from numbers, with their type, or from 32-bit words.
func Upload[T element.Number | int32 | uint32](ctx context.Context, d *Device, src []T) (*Buffer, error) {
	b, err := d.NewBuffer(typeOf[T](), len(src))
	if err != nil {
		return nil, err
	}
	if err := Write(ctx, b, 0, src); err != nil {
		closing(b, &err)
		return nil, err
	}
	return b, nil
}

// typeOf returns the element type whose Go type is T; F32 for others.
func typeOf[T any]() element.Type {
	of, _ := knownType[T]()
	return of
}

// knownType returns the element type of a Go type. known is false for bits, which several types share.
func knownType[T any]() (of element.Type, known bool) {
	switch any(*new(T)).(type) {
	case element.BFloat16:
		return element.BF16, true
	case element.Float16:
		return element.F16, true
	case element.Float8E4M3:
		return element.E4M3, true
	case int8:
		return element.Int8, true
	case float64:
		return element.F64, true
	}
	return element.F32, false
}

// checkElements fails if a buffer cannot hold such elements.
func checkElements[T Element](what string, of element.Type) error {
	var zero T
	size := int(unsafe.Sizeof(zero))
	words := size == 4 && elemtype.Bits4(of) && (zero+1)/2 == 0 // (zero+1)/2 is 0 for integers only
	is, known := knownType[T]()
	switch {
	case known && is != of, size == 4 && of != is && !words:
		return invalid.Errorf("%s: the buffer has elements of %s, not %s", what, of, is)
	case !words && of.Bytes() != size:
		return invalid.Errorf("%s: the buffer has elements of %s, not of %d bits", what, of, 8*size)
	}
	return nil
}

// bitsOf reinterprets elements as a type of the same size.
func bitsOf[B bits, T Element](elements []T) []B {
	return unsafe.Slice((*B)(unsafe.Pointer(unsafe.SliceData(elements))), len(elements))
}

// inWords reinterprets elements of whole words as words.
func inWords[T Element](elements []T) []float32 {
	n := len(elements) * int(unsafe.Sizeof(*new(T))) / 4
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(elements))), n)
}

// bits are elements of 16 or 8 bits. The first element is in the low bits of a device's word.
type bits interface{ uint8 | uint16 }

func writeBits[T bits](ctx context.Context, b *Buffer, offset int, src []T) error {
	return inPieces(ctx, b, "write", offset, src, func(words []float32, offset int, src []T) error {
		per := b.of.PerWord()
		first, before, end := offset/per, offset%per, offset+len(src)
		beside := end%per > 0 && (end < b.n || b.wrapped) // the last word has elements of others
		if before > 0 || beside {
			b.device.updates.Lock() // no run comes between
			defer b.device.updates.Unlock()
			last := len(words) - 1
			if before > 0 {
				if err := b.driver.Read(ctx, first, words[:1]); err != nil {
					return err
				}
			}
			if beside && (last > 0 || before == 0) {
				if err := b.driver.Read(ctx, first+last, words[last:]); err != nil {
					return err
				}
			}
		}
		pack(words, before, src)
		return b.driver.Write(ctx, first, words)
	})
}

func readBits[T bits](ctx context.Context, b *Buffer, offset int, dst []T) error {
	return inPieces(ctx, b, "read", offset, dst, func(words []float32, offset int, dst []T) error {
		per := b.of.PerWord()
		if err := b.driver.Read(ctx, offset/per, words); err != nil {
			return err
		}
		unpack(dst, words, offset%per)
		return nil
	})
}

func startBits[T bits](ctx context.Context, b *Buffer, offset int, dst []T) *Reading {
	if err := b.within("read", offset, len(dst)); err != nil {
		return failed(err)
	}
	per := b.of.PerWord()
	words := make([]float32, elemtype.Words(b.of, offset%per+len(dst)))
	return b.readAsync(ctx, offset, len(dst), offset/per, words, func() { unpack(dst, words, offset%per) })
}

// pack puts elements into words, starting at an element of the first word. It preserves the other elements.
func pack[T bits](words []float32, first int, src []T) {
	bytes := int(unsafe.Sizeof(*new(T)))
	per, size := 4/bytes, 8*bytes
	for i, x := range src {
		word, shift := &words[(first+i)/per], (first+i)%per*size
		*word = math.Float32frombits(math.Float32bits(*word)&^(uint32(^T(0))<<shift) | uint32(x)<<shift)
	}
}

// unpack takes elements out of words, starting at an element of the first word.
func unpack[T bits](dst []T, words []float32, first int) {
	bytes := int(unsafe.Sizeof(*new(T)))
	per, size := 4/bytes, 8*bytes
	for i := range dst {
		dst[i] = T(math.Float32bits(words[(first+i)/per]) >> ((first + i) % per * size))
	}
}

// maxPiece is how many elements are packed or unpacked at a time, so that a large copy takes little memory.
const maxPiece = 1 << 20

// inPieces calls a function for pieces of the elements, with words for each. All pieces but the first start
// with the first element of a word.
func inPieces[T bits](ctx context.Context, b *Buffer, what string, offset int, data []T,
	call func(words []float32, offset int, piece []T) error,
) error {
	per := b.of.PerWord()
	return b.move(ctx, what, offset, len(data), func() error {
		words := make([]float32, elemtype.Words(b.of, min(offset%per+len(data), maxPiece)))
		for len(data) > 0 {
			n := min(maxPiece-offset%per, len(data))
			if err := call(words[:elemtype.Words(b.of, offset%per+n)], offset, data[:n]); err != nil {
				return err
			}
			offset, data = offset+n, data[n:]
		}
		return nil
	})
}
