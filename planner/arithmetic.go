package planner

import (
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// arithmetic selects the kernels that multiply, and so their rates: the kernels of a compute mode, or those
// that multiply elements of other sizes natively. The other fields hold what all problems of a plan share.
type arithmetic struct {
	compute Compute // mode of fp32 kernels; they also multiply narrow elements, converted, if bits is 0
	bits    int     // bits of an element of B, if kernels for that size multiply; 0: fp32 kernels do
	aligned bool    // with bits: rows of A and B are aligned, and bytes are K-major
	boxes   bool    // CUDA: kernels may copy boxes of A and B, see tile.Kind
	whole   bool    // with bits: elements are whole numbers
	words   bool    // WGSL: C has a 16-bit type
	direct  bool    // WGSL: B goes from memory to registers
	few     bool    // CPU: few rows, and B of 4 bits goes from memory to registers
}

func (a arithmetic) sized() bool { return a.bits > 0 }

// tf32 reports whether kernels of the shape use one tf32 product in place of three.
func (a arithmetic) tf32(s *tile.Shape) bool { return a.compute == ComputeTF32 && s.Unit.Tensor() }

// arithmetic returns the arithmetic of a device's plans. fast is allFast of the batch, or Ragged.fast.
func (o *Options) arithmetic(d *Device, fast bool) arithmetic {
	switch f := d.family(); {
	case f.few:
		return arithmetic{compute: o.Compute, few: fast}
	case f.direct:
		return arithmetic{compute: o.Compute, words: o.TypeC != element.F32, direct: fast}
	case o.Compute == ComputeTF32 && o.withEpilogue(d):
		return arithmetic{compute: ComputeF32Emulated} // epilogues have no tf32 kernels
	case o.TypeA == element.F32 || !f.narrow:
		return arithmetic{compute: o.Compute}
	case o.Epilogue.group() > 0:
		return arithmetic{bits: 4}
	}
	return arithmetic{bits: 8 * o.TypeA.Bytes(), aligned: fast, whole: elemtype.Whole(o.TypeA)}
}

// arithmeticOf is the arithmetic of a batch.
func (o *Options) arithmeticOf(d *Device, b Batch) arithmetic {
	a := o.arithmetic(d, o.allFast(d, b))
	a.boxes = a.aligned
	all, along := o.boxes(true, false), o.boxes(false, true)
	for i := 0; i < len(b) && a.boxes; i++ {
		a.boxes = all || along && !b[i].TransA && b[i].TransB
	}
	return a
}

// boxes reports whether kernels that copy boxes may take aligned rows in this layout. Their tiles stay whole,
// which a caller's schedule need not know.
func (o *Options) boxes(transA, transB bool) bool {
	s := o.Schedule.find()
	bytes := o.TypeA.Bytes()
	return (bytes == 8 || bytes <= 2 && !transA && transB) && o.Epilogue.GatherRows == 0 &&
		!o.Epilogue.Gated && o.Custom == nil && (s == nil || !s.cuts)
}

// allFast reports whether fast holds for every problem.
func (o *Options) allFast(d *Device, b Batch) bool {
	f := d.family()
	for i := range b {
		if !o.fast(f, &b[i]) {
			return false
		}
	}
	return true
}

// fast reports whether a problem allows the faster kernels of the device. CUDA and HIP need narrow elements
// in aligned rows, and K-major bytes. WGSL kernels that load B to registers need a launch with vector loads,
// or 4-bit B.
func (o *Options) fast(f *family, q *Problem) bool {
	if f.few {
		return o.fewRows(q)
	}
	if f.direct {
		return likeMeasured(q.M, q.K) && (o.Epilogue.group() > 0 || o.vectorTile(q))
	}
	return o.TypeA != element.F32 && o.quick(q.TransA, q.TransB) && q.aligned(o.vector()) &&
		(!o.Epilogue.Gated || q.B2.aligned(o.vector()))
}

// fewRows reports whether the CPU multiplies all rows of a problem by B of 4 bits in registers, in a tile of
// few rows.
func (o *Options) fewRows(q *Problem) bool {
	const most, least = 16, 256
	return o.Epilogue.group() > 0 && q.M <= most && q.K >= least
}

// likeMeasured reports whether tile.Rates.Direct was measured with similar sizes. With more rows, every row
// of tiles reads B from the cache again. With a short K, workers spend more time starting and ending than
// reading.
func likeMeasured(m, k int) bool {
	const most, least = 24, 512
	return m <= most && k >= least
}

// Fits reports whether the device can run workgroups of the tile with the types and compute mode of the
// options, at least if rows are aligned, and A and B K-major. A tile with more threads than the device allows
// fits: its kernels give each thread more outputs.
func (d *Device) Fits(s *tile.Shape, o Options) bool {
	for _, a := range o.arithmetics(d, Transposition{B: true}) {
		if d.refuse(s, a, o.withEpilogue(d)) == nil {
			return true
		}
	}
	return false
}

// refuse returns the reason why a tile does not fit, or nil.
func (d *Device) refuse(s *tile.Shape, a arithmetic, withEpilogue bool) error {
	k := d.Kernel(s)
	switch {
	case k == nil && s.Unit.Tensor():
		return invalid.Errorf("tile %v needs tensor cores (%s), but device %s has none", s, s.Unit, d.Name)
	case k == nil:
		return invalid.Errorf("tile %v: device %s has no kernels for it", s, d.Name)
	case withEpilogue && !k.Epilogues:
		return invalid.Errorf("tile %v: device %s has no kernels with an epilogue", s, d.Name)
	case s.Boxes && !a.boxes:
		return invalid.Errorf("tile %v is only for aligned A and B of 64 bits, or K-major ones of 16 or 8, "+
			"of problems or of groups of rows, in whole tiles", s)
	case a.bits == 8 && !a.aligned && s.Aligned:
		return invalid.Errorf("tile %v: device %s has kernels for 8-bit elements "+
			"only in aligned rows and K-major", s, d.Name)
	case a.sized() && !k.takes(a):
		return invalid.Errorf("tile %v: device %s has no kernels for %d-bit elements",
			s, d.Name, a.bits)
	case !a.sized() && s.Unit == tile.F64:
		return invalid.Errorf("tile %v: device %s has kernels for elements of %s only", s, d.Name,
			element.F64)
	case !a.sized() && s.NarrowOnly:
		return invalid.Errorf("tile %v: device %s has kernels for 16-bit elements only", s, d.Name)
	case s.Unit.Tensor() && a.compute == ComputeF32:
		return invalid.Errorf("tile %v uses tensor cores, compute mode %s does not allow them", s, a.compute)
	case k.Shared > d.GroupShared:
		return invalid.Errorf("tile %v needs %d bytes of workgroup memory, device %s has %d",
			s, k.Shared, d.Name, d.GroupShared)
	}
	return nil
}
