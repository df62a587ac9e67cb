package planner

import (
	"slices"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Plan says which worker computes what: a batch cut into segments, dealt to workers. It is plain data that
// depends only on shapes, device facts and options. Only Planner.Replan and Planner.Renew change it. The
// zero value is the plan of no problems. Plans are safe for concurrent reading.
type Plan struct {
	Batch   Batch   // a copy
	Device  *Device // the planner's copy
	Options Options
	Ragged  *Ragged // if the device makes the items, from sizes; nil: the items are from Batch
	// Layer is set if the plan is a step of a layer of experts and not its products: one launch and no batch.
	Layer *encoding.Layer
	// sizes of Ragged that the host knows (Planner.Renew); none: sizes come with runs
	Records  []uint32
	Tiles    []*tile.Shape // per problem
	Segments []encoding.Segment
	// Workers: worker w processes Segments[Workers[w]:Workers[w+1]] in order. With Kernel.Dynamic it starts
	// with these. Then workers take from the launch's last worker: all of its segments after its first chunk
	// are dynamic.
	Workers  []int32
	Fixups   []encoding.Fixup
	Launches []encoding.Launch
	// Words is the length of the encoding in 32-bit words. Encode returns what the host knows: all of it, or
	// with Ragged encoding.RaggedHead words and the records.
	Words int
	// Workspace is the size of all partials in elements.
	Workspace int
	// ExtentA, ExtentB and ExtentC are the least lengths of the buffers, in elements.
	ExtentA, ExtentB, ExtentC int
	// ExtentB2, ExtentBias and ExtentRows are the same for the buffers of epilogues; that of Rows is in
	// words.
	ExtentB2, ExtentBias, ExtentRows int

	Cost           float64 // predicted microseconds for the batch
	TLP, TLPGroups float64 // Eq 4 and Eq 3 of Zhang et al. 2025, in threads

	bounds []uint32 // for Ragged, encoded
	live   Ragged   // for Renew
	index  int      // words of Sizes that runs of Layer have
}

// NarrowSums reports whether sums have fewer bits than fp32. That is so if tensor cores of compute
// capability 9.0 multiply E4M3. They add 32 products at a time, and the sum so far, as multiples of 2^-13 of
// the largest power of two among them. After 128 products, such a sum, which started from zero, is added in
// fp32. With numbers of both signs the error is 2^-16 of sum|a*b| (root mean square, K 128), with positive
// numbers 2^-11, measured on an H200.
func (p *Plan) NarrowSums() bool {
	return p.Options.TypeA == element.E4M3 &&
		slices.ContainsFunc(p.Launches, func(l encoding.Launch) bool {
			return l.Tile != nil && l.Tile.Unit == tile.WGMMA
		})
}

// NarrowSums reports whether plans for elements of a type may have such sums.
func (d *Device) NarrowSums(of element.Type) bool {
	return of == element.E4M3 && slices.ContainsFunc(d.Kernels,
		func(k KernelFacts) bool { return k.Tile.Unit == tile.WGMMA })
}

// TakesSizes reports whether sizes, or experts' numbers, come with each run of the plan.
func (p *Plan) TakesSizes() bool { return p.Layer != nil || p.Ragged != nil && len(p.Records) == 0 }

// TakesB reports whether runs have a B: those of steps of a layer have none, but for the gradient of a gate.
func (p *Plan) TakesB() bool { return p.Layer == nil || p.Layer.Stage == encoding.LayerGateBackward }

// TakesRows reports whether runs have Rows.
func (p *Plan) TakesRows() bool {
	return p.Options.Epilogue.UsesRows() || p.Layer != nil && p.Layer.Stage == encoding.LayerGateBackward
}

// SizesLen returns the number of 32-bit words of these sizes; 0: a run takes none.
func (p *Plan) SizesLen() int {
	if !p.TakesSizes() {
		return 0
	}
	if p.Layer != nil {
		return p.index
	}
	return p.Ragged.sizesLen(&p.Options.Epilogue)
}

// CheckExtent names what is wrong with the extent of a run: see Ragged.Within. That of a step of a layer is
// of tokens.
func (p *Plan) CheckExtent(extent int) error {
	switch {
	case p.Layer != nil && (extent < 0 || extent > p.Layer.Tokens):
		return invalid.Errorf("extent %d is not in [0, %d], the tokens that there may be", extent,
			p.Layer.Tokens)
	case p.Layer != nil:
		return nil
	case p.TakesSizes():
		return p.Ragged.CheckExtent(extent)
	case extent != 0:
		return invalid.Errorf("extent %d is not 0: the program is not ragged, its plan has the sizes", extent)
	}
	return nil
}
