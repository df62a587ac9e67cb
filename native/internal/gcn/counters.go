package gcn

import (
	"errors"
	"fmt"
)

// counter is one of those that the hardware keeps of memory operations under way. An s_waitcnt
// waits until at most so many are; operations of one counter end in the order in which they began,
// but for scalar loads, so that these need a wait for none. Shared memory and scalar loads are one
// counter, lgkmcnt: that at most n of both are under way also says so of either.
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
	busy   [registers]uint8 // how many will write the register
	by     [registers]counter
	there  int // the wave's stores that are there for others: see order.go
}

// underWay is an operation that may not have ended, and what it will write.
type underWay struct {
	span
	there int  // what is, when it has ended
	left  bool // for tests: a wait that was taken out would have ended it
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

// wait ends operations until no more than so many are under way. It reports whether one of them was left.
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

// check reports a register that is used too early. Loads through one counter may overwrite each other.
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

// reset is for the next wave: of those that end with operations under way too.
func (p *pending) reset() {
	none := [counters]int{}
	p.wait(&none)
	p.there = 0
}
