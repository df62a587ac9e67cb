package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/invalid"
)

// BackendEnv names the environment variable that fixes the backend.
const BackendEnv = "BATCHGEMM_BACKEND"

// Errors that calls wrap, to be told apart by errors.Is.
var (
	// ErrInvalid: an argument is wrong, and the caller can correct it. Nothing was done.
	// Where it is a problem of a batch, the error is a *planner.ProblemError too.
	ErrInvalid = invalid.Err
	// The others are those of package driver.
	ErrUnavailable = driver.ErrUnavailable
	ErrOutOfMemory = driver.ErrOutOfMemory
	ErrDeviceLost  = driver.ErrDeviceLost
	ErrClosed      = driver.ErrClosed
)

// Info describes a device; Timing is what Time measures.
type (
	Info   = driver.Info
	Timing = driver.Timing
)

// Option changes what Open opens.
type Option func(*selection)

type selection struct {
	drivers []driver.Driver // to choose from
	own     *driver.Driver  // of the caller; nil: none
	backend string          // "": the best
	device  *int            // nil: the best
}

// WithBackend fixes the backend: "cuda", "hip", "webgpu" or "cpu". It overrides
// BATCHGEMM_BACKEND; "" leaves the choice to that and to Open.
func WithBackend(name string) Option {
	return func(s *selection) {
		if name != "" {
			s.backend = name
		}
	}
}

// WithDriver opens devices of a driver of the caller's own, such as one that wraps
// one of Backends and fails on demand. It alone is tried: BATCHGEMM_BACKEND does not
// apply, and WithBackend, if given too, must name it. Devices does not list it. Its
// devices share the GPU by OnStream and Wrap only if they are a driver.Wrapper, which a
// type that embeds driver.Device is not.
func WithDriver(d driver.Driver) Option {
	return func(s *selection) { s.own = &d }
}

// WithDevice chooses among the devices of a fixed backend or of a driver, by Info.Index.
func WithDevice(index int) Option {
	return func(s *selection) { s.device = &index }
}

// Skip says why Open or OpenAll skipped a backend, or a device of it.
type Skip struct {
	Backend string
	Err     error // wraps ErrUnavailable
}

func (s Skip) String() string { return s.Backend + ": " + s.Err.Error() }

// Listing is a backend with its devices, or with the reason why it has none.
type Listing struct {
	Backend string
	Devices []Info
	Err     error
}

// Devices lists every backend that comes with the package, in the order in which
// Open tries them. It fails only when ctx ends.
func Devices(ctx context.Context) ([]Listing, error) {
	var all []Listing
	for _, d := range backends {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		infos, err := d.Devices(ctx)
		all = append(all, Listing{d.Name(), infos, err})
	}
	return all, ctx.Err()
}

// Open opens the best device. It tries the backends cuda, hip, webgpu and cpu in
// this order and takes the first real GPU. Software adapters of GPU backends are
// skipped, because the cpu backend is faster (some 20 times, against Mesa's
// lavapipe); a fixed backend takes them too.
//
// Plans of the device are made by the rates of its kernels that batchgemm tune
// measured, where there are any, and else by those that came with the package
// (BATCHGEMM_CACHE=off: by these in any case).
//
// The cpu backend has GOMAXPROCS threads, or BATCHGEMM_THREADS of them.
//
// A backend is skipped only when it is unavailable, which Device.Skipped
// reports; any other failure of it is returned. When nothing can be opened the
// error wraps ErrUnavailable and lists all reasons.
func Open(ctx context.Context, options ...Option) (*Device, error) {
	return open(ctx, backends, options)
}

func open(ctx context.Context, drivers []driver.Driver, options []Option) (*Device, error) {
	s, err := selected(drivers, options)
	if err != nil {
		return nil, err
	}
	if s.backend == "" && s.device != nil {
		return nil, invalid.Errorf("device %d of which backend? Fix one by WithBackend or %s", *s.device, BackendEnv)
	}
	return choose(ctx, s, func(d driver.Driver, indices []int, skipped []Skip) (*Device, error) {
		device, err := d.Open(ctx, indices[0])
		if err != nil {
			return nil, err
		}
		return newDevice(device, skipped), nil
	})
}

func selected(drivers []driver.Driver, options []Option) (*selection, error) {
	s := &selection{drivers: drivers}
	for _, o := range options {
		o(s)
	}
	switch {
	case s.own == nil:
		s.backend = cmp.Or(s.backend, os.Getenv(BackendEnv))
	case *s.own == nil:
		return nil, invalid.Errorf("WithDriver: the driver is nil")
	default:
		s.drivers = []driver.Driver{*s.own}
		s.backend = cmp.Or(s.backend, (*s.own).Name())
	}
	return s, nil
}

// choose starts the fixed backend, or the first that is available. start gets the
// devices to open, of which there is one at least.
func choose[T any](ctx context.Context, s *selection,
	start func(d driver.Driver, indices []int, skipped []Skip) (*T, error),
) (*T, error) {
	fixed := s.backend != ""
	var skipped []Skip
	var known []string
	for i, d := range s.drivers {
		known = append(known, d.Name())
		if fixed && d.Name() != s.backend {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		indices, err := s.usable(ctx, d, fixed || i == len(s.drivers)-1)
		var started *T
		if err == nil {
			started, err = start(d, indices, skipped)
		}
		if err == nil {
			return started, nil
		}
		if fixed || !errors.Is(err, ErrUnavailable) {
			return nil, fmt.Errorf("%s: %w", d.Name(), err)
		}
		skipped = append(skipped, Skip{d.Name(), err})
	}
	if fixed {
		return nil, invalid.Errorf("unknown backend %q (known: %s)", s.backend, strings.Join(known, ", "))
	}
	return nil, fmt.Errorf("no backend: %w", &allSkipped{skipped})
}

// usable lists the devices of a backend to open: the one asked for, or all real
// GPUs, or, where there is none and software will do, whatever there is.
func (s *selection) usable(ctx context.Context, d driver.Driver, software bool) ([]int, error) {
	infos, err := d.Devices(ctx)
	if err != nil {
		return nil, err
	}
	if s.device != nil {
		if i := *s.device; i < 0 || i >= len(infos) {
			return nil, invalid.Errorf("no device %d (there are %d)", i, len(infos))
		}
		return []int{*s.device}, nil
	}
	var all, gpus []int
	for i, info := range infos {
		all = append(all, i)
		if !info.Software {
			gpus = append(gpus, i)
		}
	}
	switch {
	case len(gpus) > 0:
		return gpus, nil
	case software && len(all) > 0:
		return all, nil
	}
	return nil, fmt.Errorf("%w: no GPU, only software adapters, which %s=%s takes", ErrUnavailable, BackendEnv, d.Name())
}

// allSkipped is the error when no backend is left.
type allSkipped struct{ skips []Skip }

func (e *allSkipped) Error() string {
	reasons := make([]string, len(e.skips))
	for i, s := range e.skips {
		reasons[i] = s.String()
	}
	return strings.Join(reasons, "; ")
}

func (e *allSkipped) Unwrap() error { return ErrUnavailable }
