package dispatch

import (
	"log/slog"
	"runtime"
	"sync"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/planner"
)

// What users drop without Close is closed when the garbage collector finds it. A
// cleanup has what outlives the dropped one: of a Buffer or Program its object, of a
// Device its life. Since an object has its Device, that is found later than all of
// its buffers and programs, and after these are closed.

func newBuffer(d *Device, made driver.Buffer, n int) *Buffer {
	o := &object{device: d, free: made.Close, kind: "buffer", size: n, keep: d.foreign}
	b := &Buffer{object: o, driver: made, n: n}
	runtime.AddCleanup(b, (*object).drop, o)
	return b
}

func newProgram(d *Device, made driver.Program, p *planner.Plan) *Program {
	o := &object{device: d, free: made.Close, kind: "program", size: len(p.Batch), keep: d.foreign}
	if p.Ragged != nil {
		o.size = p.Ragged.Groups
	}
	program := &Program{object: o, driver: made, plan: p, asking: make(chan struct{}, 1)}
	runtime.AddCleanup(program, (*object).drop, o)
	return program
}

// drop closes an object that nobody can reach any more.
func (o *object) drop() {
	o.device.reaper.add(func() {
		if o.isClosed() || o.device.isClosed() {
			return
		}
		o.device.warn(o.keep, "object", o.kind, "size", o.size)
		if !o.keep {
			_ = o.close() // a failed device says so on its next call
		}
	})
}

// drop closes a device that nobody can reach any more, nor anything that is its.
func (l *life) drop() {
	l.reaper.add(func() {
		if l.isClosed() {
			return
		}
		l.warn(l.foreign, "object", "device")
		if l.foreign {
			return
		}
		if err := l.close(); err != nil {
			driver.Logger().Warn("a dropped device could not be closed", "err", err)
		}
	})
}

func (l *life) warn(kept bool, attributes ...any) {
	text := "dropped without Close; closed now"
	if kept {
		text = "dropped without Close; left open, since graphs of its stream may use it"
	}
	driver.Logger().With(slog.String("backend", l.info.Backend), slog.String("device", l.info.Name)).Warn(text, attributes...)
}

// reaper does tasks one after another, on a goroutine that is there while there are
// any. Closing may wait for queued work, for which the collector's own goroutine has
// no time.
type reaper struct {
	mu      sync.Mutex
	tasks   []func()
	running bool
}

func (r *reaper) add(task func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tasks = append(r.tasks, task)
	if !r.running {
		r.running = true
		go r.run()
	}
}

func (r *reaper) run() {
	for {
		r.mu.Lock()
		tasks := r.tasks
		r.tasks, r.running = nil, len(tasks) > 0
		r.mu.Unlock()
		if len(tasks) == 0 {
			return
		}
		for _, task := range tasks {
			task()
		}
	}
}
