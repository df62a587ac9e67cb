// Command packcode writes a cubin or PTX as products have it, and other files as they are, for
// scripts/pack.sh. Usage: packcode FILE TO
package main

import (
	"log"
	"os"
	"path/filepath"

	"github.com/batchgemm/batchgemm/internal/kernelfile"
)

func main() {
	code, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	switch filepath.Ext(os.Args[1]) {
	case ".cubin":
		code, err = kernelfile.PackCubin(code)
	case ".ptx":
		code, err = kernelfile.PackPTX(code)
	}
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(os.Args[2], code, 0o644); err != nil {
		log.Fatal(err)
	}
}
