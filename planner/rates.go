package planner

import (
	"github.com/batchgemm/batchgemm/internal/occupancy"
	"github.com/batchgemm/batchgemm/internal/tile"
)

// ofWGSL, ofCPU and ofNative return the rates that the package ships.
func ofWGSL(f *KernelFacts, _ arithmetic) tile.Rate { return f.Tile.Rates.WGSL }

func ofCPU(f *KernelFacts, a arithmetic) tile.Rate {
	r := f.Tile.Rates.CPU
	if a.few && f.Tile.TM <= 16 {
		r.Efficiency *= 2 // measured: 1.8 to 6 times as fast as fp32 with 8 to 1 rows
	}
	return r
}

func ofNative(f *KernelFacts, a arithmetic) tile.Rate {
	of := &f.Tile.Rates
	switch {
	case a.sized() && f.Tile.Unit == tile.FMA:
		r := of.Native
		r.Efficiency *= f.faster(a)
		return r
	case a.bits == 4:
		return of.Int4
	case a.bits == 8 && a.aligned:
		return of.Aligned8
	case a.bits == 8:
		return of.Bits8
	case a.bits == 16 && a.aligned:
		return of.Aligned16
	case a.bits == 16:
		return of.Bits16
	case a.tf32(f.Tile):
		return of.TF32
	}
	return of.Native
}

// takes reports whether native kernels of the shape exist for elements of other sizes than that of fp32.
func (k *KernelFacts) takes(a arithmetic) bool {
	s := k.Tile
	switch {
	case s.Unit == tile.F64 || a.bits == 64:
		return s.Unit == tile.F64 && a.bits == 64
	case s.Unit == tile.FMA:
		return k.faster(a) > 0
	}
	return s.Int4Only == (a.bits == 4) && !s.Swapped && !(s.Aligned && a.bits == 8 && !a.aligned)
}

// faster returns Halves or Bytes. 4-bit B is converted to 16 bits.
func (k *KernelFacts) faster(a arithmetic) float64 {
	if a.bits == 8 {
		return k.Bytes
	}
	return k.Halves
}

// KernelFacts are the resources of a device's kernels of one tile shape, and how fast they are.
type KernelFacts struct {
	Tile *tile.Shape
	// Resources are those of the largest kernel, over all transpositions and variants.
	occupancy.Resources
	// Clusters reports whether the device has the shape's kernels for clusters.
	Clusters bool
	// Epilogues reports whether the device has the shape's native kernels with an epilogue, if
	// Device.Epilogues is set. All kernels of other kinds have epilogues.
	Epilogues bool
	// Halves is how many times as fast plain FMA kernels (HIP) are with 16-bit elements, and with 4-bit B.
	// 0: there are none. It is derived from peak rates, not measured. A step alone on a unit is assumed to
	// take as long. Bytes is the same for 8-bit elements.
	Halves, Bytes float64
	// Rate and TF32 were measured on this very device: Rate in fp32 or emulated fp32, TF32 with one tf32
	// product on tensor cores. Zero: the rates of the tile table apply, scaled to the device's peak.
	Rate, TF32 tile.Rate
}

// Measured returns the field for the rate that was measured in a compute mode.
func (k *KernelFacts) Measured(c Compute) *tile.Rate {
	if c == ComputeTF32 && k.Tile.Unit.Tensor() {
		return &k.TF32
	}
	return &k.Rate
}

// Kernel returns the facts of a tile shape, nil if the device has no kernels for it.
func (d *Device) Kernel(s *tile.Shape) *KernelFacts {
	for i := range d.Kernels {
		if d.Kernels[i].Tile == s {
			return &d.Kernels[i]
		}
	}
	return nil
}

// named returns the facts of a tile shape by name, nil if there are none.
func (d *Device) named(name string) *KernelFacts {
	if d == nil {
		return nil
	}
	for i := range d.Kernels {
		if d.Kernels[i].Tile.Name == name {
			return &d.Kernels[i]
		}
	}
	return nil
}

// Rate returns the rate that planning assumes for kernels of the device in a compute mode: the rate measured
// on the device, or else the rate of the tile table, scaled by the peak of the compute units. Latencies are
// not scaled, because they differ less between GPUs than rates do, unless the unit is too slow for them.
// Stream, Along, Rounds and the gain of an aligned B are always those of the tile table: tuning does not
// measure them.
func (d *Device) Rate(k *KernelFacts, c Compute) tile.Rate { return d.rate(k, arithmetic{compute: c}) }

// rate is Rate for all kernels. Rates for narrow elements are not measured on the device.
func (d *Device) rate(k *KernelFacts, a arithmetic) (r tile.Rate) {
	if !a.sized() {
		r = *k.Measured(a.compute)
	}
	f := d.family()
	shipped, slower := f.rate(k, a), f.unit/d.unit()
	if r.Stream == 0 {
		r.Stream, r.Along = shipped.Stream, shipped.Along
	}
	if r.Rounds == 0 {
		r.Rounds = shipped.Rounds
	}
	if r.Efficiency == 0 {
		r = shipped
		r.Worker *= slower
		r.Fixed *= max(1, slower)
	}
	if a.direct {
		faster := max(k.Tile.Rates.Direct, 1)
		r.Efficiency *= faster
		r.Step /= faster
	}
	if a.words {
		r.Worker += k.Tile.Rates.Words * slower
	}
	return r
}

// Measured reports whether predicted times rest on measured rates: measured on the device itself, or, for
// those of the tile table, on equal compute units. Otherwise they are guesses; plans made from guesses are
// not bad.
func (d *Device) Measured() bool {
	return d.tuned() || d.family().alike && d.unit() == d.family().unit
}

// tuned reports whether rates were measured on the device itself.
func (d *Device) tuned() bool {
	for i := range d.Kernels {
		if k := &d.Kernels[i]; k.Rate != (tile.Rate{}) || k.TF32 != (tile.Rate{}) {
			return true
		}
	}
	return false
}

// unitH200 and unitXeon are the values of unit for the devices on which the rates of the tile table were
// measured: an H200, whose units equal those of an H100 (SXM), and a core of a Xeon with AVX-512, two units
// of 16 lanes at 3 GHz.
const unitH200, unitXeon = 67e6 / 132, 192e3

// unit returns the peak of a compute unit, in FLOP per microsecond.
func (d *Device) unit() float64 {
	return max(d.TFLOPS, 1e-6) * 1e6 / float64(max(d.ComputeUnits, 1))
}
