package planner

import (
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/occupancy"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// family holds all that planning knows about kernels of one origin. No other code of planning asks for the
// kind: another family is one literal here.
type family struct {
	// rate returns the rate that the package ships, and unit is the peak of a compute unit on the device
	// where it was measured. alike: units with the same peak are assumed to be equally fast.
	rate  func(*KernelFacts, arithmetic) tile.Rate
	unit  float64
	alike bool

	terms  *terms // constants of predictions
	rounds bool   // predictions count rounds of tiles, see load: rates were fitted with them

	// stages are the launches that make items from sizes on the device. None: the host makes items.
	stages []encoding.RaggedStage
	// makers: kernels that make items are compiled for a form of sizes and a number of groups, and write
	// flagsC.
	makers bool

	// narrow: some kernels multiply elements of fewer than 32 bits natively. Otherwise kernels convert them
	// to fp32.
	narrow bool
	// apart: kernels with an epilogue are separate kernels, for fewer tile shapes.
	apart bool
	// keeps: workers keep the first product of a gated tile in the workspace, unless registers have room.
	keeps bool
	// direct: kernels that load B from memory to registers are faster, if all problems allow them.
	direct bool
	// language: its kernels' language, if some types are no types of it.
	language string
	// few: tiles of few rows are faster with B of 4 bits, if all problems have few rows.
	few bool
	// compiled: kernels are compiled on the device, so that few are better: see Planner.Kernels.
	compiled bool
	// counter: a compute unit that is free takes the next worker from a counter, at no cost.
	counter bool

	// routers and combiners are the thread groups of a routing and of a sum of rows (layer.go).
	routers   func(*encoding.Layer) int
	combiners func(*encoding.Layer, element.Type) int
	// gates are those of a gate, forward or backward (gate.go).
	gates func(*encoding.Layer, element.Type) int
}

var (
	familyCUDA = family{rate: ofNative, unit: unitH200, alike: true, terms: &termsOnCUDA, rounds: true,
		stages: raggedStages[:1], makers: true, narrow: true, apart: true, keeps: true,
		routers: nativeRouters, combiners: nativeCombiners, gates: nativeGates}
	familyHIP = family{rate: ofNative, unit: unitH200, alike: true, terms: &termsElsewhere,
		stages: raggedStages[:1], makers: true, narrow: true, apart: true, keeps: true,
		routers: nativeRouters, combiners: nativeCombiners, gates: nativeGates}
	familyWGSL = family{rate: ofWGSL, unit: unitH200, alike: true, terms: &termsByWGSL,
		stages: raggedStages[:], direct: true, compiled: true, language: "WGSL", routers: wgslRouters,
		combiners: wgslCombiners, gates: wgslGates}
	familyCPU = family{rate: ofCPU, unit: unitXeon, terms: &termsElsewhere, counter: true, few: true,
		routers: cpuRouters, combiners: cpuCombiners, gates: cpuGates}

	// familyUnknown is for a kind that Device.Check refuses.
	familyUnknown = family{rate: ofNative, unit: unitH200, alike: true, terms: &termsElsewhere,
		routers: nativeRouters, combiners: nativeCombiners, gates: nativeGates}
)

// raggedStages lists all stages, in order.
var raggedStages = [...]encoding.RaggedStage{encoding.RaggedPlan, encoding.RaggedExpand}

// family returns the family of the device's kernels.
func (d *Device) family() *family {
	switch {
	case d.KernelKind == encoding.KernelsWGSL:
		return &familyWGSL
	case d.KernelKind == encoding.KernelsCPU:
		return &familyCPU
	case d.KernelKind == encoding.KernelsNative && d.Occupancy == occupancy.NVIDIA:
		return &familyCUDA
	case d.KernelKind == encoding.KernelsNative:
		return &familyHIP
	}
	return &familyUnknown
}
