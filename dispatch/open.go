package dispatch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/batchgemm/batchgemm/dispatch/driver"
)

// BackendEnv names the environment variable that fixes the backend.
const BackendEnv = "BATCHGEMM_BACKEND"

// Errors that calls wrap; see package driver.
var (
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
	backend string // "": the best
	device  *int   // nil: the best
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

// WithDevice chooses among the devices of a fixed backend, by Info.Index.
func WithDevice(index int) Option {
	return func(s *selection) { s.device = &index }
}

// Skip says why Open passed over a backend.
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

// Devices lists every backend, in the order in which Open tries them.
func Devices() []Listing {
	var all []Listing
	for _, d := range backends {
		infos, err := d.Devices()
		all = append(all, Listing{d.Name(), infos, err})
	}
	return all
}

// Open opens the best device. It tries the backends cuda, hip, webgpu and cpu in
// this order and takes the first real GPU. Software adapters of GPU backends are
// passed over, because the cpu backend is faster (some 20 times, against Mesa's
// lavapipe); a fixed backend takes them too.
//
// A backend is passed over only when it is unavailable, which Device.Passed
// reports; any other failure of it is returned. When nothing can be opened the
// error wraps ErrUnavailable and lists all reasons.
func Open(ctx context.Context, options ...Option) (*Device, error) {
	return open(ctx, backends, options)
}

func open(ctx context.Context, drivers []driver.Driver, options []Option) (*Device, error) {
	s := selection{backend: os.Getenv(BackendEnv)}
	for _, o := range options {
		o(&s)
	}
	if s.backend != "" {
		return openFixed(ctx, drivers, s)
	}
	if s.device != nil {
		return nil, fmt.Errorf("device %d of which backend? Fix one by WithBackend or %s", *s.device, BackendEnv)
	}
	var passed []Skip
	for i, d := range drivers {
		device, err := openBest(ctx, d, i == len(drivers)-1)
		if err == nil {
			return newDevice(device, passed), nil
		}
		if !errors.Is(err, ErrUnavailable) {
			return nil, fmt.Errorf("%s: %w", d.Name(), err)
		}
		passed = append(passed, Skip{d.Name(), err})
	}
	return nil, fmt.Errorf("no backend: %w", &passedOver{passed})
}

// passedOver is the error when no backend is left.
type passedOver struct{ skips []Skip }

func (e *passedOver) Error() string {
	reasons := make([]string, len(e.skips))
	for i, s := range e.skips {
		reasons[i] = s.String()
	}
	return strings.Join(reasons, "; ")
}

func (e *passedOver) Unwrap() error { return ErrUnavailable }

// openBest opens the first real GPU of a backend, or, of the fallback, anything.
func openBest(ctx context.Context, d driver.Driver, fallback bool) (driver.Device, error) {
	infos, err := d.Devices()
	if err != nil {
		return nil, err
	}
	for i, info := range infos {
		if fallback || !info.Software {
			return d.Open(ctx, i)
		}
	}
	return nil, fmt.Errorf("%w: no GPU, only software adapters, which %s=%s takes", ErrUnavailable, BackendEnv, d.Name())
}

// openFixed opens the device that the user asked for.
func openFixed(ctx context.Context, drivers []driver.Driver, s selection) (*Device, error) {
	known := make([]string, len(drivers))
	for i, d := range drivers {
		known[i] = d.Name()
		if d.Name() != s.backend {
			continue
		}
		device, err := openIndex(ctx, d, s.device)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.backend, err)
		}
		return newDevice(device, nil), nil
	}
	return nil, fmt.Errorf("unknown backend %q (known: %s)", s.backend, strings.Join(known, ", "))
}

// openIndex opens a device of one backend; nil means its best.
func openIndex(ctx context.Context, d driver.Driver, index *int) (driver.Device, error) {
	infos, err := d.Devices()
	if err != nil {
		return nil, err
	}
	i := 0
	if index != nil {
		i = *index
	}
	if i < 0 || i >= len(infos) {
		return nil, fmt.Errorf("no device %d (there are %d)", i, len(infos))
	}
	return d.Open(ctx, i)
}
