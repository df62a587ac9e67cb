//go:build cgo && linux && (amd64 || arm64)

package dl

// #include "dl.h"
import "C"

import (
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/backend"
)

// operands identify a run: the addresses of all its buffers, and the number of the program's plan. A buffer
// at the address of a closed one may use its graphs.
type operands struct {
	a, b, c, sizes C.dl_pointer
	b2, bias, rows C.dl_pointer
	plan           uint64
}

// graphs are for the operands of recent runs of a program; nil for operands that it has run with once.
type graphs = backend.Cache[operands, C.dl_graph_exec]

// newGraphs returns a cache of graphs.
func newGraphs[K comparable](d *device) *backend.Cache[K, C.dl_graph_exec] {
	return backend.NewCache[K](func(graph C.dl_graph_exec) {
		if graph != nil {
			C.dl_graph_free(d.handle, graph)
		}
	})
}

// launched returns the run of the program on these operands, launch by launch.
func (p *program) launched(o operands) C.dl_run {
	launches := p.images[p.now].runs()
	return C.dl_run{
		launches: unsafe.SliceData(launches), count: C.size_t(len(launches)),
		a: o.a, b: o.b, c: o.c, sizes: o.sizes,
		b2: o.b2, bias: o.bias, rows: o.rows,
	}
}

// bind returns the run of the program on these operands. The second run on the same operands records a
// graph, because the first may be the only one. The first run after an Update does not count, because each
// run may have an update. If no graph can be made, or there is no room while others are queued, launches go
// one by one.
func (p *program) bind(o operands) C.dl_run {
	d, run := p.dev, p.launched(o)
	if !d.graphs || p.fresh {
		p.fresh = false
		return run
	}
	graph := p.graphs.Get(o, d.number)
	if graph == nil {
		if p.graphs.Room(d.fence.done) || p.graphs.Room(d.finished()) {
			p.graphs.Put(o, nil, d.number)
		}
		return run
	}
	if *graph == nil {
		*graph = d.record([]C.dl_run{run})
	}
	run.graph = *graph
	return run
}

// record returns the graph of runs, or nil.
func (d *device) record(runs []C.dl_run) (graph C.dl_graph_exec) {
	if C.dl_record(d.handle, unsafe.SliceData(runs), C.size_t(len(runs)), &graph) != 0 {
		return nil
	}
	return graph
}

// fence tells which queued work is done, without waiting.
type fence struct {
	event  C.dl_event // after the submissions up to number; made on first use
	number uint64
	done   uint64 // last submission that is known to be done
}

// finished returns the last submission that is known to be done. It asks the driver with an event, which it
// records again each time it is reached. It ignores failures: they only mean that nothing new is known.
func (d *device) finished() uint64 {
	f := &d.fence
	if f.event == nil {
		f.event, _ = d.newEvent(0)
	}
	if f.event == nil || f.done == d.number-1 {
		return f.done
	}
	if f.number == f.done {
		if C.dl_mark(d.handle, f.event) != 0 {
			return f.done
		}
		f.number = d.number - 1
	}
	if C.dl_poll(d.handle, f.event, 1) == 0 {
		f.done = f.number
	}
	return f.done
}
