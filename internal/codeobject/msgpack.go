package codeobject

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// unpack reads one value of MessagePack (github.com/msgpack/msgpack, spec.md) of
// the kinds that metadata has: nil, bool, int, string, []any and map[string]any.
func unpack(text []byte) (any, error) {
	u := unpacker{rest: text}
	v := u.value(0)
	return v, u.err
}

// maxDepth is far above the depth of metadata, 5, and bounds recursion.
const maxDepth = 16

var errShort = errors.New("it ends early")

type unpacker struct {
	rest []byte
	err  error
}

// take returns the next n bytes, or after an error as many zeros as fit in a number.
func (u *unpacker) take(n int) []byte {
	if u.err == nil && n > len(u.rest) {
		u.err = errShort
	}
	if u.err != nil {
		return make([]byte, min(n, 8))
	}
	b := u.rest[:n]
	u.rest = u.rest[n:]
	return b
}

// number reads an unsigned number of 1, 2, 4 or 8 bytes.
func (u *unpacker) number(bytes int) uint64 {
	b := u.take(bytes)
	switch bytes {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.BigEndian.Uint16(b))
	case 4:
		return uint64(binary.BigEndian.Uint32(b))
	}
	return binary.BigEndian.Uint64(b)
}

func (u *unpacker) value(depth int) any {
	if depth > maxDepth {
		u.err = errors.New("it is nested too deep")
	}
	if u.err != nil {
		return nil
	}
	switch tag := u.number(1); {
	case tag < 0x80:
		return int(tag)
	case tag < 0x90:
		return u.dict(tag&0xf, depth)
	case tag < 0xa0:
		return u.list(tag&0xf, depth)
	case tag < 0xc0:
		return u.text(tag & 0x1f)
	case tag == 0xc0:
		return nil
	case tag == 0xc2, tag == 0xc3:
		return tag == 0xc3
	case tag >= 0xcc && tag <= 0xcf:
		n := u.number(1 << (tag - 0xcc))
		if n > math.MaxInt {
			u.err = fmt.Errorf("the number %d is too large", n)
		}
		return int(n)
	case tag >= 0xd0 && tag <= 0xd3:
		shift := 64 - 8<<(tag-0xd0)
		return int(int64(u.number(1<<(tag-0xd0))<<shift) >> shift)
	case tag >= 0xd9 && tag <= 0xdb:
		return u.text(u.number(1 << (tag - 0xd9)))
	case tag == 0xdc, tag == 0xdd:
		return u.list(u.number(2<<(tag-0xdc)), depth)
	case tag == 0xde, tag == 0xdf:
		return u.dict(u.number(2<<(tag-0xde)), depth)
	case tag >= 0xe0:
		return int(int8(tag))
	default:
		u.err = fmt.Errorf("unknown type %#x", tag)
		return nil
	}
}

func (u *unpacker) text(n uint64) string { return string(u.take(int(min(n, math.MaxInt)))) }

func (u *unpacker) list(n uint64, depth int) []any {
	list := []any{}
	for ; n > 0 && u.err == nil; n-- {
		list = append(list, u.value(depth+1))
	}
	return list
}

func (u *unpacker) dict(n uint64, depth int) map[string]any {
	m := map[string]any{}
	for ; n > 0 && u.err == nil; n-- {
		key, ok := u.value(depth + 1).(string)
		if !ok && u.err == nil {
			u.err = errors.New("a key is not text")
		}
		m[key] = u.value(depth + 1)
	}
	return m
}
