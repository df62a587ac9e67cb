package dispatch

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/fakedriver"
	"github.com/batchgemm/batchgemm/planner/element"
)

// sharing is a device whose streams are handles, with its own memory.
type sharing struct {
	*fakedriver.Device
	driver sharingDriver
	stream uintptr
	ptr    uintptr
}

func (s *sharing) OnStream(stream uintptr) (driver.Device, error) {
	d, err := s.driver.Open(context.Background(), 0)
	d.(*sharing).stream = stream
	return d, err
}

func (s *sharing) Wrap(ptr uintptr, n int) (driver.Buffer, error) {
	s.ptr = ptr
	return s.Alloc(n)
}

type sharingDriver struct{ *fakedriver.Driver }

func (s sharingDriver) Open(ctx context.Context, index int) (driver.Device, error) {
	d, err := s.Driver.Open(ctx, index)
	return &sharing{Device: d.(*fakedriver.Device), driver: s}, err
}

func openSharing(t *testing.T) (*Device, *sharing) {
	t.Helper()
	d, err := Open(t.Context(), WithDriver(sharingDriver{fakedriver.New(t)}))
	require.NoError(t, err)
	return d, d.driver.(*sharing)
}

func TestWrapper(t *testing.T) {
	d, s := openSharing(t)
	other, err := d.OnStream(7)
	require.NoError(t, err)
	require.Equal(t, uintptr(7), other.driver.(*sharing).stream)
	require.NoError(t, other.Close())

	b, err := d.Wrap(element.F32, 64, 5)
	require.NoError(t, err)
	require.Equal(t, uintptr(64), s.ptr)
	require.Equal(t, 5, b.Len())
	require.NoError(t, Write(t.Context(), b, 0, []float32{1, 2, 3, 4, 5}))
	got := make([]float32, 5)
	require.NoError(t, Read(t.Context(), b, 0, got))
	require.Equal(t, []float32{1, 2, 3, 4, 5}, got)
	require.NoError(t, b.Close())

	require.NoError(t, d.Close())
	_, err = d.OnStream(7)
	require.ErrorIs(t, err, ErrClosed)
	_, err = d.Wrap(element.F32, 64, 5)
	require.ErrorIs(t, err, ErrClosed)
}

// TestWrap: what lies after the last 16-bit element belongs to the caller.
func TestWrap(t *testing.T) {
	d, _ := openSharing(t)
	b, err := d.Wrap(element.BF16, 64, 5)
	require.NoError(t, err)
	require.Equal(t, 5, b.Len())
	require.Equal(t, element.BF16, b.Type())
	whole := []float32{1, 2, math.Float32frombits(0x12345678)}
	require.NoError(t, b.driver.Write(t.Context(), 0, whole))
	require.NoError(t, Write(t.Context(), b, 0, []uint16{1, 2, 3, 4, 5}))
	require.NoError(t, b.driver.Read(t.Context(), 0, whole))
	require.Equal(t, uint32(0x12340005), math.Float32bits(whole[2]))
	got := make([]uint16, 5)
	require.NoError(t, Read(t.Context(), b, 0, got))
	require.Equal(t, []uint16{1, 2, 3, 4, 5}, got)
	_, err = d.Wrap(element.Type(9), 64, 5)
	require.EqualError(t, err, "wrap elements of an unknown type 9")
	_, err = d.Wrap(element.Int4, 64, 65)
	require.EqualError(t, err, "wrap 65 elements of int4: no multiple of 8, the elements of a word")
	require.ErrorIs(t, err, ErrInvalid)
	require.NoError(t, d.Close())
}

func TestNoWrapper(t *testing.T) {
	d, _ := openFake(t)
	_, err := d.OnStream(7)
	require.EqualError(t, err, "backend fake does not share its device with other libraries")
	_, err = d.Wrap(element.F32, 64, 5)
	require.EqualError(t, err, "backend fake does not share its device with other libraries")
	require.NoError(t, d.Close())
}

// Without the caller's memory, nothing is looked at.
func TestNoBorrower(t *testing.T) {
	d, _ := openFake(t)
	p := program(t, d, small(t))
	require.EqualError(t, d.RunAt(t.Context(), 0, RunOn{Program: p}),
		"run 0: backend fake does not work in memory of its callers")
	require.NoError(t, p.Close())
	require.ErrorIs(t, d.RunAt(t.Context(), 0, RunOn{Program: p}), ErrClosed)
	require.NoError(t, d.Close())
	require.ErrorIs(t, d.RunAt(t.Context(), 0, RunOn{Program: p}), ErrClosed)
}
