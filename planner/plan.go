package planner

import (
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
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
	// ExtentSizes is the least length of the sizes, or experts' numbers, that come with each run, in 32-bit
	// words. It is 0 if none come.
	ExtentSizes int

	Cost           float64 // predicted microseconds for the batch
	TLP, TLPGroups float64 // Eq 4 and Eq 3 of Zhang et al. 2025, in threads

	bounds []uint32 // for Ragged, encoded
	live   Ragged   // for Renew
}

// Takes says which operands besides A and C runs of the plan have. Sizes come with each run of a ragged plan
// and of a step of a layer. Such steps have no B, except the gradients of a gate. B2 and Bias depend on the
// epilogue alone.
func (p *Plan) Takes() encoding.Operands {
	backward := p.Layer != nil && p.Layer.Stage == encoding.LayerGateBackward
	return encoding.Operands{B: p.Layer == nil || backward,
		Sizes: p.Layer != nil || p.Ragged != nil && len(p.Records) == 0,
		Rows:  backward || p.Options.Epilogue.UsesRows()}
}
