package planner

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"sync/atomic"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/internal/occupancy"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Device holds the facts about a device that planning needs. A compute unit is an SM on NVIDIA, a CU on AMD,
// a core in software. Backends describe their devices; package devices has known GPUs. Do not change a
// Device that plans use.
type Device struct {
	Name         string         `json:"name"`
	Occupancy    occupancy.Rule `json:"occupancy"`
	ComputeUnits int            `json:"compute_units"`
	WaveSize     int            `json:"wave_size"`              // lanes of a wavefront, warp or subgroup
	TFLOPS       float64        `json:"tflops"`                 // peak of plain fp32 FMA
	PeakGuessed  bool           `json:"peak_guessed,omitempty"` // TFLOPS is a guess and may be far off
	LaunchMicros float64        `json:"launch_micros"`          // device time of an empty launch
	// device memory, bytes per microsecond; 0: unknown
	MemoryRate float64 `json:"memory_rate,omitempty"`
	// bytes of the last-level cache; 0: unknown, assumed large enough
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
	SharedReserved  int `json:"shared_reserved,omitempty"`  // bytes of each workgroup that the system takes

	// Limits of one workgroup and one launch.
	MaxThreads  int `json:"max_threads"`           // threads of a workgroup
	GroupShared int `json:"group_shared"`          // bytes of workgroup memory of a workgroup
	MaxWorkers  int `json:"max_workers,omitempty"` // workgroups of a launch; 0: unlimited
	// MaxBinding is how many bytes of a buffer a launch reaches; 0: as many as 32-bit element offsets reach.
	MaxBinding int `json:"max_binding,omitempty"`
	MaxTrips   int `json:"max_trips,omitempty"` // loop iterations of one thread; 0: unlimited

	// Types lists the types, besides F32, that elements of A and B may have.
	Types []element.Type `json:"types,omitempty"`
	// Native lists the types that some tile shapes multiply without conversion. Kernels convert the others
	// to more bits.
	Native []element.Type `json:"native,omitempty"`
	// Epilogues reports whether plans may have Options.Epilogue.
	Epilogues bool `json:"epilogues,omitempty"`
	// Finishes reports whether kernels can sum partials themselves (encoding.Kernel.Partials).
	Finishes bool `json:"finishes,omitempty"`
	// Pointers reports whether an epilogue may have Pointers.
	Pointers bool `json:"pointers,omitempty"`
	// Blocks reports whether an epilogue may have scales of blocks (PerBlock).
	Blocks bool `json:"blocks,omitempty"`

	// Refused, if not nil, has kernels that plans avoid, because they were found to compute wrong results. It
	// may change between plans.
	Refused *atomic.Pointer[KernelSet] `json:"-"`

	// Kernels lists the device's kernels, one tile shape each, in the order in which the planner tries them.
	// If predicted times are equal, the last wins.
	KernelKind encoding.KernelKind `json:"kernel_kind"`
	Kernels    []KernelFacts       `json:"kernels"`
}

// String returns the device's name.
func (d *Device) String() string {
	if d == nil {
		return "no device"
	}
	return "device " + d.Name
}

// takes reports whether elements of A and B may have that type.
func (d *Device) takes(t element.Type) bool { return t == element.F32 || slices.Contains(d.Types, t) }

// Fingerprint returns a 64-bit number in hexadecimal. It is equal for devices with equal facts, which can
// run each other's plans. It may change between releases.
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
