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

// Rule selects how tile shapes are chosen; "" is RuleCost.
type Rule string

const (
	// RuleCost chooses the tile shapes with the least predicted makespan.
	RuleCost Rule = "cost"
	// RuleZhang2025 is the tiling algorithm of Zhang et al. 2025 (Algorithm 1).
	RuleZhang2025 Rule = "zhang2025"
)

// Compute selects the arithmetic that a plan may use; "" is ComputeF32Emulated.
type Compute string

const (
	// ComputeF32Emulated is the default: the fastest arithmetic whose errors do not exceed those of IEEE
	// fp32. Tensor cores multiply in three tf32 products (Ootomo & Yokota 2022), other kernels in fp32.
	ComputeF32Emulated Compute = "f32-emulated"
	// ComputeF32 allows only fused multiply-adds in IEEE fp32.
	ComputeF32 Compute = "f32"
	// ComputeTF32 also allows one tf32 product in place of three. It has 10 bits of mantissa, and errors
	// about 700 times those of fp32.
	ComputeTF32 Compute = "tf32"
)

// Options change how a plan is made. The zero value is the default: the options that measure best.
type Options struct {
	// TypeA, TypeB and TypeC are the types of the elements of A, B and C. The zero value, F32, makes TypeB
	// equal TypeA. TypeB may also have 4 bits, with scales of groups: Int4, MXFP4, NVFP4. TypeC is TypeA
	// or F32; if elements of A have 8 bits, it is BF16, F16 or F32. Sums are in fp32, and C is rounded once.
	// F64 is the type of all three, of sums, alpha, beta and epilogues; Weights are fp32.
	TypeA element.Type `json:"type_a,omitempty"`
	TypeB element.Type `json:"type_b,omitempty"`
	TypeC element.Type `json:"type_c,omitempty"`

	// Epilogue is applied to C before it is rounded. It also selects the rows of A and C.
	Epilogue Epilogue `json:"epilogue,omitzero"`

	Compute  Compute  `json:"compute,omitempty"`
	Rule     Rule     `json:"rule,omitempty"`
	Schedule Schedule `json:"schedule,omitempty"`
	// Custom is the caller's own schedule, in place of Schedule. The rule then chooses tile shapes as for
	// ScheduleDataParallel. It is not part of the JSON. Options are equal only if they point to the same
	// Custom.
	Custom *CustomSchedule `json:"-"`
	// Tile forces one tile shape, by its name in the tile table, for every problem.
	Tile string `json:"tile,omitempty"`
	// Invariant makes a row of C independent of the rows beside it. It has the same bits however many rows
	// its group and the other groups have, and in any plan of equal options, N, K, Groups, Mean and leading
	// dimensions, whatever its M. There is one tile shape, for groups of Mean.M rows, or of 64. It takes
	// longer where groups are much smaller or larger. Only for PlanRagged and PlanExperts.
	Invariant bool `json:"invariant,omitempty"`
	// Kernels, if not nil, restricts plans to tile shapes whose kernels are all in the set, for example
	// those that a device has compiled. If no shape remains, planning fails. It is not part of the JSON.
	Kernels *KernelSet `json:"-"`
	// TLP and Threshold apply to RuleZhang2025. TLP is the equation that measures parallelism: 4, active
	// wavefronts, as in the paper (default), or 3, threads of all workgroups. Threshold is in threads. 0
	// derives it from the device: a quarter of its wave slots.
	TLP       int     `json:"tlp,omitempty"`
	Threshold float64 `json:"threshold,omitempty"`
}

// Check fails for options with which no plan can be made on any device. The zero value passes.
func (o Options) Check() error { return o.check(nil) }

// check is Check for one device; nil: any. A device may have tiles of its own.
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
	case !elemtype.Known(o.TypeA) || !elemtype.Known(o.TypeB) || !elemtype.Known(o.TypeC):
		return invalid.Errorf("unknown element types %d, %d and %d", uint8(o.TypeA), uint8(o.TypeB),
			uint8(o.TypeC))
	case slices.Contains(elemtype.Types4(), o.TypeA):
		return invalid.Errorf("elements of A cannot be %s: only B may, with scales of groups", o.TypeA)
	case o.typeB() != o.TypeA && !slices.Contains(elemtype.Types4(), o.TypeB):
		return invalid.Errorf("elements of B cannot be %s if those of A are %s (but %s, or %s)", o.TypeB,
			o.TypeA, o.TypeA, elemtype.List(elemtype.Types4(), " or "))
	case !slices.Contains(elemtype.TypesC(o.TypeA), o.TypeC):
		return invalid.Errorf("elements of C cannot be %s if those of A and B are %s (but %s)", o.TypeC,
			o.TypeA, elemtype.List(elemtype.TypesC(o.TypeA), " or "))
	case o.TypeA != element.F32 && o.Compute == ComputeTF32:
		return invalid.Errorf("compute mode %s is for operands of %s, not %s", ComputeTF32, element.F32,
			o.TypeA)
	case d != nil && o.TypeA == element.F64 && !d.takes(o.TypeA) && d.family().language != "":
		return invalid.Errorf("%s has no kernels for elements of %s: %s has no such type, "+
			"the cpu backend has", d, o.TypeA, d.family().language)
	case d != nil && !d.takes(o.TypeA):
		return invalid.Errorf("%s has no kernels for elements of %s", d, o.TypeA)
	case d != nil && !d.takes(o.typeB()):
		return invalid.Errorf("%s has no kernels for B of %s", d, o.TypeB)
	}
	return nil
}

// checkDepths fails for a K that the types of elements do not allow.
func (o *Options) checkDepths(b Batch) error {
	if !elemtype.Whole(o.TypeA) {
		return nil
	}
	for i := range b {
		if k := b[i].K; k > MaxWholeK {
			return problemError(i, "K", "%d is above the limit %d of elements of %s", k, MaxWholeK, o.TypeA)
		}
	}
	return nil
}

// withEpilogue reports whether plans need native kernels with an epilogue, which exist for fewer tile
// shapes.
func (o *Options) withEpilogue(d *Device) bool {
	return !o.Epilogue.none() && d.family().apart
}

// parts reports whether kernels can sum partials themselves: see encoding.Kernel.Partials.
func (o *Options) parts(d *Device) bool {
	return d.Finishes && o.TypeA == element.F32 && o.Epilogue.none() && o.Compute != ComputeTF32
}

// vectorTile reports whether a launch with the problem may use vector loads: see encoding.Kernel.
func (o *Options) vectorTile(q *Problem) bool {
	return o.Epilogue.group() == 0 && q.vectorTile(o.vector()) &&
		(!o.Epilogue.Gated || q.B2.aligned(o.vector()))
}

// quick reports whether tensor cores can take A and B in this layout. Elements of 8 bits must be K-major.
func (o *Options) quick(transA, transB bool) bool {
	return o.TypeA.Bytes() > 1 || !transA && transB
}

// vector returns how many elements of A or B a 16-byte load takes. It is 0 if matrices may start at any
// address, so that alignment is unknown.
func (o *Options) vector() int {
	if by := &o.Epilogue.Pointers; by.Any() && !by.Aligned {
		return 0
	}
	return 16 / o.TypeA.Bytes()
}

// typeB returns the type of the elements of B, also if TypeB is not set.
func (o *Options) typeB() element.Type { return cmp.Or(o.TypeB, o.TypeA) }

// elementBytes returns the bytes of an element of A or B: the type of B, which has most of the elements if
// it is narrower.
func (o *Options) elementBytes() float64 { return float64(o.typeB().Size(2)) / 2 }

// flagsC returns the bits of items for the type of C.
func (o *Options) flagsC() uint32 {
	switch {
	case o.TypeA != element.F32 && o.TypeC == element.F32:
		return encoding.ItemFloatC
	case o.TypeA.Bytes() == 1 && o.TypeC == element.F16:
		return encoding.ItemF16C
	}
	return 0
}

// filled fills in defaults, except for the schedule: "" lets the planner choose one for each launch.
func (o Options) filled() Options {
	o.TypeB = o.typeB()
	o.Compute, _ = parseCompute(string(o.Compute))
	o.Rule, _ = parseRule(string(o.Rule))
	o.Schedule, _ = parseSchedule(string(o.Schedule))
	return o
}

// parseCompute and parseRule read names as users write them; "auto" and "" select the default.
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
