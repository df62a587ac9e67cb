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
	depth, wanted, other := 0, false, false // of the entry that the line is in
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadString('\n')
		switch {
		case err == io.EOF:
			return nil, fmt.Errorf("no kernel %s", kernel)
		case err != nil:
			return nil, err
		}
		if name, begins := strings.CutPrefix(line, ".visible .entry "); begins {
			wanted = strings.HasPrefix(name, kernel+"(")
			other = !wanted
		}
		if !other {
			code = append(code, line...)
		}
		depth += strings.Count(line, "{") - strings.Count(line, "}")
		if depth > 0 || !strings.HasPrefix(line, "}") {
			continue
		}
		if wanted {
			return code, nil
		}
		other = false
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
