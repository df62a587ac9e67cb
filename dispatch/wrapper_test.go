package dispatch

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
)

// sharing is a device whose streams are handles and whose memory is its own.
type sharing struct {
	*fakeDevice
	stream uintptr
	ptr    uintptr
}

func (s *sharing) OnStream(stream uintptr) (driver.Device, error) {
	return &sharing{fakeDevice: s.fakeDevice, stream: stream}, nil
}

func (s *sharing) Wrap(ptr uintptr, n int) (driver.Buffer, error) {
	s.ptr = ptr
	return s.Alloc(n)
}

func TestWrapper(t *testing.T) {
	_, inner := openFake(t)
	s := &sharing{fakeDevice: inner}
	d := newDevice(s, nil)
	other, err := d.OnStream(7)
	require.NoError(t, err)
	require.Equal(t, uintptr(7), other.driver.(*sharing).stream)

	b, err := d.Wrap(64, 5)
	require.NoError(t, err)
	require.Equal(t, uintptr(64), s.ptr)
	require.Equal(t, 5, b.Len())
	require.NoError(t, b.Write(t.Context(), 0, []float32{1, 2, 3, 4, 5}))
	got := make([]float32, 5)
	require.NoError(t, b.Read(t.Context(), 0, got))
	require.Equal(t, []float32{1, 2, 3, 4, 5}, got)
	require.NoError(t, b.Close())

	require.NoError(t, d.Close())
	_, err = d.OnStream(7)
	require.ErrorIs(t, err, ErrClosed)
	_, err = d.Wrap(64, 5)
	require.ErrorIs(t, err, ErrClosed)
}

func TestNoWrapper(t *testing.T) {
	d, _ := openFake(t)
	_, err := d.OnStream(7)
	require.EqualError(t, err, "backend fake does not share its device with other libraries")
	_, err = d.Wrap(64, 5)
	require.EqualError(t, err, "backend fake does not share its device with other libraries")
	require.NoError(t, d.Close())
}
