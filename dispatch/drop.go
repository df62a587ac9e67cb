package dispatch

import (
	"log/slog"
	"runtime"
	"sync"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/planner"
)

// An object that is dropped without Close is closed when the garbage collector finds it. A cleanup holds
// what outlives the dropped object. For a Buffer or Program that is its object. For a Device it is its life,
// which the collector finds together with all buffers and programs, and which is closed after them.
//
// Memory that a cleanup holds stays for one more collection. So a closed object, closed by itself or with
// its device, must not hold any memory. Otherwise memory would grow with the rate at which devices come and
// go.

func newBuffer(d *Device, made driver.Buffer, n int) *Buffer {
	o := &object{life: d.life, free: made.Close, kind: "buffer", size: n, keep: d.foreign}
	b := &Buffer{object: o, device: d, driver: made, n: n}
	o.dropped = runtime.AddCleanup(b, (*object).drop, o)
	d.remember(o)
	return b
}

func newProgram(d *Device, made driver.Program, p *planner.Plan) *Program {
	o := &object{life: d.life, free: made.Close, kind: "program", size: len(p.Batch), keep: d.foreign}
	if p.Ragged != nil {
		o.size = p.Ragged.Groups
	}
	program := &Program{object: o, device: d, driver: made, plan: p, asking: make(chan struct{}, 1)}
	o.dropped = runtime.AddCleanup(program, (*object).drop, o)
	d.remember(o)
	return program
}

// objects are the open objects of a device.
type objects struct {
	mu   sync.Mutex
	open map[*object]struct{}
}

func (s *objects) remember(o *object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open = map[*object]struct{}{}
	}
	s.open[o] = struct{}{}
}

// forget also removes a closed object from the collector's list.
func (s *objects) forget(o *object) {
	o.dropped.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, o)
}

// forgetAll forgets all objects of a closed device.
func (s *objects) forgetAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for o := range s.open {
		o.dropped.Stop()
	}
	s.open = nil
}

func (s *objects) none() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open) == 0
}

// drop closes an object that is no longer reachable.
func (o *object) drop() {
	l := o.life
	l.reaper.add(func() {
		if o.isClosed() || l.isClosed() {
			return
		}
		l.warn(o.keep, "object", o.kind, "size", o.size)
		if o.keep {
			l.forget(o)
		} else {
			_ = o.close() // a failed device reports itself on its next call
		}
		l.closeDropped()
	})
}

// drop closes a device that is no longer reachable, and neither is any of its objects.
func (l *life) drop() {
	l.reaper.add(func() {
		l.unreachable = true
		l.closeDropped()
	})
}

// closeDropped closes a dropped device after the last of its objects.
func (l *life) closeDropped() {
	if !l.unreachable || !l.none() || l.isClosed() {
		return
	}
	l.warn(l.foreign, "object", "device")
	if l.foreign {
		return
	}
	if err := l.close(); err != nil {
		backend.Logger().Warn("a dropped device could not be closed", "err", err)
	}
}

func (l *life) warn(kept bool, attributes ...any) {
	text := "dropped without Close; closed now"
	if kept {
		text = "dropped without Close; left open, since graphs of its stream may use it"
	}
	backend.Logger().With(slog.String("backend", l.info.Backend),
		slog.String("device", l.info.Name)).Warn(text, attributes...)
}

// reaper runs tasks one after the other, on a goroutine that exists while there are tasks. Closing may wait
// for queued work, which must not block the collector's own goroutine.
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
