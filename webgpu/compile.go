//go:build cgo && !nowebgpu && ((linux && amd64) || darwin || (windows && amd64))

package webgpu

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/wgsl"
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

// compilation is a call of Compile.
type compilation struct {
	dev     *device
	kernels []encoding.Kernel
	done    func(i int)
	workers int

	mu            sync.Mutex
	next          int                 // of kernels
	claimed       map[string]struct{} // texts that helpers compile
	tried         int
	first, second time.Duration // time on helpers, and then on the device
	failed        error
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
	return &compilation{dev: d, kernels: kernels, done: done, claimed: map[string]struct{}{},
		workers: min(runtime.GOMAXPROCS(0), maxHelpers, len(kernels))}
}

// work compiles kernels until none are left.
func (c *compilation) work(ctx context.Context) {
	for n := trials; ; n = share {
		first, end := c.take(ctx, n)
		if first == end {
			return
		}
		if c.helps() {
			c.help(ctx, c.kernels[first:end])
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

// help compiles kernels on another device. It ignores errors: they show again on the device itself, and
// without a helper compilation only takes longer.
func (c *compilation) help(ctx context.Context, kernels []encoding.Kernel) {
	if !slices.ContainsFunc(kernels, func(k encoding.Kernel) bool { return !c.dev.compiled(k) }) {
		return
	}
	helper, err := openDevice(ctx, c.dev.info, 0)
	if err != nil {
		return
	}
	defer helper.Close()
	for _, k := range kernels {
		if !c.dev.compiled(k) && c.claim(k) {
			start := time.Now()
			_ = helper.compileAndRun(ctx, k)
			c.note(&c.first, time.Since(start))
		}
	}
}

// claim reports whether no helper has compiled the text of a kernel yet.
func (c *compilation) claim(k encoding.Kernel) bool {
	s, err := wgsl.Render(k, c.dev.shader)
	c.mu.Lock()
	defer c.mu.Unlock()
	_, known := c.claimed[s.Source]
	c.claimed[s.Source] = struct{}{}
	return err == nil && !known
}

// helps reports whether helpers save time.
func (c *compilation) helps() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tried < trials || c.second < c.first/2 || c.second < helped*time.Duration(c.tried)
}

func (c *compilation) note(of *time.Duration, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*of += took
}

// finish compiles a kernel on the device, and reports whether it is ready.
func (c *compilation) finish(ctx context.Context, i int) bool {
	start := time.Now()
	err := c.dev.compileAndRun(ctx, c.kernels[i])
	c.note(&c.second, time.Since(start))
	c.mu.Lock()
	c.tried++
	if err != nil && c.failed == nil {
		c.failed = err
	}
	c.mu.Unlock()
	if err == nil {
		c.done(i)
	}
	return err == nil
}
