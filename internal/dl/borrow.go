//go:build cgo && linux && (amd64 || arm64)

package dl

// #cgo nocallback dl_submit_on
// #cgo nocallback dl_repeats
// #include "dl.h"
import "C"

import (
	"context"
	"fmt"
	"math"
	"unsafe"

	"github.com/batchgemm/batchgemm/dispatch/driver"
)

// sequence identifies runs of several programs, one after the other, on a stream of the caller.
type sequence [8]struct {
	program *program
	operands
	extent int
}

func (s *sequence) has(p *program) bool {
	for i := range s {
		if s[i].program == p {
			return true
		}
	}
	return false
}

// SubmitOn queues runs launch by launch. Several runs that repeat become a graph, which takes the host a
// fraction of the time, unless the caller captures the stream. It implements backend.Borrower.
func (d *device) SubmitOn(ctx context.Context, stream uintptr, runs []driver.Run) error {
	if err := d.state.Ready(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.work = d.work[:0]
	var of sequence
	for i := range runs {
		p, all, err := d.operandsOf(&runs[i])
		if err != nil {
			return fmt.Errorf("run %d: %w", i, err)
		}
		if len(p.images[p.now].runs()) == 0 {
			continue
		}
		run := p.launched(all)
		run.extent = C.uint64_t(runs[i].Extent)
		if n := len(d.work); n < len(of) {
			of[n].program, of[n].operands, of[n].extent = p, all, runs[i].Extent
		}
		d.work = append(d.work, run)
	}
	var graph C.dl_graph_exec
	switch n := len(d.work); {
	case n == 0:
		return nil
	case n > 1 && n <= len(of) && d.graphs && C.dl_repeats(d.handle, C.uintptr_t(stream)) != 0:
		graph = d.repeated(&of)
	}
	return d.check("submit", C.dl_submit_on(d.handle, C.uintptr_t(stream), unsafe.SliceData(d.work),
		C.size_t(len(d.work)), graph))
}

// repeated returns the graph of d.work, or nil for the first time. Nobody tells when work on streams of the
// caller is done: room is made for it by graphs that may be in flight. The driver finishes these.
func (d *device) repeated(of *sequence) C.dl_graph_exec {
	graph := d.sequences.Get(*of, 0)
	if graph == nil {
		d.sequences.Room(math.MaxUint64)
		d.sequences.Put(*of, nil, 0)
		return nil
	}
	if *graph == nil {
		*graph = d.record(d.work)
	}
	return *graph
}
