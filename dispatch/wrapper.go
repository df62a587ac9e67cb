package dispatch

import (
	"fmt"

	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner/element"
)

// OnStream opens the GPU again, as a device whose work goes to the caller's stream (cuda: a CUstream of the
// GPU's primary context; hip: a hipStream_t of the GPU). It is ordered there with the caller's own work. Run
// only queues launches, so the caller may capture it in a graph. Closing the device leaves the stream and d
// as they are. Close it before the stream is destroyed, but close its programs and buffers after such graphs
// are destroyed. Dropping does not close any of them.
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
	// Plans of either device are valid for the other.
	device := deviceFor(made, &d.info.Planner, d.planner, nil)
	device.checks = d.checks
	device.foreign = true
	return device, nil
}

// Wrap makes a buffer of n elements of a type, n >= 1, in GPU memory that the caller allocated. The memory
// must be 16-byte aligned and stay until the buffer is closed; the caller frees it. For 4 bits, n must be a
// multiple of 8. Kernels may read all of the 16-byte line that holds the last element, but write nothing
// after it. Wrap memory of int32 as F32; it then serves as sizes of ragged programs, such as the offs of
// torch's grouped products.
func (d *Device) Wrap(of element.Type, ptr uintptr, n int) (*Buffer, error) {
	if !elemtype.Known(of) {
		return nil, invalid.Errorf("wrap elements of an unknown type %d", uint8(of))
	}
	if n < 1 {
		return nil, invalid.Errorf("wrap %d elements: there must be one", n)
	}
	if per := of.PerWord(); elemtype.Bits4(of) && n%per != 0 {
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
	made, err := w.Wrap(ptr, elemtype.Words(of, n))
	if err != nil {
		return nil, err
	}
	b := newBuffer(d, made, n)
	b.of, b.wrapped = of, true
	b.keep = false // closing it does not free the memory
	return b, nil
}

// wrapper acquires the device if its backend can share the GPU.
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
