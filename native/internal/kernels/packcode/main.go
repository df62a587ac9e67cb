// Command packcode writes a cubin or PTX as products have it, and other files as they are, for
// scripts/pack.sh. Usage: packcode FILE TO
//
// Without arguments it prints the products that are packed after others, and these.
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/batchgemm/batchgemm/internal/kernelfile"
)

func main() {
	if len(os.Args) == 1 {
		for product, base := range kernelfile.Bases {
			fmt.Println(product, base)
		}
		return
	}
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
