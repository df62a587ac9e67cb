package dispatch

import (
	"context"
	"sync"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/selfcheck"
	"github.com/batchgemm/batchgemm/planner"
)

// WarmOptions say for which plans Warm compiles kernels.
type WarmOptions struct {
	// Plans are the options of future plans: types, epilogues and so on. An empty list means the zero
	// Options.
	Plans []planner.Options
	// Transpositions are those of future problems. An empty list means that neither A nor B is transposed.
	Transpositions []planner.Transposition
	// All: every kernel that plans may choose, so that also plans without planner.Options.Kernels compile
	// nothing. On WebGPU that takes 5 to 10 times as long.
	All bool
	// Progress, if not nil, is called with the number of ready kernels, from 0 on, and the number of all.
	// Calls come one at a time, on other goroutines. Progress must not call the Device.
	Progress func(ready, all int)
}

// Warm compiles kernels before plans need them, for all sizes and also for ragged plans. Plans with Warmed in
// planner.Options.Kernels then compile nothing, in Prepare, PrepareRagged, Update and Run. Kernels that are
// already compiled take no time. A layer of experts takes the options of its products: PrepareExperts then
// compiles nothing if one of Plans has an epilogue with ScatterRows and Weights, as its second product.
//
// On WebGPU these are few kernels, of 8 tile shapes, for each of the options and transpositions. Plans by
// them are predicted to take 0.7 % longer in the mean than by all tile shapes (docs/webgpu.md). Plans without
// Options.Kernels still take the best of all, and compile what is missing; WarmOptions.All compiles that too.
// Warm compiles as many at once as there are cores, up to 4. On Mesa's lavapipe a kernel takes 0.1 to 1.5 s,
// or 0.01 s if it is in the driver's cache. The caches of Mesa, NVIDIA, AMD and Intel persist between runs of
// a program. On CUDA and HIP, kernels are compiled in advance and only loaded, all of them. On the CPU there
// is nothing to do.
//
// If a driver compiles the kernels, Warm runs them on small batches, once for each version of the driver.
// Plans avoid those that are wrong, and the logger of SetLogger gets the device, its driver, the kernels and
// the first wrong element.
//
// Other calls may run meanwhile. On WebGPU a call may wait for a kernel from the driver's cache, 5 to 25 ms
// if a core is free. When ctx ends, Warm ends with its error, between kernels, and keeps what is ready:
// Warmed has the tile shapes that plans may then use.
func (d *Device) Warm(ctx context.Context, o WarmOptions) error {
	w, err := d.newWarming(o)
	if err != nil {
		return err
	}
	if err := d.acquire(); err != nil {
		return err
	}
	defer d.release()
	defer d.checks.keep()
	return d.until(ctx, func(ctx context.Context) error {
		w.progress(0)
		return d.driver.Compile(ctx, w.kernels, func(i int) { w.done(ctx, i) })
	})
}

// Warmed returns the tile shapes whose kernels Warm has all compiled so far, for planner.Options.Kernels. It
// is the same value until Warm has compiled more.
func (d *Device) Warmed() *planner.KernelSet { return d.warmed.Load() }

// warming is the work of a call of Warm. Its methods may be called from any goroutine.
type warming struct {
	device  *Device
	kernels []encoding.Kernel // each once
	report  func(ready, all int)

	mu     sync.Mutex
	ready  int
	groups []selfcheck.Case
	left   []int   // kernels of each group that are not ready
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
			groups, err := d.planner.Kernels(options, t, !o.All)
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
				w.groups = append(w.groups, selfcheck.Case{Options: options, Transposition: t, Group: g})
				w.left = append(w.left, len(g.Kernels))
			}
		}
	}
	return w, nil
}

// done records a kernel that is ready. It checks the groups that are complete with it.
func (w *warming) done(ctx context.Context, i int) {
	for _, g := range w.complete(i) {
		if w.device.checks.right(ctx, w.device, &w.groups[g]) {
			w.device.addWarmed(w.groups[g].Group)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ready++
	w.progress(w.ready)
}

// complete returns the groups of which a kernel was the last.
func (w *warming) complete(i int) (groups []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.of[i] {
		if w.left[g]--; w.left[g] == 0 {
			groups = append(groups, g)
		}
	}
	return groups
}

func (w *warming) progress(ready int) {
	if w.report != nil {
		w.report(ready, len(w.kernels))
	}
}

// addWarmed adds a group. Concurrent calls of Warm may add it too.
func (d *Device) addWarmed(g planner.KernelGroup) {
	for {
		before := d.warmed.Load()
		after := before.With(g)
		if after.Len() == before.Len() || d.warmed.CompareAndSwap(before, after) {
			return
		}
	}
}
