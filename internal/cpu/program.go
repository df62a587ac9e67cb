package cpu

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner"
)

// program is a plan on the device, with earlier plans that runs still need.
type program struct {
	workspace *buffer // for the current plan, and all that need no more
	now       *image  // of the current plan
	images    []*image
}

// image is a plan in the form that kernels read.
type image struct {
	ragged    *ragged // makes the rest for each run; nil: the host knows the sizes
	launches  []encoding.Launch
	words     []uint32
	workspace *buffer
	layer     bool         // a step of a layer of experts
	noB       bool         // runs have no B
	work      int          // equivalent number of multiply-adds
	users     atomic.Int32 // queued runs
}

func (p *program) On() *device { return p.workspace.device }

// Apart implements backend.Apart.
func (p *program) Apart() [3]bool { return [3]bool{1: p.now.noB} }

// Update preserves images that queued runs need.
func (p *program) Update(ctx context.Context, plan *planner.Plan) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if plan.Workspace > p.workspace.Len() {
		larger, err := p.On().workspace(plan.Workspace)
		if err != nil {
			return err
		}
		p.workspace.drop()
		p.workspace = larger
	}
	p.begin(plan)
	return nil
}

// begin makes the image of a plan the current one.
func (p *program) begin(plan *planner.Plan) {
	m := p.idle()
	if plan.Ragged != nil {
		// Submit does not plan for its caller, even if there is little work.
		m.ragged, m.workspace, m.work = newRagged(plan), p.workspace, atOnce+1
		p.now = m
		return
	}
	m.launches = append(m.launches[:0], plan.Launches...)
	m.words, m.workspace = plan.Encode(m.words), p.workspace
	m.layer, m.noB = plan.Layer != nil, !plan.Takes().B
	const overhead = 256 // of a segment, in multiply-adds
	m.work = overhead * len(plan.Segments)
	for i := range plan.Batch {
		q := &plan.Batch[i]
		m.work += q.M * q.N * (q.K + 1)
	}
	if l := plan.Layer; l != nil {
		m.work += l.Choices()*max(l.Hidden, 1) + l.Experts
	}
	p.now = m
}

// idle returns an image that is not in use.
func (p *program) idle() *image {
	for _, m := range p.images {
		if m != p.now && m.users.Load() == 0 {
			return m
		}
	}
	m := new(image)
	p.images = append(p.images, m)
	return m
}

// Status takes the device, as runs that refuse groups do.
func (p *program) Status(ctx context.Context) (group int, err error) {
	d := p.On()
	if err := d.take(ctx); err != nil {
		return -1, err
	}
	defer d.release()
	if p.now.ragged == nil {
		return -1, nil
	}
	group, p.now.ragged.refused = p.now.ragged.refused, -1
	return group, nil
}

func (p *program) Close() error { return p.workspace.Close() }

func (d *device) workspace(n int) (*buffer, error) {
	b, err := d.allocate(n)
	if err != nil {
		return nil, fmt.Errorf("cpu: workspace: %d float32: %w", n, err)
	}
	return b, nil
}
