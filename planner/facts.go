package planner

import "fmt"

// Bounds of what Device.Check accepts. They are far beyond real devices on both sides,
// and so near that no sum or product of planning overflows.
const (
	mostUnits  = 1 << 13 // compute units; an MI300X has 304
	mostInUnit = 1 << 16 // waves, workgroups or threads of a compute unit; NVIDIA's have 2048 threads
	mostRegs   = 1 << 16 // of a thread; GPUs have up to 512
	mostWave   = 1 << 10 // lanes; WebGPU's subgroups have 128 at most
	mostMemory = 1 << 28 // bytes or registers of a compute unit; an MI300X has 2^17 registers
	leastTFLOP = 1e-6    // an emulated GPU; lavapipe has 0.0006
	mostTFLOP  = 1e6     // the fastest machines of today, as a whole
	// mostMicros of a launch, a step or a worker: the largest step, 128 x 128 x 32, takes
	// 1 s on a device of leastTFLOP.
	mostMicros = 1e7
	// leastShared is what the tiles of every rule can do with, and half of what WebGPU
	// grants everywhere (specification, section 3.6.2).
	leastShared = 8 << 10
	// leastBinding holds a row of a tile and the alignment of its window many times.
	leastBinding = 16 << 10
	// leastTrips lets a worker have one step: see Device.tripSteps. The deepest has 64.
	leastTrips = 64 + 3
	// MinEfficiency is the least Rate.Efficiency: slower kernels would be of no use, and
	// 0 says that none was measured.
	MinEfficiency = 1e-6
)

// Check names the first fact that no device can have, or that planning cannot work
// with. Plans are made for devices that pass.
func (d *Device) Check() error {
	switch d.Model {
	case ModelCDNA, ModelNVIDIA, ModelWebGPU:
	default:
		return fmt.Errorf("device %s: unknown model %q (known: %s, %s, %s)", d.Name, d.Model, ModelCDNA, ModelNVIDIA, ModelWebGPU)
	}
	registers := 0 // WebGPU says nothing of them
	if d.Model != ModelWebGPU {
		registers = 1
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
			return fmt.Errorf("device %s: %s %d is not in [%d, %d]", d.Name, f.name, f.value, f.least, f.most)
		}
	}
	return d.checkRest()
}

// checkRest is Check of limits that 0 turns off, of rates and of kernels.
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
			return fmt.Errorf("device %s: %s %d is not 0, nor %d or more", d.Name, f.name, f.value, f.least)
		}
	}
	if !(leastTFLOP <= d.TFLOPS && d.TFLOPS <= mostTFLOP) { // nor NaN, here and below
		return fmt.Errorf("device %s: tflops %g is not in [%g, %g]", d.Name, d.TFLOPS, leastTFLOP, mostTFLOP)
	}
	if !(0 <= d.LaunchMicros && d.LaunchMicros <= mostMicros) {
		return fmt.Errorf("device %s: launch_micros %g is not in [0, %g]", d.Name, d.LaunchMicros, mostMicros)
	}
	for id := range tiles {
		k := &d.Kernels[id]
		if min(k.Registers, k.ScalarRegisters, k.Shared) < 0 || max(k.Registers, k.ScalarRegisters) > mostRegs || k.Shared > mostMemory {
			return fmt.Errorf("device %s: the kernel of tile %s cannot have the resources %+v", d.Name, tiles[id].Name, *k)
		}
	}
	if d.Rates == nil {
		return nil
	}
	for _, rates := range [...]struct {
		compute Compute
		rows    *[NumTiles]Rate
	}{{ComputeF32Emulated, &d.Rates.Tiles}, {ComputeTF32, &d.Rates.TF32}} {
		for id, r := range rates.rows {
			if r == (Rate{}) {
				continue
			}
			if err := d.CheckRate(TileID(id), rates.compute, r); err != nil {
				return fmt.Errorf("device %s: %w", d.Name, err)
			}
		}
	}
	return nil
}

// CheckRate fails for a rate that no kernel of the device can have: see MinEfficiency
// and MaxEfficiency. Times are up to 10 s.
func (d *Device) CheckRate(id TileID, c Compute, r Rate) error {
	least, most := min(r.Step, r.Fixed, r.Worker), max(r.Step, r.Fixed, r.Worker) // NaN if one is
	if MinEfficiency <= r.Efficiency && r.Efficiency <= d.MaxEfficiency(id, c) && 0 <= least && most <= mostMicros {
		return nil
	}
	return fmt.Errorf("tile %s cannot have the rate %+v", tiles[id].Name, r)
}
