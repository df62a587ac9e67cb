package planner

import (
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/internal/occupancy"
	"github.com/batchgemm/batchgemm/internal/tile"
)

// Device.Check accepts facts within these bounds. They are far beyond real devices, and still so close that
// no sum or product in planning overflows.
const (
	mostUnits  = 1 << 13 // compute units; an MI300X has 304
	mostInUnit = 1 << 16 // waves, workgroups or threads of a compute unit; NVIDIA's have 2048 threads
	mostRegs   = 1 << 16 // of a thread; GPUs have up to 512
	mostWave   = 1 << 10 // lanes; WebGPU's subgroups have 128 at most
	mostNarrow = 64      // times as fast with narrow elements; an MI300X reaches 16
	mostMemory = 1 << 28 // bytes or registers of a compute unit; an MI300X has 2^17 registers
	leastTFLOP = 1e-6    // an emulated GPU; lavapipe has 0.0006
	mostTFLOP  = 1e6     // the fastest machines of today, all units together
	leastRate  = 1       // bytes of memory per microsecond: 1 MB/s
	mostRate   = 1e12    // an H200 has 4.8e6
	// leastShared is enough for the tiles of every rule. It is half of what WebGPU grants everywhere
	// (specification, section 3.6.2).
	leastShared = 8 << 10
	// leastBinding holds many rows of a tile, with the alignment of their window.
	leastBinding = 16 << 10
)

// Check returns the first fact that no device can have, or that planning cannot use. Plans need devices that
// pass.
func (d *Device) Check() error {
	registers := 1
	switch d.Occupancy {
	case occupancy.CDNA, occupancy.RDNA, occupancy.NVIDIA:
	case occupancy.Limits:
		registers = 0 // unknown
	default:
		return d.wrong("unknown occupancy rule %q (known: %s, %s, %s, %s)", d.Occupancy, occupancy.CDNA,
			occupancy.RDNA, occupancy.NVIDIA, occupancy.Limits)
	}
	for _, f := range [...]struct {
		name               string
		value, least, most int
	}{
		{"compute_units", d.ComputeUnits, 1, mostUnits},
		{"wave_size", d.WaveSize, 1, mostWave},
		{"simds", d.SIMDs, registers, mostInUnit},
		{"max_waves", d.MaxWaves, 1, mostInUnit},
		{"max_groups", d.MaxGroups, 1, mostInUnit},
		{"registers", d.Registers, registers, mostMemory},
		{"register_granule", d.RegisterGranule, registers, mostMemory},
		{"max_registers", d.MaxRegisters, 0, mostMemory},
		{"shared", d.Shared, leastShared, mostMemory},
		{"shared_granule", d.SharedGranule, 0, mostMemory},
		{"shared_reserved", d.SharedReserved, 0, mostMemory},
		{"max_threads", d.MaxThreads, 1, mostInUnit},
		{"group_shared", d.GroupShared, leastShared, mostMemory},
	} {
		if f.value < f.least || f.value > f.most {
			return d.wrong("%s %d is not in [%d, %d]", f.name, f.value, f.least, f.most)
		}
	}
	return d.checkRest()
}

// checkRest checks the limits that 0 turns off, the rates and the kernels.
func (d *Device) checkRest() error {
	for _, f := range [...]struct {
		name         string
		value, least int
	}{
		{"max_workers", d.MaxWorkers, 1},
		{"max_binding", d.MaxBinding, leastBinding},
		{"max_trips", d.MaxTrips, leastTrips},
	} {
		if f.value != 0 && f.value < f.least {
			return d.wrong("%s %d is not 0, nor %d or more", f.name, f.value, f.least)
		}
	}
	if !(leastTFLOP <= d.TFLOPS && d.TFLOPS <= mostTFLOP) { // also refuses NaN, here and below
		return d.wrong("tflops %g is not in [%g, %g]", d.TFLOPS, leastTFLOP, mostTFLOP)
	}
	if !(0 <= d.LaunchMicros && d.LaunchMicros <= tile.MaxMicros) {
		return d.wrong("launch_micros %g is not in [0, %g]", d.LaunchMicros, tile.MaxMicros)
	}
	if d.MemoryRate != 0 && !(leastRate <= d.MemoryRate && d.MemoryRate <= mostRate) {
		return d.wrong("memory_rate %g is not 0, nor in [%d, %g]", d.MemoryRate, leastRate, mostRate)
	}
	if d.Cache < 0 {
		return d.wrong("cache %d is negative", d.Cache)
	}
	return d.checkKernels()
}

// checkKernels checks kernels and their rates.
func (d *Device) checkKernels() error {
	if d.family() == &familyUnknown {
		return d.wrong("unknown kind of kernels %q (known: %s, %s, %s)", d.KernelKind, encoding.KernelsWGSL,
			encoding.KernelsNative, encoding.KernelsCPU)
	}
	if n := len(d.Kernels); n == 0 || n > mostKernels {
		return d.wrong("%d kernels are not in [1, %d]", n, mostKernels)
	}
	for i := range d.Kernels {
		k := &d.Kernels[i]
		switch r := &k.Resources; {
		case k.Tile == nil:
			return d.wrong("kernel %d has no tile", i)
		case d.Kernel(k.Tile) != k:
			return d.wrong("tile %s has two kernels", k.Tile.Name)
		case min(r.Registers, r.ScalarRegisters, r.Shared) < 0 ||
			max(r.Registers, r.ScalarRegisters) > mostRegs || r.Shared > mostMemory:
			return d.wrong("the kernel of tile %s cannot have the resources %+v", k.Tile.Name, *r)
		case !mayBeFaster(k.Halves):
			return d.wrong("the kernels of tile %s for elements of 16 bits cannot be %g times as fast",
				k.Tile.Name, k.Halves)
		case !mayBeFaster(k.Bytes):
			return d.wrong("the kernels of tile %s for elements of 8 bits cannot be %g times as fast",
				k.Tile.Name, k.Bytes)
		}
		if err := k.Tile.Check(); err != nil {
			return d.wrong("%w", err)
		}
		for _, c := range [...]Compute{ComputeF32, ComputeTF32} {
			if d.family().narrow && k.Tile.NarrowOnly {
				break
			}
			measured := *k.Measured(c)
			if measured == (tile.Rate{}) && d.Rate(k, c).Efficiency > 0 {
				continue
			}
			if measured == (tile.Rate{}) {
				return d.wrong("tile %s has no rate of %s kernels for compute mode %s in the tile table, "+
					"and none was measured", k.Tile.Name, d.KernelKind, c)
			}
			if err := measured.Check(k.Tile, c == ComputeTF32, d.PeakGuessed); err != nil {
				return d.wrong("%w", err)
			}
		}
	}
	return nil
}

// mayBeFaster checks KernelFacts.Halves, or Bytes.
func mayBeFaster(times float64) bool { return times == 0 || 1 <= times && times <= mostNarrow }

// mostKernels is how many kernels the keys that sort problems can number.
const mostKernels = 64

func (d *Device) wrong(format string, args ...any) error {
	return invalid.Errorf("device %s: "+format, append([]any{d.Name}, args...)...)
}
