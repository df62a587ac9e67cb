//go:build !nowebgpu && (js || (cgo && ((linux && amd64) || darwin || (windows && amd64))))

package webgpu

import (
	"context"
	"fmt"
	"math"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner"
)

// program is a plan on the device.
type program struct {
	dev       *device
	workspace *buffer // for all its plans; nil: none splits a tile
	encoded   []uint32
	turns     []uint32 // tables of dynamic tiles of the uploaded plan

	images [2]image // for plans, alternating, so that the last stays if the next fails
	now    int      // index of the current image
	plans  uint64   // number of plans so far

	sizes int  // words of sizes of a ragged plan, or of experts' numbers; 0: none
	layer bool // a step of a layer of experts: runs have no B

	// sets are the bind groups of recent operands. dev.mu protects them.
	sets *backend.Cache[operands, bindings]
}

// launch is an encoding.Launch with its sections of the plan, in bytes.
type launch struct {
	encoding.Launch
	pipeline     *pipeline
	items, table span
	made         bool // the device makes the items, or this launch does
	sizes        int  // words of sizes or experts' numbers that the launch reads
}

type span struct{ offset, size uint64 }

func (p *program) On() *device { return p.dev }

// Apart implements backend.Apart.
func (p *program) Apart() [3]bool { return [3]bool{1: p.layer} }

func (d *device) Prepare(ctx context.Context, plan *planner.Plan) (driver.Program, error) {
	p := &program{dev: d, sets: newSets()}
	p.sizes, p.layer = plan.ExtentSizes, plan.Layer != nil
	if err := p.Update(ctx, plan); err != nil {
		p.Close()
		return nil, err
	}
	p.encoded, p.turns = nil, nil // the plan may be the only one
	if err := d.lock(); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	d.programs[p] = struct{}{}
	return p, nil
}

// prepareLaunch compiles a launch's kernel and places its sections.
func (d *device) prepareLaunch(ctx context.Context, plan *planner.Plan, i int) (launch, error) {
	l := launch{Launch: plan.Launches[i]}
	if limit := int(d.limits.MaxComputeWorkgroupsPerDimension); l.Count < 1 || l.Count > limit {
		return l, invalid.Errorf("webgpu: %d workgroups, the device allows %d", l.Count, limit)
	}
	if (l.Split || l.Fixup) && plan.Workspace == 0 {
		return l, invalid.Errorf("webgpu: the plan has no workspace")
	}
	l.items = span{4 * uint64(l.Items), roundUp(4*uint64(itemWords(plan, &l.Launch)), 16)}
	l.made = plan.Ragged != nil
	if l.Ragged > 0 || l.Layer > 0 {
		l.sizes = max(plan.ExtentSizes, len(plan.Records))
	}
	l.table = span{4 * uint64(l.Table), roundUp(4*uint64(l.Count+1), 16)}
	if need := max(l.items.size, 4*uint64(plan.Workspace)); need > d.binding {
		return l, fmt.Errorf("webgpu: %w: the plan's items or workspace take %d bytes, a binding has %d",
			hardware.ErrOutOfMemory, need, d.binding)
	}
	if err := ctx.Err(); err != nil {
		return l, err
	}
	var err error
	l.pipeline, err = d.ready(ctx, l.Kernel)
	return l, err
}

// itemWords returns the length of a launch's items. Only the device knows it for ragged plans; launches that
// make items get all words.
func itemWords(plan *planner.Plan, l *encoding.Launch) int {
	switch {
	case plan.Ragged != nil || plan.Layer != nil:
		return plan.Words - l.Items
	case l.Fixup:
		return l.Count * l.ItemWords()
	}
	return l.ItemCount(plan.Workers) * l.ItemWords()
}

// Close frees the program once queued work that uses it is done.
func (p *program) Close() error {
	d := p.dev
	if d.lock() != nil {
		return nil // abandoned with its device
	}
	delete(d.programs, p)
	p.unbind()
	d.mu.Unlock()
	for _, b := range []*buffer{p.images[0].words, p.images[1].words, p.images[0].turns, p.images[1].turns,
		p.images[0].records, p.images[1].records, p.workspace} {
		if b != nil {
			b.Close()
		}
	}
	return nil
}

// Status reads the word that shaders leave, and clears it. If a run is queued between the two, the word of
// an earlier run hides its own.
func (p *program) Status(ctx context.Context) (group int, err error) {
	if err := p.dev.state.Ready(ctx); err != nil || p.sizes == 0 {
		return -1, err
	}
	words := p.images[p.now].words
	if words == nil { // nothing to do
		return -1, nil
	}
	var status [1]float32
	if err := words.Read(ctx, encoding.StatusWord, status[:]); err != nil {
		return -1, err
	}
	refused := int(math.Float32bits(status[0]))
	if refused > 0 {
		err = words.Write(ctx, encoding.StatusWord, make([]float32, 1))
	}
	return refused - 1, err
}
