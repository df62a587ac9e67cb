// Package selfcheck runs the kernels of a device on small batches, because drivers miscompile shaders.
// Results must be exact, as far as the epilogue allows. Around C lie canaries, and beyond A and B lies NaN.
package selfcheck

import (
	"context"
	"errors"
	"slices"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner"
)

// Case is a group of kernels, with the options and transposition for which planner.Planner.Kernels lists it.
type Case struct {
	Options       planner.Options
	Transposition planner.Transposition
	Group         planner.KernelGroup
}

// Tile returns the tile shape of the group.
func (c *Case) Tile() *tile.Shape { return c.Group.Kernels[0].Tile }

// Wrong says what is wrong with a group.
type Wrong struct {
	Kernels string // that ran
	Found   string // the first wrong element
}

func (w *Wrong) Error() string { return w.Kernels + ": " + w.Found }

// Run compares what the kernels of a case compute with a float64 reference. It returns a *Wrong if they
// differ. All other errors say why there was no check.
func Run(ctx context.Context, d driver.Device, p *planner.Planner, c *Case) error {
	if c.Options.Epilogue.Pointers.Any() {
		return nil // they address the caller's memory
	}
	s := session{device: d}
	defer s.close()
	for _, dealing := range c.dealings() {
		for _, unit := range []int{1, 16} { // loads of an element, and of 16 bytes
			if err := s.add(ctx, p, c, dealing, unit); err != nil {
				return err
			}
		}
	}
	if c.free() && c.Options.Epilogue == (planner.Epilogue{}) {
		if err := s.addRagged(ctx, p, c); err != nil {
			return err
		}
	}
	if err := d.Submit(ctx, s.runs); err != nil {
		return err
	}
	for i := range s.jobs {
		if err := s.jobs[i].check(ctx, s.runs[i].C); err != nil {
			return err
		}
	}
	return nil
}

// AsWrong returns what an error of Run says of the kernels, nil if they were not checked.
func AsWrong(err error) (w *Wrong) {
	errors.As(err, &w)
	return w
}

// dealing says what workers have: several tiles, or also parts of tiles. The zero value is one tile each.
type dealing struct{ several, parts bool }

// dealings returns those that use all kernels of the group.
func (c *Case) dealings() []dealing {
	has := func(is func(k *encoding.Kernel) bool) bool {
		return slices.ContainsFunc(c.Group.Kernels, func(k encoding.Kernel) bool { return is(&k) })
	}
	all := []dealing{{}}
	if !c.free() {
		return all
	}
	cuts := has(func(k *encoding.Kernel) bool { return k.Fixup })
	if cuts {
		all = append(all, dealing{true, true})
	}
	if has(func(k *encoding.Kernel) bool { return k.Loop && !k.Split }) {
		all = append(all, dealing{several: true})
		if cuts {
			all = append(all, dealing{parts: true})
		}
	}
	return all
}

// deal is planner.CustomSchedule.Deal. Two parts follow each other on a worker.
func (d dealing) deal(w planner.Work) (workers [][]planner.Part) {
	for _, t := range w.Tiles {
		parts := []planner.Part{{Tile: t.Index, To: t.Steps}}
		if d.parts && t.Steps > 2 {
			parts = []planner.Part{{Tile: t.Index, To: 1}, {Tile: t.Index, From: 1, To: t.Steps - 1},
				{Tile: t.Index, From: t.Steps - 1, To: t.Steps}}
		}
		for _, part := range parts {
			if last := len(workers) - 1; d.several && last >= 0 && len(workers[last]) == 1 {
				workers[last] = append(workers[last], part)
			} else {
				workers = append(workers, []planner.Part{part})
			}
		}
	}
	return workers
}

// free reports whether the options leave the schedule to the planner. Sizes may then also be on the device.
func (c *Case) free() bool {
	o := &c.Options
	return o.Schedule == "" && o.Custom == nil && o.Rule != planner.RuleZhang2025
}

// options returns those of a plan that has kernels of the group only.
func (c *Case) options(d dealing) planner.Options {
	o := c.Options
	o.Tile, o.Kernels = c.Tile().Name, new(planner.KernelSet).With(c.Group)
	if c.free() {
		o.Custom = &planner.CustomSchedule{Name: "self-check", Deal: d.deal}
	}
	if o.Epilogue.GatherRows > 0 {
		o.Epilogue.GatherRows = 37
	}
	if o.Epilogue.ScatterRows > 0 {
		o.Epilogue.ScatterRows = c.Tile().TM + 9
	}
	return o
}
