package dispatch

import (
	"context"
	"sync"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner"
)

// WarmOptions say for which plans Warm compiles kernels.
type WarmOptions struct {
	// Plans are the options that plans will have: their types, epilogues and so on. None stand for
	// the zero Options.
	Plans []planner.Options
	// Transpositions are those of problems to come. None stand for problems that transpose
	// neither A nor B.
	Transpositions []planner.Transposition
	// Progress, if not nil, is called with the number of kernels that are ready and of all, from
	// 0 on, one call at a time, on other goroutines than the caller's. It must not call the Device.
	Progress func(ready, all int)
}

// Warm compiles every kernel that plans of the device with some options may choose, ragged ones too,
// whatever the sizes of their problems are, so that no Prepare, PrepareRagged, Update or Run has to. What
// is compiled already takes no time.
//
// Work goes on meanwhile: on WebGPU a call may wait for a kernel that the driver has in its cache,
// 5 to 25 ms where a core is free. Warm ends with ctx's error when that ends, between kernels,
// and keeps what is ready then: Warmed has the tile shapes that plans may have, and
// planner.Options.Kernels keeps plans to them.
//
// On WebGPU it compiles for some 100 tile shapes and variants of each options and transposition, as
// many at once as there are cores, up to 4. On Mesa's lavapipe one takes 0.1 to 2 s, and 0.01 s
// where the driver finds it in its own cache, which Mesa's, NVIDIA's, AMD's and Intel's keep from one
// run of a program to the next. On CUDA and HIP kernels come compiled and are only loaded, and on
// the CPU there is nothing to do.
func (d *Device) Warm(ctx context.Context, o WarmOptions) error {
	w, err := d.newWarming(o)
	if err != nil {
		return err
	}
	if err := d.acquire(); err != nil {
		return err
	}
	defer d.release()
	return d.until(ctx, func(ctx context.Context) error {
		w.progress(0)
		return d.driver.Compile(ctx, w.kernels, w.done)
	})
}

// Warmed is the tile shapes of which Warm has compiled all kernels so far, for
// planner.Options.Kernels. It is the same until Warm has compiled more.
func (d *Device) Warmed() *planner.KernelSet { return d.warmed.Load() }

// warming is what a call of Warm has to do. Its methods are called from any goroutine.
type warming struct {
	device  *Device
	kernels []encoding.Kernel // each once
	report  func(ready, all int)

	mu     sync.Mutex
	ready  int
	groups []planner.KernelGroup
	left   []int   // of each group, kernels that are not ready
	of     [][]int // the groups of each kernel
}

func (d *Device) newWarming(o WarmOptions) (*warming, error) {
	w := &warming{device: d, report: o.Progress}
	if len(o.Plans) == 0 {
		o.Plans = []planner.Options{{}}
	}
	if len(o.Transpositions) == 0 {
		o.Transpositions = []planner.Transposition{{}}
	}
	at := map[encoding.Kernel]int{}
	for _, options := range o.Plans {
		for _, t := range o.Transpositions {
			groups, err := d.planner.Kernels(options, t)
			if err != nil {
				return nil, err
			}
			for _, g := range groups {
				for _, k := range g.Kernels {
					i, known := at[k]
					if !known {
						i = len(w.kernels)
						at[k], w.kernels, w.of = i, append(w.kernels, k), append(w.of, nil)
					}
					w.of[i] = append(w.of[i], len(w.groups))
				}
				w.groups, w.left = append(w.groups, g), append(w.left, len(g.Kernels))
			}
		}
	}
	return w, nil
}

// done takes note of a kernel that is ready, and of groups of which it was the last.
func (w *warming) done(i int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.of[i] {
		if w.left[g]--; w.left[g] == 0 {
			w.device.addWarmed(w.groups[g])
		}
	}
	w.ready++
	w.progress(w.ready)
}

func (w *warming) progress(ready int) {
	if w.report != nil {
		w.report(ready, len(w.kernels))
	}
}

// addWarmed adds a group that calls of Warm at the same time may add too.
func (d *Device) addWarmed(g planner.KernelGroup) {
	for {
		before := d.warmed.Load()
		after := before.With(g)
		if after.Len() == before.Len() || d.warmed.CompareAndSwap(before, after) {
			return
		}
	}
}
