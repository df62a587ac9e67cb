package planner

import (
	"cmp"
	"math"
	"slices"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Rule names how tile shapes are chosen; "" is RuleCost.
type Rule string

const (
	// RuleCost chooses the tile shapes with the least predicted makespan.
	RuleCost Rule = "cost"
	// RuleZhang2025 is the tiling algorithm of Zhang et al. 2025 (Algorithm 1).
	RuleZhang2025 Rule = "zhang2025"
)

// Compute names the arithmetic that a plan may use; "" is ComputeF32Emulated.
type Compute string

const (
	// ComputeF32Emulated is the default: whatever is fastest and errs no more than
	// IEEE fp32 does. Tile rows of tensor cores multiply in three tf32 products
	// (Ootomo & Yokota 2022); all other rows in fp32.
	ComputeF32Emulated Compute = "f32-emulated"
	// ComputeF32 allows fused multiply-adds in IEEE fp32 alone.
	ComputeF32 Compute = "f32"
	// ComputeTF32 also allows one tf32 product in place of three: 10 bits of
	// mantissa, errors about 700 times those of fp32.
	ComputeTF32 Compute = "tf32"
)

// Options change how a plan is made. The zero value is the default: what
// measures best.
type Options struct {
	// TypeA, TypeB and TypeC are the types of the elements of A, B and C. TypeB is TypeA where it is left out
	// (the zero value, F32), or Int4, which goes with scales of groups (PerGroup64, PerGroup128). TypeC is
	// one of TypeA.TypesC. Sums are in fp32, whatever the types are, and C is rounded once.
	TypeA element.Type `json:"type_a,omitempty"`
	TypeB element.Type `json:"type_b,omitempty"`
	TypeC element.Type `json:"type_c,omitempty"`

	// Epilogue is what is done to C before it is rounded, and by which rows A and C are found.
	Epilogue Epilogue `json:"epilogue,omitzero"`

	Compute  Compute  `json:"compute,omitempty"`
	Rule     Rule     `json:"rule,omitempty"`
	Schedule Schedule `json:"schedule,omitempty"`
	// Custom is a schedule of the caller's own, in place of Schedule. The rule chooses
	// tile shapes as for ScheduleDataParallel then. It is no part of the JSON, and
	// Options are equal if they point to the same one.
	Custom *CustomSchedule `json:"-"`
	// Tile forces one row of the tile table for every problem, by name.
	Tile string `json:"tile,omitempty"`
	// Kernels, if not nil, keeps plans to tile shapes of which all kernels that they may need are in
	// the set, such as those that a device has compiled; it fails where there is none. It is no part
	// of the JSON.
	Kernels *KernelSet `json:"-"`
	// TLP and Threshold apply to RuleZhang2025. TLP is the equation by which it measures parallelism: 4,
	// active wavefronts, the paper's own and the default, or 3, threads of all workgroups. Threshold 0 is
	// derived from the device: every wave slot of every compute unit occupied.
	TLP       int     `json:"tlp,omitempty"`
	Threshold float64 `json:"threshold,omitempty"`
}

// Check fails for options of which no plan can be made on any device. The zero value
// passes.
func (o Options) Check() error { return o.check(nil) }

// check is Check for a device, which may have tiles of its own.
func (o *Options) check(d *Device) error {
	if err := o.checkTypes(d); err != nil {
		return err
	}
	if err := o.Epilogue.check(d); err != nil {
		return err
	}
	if err := o.checkScales(d); err != nil {
		return err
	}
	if _, err := parseCompute(string(o.Compute)); err != nil {
		return err
	}
	if _, err := parseRule(string(o.Rule)); err != nil {
		return err
	}
	if _, err := parseSchedule(string(o.Schedule)); err != nil {
		return err
	}
	if o.Tile != "" && d.named(o.Tile) == nil {
		if _, err := tile.ByName(o.Tile); err != nil {
			return err
		}
	}
	if o.TLP != 0 && o.TLP != 3 && o.TLP != 4 {
		return invalid.Errorf("unknown TLP equation %d (known: 3, 4)", o.TLP)
	}
	if !(o.Threshold >= 0 && o.Threshold <= math.MaxFloat64) {
		return invalid.Errorf("threshold %g is not a finite number from 0 on", o.Threshold)
	}
	if o.Custom != nil {
		return o.Custom.check(o)
	}
	return nil
}

func (o *Options) checkTypes(d *Device) error {
	switch {
	case !o.TypeA.Known() || !o.TypeB.Known() || !o.TypeC.Known():
		return invalid.Errorf("unknown element types %d, %d and %d", uint8(o.TypeA), uint8(o.TypeB),
			uint8(o.TypeC))
	case o.TypeA == element.Int4:
		return invalid.Errorf("elements of A cannot be %s: B alone may, with scales of groups", o.TypeA)
	case o.typeB() != o.TypeA && o.TypeB != element.Int4:
		return invalid.Errorf("elements of B cannot be %s where those of A are %s (but %s, or %s)", o.TypeB,
			o.TypeA, o.TypeA, element.Int4)
	case !slices.Contains(o.TypeA.TypesC(), o.TypeC):
		return invalid.Errorf("elements of C cannot be %s where those of A and B are %s (but %s)", o.TypeC,
			o.TypeA, elemtype.List(o.TypeA.TypesC(), " or "))
	case o.TypeA != element.F32 && o.Compute == ComputeTF32:
		return invalid.Errorf("compute mode %s is for operands of %s, not %s", ComputeTF32, element.F32,
			o.TypeA)
	case d != nil && !d.takes(o.TypeA):
		return invalid.Errorf("%s has no kernels for elements of %s", d, o.TypeA)
	case d != nil && !d.takes(o.typeB()):
		return invalid.Errorf("%s has no kernels for B of %s", d, o.TypeB)
	}
	return nil
}

// checkDepths fails for a K that elements of the type do not have.
func (o *Options) checkDepths(b Batch) error {
	if !o.TypeA.Whole() {
		return nil
	}
	for i := range b {
		if k := b[i].K; k > MaxWholeK {
			return problemError(i, "K", "%d is above the limit %d of elements of %s", k, MaxWholeK, o.TypeA)
		}
	}
	return nil
}

// withEpilogue reports whether plans have native kernels with an epilogue, of which there are fewer.
func (o *Options) withEpilogue(d *Device) bool {
	return !o.Epilogue.none() && d.family().apart
}

// parts reports whether there are kernels that sum the parts of tiles themselves: see
// encoding.Kernel.Partials.
func (o *Options) parts(d *Device) bool {
	return d.Finishes && o.TypeA == element.F32 && o.Epilogue.none() && o.Compute != ComputeTF32
}

// vectorTile reports whether a launch with the problem may have vector loads: see encoding.Kernel.
func (o *Options) vectorTile(q *Problem) bool {
	return o.Epilogue.group() == 0 && q.vectorTile(o.vector()) &&
		(!o.Epilogue.Gated || q.B2.aligned(o.vector()))
}

// quick reports whether tensor cores can take A and B as they lie: of elements of 8 bits those along K.
func (o *Options) quick(transA, transB bool) bool {
	return o.TypeA.Bytes() > 1 || !transA && transB
}

// vector is the elements of A or B that a load of 16 bytes takes; 0 where matrices may begin at any
// address, so that none is known to be aligned.
func (o *Options) vector() int {
	if by := &o.Epilogue.Pointers; by.Any() && !by.Aligned {
		return 0
	}
	return 16 / o.TypeA.Bytes()
}

// typeB is that of the elements of B, also where options leave it out.
func (o *Options) typeB() element.Type { return cmp.Or(o.TypeB, o.TypeA) }

// elementBytes are those of an element of A or B, of which most are of B where that has fewer bits.
func (o *Options) elementBytes() float64 { return float64(o.typeB().Size(2)) / 2 }

// flagsC is what items say of the type of C.
func (o *Options) flagsC() uint32 {
	switch {
	case o.TypeA != element.F32 && o.TypeC == element.F32:
		return encoding.ItemFloatC
	case o.TypeA.Bytes() == 1 && o.TypeC == element.F16:
		return encoding.ItemF16C
	}
	return 0
}

// filled has names in place of what was left out, but for the schedule: the planner
// chooses one for each launch then.
func (o Options) filled() Options {
	o.TypeB = o.typeB()
	o.Compute, _ = parseCompute(string(o.Compute))
	o.Rule, _ = parseRule(string(o.Rule))
	o.Schedule, _ = parseSchedule(string(o.Schedule))
	return o
}

// parseCompute and parseRule read names as users write them; "auto" and "" give the
// default.
func parseCompute(s string) (Compute, error) {
	switch c := Compute(s); c {
	case "", "auto":
		return ComputeF32Emulated, nil
	case ComputeF32Emulated, ComputeF32, ComputeTF32:
		return c, nil
	}
	return "", invalid.Errorf("unknown compute mode %q (known: %s, %s, %s)", s, ComputeF32Emulated,
		ComputeF32, ComputeTF32)
}

func parseRule(s string) (Rule, error) {
	switch r := Rule(s); r {
	case "", "auto":
		return RuleCost, nil
	case RuleCost, RuleZhang2025:
		return r, nil
	}
	return "", invalid.Errorf("unknown rule %q (known: %s, %s)", s, RuleCost, RuleZhang2025)
}
