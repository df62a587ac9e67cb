package npz

import (
	"archive/zip"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/batchgemm/batchgemm/internal/atomicfile"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Writer writes a file that appears under its name on Commit. Equal arrays give equal bytes. It is not safe
// for concurrent use.
type Writer struct {
	file *atomicfile.File
	zip  *zip.Writer
	buf  []byte
}

// NewWriter writes to f, and commits or closes it.
func NewWriter(f *atomicfile.File) *Writer {
	return &Writer{file: f, zip: zip.NewWriter(f), buf: make([]byte, 4*chunk)}
}

// Create opens a file for writing. It fails if the result could not be stored.
func Create(path string) (*Writer, error) {
	f, err := atomicfile.Create(path)
	if err != nil {
		return nil, err
	}
	return NewWriter(f), nil
}

// Write appends a rows x cols array of a type. data is row-major and dense; its numbers are rounded to the
// type. It fails for types that NumPy does not have.
func (w *Writer) Write(name string, of element.Type, rows, cols int, data []float32) error {
	dtype := map[element.Type]DType{element.F32: Float32, element.F16: Float16, element.F64: Float64}[of]
	if dtype == "" {
		return invalid.Errorf("%s: NumPy has no dtype for %s", name, of)
	}
	if len(data) != elemtype.Words(elemtype.Sums(of), rows*cols) {
		return fmt.Errorf("%s: %d elements for shape (%d, %d)", name, len(data), rows, cols)
	}
	out, err := w.zip.CreateHeader(&zip.FileHeader{
		Name:     name + ".npy",
		Method:   zip.Store, // as numpy.savez
		Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC),
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if _, err := out.Write(encodeHeader(string(dtype), rows, cols)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := w.writeNumbers(out, of, data); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (w *Writer) writeNumbers(out io.Writer, of element.Type, data []float32) error {
	for len(data) > 0 {
		part := data[:min(chunk, len(data))]
		for i, v := range part {
			if of == elemtype.Sums(of) {
				binary.LittleEndian.PutUint32(w.buf[4*i:], math.Float32bits(v))
			} else {
				binary.LittleEndian.PutUint16(w.buf[2*i:], elemtype.Bits(of, v))
			}
		}
		if _, err := out.Write(w.buf[:min(of.Bytes(), 4)*len(part)]); err != nil {
			return err
		}
		data = data[len(part):]
	}
	return nil
}

// encodeHeader returns the bytes before the elements: version 1.0, padded so that the elements start at a
// multiple of 64 bytes, like NumPy.
func encodeHeader(dtype string, rows, cols int) []byte {
	dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%d, %d), }", dtype, rows, cols)
	prefix := len(magic) + 4 // version and length
	pad := -(prefix + len(dict) + 1) & 63
	dict += strings.Repeat(" ", pad) + "\n"
	b := append([]byte(magic), 1, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(dict)))
	return append(b, dict...)
}

// Commit finishes the file and gives it its name.
func (w *Writer) Commit() error {
	if err := w.zip.Close(); err != nil {
		w.Close()
		return err
	}
	return w.file.Commit()
}

// Close discards the file unless it was committed. It is idempotent.
func (w *Writer) Close() error { return w.file.Close() }
