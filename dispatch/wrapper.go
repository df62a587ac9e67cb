package dispatch

import (
	"fmt"

	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner/element"
)

// OnStream opens the GPU again, as a device whose work goes to a stream of the
// caller (cuda: a CUstream of the GPU's primary context; hip: a hipStream_t of the
// GPU), where it is ordered with the caller's own work. Run only queues launches
// there, so that the caller may capture it in a graph. Closing it leaves the
// stream and d as they are. It must be closed before its stream is destroyed, and its
// programs and buffers not before such graphs: nothing of it is closed when it is dropped.
func (d *Device) OnStream(stream uintptr) (*Device, error) {
	w, err := d.wrapper()
	if err != nil {
		return nil, err
	}
	defer d.release()
	made, err := w.OnStream(stream)
	if err != nil {
		return nil, err
	}
	device := deviceFor(made, d.planner, nil) // plans of the one are plans of the other
	device.foreign = true
	return device, nil
}

// Wrap makes a buffer of n elements of a type, n >= 1, in memory of the GPU that the caller allocated,
// 16-byte aligned, and frees after the buffer is closed. n is a multiple of 8 for Int4. Kernels may read the
// line of 16 bytes that holds the last element whole; nothing is written after that element. Memory of int32
// is of F32 and serves as the sizes of ragged programs, such as the offs of torch's grouped products.
func (d *Device) Wrap(of element.Type, ptr uintptr, n int) (*Buffer, error) {
	if !of.Known() {
		return nil, invalid.Errorf("wrap elements of an unknown type %d", uint8(of))
	}
	if n < 1 {
		return nil, invalid.Errorf("wrap %d elements: there must be one", n)
	}
	if per := of.PerWord(); of == element.Int4 && n%per != 0 {
		return nil, invalid.Errorf("wrap %d elements of %s: no multiple of %d, the elements of a word", n, of,
			per)
	}
	if n > backend.MaxLen {
		return nil, invalid.Errorf("wrap %d elements: addresses do not reach so far", n)
	}
	w, err := d.wrapper()
	if err != nil {
		return nil, err
	}
	defer d.release()
	made, err := w.Wrap(ptr, wordsOf(of, n))
	if err != nil {
		return nil, err
	}
	b := newBuffer(d, made, n)
	b.of, b.wrapped = of, true
	b.keep = false // closing it leaves the memory as it is
	return b, nil
}

// wrapper acquires the device when its backend can share the GPU.
func (d *Device) wrapper() (backend.Wrapper, error) {
	if err := d.acquire(); err != nil {
		return nil, err
	}
	if w, ok := d.driver.(backend.Wrapper); ok {
		return w, nil
	}
	d.release()
	return nil, fmt.Errorf("backend %s does not share its device with other libraries", d.info.Backend)
}
