package planner

import (
	"cmp"
	"math"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// PlanRagged makes a plan for sizes that are on the device. It chooses one or two tile shapes; the device
// chooses between them for each group. It also chooses how many workers share the tiles. These are errors
// that wrap ErrInvalid: a description that no sizes can make right, options that do not pass Check, a
// schedule other than that of the tile shape, the rule of Zhang et al. (both need sizes), and operands that
// are too large for the device to bind.
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
		return nil, r.wrong("a forced schedule or rule needs sizes that the host knows")
	}
	plan := &Plan{Device: p.device, Options: o, Ragged: &r, ExtentSizes: r.sizesLen(&o)}
	builder := p.take()
	defer p.give(builder)
	builder.Plan = plan
	if err := builder.setExtents(r.extents(&o.Epilogue)); err != nil {
		return nil, err
	}
	if !plan.reachable(plan.ExtentA, max(plan.ExtentB, plan.ExtentB2), plan.ExtentC) {
		return nil, r.wrong("an operand has more elements than %s can bind", p.device.Name)
	}
	typical := r.typical(&o)
	err := builder.model.setFor(p.device, &o, typical.arithmetic(p.device, &o), Batch{r.problem()})
	if err != nil {
		return nil, err
	}
	b := raggedBuilder{Plan: plan, typical: typical, model: &builder.model, vector: r.vectorTile(&o)}
	if err := b.choose(); err != nil {
		return nil, err
	}
	if len(p.device.family().stages) == 0 { // the host plans when it has the sizes
		return plan, nil
	}
	return plan, b.layout()
}

// raggedBuilder makes a plan for sizes that are on the device.
type raggedBuilder struct {
	*Plan
	typical Ragged // the batch that shapes are chosen for
	model   *model
	mean    Sizes
	kernels [encoding.RaggedKernels]raggedKernel
	n       int  // number of kernels; the second has the smaller tiles
	alone   bool // all groups take the second kernel, or none does
	vector  bool // see Kernel.Vector
	fill    int  // see encoding.BoundFill
}

// raggedKernel is a kernel that groups may take.
type raggedKernel struct {
	id          tileID
	most, tiles int // tiles: at most, and expected
}

// choose finds the best shape for groups of the expected size. If nothing is expected, it also finds a shape
// for groups with a sixteenth of their share, which is often the same shape.
func (b *raggedBuilder) choose() error {
	r, m := &b.typical, b.model
	b.mean, b.n = r.expected(), 1
	m.see(r.operands(&b.Options, b.mean))
	if name := b.Options.Tile; name != "" {
		id, err := m.named(name)
		b.kernels[0] = b.kernel(id, b.mean)
		return err
	}
	large := b.cheapest(b.mean)
	b.kernels[0] = b.kernel(large, b.mean)
	if b.Options.Invariant {
		b.Options.Tile = m.tiles[large].shape.Name // the CPU plans again for each run
		return nil
	}
	if r.Mean != (Sizes{}) || r.Form == EndsOfDepth { // the number of tiles is known
		return nil
	}
	if small := b.cheapest(b.few()); nested(m.tiles[small].shape, m.tiles[large].shape) {
		b.kernels[1], b.n = b.kernel(small, b.few()), 2
		b.alone, b.fill = sparing(m.tiles[small].shape, m.tiles[large].shape), b.filled()
	}
	return nil
}

// kernel returns the kernel of a shape for groups of these expected sizes.
func (b *raggedBuilder) kernel(id tileID, mean Sizes) raggedKernel {
	return raggedKernel{id, b.most(b.model.tiles[id].shape), b.load(id, mean).tiles}
}

// few returns the sizes of groups for which the second shape is chosen.
func (b *raggedBuilder) few() Sizes {
	few := b.mean
	few.M = ceilDiv(few.M, 16)
	return few
}

// nested reports whether the small shape divides the large one. Then no choice of the device makes more
// tiles than the small shape for all groups.
func nested(small, large *tile.Shape) bool {
	return small.TM <= large.TM && small.TN <= large.TN && small.TM*small.TN < large.TM*large.TN
}

// sparing reports whether the large shape makes the small one unnecessary for groups of few rows: kernels of
// warpgroups skip rows that do not exist. One more launch would take longer. 8192 rows in 128 groups (N
// 1536, K 2048, bf16), half of them with at most 64 rows, take 207 us by tiles of 128 x 128, and 215 us if
// that half has tiles of 64 x 128 (H200).
func sparing(small, large *tile.Shape) bool {
	return large.Unit == tile.WGMMA && (small.TN == large.TN || large.Boxes)
}

// invariantRows is the expected number of rows of a group in a plan that must not depend on it.
const invariantRows = 64

// typical returns the batch that shapes are chosen for.
func (r Ragged) typical(o *Options) Ragged {
	if o.Invariant && r.Form == EndsOfRows {
		r.Mean.M = cmp.Or(r.Mean.M, invariantRows)
		r.M = min(r.Groups*r.Mean.M, MaxDim)
	}
	return r
}

// groups returns how many groups may have rows.
func (r *Ragged) groups() int {
	if r.Form == EndsOfDepth {
		return r.Groups
	}
	return min(r.Groups, max(r.M, 1))
}

// expected returns the expected sizes of a group, among those that may have rows.
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

// cheapest returns the shape with the least predicted time for groups of these mean sizes.
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

// load returns the load of groups with these mean sizes. The size that varies is spread evenly from 0 to
// twice its mean.
func (b *raggedBuilder) load(id tileID, mean Sizes) load {
	r, cut := &b.typical, &b.model.cuts[b.model.tiles[id].cut]
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
	var one load // load of 64 groups
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

// filled returns the least number of large tiles, a power of two, that is predicted to take less time than
// small tiles in their place.
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

// most returns the largest possible number of tiles.
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

// entries returns the number of groups, and one more if rows after the last group are filled.
func (r *Ragged) entries() int {
	if r.Form == EndsOfRows && r.Rest != RestKept {
		return r.Groups + 1
	}
	return r.Groups
}

// operands returns the operands of groups with these mean sizes.
func (r *Ragged) operands(o *Options, mean Sizes) operands {
	return operands{float64(r.groups()) * elementsOf(mean.M, mean.N, mean.K), o.elementBytes(), r.TransB,
		o.oddRows(r.A, r.B)}
}

// fast is Options.fast for all groups, at their expected sizes.
func (r *Ragged) fast(d *Device, o *Options) bool {
	mean := r.expected()
	if d.family().few {
		return o.fewRows(&Problem{M: mean.M, K: mean.K})
	}
	if d.family().direct {
		return likeMeasured(mean.M, mean.K) && (o.Epilogue.group() > 0 || r.vectorTile(o))
	}
	return o.TypeA != element.F32 && o.quick(r.TransA, r.TransB) && r.aligned(o.vector(), o.Epilogue.Gated)
}

// arithmetic is that of plans for all groups.
func (r *Ragged) arithmetic(d *Device, o *Options) arithmetic {
	a := o.arithmetic(d, r.fast(d, o))
	a.boxes = r.Form == EndsOfRows && o.boxes(r.TransA, r.TransB) && r.aligned(o.vector(), false)
	return a
}

// vectorTile reports whether 16-byte loads are aligned for all possible sizes: see Options.vectorTile.
func (r *Ragged) vectorTile(o *Options) bool {
	whole := r.problem()
	switch {
	case r.Form == Records, !o.vectorTile(&whole):
		return false
	case r.Form == EndsOfRows: // groups of a transposed A start at any element
		return !r.TransA && r.StrideB%o.vector() == 0
	}
	return !r.TransB // so do groups of a transposed B; otherwise groups start with rows
}

// aligned reports whether rows of A and B are aligned for all sizes. Groups start with rows of A and
// matrices of B, or with rows of both.
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
