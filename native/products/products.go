// Package products has the compiled kernels of package native: what scripts/cuda.sh and
// scripts/hip.sh made.
package products

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/binary"
	"fmt"
	"strings"
)

//go:embed *.gz
var files embed.FS

// Read returns a product by the name of native.Arch.Product. It is what cuModuleLoadData
// and hipModuleLoadData take; PTX ends with a zero byte.
func Read(name string) ([]byte, error) {
	packed, err := files.ReadFile(name + ".gz")
	if err != nil {
		return nil, err
	}
	code, err := Unpack(packed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if strings.HasSuffix(name, ".ptx") {
		code = append(code, 0)
	}
	return code, nil
}

// Unpack returns what the scripts have packed. Its length is in the last four bytes (RFC 1952), so that
// 36 MB of kernels need no memory beside.
func Unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	code := bytes.NewBuffer(make([]byte, 0, int(binary.LittleEndian.Uint32(packed[len(packed)-4:]))+bytes.MinRead))
	_, err = code.ReadFrom(r)
	return code.Bytes(), err
}
