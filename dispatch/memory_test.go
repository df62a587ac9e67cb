package dispatch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/drivertest"
	"github.com/batchgemm/batchgemm/internal/fakedriver"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// wait returns the result of a read.
func wait(t *testing.T, r *Reading) error {
	t.Helper()
	select {
	case <-r.Done():
	case <-time.After(10 * time.Second):
		require.Fail(t, "the read does not end")
	}
	return r.Err()
}

func TestReadAsync(t *testing.T) {
	d, f := openFake(t)
	b := buffer(t, d, 5, 1, 2, 3, 4, 5)
	half, err := d.NewBuffer(element.BF16, 5)
	require.NoError(t, err)
	require.NoError(t, Write(t.Context(), half, 0, []uint16{1, 2, 3, 4, 5}))

	got, bits := make([]float32, 3), make([]uint16, 4)
	require.NoError(t, wait(t, ReadAsync(t.Context(), b, 2, got)))
	require.Equal(t, []float32{3, 4, 5}, got)
	require.NoError(t, wait(t, ReadAsync(t.Context(), half, 1, bits)))
	require.Equal(t, []uint16{2, 3, 4, 5}, bits)
	require.NoError(t, wait(t, ReadAsync(t.Context(), b, 5, []float32(nil))))
	packed, err := d.NewBuffer(element.Int4, 24)
	require.NoError(t, err)
	require.NoError(t, Write(t.Context(), packed, 0, []int32{7, -8, 9}))
	words := make([]int32, 2)
	require.NoError(t, wait(t, ReadAsync(t.Context(), packed, 8, words)))
	require.Equal(t, []int32{-8, 9}, words)
	require.NoError(t, wait(t, ReadAsync(t.Context(), b, 1, words)))
	require.Equal(t, []int32{0x40000000, 0x40400000}, words) // 2 and 3

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	closed := buffer(t, d, 1)
	require.NoError(t, closed.Close())
	for _, c := range []struct {
		name string
		read *Reading
		want error
		text string
	}{
		{"beyond the end", ReadAsync(t.Context(), b, 3, got), ErrInvalid,
			"read: 3 elements from 3 on, in a buffer of 5"},
		{"negative offset", ReadAsync(t.Context(), half, -1, bits), ErrInvalid,
			"read: 4 elements from -1 on, in a buffer of 5"},
		{"type", ReadAsync(t.Context(), half, 0, got), ErrInvalid,
			"read: the buffer has elements of bf16, not f32"},
		{"type of 16 bits", ReadAsync(t.Context(), b, 0, bits), ErrInvalid,
			"read: the buffer has elements of f32, not of 16 bits"},
		{"within a word", ReadAsync(t.Context(), packed, 4, words), ErrInvalid,
			"read: offset 4 is no multiple of 8, the elements of a word"},
		{"type of words", ReadAsync(t.Context(), half, 0, words), ErrInvalid,
			"read: the buffer has elements of bf16, not f32"},
		{"closed", ReadAsync(t.Context(), closed, 0, got[:1]), ErrClosed, "read: buffer: closed"},
		{"ended", ReadAsync(ended, b, 0, got), context.Canceled, "context canceled"},
		{"ended, of nothing", ReadAsync(ended, b, 0, []float32(nil)), context.Canceled, "context canceled"},
	} {
		t.Run(c.name, func(t *testing.T) {
			select {
			case <-c.read.Done():
			default:
				t.Error("a mistake takes no time")
			}
			require.ErrorIs(t, c.read.Err(), c.want)
			require.EqualError(t, c.read.Err(), c.text)
		})
	}

	lost := fmt.Errorf("%w: a test", ErrDeviceLost)
	for _, c := range []struct {
		name string
		fail *func() error
		err  error
	}{
		{"no memory for it", &f.OnStartRead, ErrOutOfMemory},
		{"lost when it begins", &f.OnStartRead, lost},
		{"lost while it goes on", &f.OnFinish, lost},
	} {
		t.Run(c.name, func(t *testing.T) {
			*c.fail = func() error { return c.err }
			require.ErrorIs(t, wait(t, ReadAsync(t.Context(), b, 0, got)), c.err)
			require.ErrorIs(t, wait(t, ReadAsync(t.Context(), half, 0, bits)), c.err)
			*c.fail = nil
			require.NoError(t, wait(t, ReadAsync(t.Context(), b, 0, got)), "it holds nothing")
		})
	}
}

// Int4 is allocated in whole words, and a buffer with as many elements as a plan needs can be written to the
// end.
func TestLastWordOfInt4(t *testing.T) {
	d, _ := openFake(t)
	for n, whole := range map[int]int{0: 0, 1: 8, 64: 64, 65: 72, 1021: 1024} {
		b, err := d.NewBuffer(element.Int4, n)
		require.NoError(t, err)
		require.Equal(t, whole, b.Len())
		words, got := make([]int32, whole/8), make([]int32, whole/8)
		for i := range words {
			words[i] = int32(i) + 5
		}
		require.NoError(t, Write(t.Context(), b, 0, words))
		require.NoError(t, Read(t.Context(), b, 0, got))
		require.Equal(t, words, got)
		require.ErrorIs(t, Write(t.Context(), b, whole, []int32{1}), ErrInvalid)
		require.NoError(t, b.Close())
	}
}

// held is a device whose reads end on request or with their context.
type held struct {
	driver.Device
	begun, proceed chan struct{}
}

type heldBuffer struct {
	driver.Buffer
	on *held
}

type heldReading struct {
	driver.Reading
	on *held
}

func (h *held) Alloc(n int) (driver.Buffer, error) {
	b, err := h.Device.Alloc(n)
	return heldBuffer{b, h}, err
}

func (b heldBuffer) StartRead(ctx context.Context, offset int, dst []float32) (driver.Reading, error) {
	r, err := b.Buffer.StartRead(ctx, offset, dst)
	return heldReading{r, b.on}, err
}

func (r heldReading) Finish(ctx context.Context) error {
	r.on.begun <- struct{}{}
	select {
	case <-r.on.proceed:
	case <-ctx.Done():
	}
	return r.Reading.Finish(ctx)
}

type heldDriver struct{ *fakedriver.Driver }

func (h heldDriver) Open(ctx context.Context, index int) (driver.Device, error) {
	d, err := h.Driver.Open(ctx, index)
	return &held{d, make(chan struct{}, 9), make(chan struct{})}, err
}

// A pending read keeps buffer and device open, and ends with its context or the device.
func TestReadAsyncEnds(t *testing.T) {
	open := func(t *testing.T) (*Device, *held, *Buffer) {
		d, err := Open(t.Context(), WithDriver(heldDriver{fakedriver.New(t)}))
		require.NoError(t, err)
		return d, d.driver.(*held), buffer(t, d, 3, 1, 2, 3)
	}
	t.Run("buffer closed", func(t *testing.T) {
		d, h, b := open(t)
		got := make([]float32, 3)
		r := ReadAsync(t.Context(), b, 0, got)
		<-h.begun
		require.NoError(t, r.Err(), "not yet")
		require.NoError(t, b.Close())
		close(h.proceed)
		require.NoError(t, wait(t, r))
		require.Equal(t, []float32{1, 2, 3}, got)
		require.Zero(t, h.Device.(*fakedriver.Device).Buffers.Load(), "closed when the read has ended")
		require.NoError(t, d.Close())
	})
	t.Run("context ends", func(t *testing.T) {
		d, h, b := open(t)
		ctx, cancel := context.WithCancel(t.Context())
		r := ReadAsync(ctx, b, 0, make([]float32, 3))
		<-h.begun
		cancel()
		require.ErrorIs(t, wait(t, r), context.Canceled)
		require.NoError(t, d.Close())
	})
	t.Run("device closed", func(t *testing.T) {
		d, h, b := open(t)
		r := ReadAsync(t.Context(), b, 0, make([]float32, 3))
		<-h.begun
		require.NoError(t, d.Close())
		require.ErrorIs(t, wait(t, r), ErrClosed)
		require.ErrorIs(t, wait(t, ReadAsync(t.Context(), b, 0, make([]float32, 3))), ErrClosed)
	})
}

func TestSliceMistakes(t *testing.T) {
	d, _ := openFake(t)
	b := buffer(t, d, 200)
	half, err := d.NewBuffer(element.F16, 301)
	require.NoError(t, err)
	eighth, err := d.NewBuffer(element.E4M3, 259)
	require.NoError(t, err)
	closed := buffer(t, d, 1)
	require.NoError(t, closed.Close())
	for _, c := range []struct {
		name      string
		of        *Buffer
		offset, n int
		text      string
		want      error
	}{
		{"whole", b, 0, 200, "", nil},
		{"from the middle", b, 128, 72, "", nil},
		{"nothing", b, 192, 0, "", nil},
		{"odd, at the end", half, 256, 45, "", nil},
		{"negative size", b, 0, -1, "slice: n is -1: negative size", ErrInvalid},
		{"negative offset", b, -64, 1, "slice: 1 elements from -64 on, in a buffer of 200", ErrInvalid},
		{"beyond the end", b, 128, 73, "slice: 73 elements from 128 on, in a buffer of 200", ErrInvalid},
		{"not aligned", b, 32, 1, "slice: offset 32 is not a multiple of 64 elements (256 bytes)",
			ErrInvalid},
		{"not aligned, of 16 bits", half, 64, 2,
			"slice: offset 64 is not a multiple of 128 elements (256 bytes)", ErrInvalid},
		{"odd", half, 0, 33, "slice: n is 33: no multiple of 2, and the slice ends before the buffer does",
			ErrInvalid},
		{"of 8 bits, at the end", eighth, 256, 3, "", nil},
		{"of 8 bits, up to the last element", eighth, 256, 2,
			"slice: n is 2: no multiple of 4, and the slice ends before the buffer does", ErrInvalid},
		{"of 8 bits, nothing at the end", eighth, 256, 0, "", nil},
		{"not aligned, of 8 bits", eighth, 128, 2,
			"slice: offset 128 is not a multiple of 256 elements (256 bytes)", ErrInvalid},
		{"two of four", eighth, 0, 34, "slice: n is 34: no multiple of 4, and the slice ends before the " +
			"buffer does", ErrInvalid},
		{"closed", closed, 0, 1, "slice: buffer: closed", ErrClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := c.of.Slice(c.offset, c.n)
			if c.want != nil {
				require.EqualError(t, err, c.text)
				require.ErrorIs(t, err, c.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.n, s.Len())
			require.Equal(t, c.of.Type(), s.Type())
		})
	}
}

// A slice ends with itself or with its buffer. C must be in other memory than the other operands.
func TestSlices(t *testing.T) {
	ctx := t.Context()
	d, f := openFake(t)
	b, c := buffer(t, d, 132), buffer(t, d, 132)
	cut := func(b *Buffer, offset, n int) *Buffer {
		s, err := b.Slice(offset, n)
		require.NoError(t, err)
		return s
	}
	x, y := cut(b, 64, 4), cut(cut(b, 64, 68), 64, 4)
	require.NoError(t, Write(ctx, x, 0, []float32{1, 2, 3, 4}))
	require.NoError(t, Write(ctx, y, 0, []float32{1, 0, 0, 1}))
	p, z := program(t, d, small(t)), cut(c, 64, 4)
	require.NoError(t, p.Run(ctx, Operands{A: x, B: y, C: z}))
	got := make([]float32, 4)
	require.NoError(t, Read(ctx, c, 64, got))
	require.Equal(t, []float32{1, 2, 3, 4}, got)

	require.EqualError(t, p.Run(ctx, Operands{A: x, B: y, C: cut(b, 0, 64)}),
		"run 0: C and A are slices of one buffer")
	require.EqualError(t, p.Run(ctx, Operands{A: z, B: y, C: c}), "run 0: C and A are slices of one buffer")
	require.EqualError(t, p.Run(ctx, Operands{A: y, B: z, C: z}), "run 0: buffer C is also B")
	require.EqualError(t, p.Run(ctx, Operands{A: cut(b, 0, 3), B: y, C: z}),
		"run 0: A has 3 elements, the plan needs 4")

	require.NoError(t, x.Close())
	require.NoError(t, x.Close())
	require.EqualError(t, p.Run(ctx, Operands{A: x, B: y, C: z}), "run 0: A: closed")
	require.ErrorIs(t, Read(ctx, x, 0, got), ErrClosed)
	require.EqualValues(t, 2, f.Buffers.Load())
	require.NoError(t, b.Close())
	require.ErrorIs(t, p.Run(ctx, Operands{A: z, B: y, C: c}), ErrClosed)
	_, err := y.Slice(0, 1)
	require.ErrorIs(t, err, ErrClosed)
	_, err = y.Address()
	require.ErrorIs(t, err, ErrClosed)
	require.EqualValues(t, 1, f.Buffers.Load())
}

// A slice keeps its buffer.
func TestSliceKeepsItsBuffer(t *testing.T) {
	d, f := openFake(t)
	s, err := buffer(t, d, 4, 1, 2, 3, 4).Slice(0, 4)
	require.NoError(t, err)
	for range 5 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	got := make([]float32, 4)
	require.NoError(t, Read(t.Context(), s, 0, got))
	require.Equal(t, []float32{1, 2, 3, 4}, got)
	require.EqualValues(t, 1, f.Buffers.Load())
}

func TestCopy(t *testing.T) {
	ctx := t.Context()
	d, f := openFake(t)
	other, _ := openFake(t)
	src, dst, short := buffer(t, d, 4, 1, 2, 3, 4), buffer(t, d, 68), buffer(t, d, 3)
	part, err := dst.Slice(64, 4)
	require.NoError(t, err)
	require.NoError(t, d.Copy(ctx, part, src))
	got := make([]float32, 4)
	require.NoError(t, Read(ctx, dst, 64, got))
	require.Equal(t, []float32{1, 2, 3, 4}, got)
	half, err := d.NewBuffer(element.F16, 3)
	require.NoError(t, err)
	twin, err := d.NewBuffer(element.F16, 3)
	require.NoError(t, err)
	require.NoError(t, Write(ctx, half, 0, []uint16{7, 8, 9}))
	require.NoError(t, d.Copy(ctx, twin, half))
	bits := make([]uint16, 3)
	require.NoError(t, Read(ctx, twin, 0, bits))
	require.Equal(t, []uint16{7, 8, 9}, bits)
	require.EqualError(t, d.Copy(ctx, twin, short), "copy: dst has elements of f16, src of f32")
	none, nothing := buffer(t, d, 0), buffer(t, d, 0)
	require.NoError(t, d.Copy(ctx, none, nothing))
	foreign, closed := buffer(t, other, 4), buffer(t, d, 4)
	require.NoError(t, closed.Close())
	whole, err := src.Slice(0, 4)
	require.NoError(t, err)
	for _, c := range []struct {
		name     string
		dst, src *Buffer
		text     string
		want     error
	}{
		{"no dst", nil, src, "copy: dst is nil", ErrInvalid},
		{"no src", src, nil, "copy: src is nil", ErrInvalid},
		{"lengths", short, src, "copy: dst has 3 elements, src has 4", ErrInvalid},
		{"one buffer", whole, src, "copy: dst and src are of one buffer", ErrInvalid},
		{"foreign dst", foreign, src, "copy: dst: belongs to another device", ErrInvalid},
		{"foreign src", src, foreign, "copy: src: belongs to another device", ErrInvalid},
		{"closed dst", closed, src, "copy: dst: closed", ErrClosed},
		{"closed src", src, closed, "copy: src: closed", ErrClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := d.Copy(ctx, c.dst, c.src)
			require.EqualError(t, err, c.text)
			require.ErrorIs(t, err, c.want)
		})
	}
	f.OnCopy = func() error { return errBroken }
	require.ErrorIs(t, d.Copy(ctx, part, src), errBroken)
}

// Two layers whose weights lie in one buffer, on every backend. Intermediate results stay on the device, and
// the caller waits for nothing before the result.
func TestTwoLayers(t *testing.T) {
	ctx := t.Context()
	listings, err := Devices(ctx)
	require.NoError(t, err)
	for _, l := range listings {
		t.Run(l.Backend, func(t *testing.T) {
			if l.Err != nil {
				require.NotContains(t, os.Getenv(drivertest.RequireEnv), l.Backend)
				t.Skip(l.Err)
			}
			d, err := Open(ctx, WithBackend(l.Backend))
			require.NoError(t, err)
			defer d.Close()
			up, err := planner.Pack(planner.GEMM(3, 70, 2))
			require.NoError(t, err)
			down, err := planner.Pack(planner.GEMM(3, 2, 70))
			require.NoError(t, err)
			first, second := program(t, d, up), program(t, d, down)
			weights, hidden := buffer(t, d, 192+140), buffer(t, d, 210)
			x, y := buffer(t, d, 6, 1, 2, 3, 4, 5, 6), buffer(t, d, 6)
			w1, err := weights.Slice(0, 140)
			require.NoError(t, err)
			w2, err := weights.Slice(192, 140)
			require.NoError(t, err)
			ones := make([]float32, 140)
			for i := range ones {
				ones[i] = 1
			}
			require.NoError(t, errors.Join(Write(ctx, w1, 0, ones), Write(ctx, w2, 0, ones)))
			require.NoError(t, d.Run(ctx, Run{Program: first, Operands: Operands{A: x, B: w1, C: hidden}},
				Run{Program: second, Operands: Operands{A: hidden, B: w2, C: y}}))
			got := make([]float32, 6)
			require.NoError(t, wait(t, ReadAsync(ctx, y, 0, got)))
			require.Equal(t, []float32{210, 210, 490, 490, 770, 770}, got)
		})
	}
}
