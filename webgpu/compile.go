//go:build cgo && !nowebgpu && ((linux && amd64) || darwin || (windows && amd64))

package webgpu

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/batchgemm/batchgemm/internal/encoding"
)

// The library makes one pipeline at a time in an instance, and does nothing else meanwhile. Drivers cache
// what they compile, across devices and processes (on lavapipe a kernel takes 0.1 to 2 s the first time, and
// 10 to 30 ms later). So helpers compile kernels first, several at once, on other devices of the same
// adapter with an instance each. Then the device itself compiles them again, which takes little time.
const (
	// maxHelpers bounds these devices. More would take cores from the program.
	maxHelpers = 4
	// After this many kernels, helpers stop if they do not help: the second compilation took more than half
	// of the first, for more than half of the kernels. The driver then has no cache.
	trials = 4
	helped = 50 * time.Millisecond
	// share is how many kernels a helper compiles before it is closed. Mesa writes all of them to its cache
	// only then. Opening a helper takes 10 ms on lavapipe.
	share = 16
)

// helpers compile for a device. Calls of Compile share them, and what they learn about the driver.
type helpers struct {
	places chan struct{} // has a token for each that works

	mu            sync.Mutex
	texts         map[string]chan struct{} // theirs; closed when the driver's cache has the text
	tried         int
	first, second time.Duration // time on helpers, and then on the device
}

func newHelpers() helpers {
	return helpers{places: make(chan struct{}, min(runtime.GOMAXPROCS(0), maxHelpers)),
		texts: map[string]chan struct{}{}}
}

// help reports whether helpers save time.
func (h *helpers) help() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tried < trials || h.second < h.first/2 || h.second < helped*time.Duration(h.tried)
}

// claim takes a text that no helper has compiled yet. Its channel is nil if one has, or does.
func (h *helpers) claim(text string) chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.texts[text] != nil {
		return nil
	}
	h.texts[text] = make(chan struct{})
	return h.texts[text]
}

// await waits for a text that a helper compiles.
func (h *helpers) await(ctx context.Context, text string) {
	h.mu.Lock()
	done := h.texts[text]
	h.mu.Unlock()
	if done != nil {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
}

// compileFor compiles kernels of a device on another one. It ignores errors: they show again on the device
// itself, and without a helper compilation only takes longer.
func (h *helpers) compileFor(ctx context.Context, d *device, kernels []encoding.Kernel) {
	select {
	case h.places <- struct{}{}:
	case <-ctx.Done():
		return
	}
	var helper *device
	var claimed []chan struct{}
	defer func() {
		if helper != nil {
			helper.Close()
		}
		for _, done := range claimed {
			close(done)
		}
		<-h.places
	}()
	for _, k := range kernels {
		text, err := d.Text(k)
		if err != nil || d.compiled(k) {
			continue
		}
		done := h.claim(text)
		if done == nil {
			continue
		}
		claimed = append(claimed, done)
		if helper == nil {
			if helper, err = openDevice(ctx, d.info, 0); err != nil {
				helper = nil
				return
			}
		}
		start := time.Now()
		_ = helper.compileAndRun(ctx, k)
		h.note(&h.first, time.Since(start))
	}
}

func (h *helpers) note(of *time.Duration, took time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*of += took
}

// compilation is a call of Compile.
type compilation struct {
	dev     *device
	kernels []encoding.Kernel
	done    func(i int)
	workers int

	mu     sync.Mutex
	next   int // of kernels
	failed error
}

func (d *device) Compile(ctx context.Context, kernels []encoding.Kernel, done func(i int)) error {
	c := newCompilation(d, kernels, done)
	var group sync.WaitGroup
	for range c.workers {
		group.Go(func() { c.work(ctx) })
	}
	group.Wait()
	if c.failed != nil {
		return c.failed
	}
	return d.state.Ready(ctx)
}

func newCompilation(d *device, kernels []encoding.Kernel, done func(i int)) *compilation {
	return &compilation{dev: d, kernels: kernels, done: done,
		workers: min(cap(d.helpers.places), len(kernels))}
}

// work compiles kernels until none are left.
func (c *compilation) work(ctx context.Context) {
	for n := trials; ; n = share {
		first, end := c.take(ctx, n)
		if first == end {
			return
		}
		if h := &c.dev.helpers; h.help() {
			h.compileFor(ctx, c.dev, c.kernels[first:end])
		}
		for i := first; i < end && c.finish(ctx, i); i++ {
		}
	}
}

// take returns the next kernels, at most n, and no more than the other workers get. None: all are taken.
func (c *compilation) take(ctx context.Context, n int) (first, end int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first = c.next
	if c.failed == nil && ctx.Err() == nil {
		left := len(c.kernels) - first
		c.next += min(n, (left+c.workers-1)/c.workers)
	}
	return first, c.next
}

// finish compiles a kernel on the device, after the helper that may have its text, and reports whether it is
// ready.
func (c *compilation) finish(ctx context.Context, i int) bool {
	h := &c.dev.helpers
	if text, err := c.dev.Text(c.kernels[i]); err == nil {
		h.await(ctx, text)
	}
	start := time.Now()
	err := c.dev.compileAndRun(ctx, c.kernels[i])
	h.mu.Lock()
	h.second += time.Since(start)
	h.tried++
	h.mu.Unlock()
	if err == nil {
		c.done(i)
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == nil {
		c.failed = err
	}
	return false
}
