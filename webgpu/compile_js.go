//go:build !nowebgpu

package webgpu

import (
	"context"
	"sync"

	"github.com/batchgemm/batchgemm/internal/encoding"
)

// atOnce is how many kernels the browser compiles at once, in its own threads.
const atOnce = 4

// helpers: a browser needs none.
type helpers struct{}

func newHelpers() (none helpers) { return none }

func (d *device) Compile(ctx context.Context, kernels []encoding.Kernel, done func(i int)) error {
	var group sync.WaitGroup
	next, failed := make(chan int), make(chan error, atOnce)
	for range min(atOnce, len(kernels)) {
		group.Go(func() {
			for i := range next {
				if err := d.compileAhead(ctx, kernels[i]); err != nil {
					failed <- err
					return
				}
				done(i)
			}
		})
	}
	err := func() error {
		defer close(next)
		for i := range kernels {
			select {
			case next <- i:
			case err := <-failed:
				return err
			}
		}
		return nil
	}()
	group.Wait()
	close(failed)
	if err == nil {
		err = <-failed
	}
	if err == nil {
		err = d.state.Ready(ctx)
	}
	return err
}

// compileAhead makes a kernel's pipeline while other calls go on, and uses it once.
func (d *device) compileAhead(ctx context.Context, k encoding.Kernel) error {
	if err := d.state.Ready(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	known := d.pipelines[k] != nil
	d.mu.Unlock()
	if !known {
		p, err := d.render(k)
		if err != nil {
			return err
		}
		d.mu.Lock()
		if d.pipelines[k] == nil {
			d.pipelines[k] = p
		}
		d.mu.Unlock()
	}
	return d.compileAndRun(ctx, k)
}
