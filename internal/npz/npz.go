// Package npz reads and writes NumPy's .npz files as far as batches of matrices
// need it: matrices of float32, float16, int8 and uint8, and words of uint32, which may have three
// dimensions. NumPy has no dtype for bf16.
//
// An .npz file is a zip archive with one .npy file per array; a .npy file is a magic string, a version, a
// header that is a Python dictionary, and the elements
// (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html). The package has its own codec,
// which tests compare with npyio: npyio panics on malformed headers, reads truncated data as zeros, and has
// neither a two-dimensional float32 writer nor float16.
package npz

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"regexp"
	"strconv"
	"strings"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/planner/element"
)

const (
	magic     = "\x93NUMPY"
	maxHeader = 1 << 16 // bytes; NumPy writes 128
	chunk     = 1 << 14 // elements converted at a time

	// maxDeflate is the highest compression ratio of deflate
	// (https://zlib.net/zlib_tech.html), which bounds what an entry can hold
	// before memory for it is allocated.
	maxDeflate = 1032
)

// DType is NumPy's name of an element type.
type DType string

const (
	Float32 DType = "<f4"
	Float16 DType = "<f2"
	Float64 DType = "<f8"
	Int8    DType = "|i1"
	Uint8   DType = "|u1"
	Uint32  DType = "<u4"
)

// names are the names for users, with the bytes of an element.
var names = map[DType]struct {
	name  string
	bytes int
}{Float32: {"float32", 4}, Float16: {"float16", 2}, Float64: {"float64", 8},
	Int8: {"int8", 1}, Uint8: {"uint8", 1},
	Uint32: {"uint32", 4}}

// String returns the name for users.
func (d DType) String() string { return names[d].name }

// Array is an array of an archive, with two dimensions, or words with three. Arrays may be read concurrently
// if their archive can be.
type Array struct {
	Name  string // without .npy
	DType DType
	Shape []int
	// Fortran: the elements are stored column by column.
	Fortran bool

	entry *zip.File
}

// Rows and Cols return the first two sizes, Len the number of elements.
func (a *Array) Rows() int { return a.Shape[0] }
func (a *Array) Cols() int { return a.Shape[1] }
func (a *Array) Len() int {
	n := 1
	for _, size := range a.Shape {
		n *= size
	}
	return n
}

// Read fills dst, which has Len elements, with the numbers in the order of the file. float32 represents all
// numbers of the types that are not words or float64. On errors dst may be partly filled.
func (a *Array) Read(dst []float32) error {
	return readAll(a, dst, func(part []float32, raw []byte) {
		for i := range part {
			switch a.DType {
			case Float32:
				part[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
			case Float16:
				part[i] = elemtype.Float(element.F16, binary.LittleEndian.Uint16(raw[2*i:]))
			case Int8:
				part[i] = float32(int8(raw[i]))
			default:
				part[i] = float32(raw[i])
			}
		}
	})
}

// ReadDoubles is Read for float64, which represents all numbers of the types that are not words.
func (a *Array) ReadDoubles(dst []float64) error {
	if a.DType == Float64 {
		return readAll(a, dst, func(part []float64, raw []byte) {
			for i := range part {
				part[i] = math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:]))
			}
		})
	}
	numbers := make([]float32, len(dst))
	err := a.Read(numbers)
	for i, x := range numbers {
		dst[i] = float64(x)
	}
	return err
}

// ReadWords is Read for an array of words.
func (a *Array) ReadWords(dst []uint32) error {
	return readAll(a, dst, func(part []uint32, raw []byte) {
		for i := range part {
			part[i] = binary.LittleEndian.Uint32(raw[4*i:])
		}
	})
}

// readAll reads all elements, and converts them with decode, a part at a time.
func readAll[T any](a *Array, dst []T, decode func(part []T, raw []byte)) error {
	err := a.elements(func(r io.Reader) error {
		bytes := names[a.DType].bytes
		buf := make([]byte, bytes*min(chunk, len(dst)))
		for len(dst) > 0 {
			part := dst[:min(chunk, len(dst))]
			raw := buf[:bytes*len(part)]
			if _, err := io.ReadFull(r, raw); err != nil {
				return noEOF(err)
			}
			decode(part, raw)
			dst = dst[len(part):]
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", a.Name, err)
	}
	return nil
}

// elements passes what follows the header.
func (a *Array) elements(read func(io.Reader) error) error {
	r, err := a.entry.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	if _, err := readHeader(r); err != nil {
		return err
	}
	if err := read(r); err != nil {
		return err
	}
	// The checksum is compared at the end of the entry.
	_, err = io.Copy(io.Discard, r)
	return err
}

// noEOF turns the end of a file inside an array into an error that says so.
func noEOF(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errors.New("truncated")
	}
	return err
}

// ArrayError is about one array of an archive.
type ArrayError struct {
	Name string
	Err  error
}

func (e *ArrayError) Error() string {
	return strings.Trim(strconv.Quote(e.Name), `"`) + ": " + e.Err.Error()
}
func (e *ArrayError) Unwrap() error { return e.Err }

// List reads the headers of all arrays of an archive of size bytes, in order. Errors about an array are of
// type *ArrayError.
func List(archive io.ReaderAt, size int64) ([]Array, error) {
	z, err := zip.NewReader(archive, size)
	if err != nil {
		return nil, fmt.Errorf("not an .npz file: %w", err)
	}
	arrays := make([]Array, 0, len(z.File))
	for _, entry := range z.File {
		name, isArray := strings.CutSuffix(entry.Name, ".npy")
		if !isArray {
			return nil, fmt.Errorf("%.40q is not an array: its name does not end in .npy", entry.Name)
		}
		a, err := openArray(entry, size)
		if err != nil {
			return nil, &ArrayError{name, err}
		}
		a.Name = name
		arrays = append(arrays, a)
	}
	return arrays, nil
}

func openArray(entry *zip.File, archiveSize int64) (Array, error) {
	r, err := entry.Open()
	if err != nil {
		return Array{}, err
	}
	defer r.Close()
	h, err := readHeader(r)
	if err != nil {
		return Array{}, err
	}
	a, err := h.array()
	if err != nil {
		return Array{}, err
	}
	a.entry = entry
	want := h.bytes(a.DType)
	if want != entry.UncompressedSize64 {
		return Array{}, fmt.Errorf("%d bytes, but shape %s needs %d", entry.UncompressedSize64,
			Shape(a.Shape), want)
	}
	if packed := min(entry.CompressedSize64, uint64(archiveSize)); want > maxDeflate*packed {
		return Array{}, fmt.Errorf("shape %s needs %d bytes, more than %d compressed ones can hold",
			Shape(a.Shape), want, packed)
	}
	return a, nil
}

// header is a .npy file's description of its array.
type header struct {
	dtype   string
	fortran bool
	shape   []int
	size    int // bytes before the elements
}

// The three keys of the dictionary, in any order.
var (
	dtypeKey   = regexp.MustCompile(`'descr':\s*('[^']*'|\[)`)
	fortranKey = regexp.MustCompile(`'fortran_order':\s*(True|False)\b`)
	shapeKey   = regexp.MustCompile(`'shape':\s*\(([0-9, ]*)\)`)
)

func readHeader(r io.Reader) (header, error) {
	var start [8]byte
	if _, err := io.ReadFull(r, start[:]); err != nil {
		return header{}, noEOF(err)
	}
	if string(start[:6]) != magic {
		return header{}, errors.New("not a .npy array")
	}
	// Version 1 has a 16-bit header length, 2 and 3 have a 32-bit one.
	var length uint32
	var word [4]byte
	width := 4
	switch start[6] {
	case 1:
		width = 2
	case 2, 3:
	default:
		return header{}, fmt.Errorf("unknown .npy version %d", start[6])
	}
	if _, err := io.ReadFull(r, word[:width]); err != nil {
		return header{}, noEOF(err)
	}
	length = binary.LittleEndian.Uint32(word[:])
	if length > maxHeader {
		return header{}, fmt.Errorf("header of %d bytes is too long", length)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r, text); err != nil {
		return header{}, noEOF(err)
	}
	h, err := parseHeader(text)
	h.size = len(start) + width + len(text)
	return h, err
}

func parseHeader(text []byte) (header, error) {
	dtype, fortran, shape := dtypeKey.FindSubmatch(text), fortranKey.FindSubmatch(text),
		shapeKey.FindSubmatch(text)
	if dtype == nil || fortran == nil || shape == nil {
		return header{}, fmt.Errorf("malformed header %.60q", bytes.TrimSpace(text))
	}
	h := header{dtype: strings.Trim(string(dtype[1]), "'"), fortran: string(fortran[1]) == "True"}
	for _, field := range strings.Split(string(shape[1]), ",") {
		if field = strings.TrimSpace(field); field == "" {
			continue
		}
		size, err := strconv.ParseInt(field, 10, 32)
		if err != nil {
			return header{}, fmt.Errorf("size %.40s is above the limit %d", field, math.MaxInt32)
		}
		h.shape = append(h.shape, int(size))
	}
	return h, nil
}

// bytes returns the size of the file that the header describes; all ones if it exceeds 64 bits.
func (h *header) bytes(of DType) uint64 {
	all := uint64(names[of].bytes)
	for _, size := range h.shape {
		over, product := bits.Mul64(all, uint64(size))
		if over > 0 || product > math.MaxInt64 {
			return math.MaxUint64
		}
		all = product
	}
	return uint64(h.size) + all
}

// array checks that the header describes a matrix, or words, of a known type.
func (h *header) array() (Array, error) {
	a := Array{DType: DType(h.dtype), Shape: h.shape, Fortran: h.fortran}
	if names[a.DType].bytes == 0 {
		return Array{}, h.unknown()
	}
	if n := len(h.shape); n != 2 && (n != 3 || a.DType != Uint32) {
		return Array{}, fmt.Errorf("has %d dimensions, want 2", n)
	}
	return a, nil
}

// unknown returns what is wrong with the type of the elements.
func (h *header) unknown() error {
	const known = "float64, float32, float16, int8, uint8 or uint32"
	switch {
	case strings.HasPrefix(h.dtype, ">") && names[DType("<"+h.dtype[1:])].bytes > 0:
		return fmt.Errorf("is big-endian; convert it with .astype('<%s')", h.dtype[1:])
	case h.dtype == "[":
		return errors.New("is a structured array, want " + known)
	}
	return fmt.Errorf("has dtype %.20q, want %s", h.dtype, known)
}

// Shape formats sizes like NumPy.
func Shape(sizes []int) string {
	text := make([]string, len(sizes))
	for i, size := range sizes {
		text[i] = strconv.Itoa(size)
	}
	return "(" + strings.Join(text, ", ") + ")"
}
