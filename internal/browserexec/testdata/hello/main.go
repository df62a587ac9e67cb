// Hello prints what it was started with, and ends as it is told.
package main

import (
	"fmt"
	"os"
	"strconv"
)

func main() {
	fmt.Println("grüße", os.Args[1:], os.Getenv("BATCHGEMM_HELLO"), os.Getenv("PATH") == "")
	status, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic("no status")
	}
	os.Exit(status)
}
