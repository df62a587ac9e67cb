package gcn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

func init() {
	register(memoryOperations)
	register(flatOperations())
}

// flatOperations are those on addresses in any memory, here always global memory. They have no scalar base,
// unlike the others.
func flatOperations() map[string]operation {
	all := map[string]operation{}
	for name, o := range memoryOperations {
		if of, ok := strings.CutPrefix(name, "global_"); ok {
			o.flat = true
			o.srcs--
			all["flat_"+of] = o
		}
	}
	return all
}

// memoryOperations are those on global memory and shared memory. The numbers are bytes of a lane;
// fewer than 4 are extended with zeros.
var memoryOperations = map[string]operation{
	"s_load_dword":    scalarLoad(),
	"s_load_dwordx2":  scalarLoad(),
	"s_load_dwordx4":  scalarLoad(),
	"s_load_dwordx8":  scalarLoad(),
	"s_load_dwordx16": scalarLoad(),
	"s_load_b32":      scalarLoad(),
	"s_load_b64":      scalarLoad(),
	"s_load_b128":     scalarLoad(),
	"s_load_b256":     scalarLoad(),
	"s_load_b512":     scalarLoad(),

	"global_load_dword":   globalLoad(4),
	"global_load_dwordx2": globalLoad(8),
	"global_load_dwordx3": globalLoad(12),
	"global_load_dwordx4": globalLoad(16),
	"global_load_b32":     globalLoad(4),
	"global_load_b64":     globalLoad(8),
	"global_load_b96":     globalLoad(12),
	"global_load_b128":    globalLoad(16),
	"global_load_ushort":  globalLoad(2),
	"global_load_u16":     globalLoad(2),
	"global_load_ubyte":   globalLoad(1),
	"global_load_u8":      globalLoad(1),
	"global_store_short":  globalStore(2),
	"global_store_b16":    globalStore(2),
	// The high half of a register.
	"global_store_short_d16_hi": globalStoreHigh(),
	"global_store_d16_hi_b16":   globalStoreHigh(),

	"global_atomic_inc told":     counting(true, wrapped),
	"global_atomic_inc_u32 told": counting(true, wrapped),
	"global_atomic_add":          counting(false, sum),
	"global_atomic_add_u32":      counting(false, sum),
	"global_atomic_add told":     counting(true, sum),
	"global_atomic_add_u32 told": counting(true, sum),

	"global_store_dword":   globalStore(4),
	"global_store_dwordx2": globalStore(8),
	"global_store_b64":     globalStore(8),
	"global_store_dwordx3": globalStore(12),
	"global_store_b96":     globalStore(12),
	"global_store_dwordx4": globalStore(16),
	"global_store_b32":     globalStore(4),
	"global_store_b128":    globalStore(16),

	"ds_read_u8":    sharedLoad(1, 0),
	"ds_read_u16":   sharedLoad(2, 0),
	"ds_read_b32":   sharedLoad(4, 0),
	"ds_read_b64":   sharedLoad(8, 0),
	"ds_read_b96":   sharedLoad(12, 0),
	"ds_read_b128":  sharedLoad(16, 0),
	"ds_load_u8":    sharedLoad(1, 0),
	"ds_load_u16":   sharedLoad(2, 0),
	"ds_load_b32":   sharedLoad(4, 0),
	"ds_load_b64":   sharedLoad(8, 0),
	"ds_load_b96":   sharedLoad(12, 0),
	"ds_load_b128":  sharedLoad(16, 0),
	"ds_write_b8":   sharedStore(1, 0),
	"ds_write_b16":  sharedStore(2, 0),
	"ds_write_b32":  sharedStore(4, 0),
	"ds_write_b64":  sharedStore(8, 0),
	"ds_write_b96":  sharedStore(12, 0),
	"ds_write_b128": sharedStore(16, 0),
	"ds_store_b8":   sharedStore(1, 0),
	"ds_store_b16":  sharedStore(2, 0),
	"ds_store_b32":  sharedStore(4, 0),
	"ds_store_b64":  sharedStore(8, 0),
	"ds_store_b96":  sharedStore(12, 0),
	"ds_store_b128": sharedStore(16, 0),
	// Two places, whose offsets are in units of that many bytes.
	"ds_read2_b32":                sharedLoad(4, 4),
	"ds_read2_b64":                sharedLoad(8, 8),
	"ds_read2st64_b32":            sharedLoad(4, 64*4),
	"ds_read2st64_b64":            sharedLoad(8, 64*8),
	"ds_load_2addr_b32":           sharedLoad(4, 4),
	"ds_load_2addr_b64":           sharedLoad(8, 8),
	"ds_load_2addr_stride64_b32":  sharedLoad(4, 64*4),
	"ds_write2_b32":               sharedStore(4, 4),
	"ds_write2_b64":               sharedStore(8, 8),
	"ds_write2st64_b32":           sharedStore(4, 64*4),
	"ds_write2st64_b64":           sharedStore(8, 64*8),
	"ds_store_2addr_b32":          sharedStore(4, 4),
	"ds_store_2addr_b64":          sharedStore(8, 8),
	"ds_store_2addr_stride64_b32": sharedStore(4, 64*4),
	"ds_store_2addr_stride64_b64": sharedStore(8, 64*8),

	"ds_add_u32":          {unit: memory, srcs: 2, counter: shared, access: addShared},
	"ds_cmpst_rtn_b32":    {unit: memory, dsts: 1, srcs: 3, counter: shared, access: compareAndSwap(1, 2)},
	"ds_cmpstore_rtn_b32": {unit: memory, dsts: 1, srcs: 3, counter: shared, access: compareAndSwap(2, 1)},
}

// issue counts an operation that has started.
func (w *wave) issue(in *instruction) {
	c := in.counter
	if c == stores && !w.arch.stores {
		c = loads
	}
	var writes span
	if len(in.dst) > 0 {
		writes = in.dst[0].span
	}
	there := 0
	switch {
	case in.counter == stores && len(in.dst) == 0:
		w.order.stored++
		if !w.arch.gfx940 {
			there = w.order.stored
		}
	case in.writesBack:
		there = w.order.stored
	}
	w.pending.begin(c, writes, there)
	switch { // it may have been one of shared memory
	case !in.flat:
	case w.arch.flatInOrder:
		w.pending.begin(shared, writes, 0)
	default: // it may end before earlier ones on shared memory
		w.pending.begin(scalarLoads, writes, 0)
	}
}

// Buffer is global memory that a kernel may access.
type Buffer struct {
	Name     string
	Address  uint64
	Data     []byte
	Writable bool
	Bytes    bool  // elements have 8 bits: accesses may start anywhere
	Counters []int // byte offsets of counters, which workgroups access in no other way

	users []users // of every 2 bytes of a writable buffer, in this launch
}

// users are the workgroups that accessed memory, counted from 1.
type users struct {
	writer, reader uint32
	by             storer
}

const several = ^uint32(0) // readers

var errRace = errors.New("race of workgroups, or of waves")

// find returns n bytes.
func (l *Launch) find(address uint64, n int) (b *Buffer, offset uint64, err error) {
	for _, b := range l.Memory {
		if offset := address - b.Address; offset < uint64(len(b.Data)) {
			if uint64(n) > uint64(len(b.Data))-offset {
				return nil, 0, fmt.Errorf("%d bytes at byte %d of %s, which has %d", n, offset, b.Name,
					len(b.Data))
			}
			// More is not needed. Compilers know that and combine two 16-bit loads.
			if align := min(n, 2); offset%uint64(align) != 0 && !b.Bytes {
				return nil, 0, fmt.Errorf("%d bytes at byte %d of %s", n, offset, b.Name)
			}
			return b, offset, nil
		}
	}
	near := ""
	for _, b := range l.Memory {
		if d := int64(address - b.Address); d >= -1<<20 && d < int64(len(b.Data))+1<<20 {
			near = fmt.Sprintf(": byte %d of %s, which has %d", d, b.Name, len(b.Data))
		}
	}
	return nil, 0, fmt.Errorf("%d bytes at %#x, where no buffer is%s", n, address, near)
}

// touch reports a race: an access that is not ordered after that of another workgroup, or a load of another
// wave's store.
func (w *wave) touch(b *Buffer, offset uint64, n int, write bool) error {
	if !b.Writable {
		if write {
			return fmt.Errorf("writes %s", b.Name)
		}
		return nil
	}
	group := uint32(w.group.number) + 1
	by := storer{w.number, w.order.stored + 1}
	for i := offset / 2; i < (offset+uint64(n)+1)/2; i++ {
		u := &b.users[i]
		others := u.writer != 0 && (u.writer != group || !write && u.by.wave != w.number)
		if others && (write || !w.knows(int(u.writer)-1, u.by)) || write && u.reader != 0 &&
			u.reader != group {
			return fmt.Errorf("%w: byte %d of %s", errRace, 2*i, b.Name)
		}
		switch {
		case write:
			u.writer, u.by = group, by
		case u.reader == 0:
			u.reader = group
		case u.reader != group:
			u.reader = several
		}
	}
	return nil
}

// reach returns n bytes and counts the access.
func (w *wave) reach(address uint64, n int, write bool) ([]byte, error) {
	b, offset, err := w.group.launch.find(address, n)
	if err != nil {
		return nil, err
	}
	for _, c := range b.Counters {
		if int(offset) < c+4 && int(offset)+n > c {
			return nil, fmt.Errorf("%s: byte %d is of a counter", b.Name, offset)
		}
	}
	return b.Data[offset:][:n], w.touch(b, offset, n, write)
}

func scalarLoad() operation {
	return operation{unit: memory, dsts: 1, srcs: 2, counter: scalarLoads,
		access: func(w *wave, in *instruction) error {
			d := &in.dst[0]
			at := w.scalar(&in.src[0]) + w.scalar(&in.src[1]) + uint64(in.offset[0])
			data, err := w.reach(at, 4*d.count, false)
			if err != nil {
				return err
			}
			for i := range d.count {
				w.scalars[d.first+i] = binary.LittleEndian.Uint32(data[4*i:])
			}
			return nil
		}}
}

// globalAddress returns that of a lane: its own 64 bits, or 32 bits beside a scalar base, which is a source
// if there is one.
func (w *wave) globalAddress(in *instruction, base int) func(l int) uint64 {
	offset := uint64(int64(int32(in.offset[0])))
	at := w.lanes(&in.src[0], 0, 0)
	if in.flat || in.src[base].kind == none {
		high := w.lanes(&in.src[0], 1, 1)
		return func(l int) uint64 { return uint64(at[l]) | uint64(high[l])<<32 + offset }
	}
	offset += w.scalar(&in.src[base])
	return func(l int) uint64 { return uint64(at[l]) + offset }
}

func globalLoad(bytes int) operation {
	return operation{unit: memory, dsts: 1, srcs: 2, counter: loads,
		access: func(w *wave, in *instruction) error {
			address := w.globalAddress(in, 1)
			return w.eachLane(func(l int) error {
				data, err := w.reach(address(l), bytes, false)
				if err == nil {
					w.load(in, 0, l, data)
				}
				return err
			})
		}}
}

func globalStore(bytes int) operation {
	return storing(bytes, func(w *wave, in *instruction, l int, data []byte) { w.store(&in.src[1], l, data) })
}

func globalStoreHigh() operation {
	return storing(2, func(w *wave, in *instruction, l int, data []byte) {
		binary.LittleEndian.PutUint16(data, uint16(w.vector[in.src[1].first-vectors][l]>>16))
	})
}

// storing calls put with the memory of each lane.
func storing(bytes int, put func(w *wave, in *instruction, l int, data []byte)) operation {
	return operation{unit: memory, srcs: 3, counter: stores, access: func(w *wave, in *instruction) error {
		address := w.globalAddress(in, 2)
		return w.eachLane(func(l int) error {
			data, err := w.reach(address(l), bytes, true)
			if err == nil {
				put(w, in, l, data)
			}
			return err
		})
	}}
}

// eachLane calls f for the lanes that take part, up to the first error.
func (w *wave) eachLane(f func(l int) error) (err error) {
	w.each(func(l int) {
		if err == nil {
			if err = f(l); err != nil {
				err = fmt.Errorf("lane %d: %w", l, err)
			}
		}
	})
	return err
}

// load copies memory to a lane of the destination, from a word on.
func (w *wave) load(in *instruction, word, l int, data []byte) {
	if len(data) < 4 {
		var x [4]byte
		copy(x[:], data)
		data = x[:]
	}
	for ; len(data) > 0; data = data[4:] {
		w.dst(in, word)[l] = binary.LittleEndian.Uint32(data)
		word++
	}
}

// store copies a lane of a source to memory.
func (w *wave) store(o *operand, l int, data []byte) {
	if len(data) < 4 {
		var x [4]byte
		binary.LittleEndian.PutUint32(x[:], w.vector[o.first-vectors][l])
		copy(data, x[:])
		return
	}
	for i := 0; i < len(data)/4; i++ {
		binary.LittleEndian.PutUint32(data[4*i:], w.vector[o.first-vectors+i][l])
	}
}
