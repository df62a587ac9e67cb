package hostgemm

import (
	"context"
	"sync/atomic"

	"github.com/batchgemm/batchgemm/planner"
)

const (
	// copyRate is how many elements the host moves to or from a device in a microsecond, for predictions: 22
	// GB/s including staging, measured for batches of 130 MB to 1.76 GB on an H200 with 16 cores.
	copyRate = 5500
	// splitGain is how many microseconds a split must save by prediction. Two H200 share the host's memory,
	// and operands that were side by side are collected from separate places. Batches of 2 to 16 MB (370 us
	// by this measure) were up to a quarter slower when split; those of 130 MB (3000 us) and more were 1.4
	// times faster.
	splitGain = 1000
)

// Group is several hosts used as one. It is safe for concurrent use.
type Group struct {
	hosts  []*Host
	turn   turn          // guards split, and orders calls that wait for all hosts
	split  session       // its programs run when the turns of all hosts are held
	waited atomic.Uint64 // calls that found no host idle
}

// NewGroup makes a group of at least one host. The hosts may also be used separately.
func NewGroup(hosts []*Host) *Group {
	return &Group{hosts: hosts, turn: newTurn(), split: session{hosts: hosts}}
}

// GEMM computes a batch like Host.GEMM, on all hosts if that saves time by prediction, otherwise on an idle
// one.
func (g *Group) GEMM(ctx context.Context, batch planner.Batch, o planner.Options, x Operands) error {
	if len(g.hosts) == 1 {
		return g.hosts[0].GEMM(ctx, batch, o, x)
	}
	t, err := newTask(batch, o, x)
	if err != nil {
		return err
	}
	if err := g.turn.take(ctx); err != nil {
		return err
	}
	e, err := g.entry(ctx, &t)
	if err != nil || len(e.parts) == 0 {
		g.turn.give()
		if err == nil {
			err = g.one(ctx, &t)
		}
		return err
	}
	defer g.turn.give()
	for _, h := range g.hosts {
		if err := h.turn.take(ctx); err != nil {
			return err
		}
		defer h.turn.give()
	}
	return g.split.execute(ctx, e, &t)
}

// entry returns the remembered entry of the batch, or decides how to split it. An entry without parts is for
// one device.
func (g *Group) entry(ctx context.Context, t *task) (*entry, error) {
	e, err := g.split.find(ctx, t)
	if e != nil || err != nil {
		return e, err
	}
	parts, err := g.deal(ctx, t.batch, &t.options.Epilogue)
	if err != nil {
		return nil, err
	}
	return g.split.remember(ctx, t, &entry{parts: parts})
}

// deal returns the parts of each device, or nil if one device should do all. It uses the best tiles,
// whatever the options say, and fails only if ctx ends.
func (g *Group) deal(ctx context.Context, batch planner.Batch, e *planner.Epilogue) ([][]*part, error) {
	compute := make([][]float64, len(g.hosts)) // predicted microseconds
	total := make([][]float64, len(g.hosts))   // with copies
	for d := range g.hosts {
		compute[d] = g.hosts[d].planner.Costs(batch, nil)
		total[d] = make([]float64, len(batch))
		for i := range batch {
			if err := look(ctx, i); err != nil {
				return nil, err
			}
			total[d][i] = compute[d][i] + float64(elements(&batch[i], e))/copyRate
		}
	}
	if sum(total[0]) < splitGain {
		return nil, nil
	}
	all := everything(batch)
	whole, err := cut(ctx, batch, e, all)
	if err != nil {
		return nil, err
	}
	parts := make([][]*part, len(g.hosts))
	longest := 0.0
	for d, share := range shares(total) {
		if parts[d], err = cut(ctx, batch, e, share); err != nil {
			return nil, err
		}
		longest = max(longest, predict(compute[d], share, parts[d]))
	}
	if predict(compute[0], all, whole)-longest < splitGain {
		return nil, nil
	}
	return parts, nil
}

func sum(values []float64) (total float64) {
	for _, v := range values {
		total += v
	}
	return total
}

// predict returns the time of a share with its copies. An operand that several problems read counts once for
// each part.
func predict(compute []float64, share []int, parts []*part) (micros float64) {
	for _, i := range share {
		micros += compute[i]
	}
	for _, p := range parts {
		micros += float64(p.moved()) / copyRate
	}
	return micros
}

// one computes the batch on the first idle device.
func (g *Group) one(ctx context.Context, t *task) error {
	i, err := g.idle(ctx)
	if err != nil {
		return err
	}
	h := g.hosts[i]
	defer h.turn.give()
	return g.split.name(i, h.session.run(ctx, t))
}

// idle takes the turn of the first idle device. If there is none, callers wait for one device each, in
// rotation.
func (g *Group) idle(ctx context.Context) (int, error) {
	for i, h := range g.hosts {
		select {
		case h.turn <- struct{}{}:
			return i, nil
		default:
		}
	}
	i := int(g.waited.Add(1) % uint64(len(g.hosts)))
	return i, g.hosts[i].turn.take(ctx)
}
