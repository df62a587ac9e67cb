package dispatch

import (
	"context"
	"math"

	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner/element"
)

// WriteBits is Write for elements of 16 bits (element.Type.Bits and Narrow make them). Devices
// move words of two elements: where src begins with the second of a word, or ends with the
// first of one, it waits for the runs queued before, to keep the element beside it.
func (b *Buffer) WriteBits(ctx context.Context, offset int, src []uint16) error {
	return writeBits(ctx, b, offset, src)
}

// WriteBytes is WriteBits for elements of 8 bits (element.Type.NarrowBytes makes them), of which words have
// four.
func (b *Buffer) WriteBytes(ctx context.Context, offset int, src []uint8) error {
	return writeBits(ctx, b, offset, src)
}

// ReadBits is Read for elements of 16 bits (element.Type.Float and Widen take them).
func (b *Buffer) ReadBits(ctx context.Context, offset int, dst []uint16) error {
	return readBits(ctx, b, offset, dst)
}

// ReadBytes is Read for elements of 8 bits (element.Type.WidenBytes takes them).
func (b *Buffer) ReadBytes(ctx context.Context, offset int, dst []uint8) error {
	return readBits(ctx, b, offset, dst)
}

// ReadBitsAsync is ReadAsync for elements of 16 bits, as ReadBits is Read. It takes as much memory
// of the host again.
func (b *Buffer) ReadBitsAsync(ctx context.Context, offset int, dst []uint16) *Reading {
	return startBits(ctx, b, offset, dst)
}

// ReadBytesAsync is ReadBitsAsync for elements of 8 bits.
func (b *Buffer) ReadBytesAsync(ctx context.Context, offset int, dst []uint8) *Reading {
	return startBits(ctx, b, offset, dst)
}

// bits are elements of 16 bits, or of 8. Words of a device have the first in their low bits.
type bits interface{ uint8 | uint16 }

func sizeOf[T bits]() int {
	if ^T(0) == math.MaxUint8 {
		return 1
	}
	return 2
}

// checkBits fails where elements have another size.
func checkBits[T bits](what string, of element.Type) error {
	if size := sizeOf[T](); of.Bytes() != size {
		return invalid.Errorf("%s: the buffer has elements of %s, not of %d bits", what, of, 8*size)
	}
	return nil
}

func writeBits[T bits](ctx context.Context, b *Buffer, offset int, src []T) error {
	return inPieces(ctx, b, "write", offset, src, func(words []float32, offset int, src []T) error {
		per := b.of.PerWord()
		first, before, end := offset/per, offset%per, offset+len(src)
		beside := end%per > 0 && (end < b.n || b.wrapped) // elements of somebody's
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
	if err := checkBits[T]("read", b.of); err != nil {
		return failed(err)
	}
	if err := b.within("read", offset, len(dst)); err != nil {
		return failed(err)
	}
	per := b.of.PerWord()
	words := make([]float32, wordsOf(b.of, offset%per+len(dst)))
	return b.readAsync(ctx, offset, len(dst), offset/per, words, func() { unpack(dst, words, offset%per) })
}

// pack puts elements into words, from one of the first word's on. What is beside them stays.
func pack[T bits](words []float32, first int, src []T) {
	per, size := 4/sizeOf[T](), 8*sizeOf[T]()
	for i, x := range src {
		word, shift := &words[(first+i)/per], (first+i)%per*size
		*word = math.Float32frombits(math.Float32bits(*word)&^(uint32(^T(0))<<shift) | uint32(x)<<shift)
	}
}

// unpack takes elements out of words, from one of the first word's on.
func unpack[T bits](dst []T, words []float32, first int) {
	per, size := 4/sizeOf[T](), 8*sizeOf[T]()
	for i := range dst {
		dst[i] = T(math.Float32bits(words[(first+i)/per]) >> ((first + i) % per * size))
	}
}

// maxPiece is how many elements are put into words, or taken out, at a time, so that a large copy
// takes little memory.
const maxPiece = 1 << 20

// inPieces calls for pieces of the elements, with words for each. All but the first begin with
// the first element of a word.
func inPieces[T bits](ctx context.Context, b *Buffer, what string, offset int, data []T,
	call func(words []float32, offset int, piece []T) error,
) error {
	if err := checkBits[T](what, b.of); err != nil {
		return err
	}
	per := b.of.PerWord()
	return b.move(ctx, what, offset, len(data), func() error {
		words := make([]float32, wordsOf(b.of, min(offset%per+len(data), maxPiece)))
		for len(data) > 0 {
			n := min(maxPiece-offset%per, len(data))
			if err := call(words[:wordsOf(b.of, offset%per+n)], offset, data[:n]); err != nil {
				return err
			}
			offset, data = offset+n, data[n:]
		}
		return nil
	})
}
