package gcn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
)

// garbage is the initial content of registers and shared memory: a NaN, and as an address or a size far out
// of bounds.
const garbage = 0xffc0dead

// Launch is one launch of a kernel.
type Launch struct {
	Kernel    *Kernel
	Groups    [2]int // the grid, in workgroups
	Threads   int    // of a workgroup
	Arguments []uint64
	Memory    []*Buffer
	// Contrary chooses among behaviours that the hardware may have: waves and workgroups run in order, or
	// from the last on; functions that it computes to about the last bit err downwards, or upwards.
	Contrary bool
	Ran      []bool // if not nil, set for each instruction of Kernel that ran

	vouched map[uint64]known // at counters, by address
}

// idle are waves to reuse: their registers are large.
var idle = sync.Pool{New: func() any { return &wave{vector: make([]lanesOf, registers-vectors)} }}

// mostInstructions of a wave: more are an endless loop.
const mostInstructions = 20_000_000

var errEndless = errors.New("it does not end")

// group is a running workgroup.
type group struct {
	launch *Launch
	number int
	shared *sharedMemory
	there  []int // each wave's visible stores, at the last barrier: see order.go
}

// Run runs a launch, and counts instructions of waves. The first error ends it.
func (l *Launch) Run() (instructions int, err error) {
	k := l.Kernel
	if l.Threads > k.meta.MaxThreads || 8*len(l.Arguments) != k.meta.KernargBytes {
		return 0, fmt.Errorf("%s: %d threads and %d arguments", k.Name, l.Threads, len(l.Arguments))
	}
	arguments := &Buffer{Name: "the arguments", Address: 0x7_0000_1000,
		Data: make([]byte, k.meta.KernargBytes)}
	for i, a := range l.Arguments {
		binary.LittleEndian.PutUint64(arguments.Data[8*i:], a)
	}
	run := *l
	run.vouched = map[uint64]known{}
	run.Memory = append([]*Buffer{arguments}, l.Memory...)
	for _, b := range run.Memory {
		if b.Writable {
			b.users = make([]users, (len(b.Data)+1)/2)
		}
	}
	waves := make([]*wave, (l.Threads+k.meta.WaveSize-1)/k.meta.WaveSize)
	for i := range waves {
		w := idle.Get().(*wave)
		defer idle.Put(w)
		w.Kernel, w.number, w.width, w.ran = k, i, k.meta.WaveSize, l.Ran
		waves[i] = w
	}
	shared := newShared(k.meta.LDS)
	for y := range l.Groups[1] {
		for x := range l.Groups[0] {
			if l.Contrary {
				x = l.Groups[0] - 1 - x
			}
			g := &group{launch: &run, number: y*l.Groups[0] + x, shared: shared,
				there: make([]int, len(waves))}
			shared.start()
			for _, w := range waves {
				w.start(g, l.Threads, [3]int{x, y})
			}
			n, err := g.run(waves)
			if instructions += n; err != nil {
				return instructions, err
			}
		}
	}
	return instructions, nil
}

// start sets registers for the start of a kernel.
func (w *wave) start(g *group, threads int, id [3]int) {
	w.group, w.next, w.done, w.atBarrier = g, 0, false, false
	w.pending.reset()
	w.order = ordering{}
	w.recent.forget()
	for i := range w.scalars {
		w.scalars[i] = garbage
	}
	for i := range w.vector {
		r := &w.vector[i]
		if i >= w.meta.VGPRs && (i < accs-vectors || i >= accs-vectors+w.meta.AGPRs) {
			continue
		}
		for l := range r {
			r[l] = garbage
		}
	}
	w.scc = true
	address := g.launch.Memory[0].Address
	w.scalars[w.arguments], w.scalars[w.arguments+1] = uint32(address), uint32(address>>32)
	next := w.firstGroup
	for i, has := range w.groupIDs {
		if has {
			w.scalars[next] = uint32(id[i])
			next++
		}
	}
	w.startPrivate(next)
	w.scalars[execReg+1] = 0 // waves of 32
	first := w.number * w.width
	w.setMask(execReg, w.all()>>max(0, first+w.width-threads))
	for l := range w.width {
		w.vector[0][l] = uint32(first + l)
	}
}

// run runs the waves of a group from barrier to barrier.
func (g *group) run(waves []*wave) (instructions int, err error) {
	for {
		waiting := 0
		for i := range waves {
			w := waves[i]
			if g.launch.Contrary {
				w = waves[len(waves)-1-i]
			}
			w.atBarrier = false
			for n := 0; !w.done && !w.atBarrier; n++ {
				if n > mostInstructions {
					return instructions, w.fault(&w.code[w.next], errEndless)
				}
				if err := w.step(); err != nil {
					return instructions, err
				}
				instructions++
			}
			if w.atBarrier {
				waiting++
				if w.pending.atBarrier(w.arch) {
					return instructions, w.fault(&w.code[w.next-1], errBarrier)
				}
			}
		}
		if waiting == 0 {
			return instructions, nil
		}
		g.shared.since++
		for _, w := range waves {
			g.there[w.number] = w.pending.there
		}
	}
}
