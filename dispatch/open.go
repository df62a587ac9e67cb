package dispatch

import (
	"cmp"
	"context"
	"os"
	"slices"
	"strings"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/internal/invalid"
)

// backendEnv names the environment variable that fixes the backend.
const backendEnv = "BATCHGEMM_BACKEND"

// Errors that calls wrap, to be told apart by errors.Is.
var (
	// ErrInvalid: an argument is wrong, and the caller can correct it. Nothing was done.
	// Where it is a problem of a batch, the error is a *planner.ProblemError too.
	ErrInvalid = invalid.Err
	// ErrUnavailable: the backend cannot run here (no driver, no device, not in this build).
	ErrUnavailable = hardware.ErrUnavailable
	// ErrOutOfMemory: the device or the host refused memory. Results and buffers are intact.
	ErrOutOfMemory = hardware.ErrOutOfMemory
	// ErrDeviceLost: the device failed, and so does every later call. It can be opened again.
	ErrDeviceLost = hardware.ErrDeviceLost
	// ErrClosed: the object was closed.
	ErrClosed = hardware.ErrClosed
)

// Info describes a device, Kind is what sort of device it is, and Timing is what Time measures.
type (
	Info   = driver.Info
	Kind   = hardware.Kind
	Timing = driver.Timing
)

// The kinds of devices.
const (
	KindDiscrete   = hardware.KindDiscrete   // a GPU with memory of its own
	KindIntegrated = hardware.KindIntegrated // a GPU that shares the host's memory
	KindSoftware   = hardware.KindSoftware   // runs on the CPU
	KindOther      = hardware.KindOther      // a GPU of which no more is known, or a part of a GPU
)

// Option changes what Open opens.
type Option func(*selection)

type selection struct {
	drivers []driver.Driver // to choose from
	own     *driver.Driver  // of the caller; nil: none
	backend string          // "": the best
	device  *int            // nil: the best
	adapter *func([]Info) int
	power   Power
	gpus    bool // alone
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
// devices have no OnStream, Wrap and RunAt.
func WithDriver(d driver.Driver) Option {
	return func(s *selection) { s.own = &d }
}

// WithDevice chooses among the devices of a fixed backend or of a driver, by Info.Index.
func WithDevice(index int) Option {
	return func(s *selection) { s.device = &index }
}

// WithAdapter lets the caller choose. choose gets all devices, of all backends or of the fixed
// one, in the order in which Open would try them, and returns the index of one in this list, or a
// negative number to leave the choice to Open. A device that is chosen so is opened, or Open fails.
// A program that keeps Info.ID among its settings finds the device again by
//
//	dispatch.WithAdapter(func(all []dispatch.Info) int {
//		return slices.IndexFunc(all, func(i dispatch.Info) bool { return i.ID == saved })
//	})
//
// Open has to ask all backends, which takes up to a second the first time.
func WithAdapter(choose func(all []Info) int) Option {
	return func(s *selection) { s.adapter = &choose }
}

// Power is which GPUs Open prefers, of all backends: they are tried by kind, and those of one kind
// in the order of Open.
type Power string

const (
	LowPower  Power = "low"  // integrated GPUs before discrete ones
	HighPower Power = "high" // discrete GPUs before integrated ones
)

// WithPower prefers GPUs of a kind. "" prefers none. Open has to ask all backends then, as with
// WithAdapter.
func WithPower(p Power) Option {
	return func(s *selection) { s.power = p }
}

// RequireGPU has Open fail, with an error that wraps ErrUnavailable, where it would open what runs
// on the CPU.
func RequireGPU() Option {
	return func(s *selection) { s.gpus = true }
}

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
// lavapipe); a fixed backend takes them too. WithPower, WithAdapter, WithDevice and RequireGPU
// choose otherwise. Device.Skipped says what was passed over, and why.
//
// Plans of the device are made by the rates of its kernels that batchgemm tune
// measured, where there are any, and else by those that came with the package
// (BATCHGEMM_CACHE=off: by these in any case).
//
// The cpu backend has GOMAXPROCS threads, or BATCHGEMM_THREADS of them.
//
// A backend that there is not, and a device that a backend which runs here does not have, are ErrInvalid, and
// the error lists those that there are. A backend or device is skipped only when it is unavailable; any other
// failure of it is returned. When nothing can be opened the error wraps ErrUnavailable and lists all reasons.
func Open(ctx context.Context, options ...Option) (*Device, error) {
	return open(ctx, backends, options)
}

func open(ctx context.Context, drivers []driver.Driver, options []Option) (*Device, error) {
	s, err := selected(drivers, options)
	if err != nil {
		return nil, err
	}
	if s.backend == "" && s.device != nil {
		return nil, invalid.Errorf("device %d of which backend? Fix one by WithBackend or %s",
			*s.device, backendEnv)
	}
	if s.adapter != nil && s.device != nil {
		return nil, invalid.Errorf("device %d: WithAdapter chooses the device", *s.device)
	}
	if s.adapter != nil || s.power != "" {
		return s.openOfAll(ctx)
	}
	return choose(ctx, s, func(found *found, skipped []Skip) (*Device, []Skip, error) {
		return openFirst(ctx, found.take, append(skipped, found.left...))
	})
}

func selected(drivers []driver.Driver, options []Option) (*selection, error) {
	s := &selection{drivers: drivers}
	for i, o := range options {
		if o == nil {
			return nil, invalid.Errorf("option %d is nil", i)
		}
		o(s)
	}
	switch {
	case s.own == nil:
		s.backend = cmp.Or(s.backend, os.Getenv(backendEnv))
	case *s.own == nil:
		return nil, invalid.Errorf("WithDriver: the driver is nil")
	default:
		s.drivers = []driver.Driver{*s.own}
		s.backend = cmp.Or(s.backend, (*s.own).Name())
	}
	if s.adapter != nil && *s.adapter == nil {
		return nil, invalid.Errorf("WithAdapter: the function is nil")
	}
	if s.power != "" && s.power != LowPower && s.power != HighPower {
		return nil, invalid.Errorf("WithPower: unknown power %q (known: %s, %s)", s.power,
			LowPower, HighPower)
	}
	return s, s.checkBackend()
}

// checkBackend fails where the fixed backend is none of those to choose from.
func (s *selection) checkBackend() error {
	var known []string
	for _, d := range s.drivers {
		known = append(known, d.Name())
	}
	if s.backend == "" || slices.Contains(known, s.backend) {
		return nil
	}
	return invalid.Errorf("unknown backend %q (known: %s)", s.backend, strings.Join(known, ", "))
}
