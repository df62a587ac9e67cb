package planner

import (
	"context"
	"math"
	"slices"

	"github.com/batchgemm/batchgemm/planner/internal/radix"
)

// Renew replaces a plan by the plan of a batch that soon changes. It minimises the time until the batch is
// computed once. On GPUs the host chooses a tile shape and writes a record for each problem, and the device
// does the rest, see encoding.RaggedPlan. The plan then has Ragged and Records in place of Batch and what
// follows from it.
//
// In these cases Renew is Replan: the options have a schedule, a rule or an epilogue; transpositions differ;
// there are more than MaxGroups problems; or a launch cannot reach the operands. Renew fails as Replan does.
// Once planner and plan have seen a batch of that size, it allocates nothing.
func (p *Planner) Renew(ctx context.Context, plan *Plan, b Batch, o Options) error {
	return p.into(ctx, plan, b, o, (*builder).renew)
}

func (p *builder) renew(b Batch, o Options) error {
	p.reset(o)
	if !p.Options.renews(p.device) || len(b) == 0 || len(b) > MaxGroups {
		return p.whole(b, o)
	}
	if err := p.model.setFor(p.device, &p.Options, p.Options.arithmeticOf(p.device, b), b); err != nil {
		return err
	}
	live := raggedBuilder{Plan: p.Plan, model: &p.model, n: 1, vector: true}
	if !live.record(b) {
		return p.whole(b, o)
	}
	id, err := p.chooseLive(b)
	if err != nil {
		return err
	}
	tiles := p.model.tilesOf(id, b)
	if live.kernels[0] = (raggedKernel{id, tiles, tiles}); tiles > maxSegments || live.layout() != nil {
		return p.whole(b, o)
	}
	return nil
}

// renews reports whether the device may make the items of plans with the options.
func (o *Options) renews(d *Device) bool {
	own := o.filled()
	return d.expands() && own.Custom == nil && own.Schedule == "" && own.Rule == RuleCost &&
		own.Epilogue.none()
}

// expands reports whether the device makes items faster than the host. Where launches are slow, as on GPUs
// that a CPU emulates, it does not.
func (d *Device) expands() bool {
	return len(d.family().stages) > 0 && d.LaunchMicros <= expandLaunch
}

// expandLaunch is the longest launch, in microseconds, with which the device expands records. The host makes
// the items of 50 to 100 problems in that time.
const expandLaunch = 10

// record writes the records of a batch and their bounds. It reports whether that is possible: all problems
// have one transposition, and a launch reaches all of them.
func (p *raggedBuilder) record(b Batch) bool {
	p.live = Ragged{Form: Records, Groups: len(b), TransA: b[0].TransA, TransB: b[0].TransB}
	p.Ragged = &p.live
	words := p.Options.recordWords()
	p.Records = slices.Grow(p.Records[:0], len(b)*words)[:len(b)*words]
	r, same := &p.live, true
	for i := range b {
		q := &b[i]
		same = same && q.TransA == r.TransA && q.TransB == r.TransB
		r.M, r.N, r.K = r.M+q.M, max(r.N, q.N), max(r.K, q.K)
		p.vector = p.vector && p.Options.vectorTile(q)
		q.record(p.Records[i*words:][:words], p.Options.TypeC)
	}
	need := b.Lengths(Epilogue{})
	r.LenA, r.LenB, r.LenC = need.A, need.B, need.C
	p.ExtentA, p.ExtentB, p.ExtentC = r.LenA, r.LenB, r.LenC
	return same && r.M <= MaxDim && p.reachable(r.LenA, r.LenB, r.LenC)
}

// chooseLive returns one shape for all problems: the shape with the least predicted time for a sample of
// them.
func (p *builder) chooseLive(b Batch) (tileID, error) {
	m, step := &p.model, max(len(b)/liveSamples, 1)
	m.see(m.operands(&p.Options, b, step))
	if p.Options.Tile != "" {
		return m.named(p.Options.Tile)
	}
	p.uniform = zeroed(p.uniform, len(m.cuts))
	order := p.sorter.Reserve(len(b)/step + 1)[:0]
	for i := 0; i < len(b); i += step {
		if q := &b[i]; q.writes() {
			order = append(order, radix.Key{By: int64(MaxDim - q.depth()), Index: int32(i)})
		}
	}
	units := ceilDiv(m.roundSize(), step)
	for _, o := range p.sorter.Sort(order) {
		of := b[o.Index].sizes()
		for i := range m.cuts {
			p.uniform[i].add(&m.cuts[i], of, m.products, 1, units)
		}
	}
	best, micros := tileID(0), math.Inf(1)
	for id := range m.tiles {
		if t := &m.tiles[id]; t.fits {
			l := p.uniform[t.cut]
			l.scale(step)
			if c := m.dealt(tileID(id), l); c <= micros {
				best, micros = tileID(id), c
			}
		}
	}
	p.Cost = micros
	return best, nil
}

// liveSamples is the size of that sample. Of the 72 batches of the sweep, the choice by 32 is predicted to
// take 0.4 percent longer than the best (mean; at most 14 percent, if the sample has a round more or less).
const liveSamples = 32

// scale multiplies the tiles of a load.
func (l *load) scale(times int) {
	l.tiles *= times
	l.steps *= float64(times)
	l.whole *= float64(times)
	l.work *= float64(times)
	l.loads *= float64(times)
}

// tilesOf returns the number of tiles of a shape.
func (m *model) tilesOf(id tileID, b Batch) (n int) {
	c := &m.cuts[m.tiles[id].cut]
	for i := range b {
		if q := &b[i]; q.writes() {
			n += ceilShift(q.M, c.tm) * ceilShift(q.N, c.tn)
		}
	}
	return n
}
