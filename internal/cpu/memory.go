package cpu

import (
	"sync/atomic"

	"github.com/batchgemm/batchgemm/internal/hostmem"
)

// memory is that of a buffer or a workspace. It is freed when its owner has closed
// it and no run that is queued needs it, or with the device.
type memory struct {
	device *device
	n      int
	data   []float32
	users  atomic.Int32 // the owner, and runs that are queued
	closed atomic.Bool  // by the owner
}

func (d *device) allocate(n int) (*memory, error) {
	data, err := hostmem.Floats(n)
	if err != nil {
		return nil, err
	}
	m := &memory{device: d, n: n, data: data}
	m.users.Store(1)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.open(); err != nil {
		hostmem.Free(data)
		return nil, err
	}
	d.live[m] = struct{}{}
	return m, nil
}

func (m *memory) hold() { m.users.Add(1) }

func (m *memory) drop() {
	if m.users.Add(-1) > 0 {
		return
	}
	m.device.mu.Lock()
	defer m.device.mu.Unlock()
	m.free()
}

// Close drops the memory for its owner, once.
func (m *memory) Close() error {
	if !m.closed.Swap(true) {
		m.drop()
	}
	return nil
}

// free needs the device's lock.
func (m *memory) free() {
	if _, ok := m.device.live[m]; ok {
		delete(m.device.live, m)
		hostmem.Free(m.data)
		m.data = nil
	}
}

// freeAll frees what is left when the device is closed and idle.
func (d *device) freeAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for m := range d.live {
		m.free()
	}
}
