// Serve serves the files of a directory, such as the page that scripts/page.sh built, to this machine only.
// "make browser" does both.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
)

func main() {
	address := flag.String("address", "localhost:8080", "where to listen")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: serve [-address localhost:8080] DIRECTORY")
	}
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("http://%s (Ctrl-C ends it)\n", listener.Addr())
	log.Fatal(http.Serve(listener, http.FileServer(http.Dir(flag.Arg(0)))))
}
