// Package npz reads and writes NumPy's .npz files as far as batches of matrices
// need it: two-dimensional arrays of float32 and float16. NumPy has no dtype for bf16.
//
// An .npz file is a zip archive with one .npy file per array; a .npy file is a
// magic string, a version, a header that is a Python dictionary, and the
// elements (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html).
// The package has its own codec because npyio, which the tests compare it with,
// panics on malformed headers, takes truncated data for zeros and has neither a
// two-dimensional float32 writer nor float16.
package npz

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

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

// dtypes are NumPy's names of the element types that it has.
var dtypes = map[element.Type]string{element.F32: "<f4", element.F16: "<f2"}

// Array is a two-dimensional array of an archive. Arrays may be read
// concurrently, as long as their archive can be.
type Array struct {
	Name       string // without .npy
	Type       element.Type
	Rows, Cols int
	// Fortran: the elements lie column by column.
	Fortran bool

	entry *zip.File
}

// Read fills dst, which has Rows*Cols elements, with the numbers in the order of the
// file; float32 has all those of float16. On errors dst may be partly filled.
func (a *Array) Read(dst []float32) error {
	r, err := a.entry.Open()
	if err != nil {
		return fmt.Errorf("%s: %w", a.Name, err)
	}
	defer r.Close()
	if _, err := readHeader(r); err != nil {
		return fmt.Errorf("%s: %w", a.Name, err)
	}
	if err := readNumbers(r, a.Type, dst); err != nil {
		return fmt.Errorf("%s: %w", a.Name, err)
	}
	// The end of the entry is where its checksum is compared.
	if _, err := io.Copy(io.Discard, r); err != nil {
		return fmt.Errorf("%s: %w", a.Name, err)
	}
	return nil
}

func readNumbers(r io.Reader, of element.Type, dst []float32) error {
	buf := make([]byte, of.Bytes()*min(chunk, len(dst)))
	for len(dst) > 0 {
		part := dst[:min(chunk, len(dst))]
		raw := buf[:of.Bytes()*len(part)]
		if _, err := io.ReadFull(r, raw); err != nil {
			return noEOF(err)
		}
		for i := range part {
			if of == element.F32 {
				part[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
			} else {
				part[i] = of.Float(binary.LittleEndian.Uint16(raw[2*i:]))
			}
		}
		dst = dst[len(part):]
	}
	return nil
}

// noEOF makes the end of a file inside an array an error that says so.
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

// List reads the headers of all arrays of an archive of size bytes, in its order.
// Errors about an array are of type *ArrayError.
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
	want := uint64(h.size) + uint64(a.Type.Bytes())*uint64(a.Rows)*uint64(a.Cols)
	if want != entry.UncompressedSize64 {
		return Array{}, fmt.Errorf("%d bytes, but shape (%d, %d) needs %d", entry.UncompressedSize64, a.Rows, a.Cols, want)
	}
	if packed := min(entry.CompressedSize64, uint64(archiveSize)); want > maxDeflate*packed {
		return Array{}, fmt.Errorf("shape (%d, %d) needs %d bytes, more than %d compressed ones can hold", a.Rows, a.Cols, want, packed)
	}
	return a, nil
}

// header is what a .npy file says about its array.
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
	dtype, fortran, shape := dtypeKey.FindSubmatch(text), fortranKey.FindSubmatch(text), shapeKey.FindSubmatch(text)
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

// array checks that the header describes a matrix of a type that dtypes has.
func (h *header) array() (Array, error) {
	of, err := h.elements()
	if err != nil {
		return Array{}, err
	}
	if len(h.shape) != 2 {
		return Array{}, fmt.Errorf("has %d dimensions, want 2", len(h.shape))
	}
	return Array{Type: of, Rows: h.shape[0], Cols: h.shape[1], Fortran: h.fortran}, nil
}

func (h *header) elements() (element.Type, error) {
	for of, dtype := range dtypes {
		if h.dtype == dtype {
			return of, nil
		}
	}
	switch h.dtype {
	case "<f8":
		return 0, errors.New("is float64; convert it with .astype(numpy.float32)")
	case ">f4", ">f2":
		return 0, fmt.Errorf("is big-endian; convert it with .astype('<%s')", h.dtype[1:])
	case "[":
		return 0, errors.New("is a structured array, want float32 or float16")
	}
	return 0, fmt.Errorf("has dtype %.20q, want float32 ('<f4') or float16 ('<f2')", h.dtype)
}
