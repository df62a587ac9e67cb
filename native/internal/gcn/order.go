package gcn

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
)

// What workgroups store for each other. A store is visible to others when a wait has ended it, or on gfx942
// when a wait has ended a write-back after it. A wave that counts at a counter of a buffer vouches for its
// own visible stores and, as of the last barrier, for those of other waves of its workgroup. A wave that
// counts there later, and reads the count, may load what all of these vouched for, after it has waited for
// the count and then emptied its caches. Any other load of another workgroup's store is a race.

// known is how many stores of each wave are visible, by workgroup.
type known map[int][]int

// storer identifies the last store to a place: the wave in its workgroup, and the number of the store, from
// 1 on.
type storer struct{ wave, number int }

// ordering is what a wave has stored, and knows of the stores of others.
type ordering struct {
	stored int
	told   known         // by counters
	fresh  [caches]known // at the time when caches were emptied
}

// cache is a cache that may lack later stores of others.
type cache uint8

const (
	// of a compute unit: L1, or L0 on RDNA; for an instruction that empties several, all of them
	nearest cache = iota
	second        // RDNA: L1, of several units
	caches
)

// knows reports whether a wave may load what a wave of another workgroup stored, or another wave of its own.
func (w *wave) knows(group int, by storer) bool {
	for c := range caches {
		if c == second && !w.arch.stores {
			continue
		}
		if all := w.order.fresh[c][group]; all == nil || all[by.wave] < by.number {
			return false
		}
	}
	return true
}

// vouch is called for a wave that counts at an address. told: it reads the old count.
func (w *wave) vouch(address uint64, told bool) {
	g := w.group
	mine := slices.Clone(g.there)
	mine[w.number] = w.pending.there
	all := maps.Clone(g.launch.vouched[address])
	if all == nil {
		all = known{}
	}
	for i, n := range all[g.number] { // by other waves
		mine[i] = max(mine[i], n)
	}
	all[g.number] = mine
	g.launch.vouched[address] = all
	if told {
		w.order.told = all
	}
}

// empty empties a cache. Results of atomic operations in flight are not known yet.
func empty(c cache) func(*wave, *instruction) {
	return func(w *wave, _ *instruction) {
		if len(w.pending.queues[loads]) == 0 {
			w.order.fresh[c] = w.order.told
		}
	}
}

// agentScope parses the scope of gfx942's cache instructions: all workgroups of a device.
func agentScope(_ *instruction, text string) error {
	if text != "sc1" {
		return fmt.Errorf("scope %q", text)
	}
	return nil
}

func init() {
	register(map[string]operation{
		"buffer_wbinvl1_vol": {unit: salu, run: empty(nearest)},
		"buffer_inv":         {unit: salu, parse: agentScope, run: empty(nearest)},
		"buffer_gl0_inv":     {unit: salu, run: empty(nearest)},
		"buffer_gl1_inv":     {unit: salu, run: empty(second)},
		"buffer_wbl2": {unit: memory, parse: agentScope, counter: loads, writesBack: true,
			access: func(*wave, *instruction) error { return nil }},
	})
}

// counting changes a counter, and returns its old value if told.
func counting(told bool, change func(before, by uint32) uint32) operation {
	o := operation{unit: memory, srcs: 3, counter: stores}
	if told {
		o.dsts, o.counter = 1, loads
	}
	o.access = func(w *wave, in *instruction) error {
		address, by := w.globalAddress(in, 2), *w.lanes(&in.src[1], 0, 1)
		return w.eachLane(func(l int) error {
			b, offset, err := w.group.launch.find(address(l), 4)
			if err != nil {
				return err
			}
			if !slices.Contains(b.Counters, int(offset)) {
				return fmt.Errorf("counts at byte %d of %s, where no counter is", offset, b.Name)
			}
			data := b.Data[offset:][:4]
			before := binary.LittleEndian.Uint32(data)
			binary.LittleEndian.PutUint32(data, change(before, by[l]))
			if told {
				w.dst(in, 0)[l] = before
			}
			w.vouch(address(l), told)
			return nil
		})
	}
	return o
}

// wrapped adds 1 to a number, or returns 0 after the last.
func wrapped(before, last uint32) uint32 {
	if before >= last {
		return 0
	}
	return before + 1
}

func sum(before, by uint32) uint32 { return before + by }
