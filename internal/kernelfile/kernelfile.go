// Package kernelfile reads products, the compiled kernels of package native, as scripts/pack.sh packed them.
package kernelfile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Set is products that are packed, and a manifest of their hashes.
type Set struct {
	files    fs.FS
	manifest string
	hashed   sync.Map // of the name of a file its func() error
}

// New is the set of products in a folder, with the name of its manifest there.
func New(files fs.FS, manifest string) *Set { return &Set{files: files, manifest: manifest} }

// Read returns a product by the name of native.Arch.Product, or what native.Arch.Image names: of PTX one
// kernel. It is what cuModuleLoadData and hipModuleLoadData take; PTX ends with a zero byte. A file that is
// not what the manifest says, which is checked once, is an error that names it.
func (s *Set) Read(name string) ([]byte, error) {
	file, kernel, one := strings.Cut(name, "/")
	packed, err := s.load(file + ".zst")
	if err != nil {
		return nil, err
	}
	code, err := unpack(packed)
	if err == nil && one {
		code, err = oneKernel(code, kernel)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if strings.HasSuffix(file, ".ptx") {
		code = append(unpackPTX(code), 0)
	}
	return code, nil
}

// load returns a file as it is stored.
func (s *Set) load(file string) ([]byte, error) {
	if s.files == nil {
		return nil, fmt.Errorf("%s: this build has no kernels of its kind", file)
	}
	packed, err := fs.ReadFile(s.files, file)
	if err != nil {
		return nil, err
	}
	check, _ := s.hashed.LoadOrStore(file, sync.OnceValue(func() error { return s.check(file, packed) }))
	if err := check.(func() error)(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return packed, nil
}

// check compares a file with its line of the manifest, which has the hash, two spaces and where the file is.
func (s *Set) check(file string, packed []byte) error {
	manifest, err := fs.ReadFile(s.files, s.manifest)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(manifest)) {
		hash, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if path.Base(name) != file {
			continue
		}
		if sum := sha256.Sum256(packed); hash != hex.EncodeToString(sum[:]) {
			return errors.New("it is damaged: its hash is not that of the manifest")
		}
		return nil
	}
	return fmt.Errorf("%s does not list it", s.manifest)
}

// mostBytes bounds what a product takes unpacked, and how far it refers back.
const mostBytes = 128 << 20

func unpack(packed []byte) ([]byte, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(mostBytes),
		zstd.WithDecoderMaxMemory(mostBytes))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.DecodeAll(packed, nil)
}
