package dl

import (
	"context"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner"
)

// Vendor describes a vendor's library: everything in which backends differ.
type Vendor struct {
	Backend string // name in BATCHGEMM_BACKEND and at the start of messages: "cuda"
	Maker   string // of its GPUs: "NVIDIA"
	API     string // in messages: "CUDA"
	Driver  string // in messages: "NVIDIA driver"
	NoGPU   string // what to check if the library shows no GPU
	Owner   string // owner of valid caller's streams: "this GPU's primary context"

	Libraries []string // file names tried, in order
	Symbols   []Symbol
	// Refuse explains why a version of the library is too old, or returns nil.
	Refuse func(version int) error

	// Stages is how many bytes the library takes from pageable memory in one call without waiting for the
	// device; 0: none.
	Stages int

	// Lost are the results after which every later call in the process fails too. Reserved are those of
	// opening a device that is reserved for others.
	Lost, Reserved []int

	// Integrated is the number of the attribute that is not 0 for GPUs that share the host's memory. PCI are
	// those of domain, bus and device.
	Integrated int
	PCI        [3]int

	// Describe reads the facts of a GPU, or returns why the backend cannot use it.
	Describe func(Facts) (*GPU, error)
}

// Symbol is a symbol of a library and the entry of entries.h that it fills. A library without it is refused,
// unless it is Optional.
type Symbol struct {
	Entry, Name string
	Optional    bool
}

// Facts is what a library says about one of its GPUs.
type Facts interface {
	Version() int // of the library, as it reports it
	Name() (string, error)
	Attribute(number int) (int, error)
	// Properties returns the library's struct of properties, followed by zeros.
	Properties() ([]byte, error)
}

// Attribute is a number to read from Facts.
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

	// Waits: each kernel waits for the previous launch of any kind itself, and so may begin while that ends
	// (PDL).
	Waits bool
	// Kernel returns where a kernel is, and how to launch it.
	Kernel func(encoding.Kernel) Kernel
	// Pieces returns the workgroups that share an item of a launch, the second extent of the grid.
	Pieces func(*encoding.Launch) int
	// Image returns the code of an image by the name from Kernel. It is only read.
	Image func(name string) ([]byte, error)
}

// Globals is implemented by this package's devices, beside driver.Device.
type Globals interface {
	// ReadGlobal copies a variable of an image, from its first byte on, after
	// all queued work.
	ReadGlobal(ctx context.Context, image, name string, to []byte) error
}

// Kernel is how a kernel is launched.
type Kernel struct {
	Image   string // name of the image that has it
	Symbol  string // its symbol there
	Threads int    // of a workgroup
	Shared  int    // bytes of dynamic shared memory
}
