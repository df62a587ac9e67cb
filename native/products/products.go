// Package products has the compiled kernels of package native: what scripts/cuda.sh and
// scripts/hip.sh made.
package products

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

//go:embed *.gz
var files embed.FS

// Read returns a product by the name of native.Arch.Product, or what native.Arch.Image names: of PTX
// one kernel. It is what cuModuleLoadData and hipModuleLoadData take; PTX ends with a zero byte.
func Read(name string) ([]byte, error) {
	file, kernel, one := strings.Cut(name, "/")
	packed, err := files.ReadFile(file + ".gz")
	if err != nil {
		return nil, err
	}
	var code []byte
	if one {
		code, err = readKernel(packed, kernel)
	} else {
		code, err = Unpack(packed)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if strings.HasSuffix(file, ".ptx") {
		code = append(code, 0)
	}
	return code, nil
}

// readKernel returns the PTX of one kernel: its entry and what stands before it beside other entries. It keeps no more than that in memory.
func readKernel(packed []byte, kernel string) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	var code []byte
	begin, other, depth := []byte(".visible .entry "+kernel+"("), false, 0
	found := false
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadBytes('\n')
		switch {
		case err == io.EOF:
			return nil, fmt.Errorf("no kernel %s", kernel)
		case err != nil:
			return nil, err
		}
		if depth == 0 && bytes.HasPrefix(line, begin[:len(".visible .entry ")]) {
			found = bytes.HasPrefix(line, begin)
			other = !found
		}
		if !other {
			code = append(code, line...)
		}
		depth += bytes.Count(line, []byte("{")) - bytes.Count(line, []byte("}"))
		if depth == 0 && bytes.HasPrefix(line, []byte("}")) { // the end of an entry
			if found {
				return code, nil
			}
			other = false
		}
	}
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
