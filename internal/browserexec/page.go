package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

//go:embed page.html
var html []byte

// page serves a program to the browser, and collects what it prints.
type page struct {
	program string
	loader  string // wasm_exec.js of the Go installation
	argv    []string
	output  io.Writer
	ended   chan int // the exit status, once
}

func newPage(args []string, output io.Writer) (*page, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	loader := filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm", "wasm_exec.js")
	if _, err := os.Stat(loader); err != nil {
		return nil, err
	}
	return &page{program: args[0], loader: loader, argv: args, output: output, ended: make(chan int, 1)}, nil
}

// serve listens on a free port of this machine until ctx ends, and returns the page's address.
func (p *page) serve(ctx context.Context) (address string, err error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(html) })
	mux.HandleFunc("GET /wasm_exec.js", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, p.loader)
	})
	mux.HandleFunc("GET /program.wasm", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/wasm")
		http.ServeFile(w, r, p.program)
	})
	mux.HandleFunc("GET /start", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"argv": p.argv, "env": environment()})
	})
	mux.HandleFunc("POST /output", func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(p.output, r.Body)
	})
	mux.HandleFunc("POST /exit/{status}", func(_ http.ResponseWriter, r *http.Request) {
		status, err := strconv.Atoi(r.PathValue("status"))
		if err != nil {
			status = 1
		}
		select {
		case p.ended <- status:
		default:
		}
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(listener) }() // until it is closed
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return "http://" + listener.Addr().String(), nil
}

// environment returns what the page may know.
func environment() map[string]string {
	env := map[string]string{}
	for _, v := range os.Environ() {
		if name, value, _ := strings.Cut(v, "="); strings.HasPrefix(name, "BATCHGEMM_") {
			env[name] = value
		}
	}
	return env
}
