package kernelfile

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// Packed cubins have the bytes of an instruction of 8.0 and 9.0 in the order 13 to 15, 9 to 12, 0, 1, 5 to 8,
// 4, 3, 2. The first say how it is scheduled, and what it computes: the same code with other registers has
// these in common. Registers come last, that of the result as the very last. Products are 4 % smaller for it.

// instruction is its bytes 0 to 7 and 8 to 15, or those at these places of a packed cubin.
type instruction struct{ low, high uint64 }

func (x instruction) packed() instruction {
	return instruction{
		x.high>>40 | x.high>>8&0xffffffff<<24 | x.low<<56,
		x.low>>8&0xff | x.low>>40<<8 | x.high&0xff<<32 | x.low>>32&0xff<<40 | x.low>>24&0xff<<48 |
			x.low>>16&0xff<<56,
	}
}

func (x instruction) unpacked() instruction {
	return instruction{
		x.low>>56 | x.high&0xff<<8 | x.high>>56<<16 | x.high>>48&0xff<<24 | x.high>>40&0xff<<32 |
			x.high>>8&0xffffff<<40,
		x.high>>32&0xff | x.low>>24&0xffffffff<<8 | x.low<<40,
	}
}

// ELF: a byte of the header that is free, and where the header and those of sections have what is read here.
const (
	mark                  = 15
	table, size, count    = 0x28, 0x3a, 0x3c
	flags, offset, length = 8, 24, 32
	header                = 40 // as far as it is read
	executable            = 4
	bytesOf               = 16 // of an instruction
)

var errNoCubin = errors.New("no cubin, or one of another form")

// PackCubin packs a cubin for products: it puts the bytes of instructions in another order, and marks the
// file.
func PackCubin(cubin []byte) ([]byte, error) {
	packed := bytes.Clone(cubin)
	if len(packed) <= mark || packed[mark] != 0 {
		return nil, errNoCubin
	}
	packed[mark] = 1
	return packed, change(packed, instruction.packed)
}

// unpackCubin unpacks a cubin in place, if it is packed.
func unpackCubin(cubin []byte) error {
	if len(cubin) <= mark || cubin[mark] == 0 {
		return nil
	}
	cubin[mark] = 0
	return change(cubin, instruction.unpacked)
}

// change changes all instructions of an ELF file.
func change(elf []byte, by func(instruction) instruction) error {
	if len(elf) < count+2 || !bytes.HasPrefix(elf, []byte("\x7fELF\x02\x01")) {
		return errNoCubin
	}
	number := binary.LittleEndian
	first, each := number.Uint64(elf[table:]), uint64(number.Uint16(elf[size:]))
	for i := range uint64(number.Uint16(elf[count:])) {
		section, ok := within(elf, first+i*each, each)
		if !ok || each < header {
			return errNoCubin
		}
		if section[flags]&executable == 0 {
			continue
		}
		code, ok := within(elf, number.Uint64(section[offset:]), number.Uint64(section[length:]))
		if !ok || len(code)%bytesOf != 0 {
			return errNoCubin
		}
		for ; len(code) > 0; code = code[bytesOf:] {
			x := by(instruction{number.Uint64(code), number.Uint64(code[8:])})
			number.PutUint64(code, x.low)
			number.PutUint64(code[8:], x.high)
		}
	}
	return nil
}

// within returns n bytes from one on, if there are so many.
func within(data []byte, at, n uint64) ([]byte, bool) {
	if end := uint64(len(data)); at > end || n > end-at {
		return nil, false
	}
	return data[at : at+n], true
}
