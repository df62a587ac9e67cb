package planner

import (
	"math"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// PlanRagged makes a plan whose sizes the device has: it chooses up to two tile shapes, of
// which the device chooses for each group, and how many workers share what tiles there are.
// It fails where the description or the options do not pass Check, or ask for what needs
// sizes: a schedule other than the one that the tile shape has, the rule of Zhang et al., or
// operands larger than the device can bind. All these wrap ErrInvalid.
func (p *Planner) PlanRagged(r Ragged, o Options) (*Plan, error) {
	if err := r.check(&o.Epilogue); err != nil {
		return nil, err
	}
	if err := o.check(p.device); err != nil {
		return nil, err
	}
	if err := o.checkDepths(Batch{r.problem()}); err != nil {
		return nil, r.wrong("%w", err)
	}
	if o = o.filled(); o.Custom != nil || o.Schedule != "" || o.Rule != RuleCost {
		return nil, r.wrong("schedules and rules of the caller's choice need sizes that the host knows")
	}
	plan := &Plan{Device: p.device, Options: o, Ragged: &r}
	builder := p.take()
	defer p.give(builder)
	builder.Plan = plan
	if err := builder.setExtents(r.extents(&o.Epilogue)); err != nil {
		return nil, err
	}
	if !plan.reachable(plan.ExtentA, max(plan.ExtentB, plan.ExtentB2), plan.ExtentC) {
		return nil, r.wrong("an operand has more elements than %s can bind", p.device.Name)
	}
	if err := builder.model.setFor(p.device, &o, r.fast(p.device, &o), Batch{r.problem()}); err != nil {
		return nil, err
	}
	b := raggedBuilder{Plan: plan, model: &builder.model, vector: r.vectorTile(&o)}
	if err := b.choose(); err != nil {
		return nil, err
	}
	if len(p.device.family().stages) == 0 { // the host plans when the sizes are there
		return plan, nil
	}
	return plan, b.layout()
}

// raggedBuilder makes a plan for sizes that the device has.
type raggedBuilder struct {
	*Plan
	model   *model
	mean    Sizes
	kernels [encoding.RaggedKernels]raggedKernel
	n       int  // of kernels; of two the second has the smaller tiles
	alone   bool // the second is taken for all groups or for none
	vector  bool // see Kernel.Vector
	fill    int  // see encoding.BoundFill
}

// raggedKernel is a kernel that groups may take.
type raggedKernel struct {
	id          tileID
	most, tiles int // that there may be, and that are expected
}

// choose finds the shape that suits groups as they are expected. Where nothing is, there is
// also one for when they have a sixteenth of their share, which is often the same.
func (b *raggedBuilder) choose() error {
	r, m := b.Ragged, b.model
	b.mean, b.n = r.expected(), 1
	m.see(r.operands(&b.Options, b.mean))
	if name := b.Options.Tile; name != "" {
		id, err := m.named(name)
		b.kernels[0] = b.kernel(id, b.mean)
		return err
	}
	large := b.cheapest(b.mean)
	b.kernels[0] = b.kernel(large, b.mean)
	if r.Mean != (Sizes{}) || r.Form == EndsOfDepth { // whose number of tiles is known
		return nil
	}
	if small := b.cheapest(b.few()); nested(m.tiles[small].shape, m.tiles[large].shape) {
		b.kernels[1], b.n = b.kernel(small, b.few()), 2
		b.alone, b.fill = sparing(m.tiles[small].shape, m.tiles[large].shape), b.filled()
	}
	return nil
}

// kernel is the one of a shape, where groups are expected to have these sizes.
func (b *raggedBuilder) kernel(id tileID, mean Sizes) raggedKernel {
	return raggedKernel{id, b.most(b.model.tiles[id].shape), b.load(id, mean).tiles}
}

// few is groups for which the second shape is.
func (b *raggedBuilder) few() Sizes {
	few := b.mean
	few.M = ceilDiv(few.M, 16)
	return few
}

// nested reports whether a shape is a part of another, so that no choice of the device makes
// more tiles than if all groups took it.
func nested(small, large *tile.Shape) bool {
	return small.TM <= large.TM && small.TN <= large.TN && small.TM*small.TN < large.TM*large.TN
}

// sparing reports whether the large shape spares the small one groups of few rows: kernels of warpgroups
// leave out rows that do not exist. A launch more would take longer: 8192 rows in 128 groups (N 1536, K 2048,
// bf16), of which half have up to 64, take 207 us by tiles of 128 x 128 and 215 if these half have tiles of
// 64 x 128 (H200).
func sparing(small, large *tile.Shape) bool { return large.Unit == tile.WGMMA && small.TN == large.TN }

// groups is how many may have rows.
func (r *Ragged) groups() int {
	if r.Form == EndsOfDepth {
		return r.Groups
	}
	return min(r.Groups, max(r.M, 1))
}

// expected is a group as it is expected, of those that may have rows.
func (r *Ragged) expected() Sizes {
	s := r.Mean
	if s.M == 0 {
		s.M = r.M
		if r.Form != EndsOfDepth {
			s.M = ceilDiv(r.M, r.groups())
		}
	}
	if s.N == 0 {
		s.N = r.N
	}
	if s.K == 0 {
		s.K = r.K
		if r.Form == EndsOfDepth {
			s.K = ceilDiv(r.K, r.Groups)
		}
	}
	return s
}

// cheapest is the shape with the least predicted time if groups have these sizes in the mean.
func (b *raggedBuilder) cheapest(mean Sizes) tileID {
	m := b.model
	best, micros := tileID(0), math.Inf(1)
	for id := range m.tiles {
		if !m.tiles[id].fits {
			continue
		}
		if c := m.dealt(tileID(id), b.load(tileID(id), mean)); c <= micros {
			best, micros = tileID(id), c
		}
	}
	return best
}

// load is that of groups with these sizes in the mean, of which those that vary are spread
// evenly from none to twice that.
func (b *raggedBuilder) load(id tileID, mean Sizes) load {
	r, cut := b.Ragged, &b.model.cuts[b.model.tiles[id].cut]
	vary := func(size int, varies bool, most int) [4]int {
		var all [4]int
		for i := range all {
			all[i] = max(size, 1)
			if varies {
				all[i] = min(max(size*(2*i+1)/4, 1), max(most, 1))
			}
		}
		return all
	}
	rows, cols := vary(mean.M, r.Form != EndsOfDepth, r.M), vary(mean.N, r.Form == Records, r.N)
	depths := vary(mean.K, r.Form != EndsOfRows, r.K)
	var one load // of 64 groups
	for _, m := range rows {
		for _, n := range cols {
			for _, k := range depths {
				one.add(cut, Sizes{m, n, k}, b.model.products, 1, 0)
			}
		}
	}
	times := float64(r.groups()) / 64
	return load{
		tiles: max(int(float64(one.tiles)*times), 1), steps: one.steps * times, longest: one.longest,
		whole: one.whole * times, work: one.work * times, loads: one.loads * times,
	}
}

// dealt predicts a load as kernels of ragged plans deal it: see workers.
func (m *model) dealt(id tileID, l load) float64 {
	if staying(m, id, l) {
		micros, _ := m.lptCost(id, l)
		return micros
	}
	micros, _ := m.dataParallelCost(id, l)
	return micros
}

// filled is the least number of large tiles, a power of two, that are predicted to take less
// than the small ones in their place.
func (b *raggedBuilder) filled() int {
	m, n := b.model, 1
	first, second := b.kernels[0].id, b.kernels[1].id
	large, small := m.tiles[first].shape, m.tiles[second].shape
	pieces := max(large.TM/small.TM, 1) * max(large.TN/small.TN, 1)
	tiles := func(id tileID, n int) (l load) {
		l.addTiles(n, max(ceilDiv(b.mean.K, m.tiles[id].shape.TK), 1)*m.products, float64(n), 0)
		return l
	}
	for n < 1<<20 && m.dealt(first, tiles(first, n)) > m.dealt(second, tiles(second, n*pieces)) {
		n *= 2
	}
	return n
}

// most is the tiles that there may be.
func (b *raggedBuilder) most(t *tile.Shape) int {
	r := b.Ragged
	rows, cols := ceilShift(r.M, shift(t.TM)), ceilShift(r.N, shift(t.TN))
	switch {
	case r.Form == EndsOfDepth:
		return r.Groups * rows * cols
	case r.M == 0:
		return 0
	}
	return (r.M/t.TM + min(r.Groups, r.M) + 1) * cols // one more for rows that are filled
}

// entries is the groups, and one for rows after the last that are filled.
func (r *Ragged) entries() int {
	if r.Form == EndsOfRows && r.Rest != RestKept {
		return r.Groups + 1
	}
	return r.Groups
}

// operands are those of groups that have these sizes in the mean.
func (r *Ragged) operands(o *Options, mean Sizes) operands {
	return operands{float64(r.groups()) * elementsOf(mean.M, mean.N, mean.K), o.elementBytes(), r.TransB,
		o.oddRows(r.A, r.B)}
}

// fast is Options.fast of all groups, where sizes matter as they are expected.
func (r *Ragged) fast(d *Device, o *Options) bool {
	if d.family().direct {
		mean := r.expected()
		return likeMeasured(mean.M, mean.K) && (o.Epilogue.group() > 0 || r.vectorTile(o))
	}
	return o.TypeA != element.F32 && o.quick(r.TransA, r.TransB) && r.aligned(o.vector(), o.Epilogue.Gated)
}

// vectorTile reports whether what sizes leave open cannot make 16-byte loads unaligned: see
// Options.vectorTile.
func (r *Ragged) vectorTile(o *Options) bool {
	whole := r.problem()
	switch {
	case r.Form == Records, !o.vectorTile(&whole):
		return false
	case r.Form == EndsOfRows: // of A, transposed, groups begin at any element
		return !r.TransA && r.StrideB%o.vector() == 0
	}
	return !r.TransB // of B, transposed, they do too; else groups begin with rows
}

// aligned reports whether rows of A and B begin with 16 bytes whatever the sizes are: groups begin with
// rows of A and matrices of B, or with rows of both.
func (r *Ragged) aligned(elements int, gated bool) bool {
	whole := r.problem()
	if !whole.aligned(elements) {
		return false
	}
	switch r.Form {
	case EndsOfRows:
		return !r.TransA && r.StrideB%elements == 0 && (!gated || r.B2.aligned(elements))
	case EndsOfDepth:
		return r.TransA && !r.TransB && (!gated || r.B2.aligned(elements))
	}
	return false
}
