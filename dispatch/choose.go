package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Skip says why Open or OpenAll did not take a backend, or one of its devices.
type Skip struct {
	Backend string
	Device  *Info // nil: the whole backend
	Err     error // the reason; it wraps ErrUnavailable if no option could change it
}

// String returns the reason in one line.
func (s Skip) String() string {
	if s.Device == nil {
		return s.Backend + ": " + s.Err.Error()
	}
	return fmt.Sprintf("%s: device %d (%s): %v", s.Backend, s.Device.Index, s.Device.Name, s.Err)
}

// candidate is a device that may be opened.
type candidate struct {
	driver driver.Driver
	info   Info
}

// found is what a backend has: devices to try in this order, and others that are opened only by name.
type found struct {
	driver driver.Driver
	take   []candidate
	left   []Skip
}

// find asks a backend for its devices. It takes software devices only of the fixed backend and of the last
// one, if there is nothing better.
func (s *selection) find(ctx context.Context, d driver.Driver) (*found, error) {
	infos, err := d.Devices(ctx)
	if err != nil {
		return nil, err
	}
	if s.device != nil && (*s.device < 0 || *s.device >= len(infos)) {
		return nil, invalid.Errorf("no device %d (known: %s)", *s.device, names(infos))
	}
	gpu := slices.ContainsFunc(infos, func(i Info) bool {
		return i.Kind != KindSoftware && s.lacks(&i) == nil
	})
	software := s.backend != "" || d == s.drivers[len(s.drivers)-1]
	f := &found{driver: d}
	for i := range infos {
		var why error
		switch {
		case s.device != nil && i != *s.device:
			why = fmt.Errorf("device %d was asked for", *s.device)
		case s.lacks(&infos[i]) != nil:
			why = s.lacks(&infos[i])
		case infos[i].Kind != KindSoftware:
		case s.gpus:
			why = fmt.Errorf("%w: software, where a GPU is required", ErrUnavailable)
		case s.device == nil && gpu:
			why = errors.New("software, and there is a GPU")
		case !software:
			why = fmt.Errorf("software, which is slower than the cpu backend; %s=%s takes it",
				backendEnv, d.Name())
		}
		if why == nil {
			f.take = append(f.take, candidate{d, infos[i]})
		} else {
			f.left = append(f.left, Skip{d.Name(), &infos[i], why})
		}
	}
	return f, nil
}

// lacks says which of the types of elements a device does not multiply, if any.
func (s *selection) lacks(i *Info) error {
	for _, of := range s.types {
		if of != element.F32 && !slices.Contains(i.Planner.Types, of) {
			return fmt.Errorf("%w: %s has no kernels for elements of %s", ErrUnavailable, i.Name, of)
		}
	}
	return nil
}

// names lists devices as "0 NVIDIA H200, 1 NVIDIA H200".
func names(infos []Info) string {
	all := make([]string, len(infos))
	for i := range infos {
		all[i] = fmt.Sprintf("%d %s", infos[i].Index, infos[i].Name)
	}
	return strings.Join(all, ", ")
}

// choose starts the fixed backend, or the first one that is available. If start finds nothing to start, it
// returns what it skipped.
func choose[T any](ctx context.Context, s *selection, start func(f *found, skipped []Skip) (*T, []Skip,
	error)) (*T, error) {
	var skipped []Skip
	for _, d := range s.drivers {
		if s.backend != "" && d.Name() != s.backend {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f, err := s.find(ctx, d)
		if err == nil {
			var started *T
			if started, skipped, err = start(f, skipped); started != nil {
				return started, nil
			}
			if err == nil {
				continue
			}
		}
		if s.backend != "" || !errors.Is(err, ErrUnavailable) {
			return nil, fmt.Errorf("%s: %w", d.Name(), err)
		}
		skipped = append(skipped, Skip{Backend: d.Name(), Err: err})
	}
	return nil, &allSkipped{skipped}
}

// openFirst opens the first available device and completes the list of skipped ones. It returns nil and no
// error if none is available.
func openFirst(ctx context.Context, from []candidate, skipped []Skip) (*Device, []Skip, error) {
	for i := range from {
		c := &from[i]
		made, err := c.driver.Open(ctx, c.info.Index)
		if err == nil {
			return newDevice(made, append(skipped, notNeeded(from[i+1:], c)...)), nil, nil
		}
		if !errors.Is(err, ErrUnavailable) {
			return nil, nil, err
		}
		skipped = append(skipped, Skip{c.driver.Name(), &c.info, err})
	}
	return nil, skipped, nil
}

// notNeeded returns Skips for the devices after the opened one.
func notNeeded(rest []candidate, opened *candidate) (skips []Skip) {
	for i := range rest {
		skips = append(skips, Skip{rest[i].driver.Name(), &rest[i].info,
			fmt.Errorf("%s device %d (%s) was opened", opened.driver.Name(), opened.info.Index,
				opened.info.Name)})
	}
	return skips
}

// openOfAll asks all backends before it opens one.
func (s *selection) openOfAll(ctx context.Context) (*Device, error) {
	var all []candidate
	var skipped []Skip
	_, err := choose(ctx, s, func(f *found, before []Skip) (*Device, []Skip, error) {
		all, skipped = append(all, f.take...), append(before, f.left...)
		return nil, skipped, nil
	})
	if none := (*allSkipped)(nil); errors.As(err, &none) {
		skipped = none.skips // including those of unavailable backends
	} else {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return s.rank(a.info.Kind) - s.rank(b.info.Kind) })
	if s.adapter == nil {
		return tryAll(ctx, all, skipped)
	}
	// The caller may also choose what Open would skip.
	list := slices.Clone(all)
	for _, skip := range skipped {
		if skip.Device != nil && !errors.Is(skip.Err, ErrUnavailable) {
			list = append(list, candidate{s.named(skip.Backend), *skip.Device})
		}
	}
	infos := make([]Info, len(list))
	for i := range list {
		infos[i] = list[i].info
	}
	i := (*s.adapter)(infos)
	switch {
	case i < 0:
		return tryAll(ctx, all, skipped)
	case i >= len(list):
		return nil, invalid.Errorf("WithAdapter: chose %d of %d devices", i, len(list))
	}
	return openChosen(ctx, list, i, skipped)
}

// openChosen opens the one that the caller chose from a list.
func openChosen(ctx context.Context, list []candidate, i int, skipped []Skip) (*Device, error) {
	c := list[i]
	made, err := c.driver.Open(ctx, c.info.Index)
	if err != nil {
		return nil, fmt.Errorf("%s: device %d (%s): %w", c.driver.Name(), c.info.Index, c.info.Name, err)
	}
	skipped = slices.DeleteFunc(skipped, func(s Skip) bool {
		return s.Device != nil && !errors.Is(s.Err, ErrUnavailable)
	})
	return newDevice(made, append(skipped, notNeeded(slices.Delete(list, i, i+1), &c)...)), nil
}

// tryAll is openFirst without an alternative.
func tryAll(ctx context.Context, from []candidate, skipped []Skip) (*Device, error) {
	d, skipped, err := openFirst(ctx, from, skipped)
	if d == nil && err == nil {
		err = &allSkipped{skipped}
	}
	return d, err
}

// named returns the backend of that name, which exists.
func (s *selection) named(backend string) driver.Driver {
	return s.drivers[slices.IndexFunc(s.drivers, func(d driver.Driver) bool { return d.Name() == backend })]
}

// rank returns the place of a kind in the order that WithPower asks for.
func (s *selection) rank(k Kind) int {
	order := []Kind{KindDiscrete, KindOther, KindIntegrated, KindSoftware}
	switch s.power {
	case lowPower:
		order[0], order[2] = order[2], order[0]
	case "":
		if k != KindSoftware {
			return 0
		}
	}
	if i := slices.Index(order, k); i >= 0 {
		return i
	}
	return slices.Index(order, KindOther)
}

// allSkipped is the error if no backend is left.
type allSkipped struct{ skips []Skip }

func (e *allSkipped) Error() string {
	reasons := make([]string, len(e.skips))
	for i := range e.skips {
		reasons[i] = e.skips[i].String()
	}
	return "no device: " + strings.Join(reasons, "; ")
}

func (e *allSkipped) Unwrap() error { return ErrUnavailable }
