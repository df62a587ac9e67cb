package planner

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/internal/occupancy"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Device holds the facts about a GPU that planning needs. A compute unit is an
// SM on NVIDIA, a CU on AMD, a core in software. Backends describe their devices, and
// package devices has some that need not be there. A Device that plans use is not changed.
type Device struct {
	Name         string         `json:"name"`
	Occupancy    occupancy.Rule `json:"occupancy"`
	ComputeUnits int            `json:"compute_units"`
	WaveSize     int            `json:"wave_size"`              // lanes of a wavefront, warp or subgroup
	TFLOPS       float64        `json:"tflops"`                 // peak of plain fp32 FMA
	PeakGuessed  bool           `json:"peak_guessed,omitempty"` // nobody told it: TFLOPS may be far off
	LaunchMicros float64        `json:"launch_micros"`          // device time of an empty launch
	// bytes a microsecond of device memory; 0: not known
	MemoryRate float64 `json:"memory_rate,omitempty"`
	// bytes of the cache of all compute units; 0: not known, and taken to be large enough
	Cache int `json:"cache,omitempty"`

	// Per compute unit.
	SIMDs           int `json:"simds,omitempty"`
	MaxWaves        int `json:"max_waves"`                  // resident waves
	MaxGroups       int `json:"max_groups"`                 // resident workgroups
	Registers       int `json:"registers,omitempty"`        // 32-bit vector registers, all lanes
	RegisterGranule int `json:"register_granule,omitempty"` // AMD: per thread; NVIDIA: per warp
	MaxRegisters    int `json:"max_registers,omitempty"`    // per thread
	Shared          int `json:"shared"`                     // bytes of workgroup memory
	SharedGranule   int `json:"shared_granule,omitempty"`   // bytes
	SharedReserved  int `json:"shared_reserved,omitempty"`  // bytes that the system takes of each workgroup

	// Limits of one workgroup and one launch.
	MaxThreads  int `json:"max_threads"`           // threads of a workgroup
	GroupShared int `json:"group_shared"`          // bytes of workgroup memory of a workgroup
	MaxWorkers  int `json:"max_workers,omitempty"` // workgroups of a launch; 0: unlimited
	// MaxBinding is the bytes of a buffer that a launch reaches; 0: what 32-bit element offsets reach.
	MaxBinding int `json:"max_binding,omitempty"`
	MaxTrips   int `json:"max_trips,omitempty"` // loop iterations of one thread; 0: unlimited

	// Types are those that elements of A and B may have beside F32.
	Types []element.Type `json:"types,omitempty"`
	// Native are those of Types that it multiplies as they are, in some tile shapes. Of others, which are
	// stored alone, kernels make numbers of more bits.
	Native []element.Type `json:"native,omitempty"`
	// Epilogues: plans may have Options.Epilogue.
	Epilogues bool `json:"epilogues,omitempty"`
	// Finishes: there are kernels that sum the parts of tiles themselves (encoding.Kernel.Partials).
	Finishes bool `json:"finishes,omitempty"`
	// Pointers: of which Epilogue.Pointers may be part.
	Pointers bool `json:"pointers,omitempty"`
	// Blocks: and scales of blocks (PerBlock).
	Blocks bool `json:"blocks,omitempty"`

	// Kernels are those that the device has, a tile shape each, in the order in which
	// the planner tries them: of equal predicted time the last wins.
	KernelKind encoding.KernelKind `json:"kernel_kind"`
	Kernels    []KernelFacts       `json:"kernels"`
}

// String is the device's name.
func (d *Device) String() string {
	if d == nil {
		return "no device"
	}
	return "device " + d.Name
}

// takes reports whether elements of A and B may have a type.
func (d *Device) takes(t element.Type) bool { return t == element.F32 || slices.Contains(d.Types, t) }

// Computes lists the compute modes that make a difference on the device.
func (d *Device) Computes() []Compute {
	for i := range d.Kernels {
		if d.Kernels[i].Tile.Unit.Tensor() {
			return []Compute{ComputeF32Emulated, ComputeF32, ComputeTF32}
		}
	}
	return []Compute{ComputeF32}
}

// Fingerprint is the same for devices of the same facts: a plan for the one is the plan
// for the other. It is a number of 64 bits in hexadecimal, which releases may change.
func (d *Device) Fingerprint() string {
	h := fnv.New64a()
	if err := json.NewEncoder(h).Encode(d); err != nil { // NaN, which Check refuses
		fmt.Fprintf(h, "%+v", *d)
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// kernelJSON is KernelFacts with the tile by name.
type kernelJSON struct {
	Tile            string     `json:"tile"`
	Registers       int        `json:"registers,omitempty"`
	ScalarRegisters int        `json:"scalar_registers,omitempty"`
	Shared          int        `json:"shared"`
	Clusters        bool       `json:"clusters,omitempty"`
	Epilogues       bool       `json:"epilogues,omitempty"`
	Halves          float64    `json:"halves,omitempty"`
	Bytes           float64    `json:"bytes,omitempty"`
	Rate            *tile.Rate `json:"rate,omitempty"`
	TF32            *tile.Rate `json:"tf32,omitempty"`
}

// MarshalJSON writes the tile's name.
func (k KernelFacts) MarshalJSON() ([]byte, error) {
	if k.Tile == nil {
		return nil, invalid.Errorf("kernels without a tile")
	}
	measured := func(r tile.Rate) *tile.Rate {
		if r == (tile.Rate{}) {
			return nil
		}
		return &r
	}
	return json.Marshal(kernelJSON{k.Tile.Name, k.Registers, k.ScalarRegisters, k.Shared, k.Clusters,
		k.Epilogues, k.Halves, k.Bytes, measured(k.Rate), measured(k.TF32)})
}

// UnmarshalJSON finds the tile in the tile table.
func (k *KernelFacts) UnmarshalJSON(data []byte) error {
	var from kernelJSON
	if err := json.Unmarshal(data, &from); err != nil {
		return err
	}
	shape, err := tile.ByName(from.Tile)
	if err != nil {
		return err
	}
	*k = KernelFacts{Tile: shape, Resources: occupancy.Resources{Registers: from.Registers,
		ScalarRegisters: from.ScalarRegisters, Shared: from.Shared}, Clusters: from.Clusters,
		Epilogues: from.Epilogues, Halves: from.Halves, Bytes: from.Bytes}
	if from.Rate != nil {
		k.Rate = *from.Rate
	}
	if from.TF32 != nil {
		k.TF32 = *from.TF32
	}
	return nil
}
