package dispatch

import (
	"context"
	"sync/atomic"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/selfcheck"
	"github.com/batchgemm/batchgemm/planner"
)

// checks are what is known of the kernels of a device that its driver compiles.
type checks struct {
	results *selfcheck.Results
	refused *atomic.Pointer[planner.KernelSet] // kernels that the planner avoids
}

// newChecks returns nil for a device whose kernels come compiled.
func newChecks(d driver.Device, p *planner.Planner, refused *atomic.Pointer[planner.KernelSet]) *checks {
	compiler, ok := d.(backend.Compiler)
	if !ok {
		return nil
	}
	c := &checks{selfcheck.Load(compiler), refused}
	for _, g := range c.results.Refused(p) {
		c.refuse(g)
	}
	return c
}

// right reports whether plans may use kernels that are compiled. It runs them, unless that was done before,
// and refuses those that are wrong.
func (c *checks) right(ctx context.Context, d *Device, kernels *selfcheck.Case) bool {
	if c == nil {
		return true
	}
	wrong, known := c.results.Known(kernels)
	if !known {
		err := selfcheck.Run(ctx, d.driver, d.planner, kernels)
		if wrong = selfcheck.AsWrong(err); err != nil && wrong == nil {
			backend.Logger().Warn("kernels were not checked", "backend", d.info.Backend,
				"device", d.info.Name, "tile", kernels.Tile().Name, "error", err)
			return ctx.Err() == nil
		}
		c.results.Add(kernels, wrong)
	}
	if wrong == nil {
		return true
	}
	c.refuse(kernels.Group)
	backend.Logger().Error("kernels compute wrong results, and are not used", "backend", d.info.Backend,
		"device", d.info.Name, "driver", d.info.Driver, "kernels", wrong.Kernels, "first", wrong.Found)
	return false
}

// refuse keeps plans from kernels.
func (c *checks) refuse(g planner.KernelGroup) {
	for {
		before := c.refused.Load()
		if c.refused.CompareAndSwap(before, before.With(g)) {
			return
		}
	}
}

// keep writes what was found. Without a file, the next process checks again.
func (c *checks) keep() {
	if c == nil {
		return
	}
	if err := c.results.Save(); err != nil {
		backend.Logger().Warn("results of checks of kernels are not kept", "error", err)
	}
}
