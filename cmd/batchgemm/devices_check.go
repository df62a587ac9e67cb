package main

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/selfcheck"
	"github.com/batchgemm/batchgemm/internal/version"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// kernelCheck is what devices --check found on a device.
type kernelCheck struct {
	Kernels int               `json:"kernels"` // that ran
	Seconds float64           `json:"seconds"` // with compilation
	Wrong   []selfcheck.Wrong `json:"wrong,omitempty"`
	Failure string            `json:"failure,omitempty"` // why not all were checked
}

// checkedOptions are those of plans whose kernels are checked: of all types of elements but those that need
// scales.
func checkedOptions(d *planner.Device) (all []planner.Options) {
	for _, t := range append([]element.Type{element.F32}, d.Types...) {
		if !elemtype.Bits4(t) {
			all = append(all, planner.Options{TypeA: t, TypeC: elemtype.TypesC(t)[0]})
		}
	}
	return all
}

// checkDevices checks the kernels of all devices of a listing.
func (l *listing) checkDevices(cmd *cobra.Command, options func(*planner.Device) []planner.Options) error {
	for _, by := range dispatch.Backends() {
		at := slices.IndexFunc(l.Backends, func(b backendListing) bool { return b.Backend == by.Name() })
		for i := range l.Backends[at].Devices {
			d := &l.Backends[at].Devices[i]
			d.Check = &kernelCheck{}
			if err := d.Check.device(cmd, by, &d.Info, options); err != nil {
				d.Check.Failure = err.Error()
			}
			if err := cmd.Context().Err(); err != nil {
				return err
			}
		}
	}
	return nil
}

// device checks the kernels of a device.
func (k *kernelCheck) device(cmd *cobra.Command, by driver.Driver, info *dispatch.Info,
	options func(*planner.Device) []planner.Options) (err error) {
	start := time.Now()
	d, err := by.Open(cmd.Context(), info.Index)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, d.Close()) }()
	defer func() { k.Seconds = time.Since(start).Seconds() }()
	p := planner.New(&info.Planner)
	cases, err := casesOf(p, options(&info.Planner))
	if err != nil {
		return err
	}
	bar := newProgress(cmd, len(cases))
	defer bar.stop()
	var results *selfcheck.Results
	if compiler, ok := d.(backend.Compiler); ok {
		results = selfcheck.Load(compiler)
	}
	for i := range cases {
		c := &cases[i]
		bar.next(fmt.Sprintf("%s %d, %s", info.Backend, info.Index, c.Tile().Name))
		wrong, err := checkCase(cmd.Context(), d, p, c)
		if err != nil {
			return err
		}
		k.Kernels += len(c.Group.Kernels)
		if wrong != nil {
			k.Wrong = append(k.Wrong, *wrong)
		}
		if results != nil {
			results.Add(c, wrong)
		}
	}
	if results != nil {
		return results.Save()
	}
	return nil
}

// casesOf returns the groups of few kernels for options, with B as it is and transposed.
func casesOf(p *planner.Planner, options []planner.Options) (cases []selfcheck.Case, err error) {
	for _, o := range options {
		for _, t := range []planner.Transposition{{}, {B: true}} {
			groups, err := p.Kernels(o, t, true)
			if err != nil {
				return nil, err
			}
			for _, g := range groups {
				cases = append(cases, selfcheck.Case{Options: o, Transposition: t, Group: g})
			}
		}
	}
	return cases, nil
}

// checkCase compiles the kernels of a case and runs them.
func checkCase(ctx context.Context, d driver.Device, p *planner.Planner, c *selfcheck.Case) (*selfcheck.Wrong,
	error) {
	if d.Info().Planner.KernelKind == encoding.KernelsWGSL { // others need no time
		if err := d.Compile(ctx, c.Group.Kernels, func(int) {}); err != nil {
			return nil, err
		}
	}
	err := selfcheck.Run(ctx, d, p, c)
	if wrong := selfcheck.AsWrong(err); wrong != nil {
		return wrong, nil
	}
	return nil, err
}

// notes returns what a report of the check says of a device.
func (k *kernelCheck) notes(d *dispatch.Info) (notes []string) {
	name := fmt.Sprintf("%s %d, %s, driver %s", d.Backend, d.Index, d.Name, d.Driver)
	if k.Failure != "" {
		notes = append(notes, fmt.Sprintf("%s: not all kernels were checked: %s", name, k.Failure))
	}
	for i := range k.Wrong {
		notes = append(notes, fmt.Sprintf("%s: WRONG: %v", name, &k.Wrong[i]))
	}
	return append(notes, fmt.Sprintf("%s: %d kernels ran in %.1f s; groups that are wrong: %d (batchgemm "+
		"%s, %s/%s)", name, k.Kernels, k.Seconds, len(k.Wrong), version.Version, runtime.GOOS,
		runtime.GOARCH))
}

// wrong returns an error if a device has wrong kernels.
func (l *listing) wrong() error {
	wrong := 0
	for _, b := range l.Backends {
		for _, d := range b.Devices {
			if d.Check != nil {
				wrong += len(d.Check.Wrong)
			}
		}
	}
	if wrong == 0 {
		return nil
	}
	return fmt.Errorf("groups of kernels that compute wrong results: %d", wrong)
}
