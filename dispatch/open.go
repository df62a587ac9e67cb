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
	"github.com/batchgemm/batchgemm/planner/element"
)

// backendEnv is the environment variable that fixes the backend.
const backendEnv = "BATCHGEMM_BACKEND"

// Errors that calls wrap. Use errors.Is to test for them.
var (
	// ErrInvalid: an argument is wrong, and the caller can correct it. Nothing was done. If a problem of a
	// batch is wrong, the error is also a *planner.ProblemError.
	ErrInvalid = invalid.Err
	// ErrUnavailable: the backend cannot run here: no driver, no device, or not part of this build.
	ErrUnavailable = hardware.ErrUnavailable
	// ErrOutOfMemory: the device or the host refused memory. Results and buffers are intact.
	ErrOutOfMemory = hardware.ErrOutOfMemory
	// ErrDeviceLost: the device failed. Every later call fails too. It can be opened again.
	ErrDeviceLost = hardware.ErrDeviceLost
	// ErrClosed: the object was closed.
	ErrClosed = hardware.ErrClosed
)

// Info describes a device. Kind is the kind of a device. Timing is the result of Time.
type (
	Info   = driver.Info
	Kind   = hardware.Kind
	Timing = driver.Timing
)

// Kinds of devices.
const (
	KindDiscrete   = hardware.KindDiscrete   // a GPU with its own memory
	KindIntegrated = hardware.KindIntegrated // a GPU that shares the host's memory
	KindSoftware   = hardware.KindSoftware   // runs on the CPU
	KindOther      = hardware.KindOther      // an unknown kind of GPU, or a part of a GPU
)

// Option changes what Open opens.
type Option func(*selection)

type selection struct {
	drivers []driver.Driver // to choose from
	own     *driver.Driver  // the caller's; nil: none
	backend string          // "": the best
	device  *int            // nil: the best
	adapter *func([]Info) int
	power   string
	gpus    bool // only GPUs
	types   []element.Type
}

// WithBackend fixes the backend: "cuda", "hip", "webgpu" or "cpu". It overrides BATCHGEMM_BACKEND. "" leaves
// the choice to BATCHGEMM_BACKEND and Open.
func WithBackend(name string) Option {
	return func(s *selection) {
		if name != "" {
			s.backend = name
		}
	}
}

// WithDriver opens devices of the caller's own driver, such as one that wraps a driver of Backends and fails
// on demand. Only that driver is tried. BATCHGEMM_BACKEND does not apply, and WithBackend must name it if
// given. Devices does not list it. Its devices do not support OnStream, Wrap and RunAt.
func WithDriver(d driver.Driver) Option {
	return func(s *selection) { s.own = &d }
}

// WithDevice selects a device of a fixed backend or of a driver, by Info.Index.
func WithDevice(index int) Option {
	return func(s *selection) { s.device = &index }
}

// WithAdapter lets the caller choose a device. choose gets all devices, of all backends or of the fixed one,
// in the order in which Open would try them. It returns the index of one of them, or a negative number to
// leave the choice to Open. If the chosen device cannot be opened, Open fails. A program that stores Info.ID
// in its settings finds the device again by
//
//	dispatch.WithAdapter(func(all []dispatch.Info) int {
//		return slices.IndexFunc(all, func(i dispatch.Info) bool { return i.ID == saved })
//	})
//
// Open asks all backends, which takes up to a second the first time.
func WithAdapter(choose func(all []Info) int) Option {
	return func(s *selection) { s.adapter = &choose }
}

// lowPower and highPower are what WithPower takes.
const (
	lowPower  = "low"
	highPower = "high"
)

// WithPower prefers GPUs of a kind, of all backends. With "low", integrated GPUs are before discrete ones,
// with "high" after them; "" prefers none. GPUs of the preferred kind are tried first, in the usual order.
// Open then asks all backends, as with WithAdapter.
func WithPower(power string) Option {
	return func(s *selection) { s.power = power }
}

// RequireGPU makes Open fail, with an error that wraps ErrUnavailable, rather than open a device that runs
// on the CPU.
func RequireGPU() Option {
	return func(s *selection) { s.gpus = true }
}

// WithTypes restricts the choice to devices that multiply elements of these types. element.F64 is of CUDA,
// of HIP on CDNA, and of the CPU: with it, Open passes on to the cpu backend where there is no such GPU.
func WithTypes(types ...element.Type) Option {
	return func(s *selection) { s.types = append(s.types, types...) }
}

// Listing is a backend with its devices, or the reason why it has none.
type Listing struct {
	Backend string
	Devices []Info
	Err     error
}

// Devices lists all backends of the package, in the order in which Open tries them. It fails only if ctx
// ends.
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

// Open opens the best device. It tries the backends cuda, hip, webgpu and cpu in this order and takes the
// first real GPU. It skips software adapters of GPU backends, because the cpu backend is faster (some 20
// times, against Mesa's lavapipe), unless the backend is fixed. WithPower, WithAdapter, WithDevice,
// RequireGPU and WithTypes change the choice. Device.Skipped says what was passed over, and why.
//
// Plans use the rates that batchgemm tune measured on the device, if there are any, otherwise those of the
// package. BATCHGEMM_CACHE=off ignores measured rates.
//
// The cpu backend has GOMAXPROCS threads, or as many as BATCHGEMM_THREADS says.
//
// An unknown backend, and an unknown device of a backend that runs here, are ErrInvalid; the error lists the
// known ones. Open skips a backend or device only if it is unavailable, and returns any other failure. If
// nothing can be opened, the error wraps ErrUnavailable and lists all reasons.
func Open(ctx context.Context, options ...Option) (*Device, error) {
	return open(ctx, backends, options)
}

func open(ctx context.Context, drivers []driver.Driver, options []Option) (*Device, error) {
	s, err := selected(drivers, options)
	if err != nil {
		return nil, err
	}
	if s.backend == "" && s.device != nil {
		return nil, invalid.Errorf("device %d needs a backend: use WithBackend or %s",
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
	if s.power != "" && s.power != lowPower && s.power != highPower {
		return nil, invalid.Errorf("WithPower: unknown power %q (known: %s, %s)", s.power,
			lowPower, highPower)
	}
	return s, s.checkBackend()
}

// checkBackend fails if the fixed backend is unknown.
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
