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
)

// Writer writes a file that appears under its name on Commit. The same arrays
// give the same bytes. It is not safe for concurrent use.
type Writer struct {
	file *atomicfile.File
	zip  *zip.Writer
	buf  []byte
}

// NewWriter writes to f, and commits or closes it.
func NewWriter(f *atomicfile.File) *Writer {
	return &Writer{file: f, zip: zip.NewWriter(f), buf: make([]byte, 4*chunk)}
}

// Create opens a file for writing; it fails where the result could not be stored.
func Create(path string) (*Writer, error) {
	f, err := atomicfile.Create(path)
	if err != nil {
		return nil, err
	}
	return NewWriter(f), nil
}

// Write appends a rows x cols array, row-major and dense in data.
func (w *Writer) Write(name string, rows, cols int, data []float32) error {
	if len(data) != rows*cols {
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
	if _, err := out.Write(encodeHeader(rows, cols)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := w.writeFloats(out, data); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (w *Writer) writeFloats(out io.Writer, data []float32) error {
	for len(data) > 0 {
		part := data[:min(chunk, len(data))]
		for i, v := range part {
			binary.LittleEndian.PutUint32(w.buf[4*i:], math.Float32bits(v))
		}
		if _, err := out.Write(w.buf[:4*len(part)]); err != nil {
			return err
		}
		data = data[len(part):]
	}
	return nil
}

// encodeHeader gives the bytes before the elements: version 1.0, padded so that
// the elements start at a multiple of 64 bytes, as NumPy does.
func encodeHeader(rows, cols int) []byte {
	dict := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", rows, cols)
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
