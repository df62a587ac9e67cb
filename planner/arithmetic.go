package planner

import (
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// arithmetic says which of a device's kernels multiply, and so at which rates: those of a compute mode, or
// those that multiply elements of fewer bits as they are. The rest is what all problems of a plan have in
// common.
type arithmetic struct {
	compute Compute // of elements of 32 bits, which others become unless there are bits
	bits    int     // of an element of B, below 32; 0: kernels of elements of 32 bits multiply
	aligned bool    // with bits: rows of A and B begin with 16 bytes, and bytes run along K
	words   bool    // by WGSL: C has 16 bits
	direct  bool    // by WGSL: B goes from memory to registers
}

func (a arithmetic) narrow() bool { return a.bits > 0 }

// tf32 reports whether a tile shape has one tf32 product in place of three.
func (a arithmetic) tf32(s *tile.Shape) bool { return a.compute == ComputeTF32 && s.Unit.Tensor() }

// arithmetic is that of plans on a device. fast: what fast says of all problems, or Ragged.fast.
func (o *Options) arithmetic(d *Device, fast bool) arithmetic {
	switch f := d.family(); {
	case f.direct:
		return arithmetic{compute: o.Compute, words: o.TypeC != element.F32, direct: fast}
	case o.Compute == ComputeTF32 && o.withEpilogue(d):
		return arithmetic{compute: ComputeF32Emulated} // there are no others with an epilogue
	case o.TypeA == element.F32 || !f.narrow:
		return arithmetic{compute: o.Compute}
	case o.Epilogue.group() > 0:
		return arithmetic{bits: 4}
	}
	return arithmetic{bits: 8 * o.TypeA.Bytes(), aligned: fast}
}

// allFast reports whether all problems are as fast says.
func (o *Options) allFast(d *Device, b Batch) bool {
	f := d.family()
	for i := range b {
		if !o.fast(f, &b[i]) {
			return false
		}
	}
	return true
}

// fast reports whether a problem has what the faster kernels of the device need. Those of CUDA and HIP need
// elements of fewer bits in rows that begin with 16 bytes, and bytes along K. Those of WGSL that take B to
// registers need a launch with vector loads, or B of 4 bits.
func (o *Options) fast(f *family, q *Problem) bool {
	if f.direct {
		return likeMeasured(q.M, q.K) && (o.Epilogue.group() > 0 || o.vectorTile(q))
	}
	return o.TypeA != element.F32 && o.quick(q.TransA, q.TransB) && q.aligned(o.vector()) &&
		(!o.Epilogue.Gated || q.B2.aligned(o.vector()))
}

// likeMeasured: a problem of such sizes is like those that tile.Rates.Direct was measured with. With more
// rows B comes from the cache again for each row of tiles. With a short K workers begin and end longer than
// they read.
func likeMeasured(m, k int) bool {
	const most, least = 24, 512
	return m <= most && k >= least
}

// Fits reports whether a workgroup of the tile can run on the device and may run with the options' types and
// compute mode, at least where rows are aligned. Thread counts above the device's limit are no obstacle:
// kernels then give each thread more outputs.
func (d *Device) Fits(s *tile.Shape, o Options) bool {
	fits := func(fast bool) bool { return d.refuse(s, o.arithmetic(d, fast), o.withEpilogue(d)) == nil }
	return fits(false) || fits(true)
}

// refuse says why a tile does not fit.
func (d *Device) refuse(s *tile.Shape, a arithmetic, withEpilogue bool) error {
	k := d.Kernel(s)
	switch {
	case k == nil && s.Unit.Tensor():
		return invalid.Errorf("tile %v needs tensor cores (%s), which device %s has not", s, s.Unit, d.Name)
	case k == nil:
		return invalid.Errorf("tile %v: device %s has no kernels of it", s, d.Name)
	case withEpilogue && !k.Epilogues:
		return invalid.Errorf("tile %v: device %s has no kernels of it for epilogues", s, d.Name)
	case a.bits == 8 && !a.aligned && s.Aligned:
		return invalid.Errorf("tile %v: device %s has no kernels of it for elements of 8 bits, "+
			"but along K in rows that begin with 16 bytes", s, d.Name)
	case a.narrow() && !k.takes(a):
		return invalid.Errorf("tile %v: device %s has no kernels of it for elements of %d bits",
			s, d.Name, a.bits)
	case !a.narrow() && s.NarrowOnly:
		return invalid.Errorf("tile %v: device %s has kernels of it for elements of 16 bits alone", s, d.Name)
	case s.Unit.Tensor() && a.compute == ComputeF32:
		return invalid.Errorf("tile %v uses tensor cores, compute mode %s does not allow them", s, a.compute)
	case k.Shared > d.GroupShared:
		return invalid.Errorf("tile %v needs %d bytes of workgroup memory, device %s has %d",
			s, k.Shared, d.Name, d.GroupShared)
	}
	return nil
}
