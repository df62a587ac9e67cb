package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// software is what makes Chromium offer WebGPU without a GPU.
const software = "--enable-unsafe-webgpu --use-webgpu-adapter=swiftshader"

// chromium finds the browser.
func chromium() (string, error) {
	if own := os.Getenv("CHROMIUM"); own != "" {
		return exec.LookPath(own)
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("there is no Chromium; on Debian: apt-get install chromium")
}

// browse opens a page in a browser with a profile of its own. gone gets one value when the browser has
// ended, as it does with ctx, and nothing of it is left.
func browse(ctx context.Context, executable, address string) (gone chan error, err error) {
	profile, err := os.MkdirTemp("", "browserexec-")
	if err != nil {
		return nil, err
	}
	flags := append(strings.Fields(cmp.Or(os.Getenv("CHROMIUM_FLAGS"), software)),
		"--headless=new", "--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-dev-shm-usage",
		"--user-data-dir="+profile)
	if os.Getuid() == 0 {
		flags = append(flags, "--no-sandbox") // Chromium refuses to run as root with it
	}
	var log bytes.Buffer // Chromium prints warnings of the desktop that is not there
	cmd := exec.CommandContext(ctx, executable, append(flags, address)...)
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.Env = append(os.Environ(), "CHROMIUM_FLAGS=") // Debian's script reads it too
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(profile))
	}
	gone = make(chan error, 1)
	go func() {
		err := cmd.Wait()
		for range 20 { // its processes end after it, and may still write
			if os.RemoveAll(profile) == nil {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		gone <- fmt.Errorf("%v\n%s", err, log.Bytes())
	}()
	return gone, nil
}
