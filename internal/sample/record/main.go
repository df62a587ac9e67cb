// Command record notes in green.txt that the tests passed with all texts, as make green does after them, or
// with the given texts: "go test ./internal/cpu && go run ./internal/sample/record cpu".
package main

import (
	"log"
	"os"
	"path/filepath"

	"github.com/batchgemm/batchgemm/internal/sample"
)

func main() {
	text, err := sample.Record(os.Args[1:]...)
	if err != nil {
		log.Fatal(err)
	}
	root, err := sample.Root()
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "internal", "sample", "green.txt"), []byte(text), 0o644)
	}
	if err != nil {
		log.Fatal(err)
	}
}
