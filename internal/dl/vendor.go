package dl

import (
	"context"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner"
)

// Vendor describes a vendor's library: all in which backends differ.
type Vendor struct {
	Backend string // the word of BATCHGEMM_BACKEND, which begins messages: "cuda"
	Maker   string // of its GPUs: "NVIDIA"
	API     string // in messages: "CUDA"
	Driver  string // in messages: "NVIDIA driver"
	NoGPU   string // what to look at when the library shows no GPU
	Owner   string // what a caller's stream must be of: "this GPU's primary context"

	Libraries []string // file names tried, in order
	Symbols   []Symbol
	// Refuse explains why a version of the library is too old, or returns nil.
	Refuse func(version int) error

	// Stages is how many bytes the library takes at once out of ordinary memory, without
	// waiting for the device; 0: none.
	Stages int

	// Lost are the results after which every later call in the process fails as
	// well; Reserved, those of opening a device that is kept for others.
	Lost, Reserved []int

	// Integrated is the number of the attribute that is not 0 of GPUs that share the host's
	// memory; PCI are those of domain, bus and device.
	Integrated int
	PCI        [3]int

	// Describe reads the facts of a GPU, or says why the backend cannot use it.
	Describe func(Facts) (*GPU, error)
}

// Symbol is a symbol of a library and the entry of entries.h that it fills. A
// library that lacks one is refused, unless it is Optional.
type Symbol struct {
	Entry, Name string
	Optional    bool
}

// Facts is what a library says about one of its GPUs.
type Facts interface {
	Version() int // of the library, as it reports it
	Name() (string, error)
	Attribute(number int) (int, error)
	// Properties returns the bytes of the library's struct of properties, with
	// zeros after them.
	Properties() ([]byte, error)
}

// Attribute is a number to be read from Facts.
type Attribute struct {
	Value  *int
	Number int // the vendor's
}

// ReadAttributes reads attributes until one fails.
func ReadAttributes(f Facts, wanted []Attribute) (err error) {
	for _, a := range wanted {
		if *a.Value, err = f.Attribute(a.Number); err != nil {
			return err
		}
	}
	return nil
}

// GPU is a GPU that a backend can use.
type GPU struct {
	Name     string
	Driver   string         // driver.Info.Driver
	Subgroup string         // driver.Info.Subgroup
	Planner  planner.Device // MaxWorkers, if not 0, bounds the workgroups of a launch

	// Waits: each kernel waits for the launch before it, whosever that is, and so may begin while that
	// ends.
	Waits bool
	// Kernel returns where a kernel is, and its launch.
	Kernel func(encoding.Kernel) Kernel
	// Pieces returns the workgroups that share an item of a launch, the second extent of the grid.
	Pieces func(*encoding.Launch) int
	// Image returns the code of an image by the name that Kernel gives it. It is only read.
	Image func(name string) ([]byte, error)
}

// Globals is what devices of this package are beside driver.Device.
type Globals interface {
	// ReadGlobal copies a variable of an image, from its first byte on, after
	// all queued work.
	ReadGlobal(ctx context.Context, image, name string, to []byte) error
}

// Kernel is how a kernel is launched.
type Kernel struct {
	Image   string // the name of the code that has it
	Symbol  string // of it there
	Threads int    // of a workgroup
	Shared  int    // bytes of dynamic shared memory
}
