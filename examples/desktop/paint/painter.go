// Package paint computes a moving picture: a mixture of small networks, each of which paints the pixels that
// a router gives it, on any device of the machine. A Painter runs beside a window, which never waits for it.
// The Painter opens the device, changes it if another one is chosen, and opens it again if it is lost.
package paint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/batchgemm/batchgemm/dispatch"
)

// Picture is a finished picture.
type Picture struct {
	Pixels []byte        // red, green, blue and alpha, row by row
	Rows   [Experts]int  // pixels of each expert
	Took   time.Duration // from its routing on the host to its last pixel there
}

// State is what a window shows.
type State struct {
	Devices    []dispatch.Info // to choose from
	Device     dispatch.Info   // the open device; without an ID if none is open
	Ready, All int             // stages of preparing the device
	Picture    *Picture        // the newest one, or nil
	Pictures   int             // since the start
	Trouble    string          // the last error, or ""
	Troubled   time.Time       // when
	Opened     int             // devices, since the start
	Losses     int             // of them
}

// Painter is safe for concurrent use.
type Painter struct {
	options []dispatch.Option
	times   chan float64 // of the next picture
	stop    context.CancelFunc
	done    chan struct{}

	mu     sync.Mutex
	id     string             // of the device to open, "" for the best one
	change context.CancelFunc // ends the work of the open device
	state  State
}

// Start opens the device with an ID, or the best one, and paints until Close. The options are for
// dispatch.Open.
func Start(id string, options ...dispatch.Option) *Painter {
	ctx, stop := context.WithCancel(context.Background())
	p := &Painter{options: options, id: id, times: make(chan float64, 1), stop: stop,
		done: make(chan struct{})}
	go p.work(ctx)
	return p
}

// Close closes the device, and returns when it is closed.
func (p *Painter) Close() {
	p.stop()
	<-p.done
}

// Want asks for the picture of a time, in seconds. If the device is late, it skips that picture.
func (p *Painter) Want(time float64) {
	select {
	case p.times <- time:
	default:
	}
}

// Choose continues with the device of another ID.
func (p *Painter) Choose(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.id = id
	if p.change != nil {
		p.change()
	}
}

// State returns the current state.
func (p *Painter) State() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

func (p *Painter) set(change func(s *State)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.state)
}

// work paints on one device after another.
func (p *Painter) work(ctx context.Context) {
	const pause = time.Second // so that a device that is lost at once is not reopened all the time
	defer close(p.done)
	for ctx.Err() == nil {
		chosen, change := context.WithCancel(ctx)
		p.mu.Lock()
		id := p.id
		p.change = change
		p.mu.Unlock()
		err := p.paint(chosen, id)
		if chosen.Err() == nil { // neither another choice nor the end
			p.trouble(id, err)
			select {
			case <-time.After(pause):
			case <-chosen.Done():
			}
		}
		change()
	}
}

// trouble shows an error. A lost device is opened again. If it does not exist any more, or has another
// error, the best device replaces it.
func (p *Painter) trouble(id string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.Trouble, p.state.Troubled = err.Error(), time.Now()
	switch {
	case errors.Is(err, dispatch.ErrDeviceLost):
		p.state.Losses++
	case p.id == id:
		p.id = ""
	}
}

// paint opens the device with an ID and paints on it until ctx ends or something fails.
func (p *Painter) paint(ctx context.Context, id string) error {
	p.set(func(s *State) { s.Device, s.Ready = dispatch.Info{}, 0 })
	choose := dispatch.WithAdapter(func(all []dispatch.Info) int {
		p.set(func(s *State) { s.Devices = all })
		return slices.IndexFunc(all, func(i dispatch.Info) bool { return i.ID == id })
	})
	device, err := dispatch.Open(ctx, append(slices.Clip(p.options), choose)...)
	if err != nil {
		return err
	}
	defer device.Close()
	p.set(func(s *State) {
		s.Device = device.Info()
		s.Opened++
	})
	scene, err := newScene(ctx, device, func(ready, all int) {
		p.set(func(s *State) { s.Ready, s.All = ready, all+1 }) // the first picture is also a stage
	})
	if err == nil {
		err = p.frames(ctx, scene)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", device.Info().Name, err)
	}
	return nil
}

// frame is a picture in progress.
type frame struct {
	start   time.Time
	rows    [Experts]int
	light   []float32
	reading *dispatch.Reading
}

// frames computes a picture for each requested time. While the device computes one, the host routes the
// next.
func (p *Painter) frames(ctx context.Context, s *scene) error {
	const depth = 2
	idle := []*frame{{light: make([]float32, pixels*outputs)}, {light: make([]float32, pixels*outputs)}}
	routing := newRouting()
	var queued []*frame
	for {
		var done <-chan struct{} // of the oldest
		wanted := p.times
		if len(queued) > 0 {
			done = queued[0].reading.Done()
		}
		if len(queued) == depth {
			wanted = nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-done:
			f := queued[0]
			if err := f.reading.Err(); err != nil {
				return err
			}
			p.publish(f)
			queued, idle = queued[1:], append(idle, f)
		case at := <-wanted:
			f := idle[len(idle)-1]
			f.start = time.Now()
			var err error
			if f.reading, err = s.start(ctx, at, routing, f.light); err != nil {
				return err
			}
			f.rows = routing.counts()
			queued, idle = append(queued, f), idle[:len(idle)-1]
		}
	}
}

func (p *Painter) publish(f *frame) {
	picture := &Picture{Pixels: colours(f.light), Rows: f.rows, Took: time.Since(f.start)}
	p.set(func(s *State) {
		s.Picture, s.Ready = picture, s.All
		s.Pictures++
	})
}
