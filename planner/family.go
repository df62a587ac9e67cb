package planner

import (
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/occupancy"
	"github.com/batchgemm/batchgemm/internal/tile"
)

// family is what planning knows of kernels that are made in the same way, which nothing else
// in planning asks for: another family is a literal here.
type family struct {
	// rate is the one that came with the package, unit that of the device it was measured on. alike: units of
	// the same peak are taken to be like that.
	rate  func(*KernelFacts, arithmetic) tile.Rate
	unit  float64
	alike bool

	terms  *terms // of predictions
	rounds bool   // predictions tell rounds of tiles apart, see load: rates were fitted with them

	// stages are the launches that make items from sizes on the device. None: the host makes them.
	stages []encoding.RaggedStage
	// makers of items are compiled for a form of sizes and a number of groups, and write flagsC.
	makers bool

	// narrow: kernels of their own multiply elements of fewer than 32 bits. Others make fp32 of them.
	narrow bool
	// apart: kernels with an epilogue are apart from those without, and of fewer tile shapes.
	apart bool
	// keeps: workers keep the first product of a gated tile in the workspace, unless registers have room.
	keeps bool
	// direct: kernels are faster that take B from memory to registers, where all problems allow that.
	direct bool
	// counter: compute units take workers from a counter, whoever has ended, and start the next at no cost.
	counter bool
}

var (
	familyCUDA = family{rate: ofNative, unit: unitH200, alike: true, terms: &termsOnCUDA, rounds: true,
		stages: raggedStages[:1], makers: true, narrow: true, apart: true, keeps: true}
	familyHIP = family{rate: ofNative, unit: unitH200, alike: true, terms: &termsElsewhere,
		stages: raggedStages[:1], makers: true, narrow: true, apart: true, keeps: true}
	familyWGSL = family{rate: ofWGSL, unit: unitH200, alike: true, terms: &termsByWGSL,
		stages: raggedStages[:], direct: true}
	familyCPU = family{rate: ofCPU, unit: unitXeon, terms: &termsElsewhere, counter: true}

	// familyUnknown is of a kind that Device.Check refuses.
	familyUnknown = family{rate: ofNative, unit: unitH200, alike: true, terms: &termsElsewhere}
)

// raggedStages are all stages, in order.
var raggedStages = [...]encoding.RaggedStage{encoding.RaggedPlan, encoding.RaggedExpand}

// family is that of the device's kernels.
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
