package gcn

import (
	"errors"
	"fmt"
)

// counter is a hardware counter of memory operations in flight. An s_waitcnt waits until at most n are.
// Operations of one counter end in order, except scalar loads, which therefore need a wait for 0. Shared
// memory and scalar loads share a counter, lgkmcnt: at most n of both in flight means at most n of either.
type counter uint8

const (
	loads       counter = iota // vmcnt; on GPUs without vscnt also stores
	stores                     // vscnt
	shared                     // lgkmcnt
	scalarLoads                // lgkmcnt
	counters
)

// noWait waits for nothing.
var noWait = [counters]int{1 << 30, 1 << 30, 1 << 30, 1 << 30}

// pending is the memory operations of a wave that may not have ended.
type pending struct {
	queues [counters][]underWay
	total  int              // in all queues
	busy   [registers]uint8 // how many operations will write the register
	by     [registers]counter
	there  int // the wave's stores that others can see: see order.go
}

// underWay is an operation that may not have ended, with what it will write.
type underWay struct {
	span
	there int  // what others can see when it has ended
	left  bool // for tests: a removed wait would have ended it
}

// begin queues an operation.
func (p *pending) begin(c counter, writes span, there int) {
	p.queues[c] = append(p.queues[c], underWay{span: writes, there: there})
	p.total++
	for r := writes.first; r < writes.first+writes.count; r++ {
		p.busy[r]++
		p.by[r] = c
	}
}

// wait ends operations until at most that many are in flight. It reports whether one of them was left.
func (p *pending) wait(most *[counters]int) (left bool) {
	for c := range p.queues {
		q := p.queues[c]
		if len(q) <= most[c] {
			continue
		}
		done := len(q) - most[c]
		for _, u := range q[:done] {
			left = left || u.left
			p.there = max(p.there, u.there)
			for r := u.first; r < u.first+u.count; r++ {
				p.busy[r]--
			}
		}
		p.total -= done
		p.queues[c] = q[:copy(q, q[done:])]
	}
	return left
}

// check reports a register that is used too early. Loads of one counter may overwrite each other.
func (p *pending) check(in *instruction) error {
	if p.total == 0 {
		return nil
	}
	for _, s := range in.reads {
		for r := s.first; r < s.first+s.count; r++ {
			if p.busy[r] != 0 {
				return fmt.Errorf("reads %s, which a load under way will write: no wait", registerName(r))
			}
		}
	}
	for _, s := range in.writes {
		for r := s.first; r < s.first+s.count; r++ {
			if p.busy[r] != 0 && (in.unit != memory || in.counter != p.by[r] || in.counter == scalarLoads) {
				return fmt.Errorf("writes %s, which a load under way will write: no wait", registerName(r))
			}
		}
	}
	return nil
}

var errBarrier = errors.New("memory operations are under way: no wait")

// atBarrier reports operations that must have ended: those on shared memory, which a barrier orders.
func (p *pending) atBarrier(a *arch) bool {
	return len(p.queues[shared]) > 0 || a.drains && p.total > 0
}

func registerName(r int) string {
	switch {
	case r >= accs:
		return fmt.Sprintf("a%d", r-accs)
	case r >= vectors:
		return fmt.Sprintf("v%d", r-vectors)
	}
	switch r &^ 1 {
	case vccReg:
		return "vcc"
	case execReg:
		return "exec"
	case m0Reg:
		return "m0"
	}
	return fmt.Sprintf("s%d", r)
}

// reset prepares for the next wave, even if the last one ended with operations in flight.
func (p *pending) reset() {
	none := [counters]int{}
	p.wait(&none)
	p.there = 0
}
