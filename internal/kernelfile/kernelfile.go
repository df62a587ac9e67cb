// Package kernelfile reads products: the compiled kernels of package native, packed by scripts/pack.sh.
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

// Set is packed products, with a manifest of their hashes.
type Set struct {
	files    fs.FS
	manifest string
	hashed   sync.Map // by file name, a func() error
}

// New returns the set of products in a folder, with the name of its manifest there.
func New(files fs.FS, manifest string) *Set { return &Set{files: files, manifest: manifest} }

// Read returns a product by the name of native.Arch.Product or native.Arch.Image; for PTX that is one
// kernel. The result is for cuModuleLoadData and hipModuleLoadData; PTX ends with a zero byte. If a file
// differs from the manifest, which is checked once, the error names it.
func (s *Set) Read(name string) ([]byte, error) {
	file, kernel, one := strings.Cut(name, "/")
	packed, err := s.load(file + ".zst")
	if err != nil {
		return nil, err
	}
	var related []byte
	if base, ok := bases[file]; ok {
		if related, err = s.Read(base); err != nil {
			return nil, err
		}
	}
	code, err := unpack(packed, related)
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

// load returns a file as stored.
func (s *Set) load(file string) ([]byte, error) {
	if s.files == nil {
		return nil, fmt.Errorf("%s: this build has no kernels for its kind", file)
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

// check compares a file with its line of the manifest: the hash, two spaces and the path.
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

// bases are products that others are packed after, because architectures of a family have much of their code
// in common: that makes the others smaller by a seventh. scripts/pack.sh has the same list.
var bases = map[string]string{"gfx908.co": "gfx90a.co", "gfx942.co": "gfx90a.co", "gfx1100.co": "gfx1030.co"}

// mostBytes bounds the unpacked size of a product, and how far it refers back.
const mostBytes = 128 << 20

// unpack unpacks a product that was packed after related code, or nil.
func unpack(packed, related []byte) ([]byte, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(mostBytes),
		zstd.WithDecoderMaxMemory(mostBytes), zstd.WithDecoderDictRaw(0, related))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.DecodeAll(packed, nil)
}
