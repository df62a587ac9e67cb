package gcn

import (
	"encoding/binary"
	"fmt"
)

func init() { register(privateOperations) }

// privateOperations are those on the private memory of each lane, for registers that kernels spill. Up to
// gfx90a, a buffer in scalar registers says where it is.
var privateOperations = map[string]operation{
	"scratch_load_dword":    privateLoad(1, 2),
	"scratch_load_dwordx2":  privateLoad(2, 2),
	"scratch_load_dwordx3":  privateLoad(3, 2),
	"scratch_load_dwordx4":  privateLoad(4, 2),
	"scratch_store_dword":   privateStore(1, 3, 1),
	"scratch_store_dwordx2": privateStore(2, 3, 1),
	"scratch_store_dwordx3": privateStore(3, 3, 1),
	"scratch_store_dwordx4": privateStore(4, 3, 1),
	"buffer_load_dword":     privateLoad(1, 3),
	"buffer_store_dword":    privateStore(1, 4, 0),
}

// privateBase is the start of the private memory of all waves, according to the buffer, and privateBytes is
// the part of a wave here.
const privateBase, privateBytes = 0x5000_0000, 0x1000

// startPrivate gives a wave its private memory, and sets the registers that describe it. next is the
// register of the wave's place.
func (w *wave) startPrivate(next int) {
	if w.meta.Scratch == 0 {
		return
	}
	w.private = make([]uint32, w.meta.Scratch/4*w.width)
	for i := range w.private {
		w.private[i] = garbage
	}
	if w.arguments > 0 {
		w.scalars[0] = privateBase
		w.scalars[next] = uint32(w.number) * privateBytes
	}
}

// privateWords returns a lane's words that an operation accesses. It checks the place of the buffer, a
// source of four registers.
func (w *wave) privateWords(in *instruction, n, l int) ([]uint32, error) {
	for _, o := range in.src {
		if at := uint32(privateBase + w.number*privateBytes); o.kind == scalar && w.scalars[o.first] != at {
			return nil, fmt.Errorf("private memory at %#x, not %#x", w.scalars[o.first], at)
		}
	}
	words, first := w.meta.Scratch/4, int(in.offset[0])/4
	if in.offset[0]%4 != 0 || first+n > words {
		return nil, fmt.Errorf("%d words at byte %d of %d words of private memory", n, in.offset[0], words)
	}
	return w.private[l*words+first:][:n], nil
}

func privateLoad(words, srcs int) operation {
	return operation{unit: memory, dsts: 1, srcs: srcs, counter: loads,
		access: func(w *wave, in *instruction) error {
			return w.eachLane(func(l int) error {
				from, err := w.privateWords(in, words, l)
				for i, x := range from {
					w.dst(in, i)[l] = x
				}
				return err
			})
		}}
}

// privateStore stores a source, number data.
func privateStore(words, srcs, data int) operation {
	return operation{unit: memory, srcs: srcs, counter: stores, access: func(w *wave, in *instruction) error {
		var bytes [16]byte
		return w.eachLane(func(l int) error {
			to, err := w.privateWords(in, words, l)
			w.store(&in.src[data], l, bytes[:4*len(to)])
			for i := range to {
				to[i] = binary.LittleEndian.Uint32(bytes[4*i:])
			}
			return err
		})
	}}
}
