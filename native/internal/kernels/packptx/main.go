// Command packptx reads PTX and writes it as products have it, for scripts/pack.sh.
package main

import (
	"io"
	"log"
	"os"

	"github.com/batchgemm/batchgemm/internal/kernelfile"
)

func main() {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	packed, err := kernelfile.PackPTX(text)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := os.Stdout.Write(packed); err != nil {
		log.Fatal(err)
	}
}
