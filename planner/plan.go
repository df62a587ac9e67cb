package planner

import (
	"slices"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Plan says who computes what: a batch cut into segments, dealt to workers. It is plain
// data that depends on shapes, device facts and options alone. It is not changed but by
// Planner.Replan; the zero value is the plan of no problems. Plans are safe for concurrent
// reading.
type Plan struct {
	Batch   Batch   // a copy
	Device  *Device // the planner's copy
	Options Options
	Ragged  *Ragged // where the device makes the items of launches, from sizes; nil: from Batch
	// the sizes of Ragged where the host knows them, of Planner.Renew; none: they come with runs
	Records  []uint32
	Tiles    []*tile.Shape // per problem
	Segments []encoding.Segment
	// Workers: worker w processes Segments[Workers[w]:Workers[w+1]] in order. With Kernel.Dynamic it begins
	// with these, and those of the launch's last worker after its first chunk are taken by whoever can do
	// more.
	Workers  []int32
	Fixups   []encoding.Fixup
	Launches []encoding.Launch
	// Words is the length of the encoding, of which Encode gives what the host knows: all, or
	// with Ragged encoding.RaggedHead words and the records.
	Words int
	// Workspace is the size of the partial tiles in elements.
	Workspace int
	// ExtentA, ExtentB, ExtentC: elements that the buffers need at least.
	ExtentA, ExtentB, ExtentC int
	// ExtentB2, ExtentBias and ExtentRows are those of the buffers that only epilogues have.
	ExtentB2, ExtentBias, ExtentRows int

	Cost           float64 // predicted microseconds for the batch
	TLP, TLPGroups float64 // Eq 4 and Eq 3 of Zhang et al. 2025, in threads

	bounds []uint32 // of Ragged, encoded
	live   Ragged   // of Renew
}

// NarrowSums reports whether sums have fewer bits than fp32: the tensor cores of compute capability 9.0
// multiply elements of E4M3. They add each 32 products, and what is summed already, as multiples of 2^-13 of
// the largest power of two among them; each 128 products are summed so, from zero, and then in fp32. Of
// numbers of all signs the error is 2^-16 of sum|a*b| (root mean square, K 128), of positive ones 2^-11,
// measured on an H200.
func (p *Plan) NarrowSums() bool {
	return p.Options.TypeA == element.E4M3 &&
		slices.ContainsFunc(p.Launches, func(l encoding.Launch) bool {
			return l.Ragged == 0 &&
				l.Tile.Unit == tile.WGMMA
		})
}

// NarrowSums reports whether plans for elements of a type may have such sums.
func (d *Device) NarrowSums(of element.Type) bool {
	return of == element.E4M3 && slices.ContainsFunc(d.Kernels,
		func(k KernelFacts) bool { return k.Tile.Unit == tile.WGMMA })
}

// TakesSizes reports whether sizes come with each run of the plan.
func (p *Plan) TakesSizes() bool { return p.Ragged != nil && len(p.Records) == 0 }

// SizesLen is the number of 32-bit words of these sizes; 0: none come.
func (p *Plan) SizesLen() int {
	if !p.TakesSizes() {
		return 0
	}
	return p.Ragged.sizesLen(&p.Options.Epilogue)
}
