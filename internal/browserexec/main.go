// Browserexec runs a program that was compiled with GOOS=js GOARCH=wasm in headless Chromium, with
// its arguments, output and exit status. It is for "go test":
//
//	go build -o bin/browserexec ./internal/browserexec
//	GOOS=js GOARCH=wasm go test -exec "$PWD/bin/browserexec" ./webgpu
//
// The page gets the environment variables that begin with BATCHGEMM_. WebGPU runs on Chromium's software
// adapter, which needs no GPU. CHROMIUM names another executable, for example on a machine with a GPU, and
// CHROMIUM_FLAGS other flags for WebGPU. There is no file system.
//
// The exit status is also 1 if the page ends by itself, and 2 for wrong use or without a browser.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/batchgemm/batchgemm/internal/browser"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	status, err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "browserexec:", err)
		status = 2
	}
	os.Exit(status)
}

func run(ctx context.Context, args []string, output io.Writer) (status int, err error) {
	if len(args) == 0 {
		return 0, errors.New("usage: browserexec program.wasm [arguments]")
	}
	executable, err := browser.Find()
	if err != nil {
		return 0, err
	}
	p, err := newPage(args, output)
	if err != nil {
		return 0, err
	}
	address, err := p.serve(ctx)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	gone, err := browser.Start(ctx, executable, append(browser.WebGPU(), address))
	if err != nil {
		return 0, err
	}
	select {
	case status = <-p.ended:
	case err = <-gone:
		return 1, fmt.Errorf("the browser ended before the program: %w", err)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	cancel()
	<-gone
	return status, err
}
