// Package kernelfile reads products: the compiled kernels of package native, packed by scripts/pack.sh.
package kernelfile

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Set is packed products.
type Set struct{ files fs.FS }

// New returns the set of products in a folder.
func New(files fs.FS) *Set { return &Set{files} }

// Read returns a product by the name of native.Arch.Product or native.Arch.Image; for PTX that is one
// kernel. The result is for cuModuleLoadData and hipModuleLoadData; PTX ends with a zero byte. If a file
// is damaged, which the checksum in it shows, the error names it.
func (s *Set) Read(name string) ([]byte, error) {
	file, kernel, one := strings.Cut(name, "/")
	if s.files == nil {
		return nil, fmt.Errorf("%s.zst: this build has no kernels for its kind", file)
	}
	code, err := s.unzip(file)
	if err == nil && one {
		code, err = oneKernel(code, kernel)
	}
	if err == nil && strings.HasSuffix(file, ".cubin") {
		err = unpackCubin(code)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if strings.HasSuffix(file, ".ptx") {
		code = append(unpackPTX(code), 0)
	}
	return code, nil
}

// unzip returns a product as PackPTX and PackCubin make it.
func (s *Set) unzip(file string) ([]byte, error) {
	packed, err := fs.ReadFile(s.files, file+".zst")
	if err != nil {
		return nil, err
	}
	var related []byte
	if base, ok := Bases[file]; ok {
		if related, err = s.unzip(base); err != nil {
			return nil, fmt.Errorf("%s: %w", base, err)
		}
	}
	return unpack(packed, related)
}

// Bases are products that others are packed after, because they have much of their code in common: that makes
// the others smaller by a seventh or more.
var Bases = map[string]string{
	"gfx908.co": "gfx90a.co", "gfx942.co": "gfx90a.co", "gfx1100.co": "gfx1030.co",
	"sm_90a_wgmma_int8.cubin":    "sm_90a_wgmma_e4m3.cubin",
	"sm_90a_tensor_int8.cubin":   "sm_90a_tensor_e4m3.cubin",
	"sm_80_tensor_int8.cubin":    "sm_80_tensor_e4m3.cubin",
	"compute_80_tensor_int8.ptx": "compute_80_tensor_e4m3.ptx",
	"sm_80_int4.cubin":           "sm_80_tensor.cubin",
	"compute_80_int4.ptx":        "compute_80_tensor.ptx",
	"compute_80_plain.ptx":       "compute_80_tensor.ptx",
}

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
