// Package browser finds headless Chromium and runs it, for tests: with a page that runs by itself, or one
// that is driven like by a visitor.
package browser

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// software makes Chromium offer WebGPU without a GPU.
const software = "--enable-unsafe-webgpu --use-webgpu-adapter=swiftshader"

// WebGPU returns the flags with which Chromium offers WebGPU: CHROMIUM_FLAGS, or those of its software
// adapter.
func WebGPU() []string { return strings.Fields(cmp.Or(os.Getenv("CHROMIUM_FLAGS"), software)) }

// Required reports whether tests must not skip without a browser: BATCHGEMM_REQUIRE has "chromium".
func Required() bool {
	return slices.Contains(strings.Split(os.Getenv("BATCHGEMM_REQUIRE"), ","), "chromium")
}

// Find returns the browser: CHROMIUM, or one of its usual names.
func Find() (string, error) {
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

// Start starts a browser with a separate profile. args are flags and the address to open, files are
// inherited from number 3 on. gone receives one value when the browser has ended, at the latest with ctx,
// and nothing of it is left.
func Start(ctx context.Context, executable string, args []string, files ...*os.File) (gone chan error,
	err error) {
	profile, err := os.MkdirTemp("", "browserexec-")
	if err != nil {
		return nil, err
	}
	flags := []string{"--headless=new", "--no-first-run", "--disable-extensions",
		"--disable-background-networking", "--disable-dev-shm-usage",
		"--user-data-dir=" + profile}
	if os.Getuid() == 0 {
		flags = append(flags, "--no-sandbox") // as root, Chromium needs it
	}
	var log bytes.Buffer // Chromium warns about the missing desktop
	cmd := exec.CommandContext(ctx, executable, append(flags, args...)...)
	cmd.ExtraFiles = files
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.Env = append(os.Environ(), "CHROMIUM_FLAGS=") // Debian's script reads it too
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(profile))
	}
	gone = make(chan error, 1)
	go func() {
		err := cmd.Wait()
		for range 20 { // its processes end later, and may still write
			if os.RemoveAll(profile) == nil {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		gone <- fmt.Errorf("%v\n%s", err, log.Bytes())
	}()
	return gone, nil
}
