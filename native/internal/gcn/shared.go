package gcn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// sharedMemory is the shared memory of a workgroup, with its accesses since the last barrier.
type sharedMemory struct {
	data  []byte
	since uint32 // barriers and workgroups so far, from 1 on
	words []sharedWord
	bytes []sharedUse // of words that were partly accessed
}

type sharedWord struct {
	sharedUse
	parts uint32 // when it was last partly accessed
}

// sharedUse is the last access of every kind: the number of barriers before, and the wave, or that there
// were several.
type sharedUse struct {
	at [accessKinds]uint32
	by [accessKinds]uint8
}

type accessKind uint8

const (
	reads accessKind = iota
	looks            // reads that start a loop of compare and swap
	writes
	adds  // atomic
	swaps // atomic: compare and swap
	accessKinds
)

const moreWaves = 255

// ordered are kinds of accesses that need no barrier between them.
var ordered = [accessKinds][accessKinds]bool{
	reads: {reads: true, looks: true},
	looks: {reads: true, looks: true, swaps: true},
	adds:  {adds: true},
	swaps: {looks: true, swaps: true},
}

// findLooks finds reads with the address of a compare and swap: the same register and offset.
func (k *Kernel) findLooks() {
	for i := range k.code {
		swap := &k.code[i]
		if !strings.HasPrefix(swap.name, "ds_cmpst") {
			continue
		}
		for j := range k.code {
			in := &k.code[j]
			if in.name == "ds_read_b32" || in.name == "ds_load_b32" {
				in.looks = in.looks || in.src[0].span == swap.src[0].span && in.offset == swap.offset
			}
		}
	}
}

var errSharedRace = errors.New("shared memory: another wave touched it, and no barrier is between")

// clash reports whether another wave's access is not ordered before this one.
func (u *sharedUse) clash(kind accessKind, wave uint8, since uint32) bool {
	for k := range accessKinds {
		if u.at[k] == since && u.by[k] != wave && !ordered[kind][k] {
			return true
		}
	}
	return false
}

func (u *sharedUse) note(kind accessKind, wave uint8, since uint32) {
	if u.at[kind] == since && u.by[kind] != wave {
		wave = moreWaves
	}
	u.at[kind], u.by[kind] = since, wave
}

func newShared(bytes int) *sharedMemory {
	bytes = (bytes + 3) &^ 3
	return &sharedMemory{data: make([]byte, bytes), words: make([]sharedWord, bytes/4),
		bytes: make([]sharedUse, bytes)}
}

// start prepares for the next workgroup. Memory holds a NaN that no number of a batch equals.
func (m *sharedMemory) start() {
	m.since++
	for i := range m.words {
		binary.LittleEndian.PutUint32(m.data[4*i:], garbage)
	}
}

// reach finds n bytes for an access.
func (m *sharedMemory) reach(address uint32, n int, kind accessKind, wave int) ([]byte, error) {
	if uint64(address)+uint64(n) > uint64(len(m.data)) {
		return nil, fmt.Errorf("shared memory: %d bytes at %d of %d", n, address, len(m.data))
	}
	// Words need no more (LLVM, FeatureUnalignedDSAccess).
	if align := uint32(min(n, 4)); address%align != 0 {
		return nil, fmt.Errorf("shared memory: %d bytes at %d", n, address)
	}
	by := uint8(wave)
	for at := address &^ 3; at < address+uint32(n); at += 4 {
		word := &m.words[at/4]
		if word.clash(kind, by, m.since) {
			return nil, fmt.Errorf("%w: byte %d", errSharedRace, address)
		}
		if n >= 4 && word.parts != m.since {
			word.note(kind, by, m.since)
			continue
		}
		// Partly, before or now.
		first, end := max(at, address), min(at+4, address+uint32(n))
		for b := first; b < end; b++ {
			if m.bytes[b].clash(kind, by, m.since) {
				return nil, fmt.Errorf("%w: byte %d", errSharedRace, b)
			}
			m.bytes[b].note(kind, by, m.since)
		}
		word.parts = m.since
	}
	return m.data[address:][:n], nil
}

// places calls f with the offsets of one place, or of two in units of stride bytes.
func (in *instruction) places(stride int, f func(i int, offset uint32) error) error {
	if stride == 0 {
		return f(0, in.offset[0])
	}
	if err := f(0, in.offset[0]*uint32(stride)); err != nil {
		return err
	}
	return f(1, in.offset[1]*uint32(stride))
}

func sharedLoad(bytes, stride int) operation {
	return operation{unit: memory, dsts: 1, srcs: 1, counter: shared,
		access: func(w *wave, in *instruction) error {
			addresses := *w.lanes(&in.src[0], 0, 0) // it may write these
			kind := reads
			if in.looks {
				kind = looks
			}
			return in.places(stride, func(i int, offset uint32) error {
				return w.eachLane(func(l int) error {
					data, err := w.group.shared.reach(addresses[l]+offset, bytes, kind, w.number)
					if err == nil {
						w.load(in, i*bytes/4, l, data)
					}
					return err
				})
			})
		}}
}

func sharedStore(bytes, stride int) operation {
	srcs := 2
	if stride != 0 {
		srcs = 3
	}
	return operation{unit: memory, srcs: srcs, counter: shared, access: func(w *wave, in *instruction) error {
		addresses := w.lanes(&in.src[0], 0, 0)
		return in.places(stride, func(i int, offset uint32) error {
			return w.eachLane(func(l int) error {
				data, err := w.group.shared.reach(addresses[l]+offset, bytes, writes, w.number)
				if err == nil {
					w.store(&in.src[1+i], l, data)
				}
				return err
			})
		})
	}}
}

func addShared(w *wave, in *instruction) error {
	addresses, values := w.lanes(&in.src[0], 0, 0), w.lanes(&in.src[1], 0, 1)
	return w.eachLane(func(l int) error {
		data, err := w.group.shared.reach(addresses[l]+in.offset[0], 4, adds, w.number)
		if err == nil {
			binary.LittleEndian.PutUint32(data, binary.LittleEndian.Uint32(data)+values[l])
		}
		return err
	})
}

// compareAndSwap returns the old value. GPUs differ in which source is compared and which is stored.
func compareAndSwap(compared, stored int) func(w *wave, in *instruction) error {
	return func(w *wave, in *instruction) error {
		addresses := *w.lanes(&in.src[0], 0, 0)
		is, to := *w.lanes(&in.src[compared], 0, 1), *w.lanes(&in.src[stored], 0, 2)
		return w.eachLane(func(l int) error {
			data, err := w.group.shared.reach(addresses[l]+in.offset[0], 4, swaps, w.number)
			if err != nil {
				return err
			}
			before := binary.LittleEndian.Uint32(data)
			if before == is[l] {
				binary.LittleEndian.PutUint32(data, to[l])
			}
			w.dst(in, 0)[l] = before
			return nil
		})
	}
}
