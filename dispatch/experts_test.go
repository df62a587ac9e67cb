package dispatch

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// expertsOf is a layer of experts on the CPU with its operands.
type expertsOf struct {
	*Experts
	device *Device
	with   ExpertOperands
	host   map[*Buffer][]float32
}

func newExperts(t *testing.T, of planner.Experts) *expertsOf {
	t.Helper()
	d, err := Open(t.Context(), WithBackend("cpu"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	l := &expertsOf{device: d, host: map[*Buffer][]float32{}}
	l.Experts, err = d.PrepareExperts(t.Context(), of, planner.Options{})
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(1, 1))
	n, e, h, i := of.Tokens*of.TopK, of.Experts, of.Hidden, of.Intermediate
	for _, b := range []struct {
		buffer **Buffer
		n      int
	}{{&l.with.X, of.Tokens * h}, {&l.with.Y, of.Tokens * h}, {&l.with.Weights, n},
		{&l.with.GateUp, e * 2 * i * h}, {&l.with.Down, e * i * h}, {&l.with.Index, n}} {
		*b.buffer, err = d.NewBuffer(element.F32, b.n)
		require.NoError(t, err)
		values := make([]float32, b.n)
		for k := range values {
			values[k] = rng.Float32() - 0.5
		}
		l.host[*b.buffer] = values
		require.NoError(t, Write(t.Context(), *b.buffer, 0, values))
	}
	l.route(t, func(i int) int32 { return rng.Int32N(int32(e)) })
	return l
}

func (l *expertsOf) route(t *testing.T, choose func(i int) int32) {
	t.Helper()
	index := make([]int32, l.with.Index.Len())
	for i := range index {
		index[i] = choose(i)
	}
	l.host[l.with.Index] = unsafe.Slice((*float32)(unsafe.Pointer(&index[0])), len(index))
	require.NoError(t, Write(t.Context(), l.with.Index, 0, index))
}

func (l *expertsOf) y(t *testing.T) []float32 {
	t.Helper()
	y := make([]float32, l.with.Y.Len())
	require.NoError(t, Read(t.Context(), l.with.Y, 0, y))
	return y
}

var someExperts = planner.Experts{Choices: planner.Choices{Tokens: 9, TopK: 2, Experts: 4}, Hidden: 8,
	Intermediate: 6, TransB: true, Gated: true, Activation: planner.SiLU}

// TestExpertsAt: a run in memory of the caller is that on buffers, of as many tokens as there are.
func TestExpertsAt(t *testing.T) {
	l := newExperts(t, someExperts)
	require.NoError(t, l.Run(t.Context(), l.with))
	want := l.y(t)
	at := func(b *Buffer) uintptr { // of 16 bytes, outside of Go's memory
		mapped := make([]float32, b.Len()+4)
		first := uintptr(unsafe.Pointer(&mapped[0]))
		skip := (16 - first%16) % 16 / 4
		copy(mapped[skip:], l.host[b])
		l.host[b] = mapped[skip:][:b.Len()]
		return uintptr(unsafe.Pointer(&l.host[b][0]))
	}
	a := ExpertAddresses{X: at(l.with.X), Y: at(l.with.Y), Index: at(l.with.Index),
		Weights: at(l.with.Weights), GateUp: at(l.with.GateUp), Down: at(l.with.Down)}
	y := l.host[l.with.Y]
	require.NoError(t, l.RunAt(t.Context(), 0, a))
	require.NoError(t, l.device.Wait(t.Context()))
	require.Equal(t, want, y)
	clear(y)
	a.Tokens = 4
	require.NoError(t, l.RunAt(t.Context(), 0, a))
	require.NoError(t, l.device.Wait(t.Context()))
	require.Equal(t, want[:4*8], y[:4*8])
	require.Equal(t, make([]float32, 5*8), y[4*8:])

	for _, test := range []struct {
		change func(*ExpertAddresses)
		want   string
	}{
		{func(a *ExpertAddresses) { a.Tokens = 10 }, "10 tokens are not in [0, 9]"},
		{func(a *ExpertAddresses) { a.Down = 0 }, "Down is 0"},
		{func(a *ExpertAddresses) { a.X += 4 }, "is not a multiple of 16"},
		{func(a *ExpertAddresses) { a.Up = a.X }, "Up is not 0: the layer has no use for it"},
	} {
		wrong := a
		test.change(&wrong)
		require.ErrorContains(t, l.RunAt(t.Context(), 0, wrong), test.want)
	}
	require.ErrorContains(t, l.RunAt(t.Context(), 1, a), "stream")
	require.NoError(t, l.Close())
	require.ErrorIs(t, l.RunAt(t.Context(), 0, a), ErrClosed)
	require.ErrorIs(t, l.Run(t.Context(), l.with), ErrClosed)
}

// TestExpertsRun: X may be Y, tokens of no expert become 0, and mistakes are errors that name the operand.
func TestExpertsRun(t *testing.T) {
	l := newExperts(t, someExperts)
	require.NoError(t, l.Run(t.Context(), l.with))
	want := l.y(t)
	x := l.with
	x.Y = x.X
	require.NoError(t, l.Run(t.Context(), x))
	got := make([]float32, len(want))
	require.NoError(t, Read(t.Context(), x.X, 0, got))
	require.Equal(t, want, got)

	l.route(t, func(i int) int32 { return int32(-(i % 4 / 2)) }) // every second token
	require.NoError(t, l.Run(t.Context(), l.with))
	y := l.y(t)
	require.Equal(t, make([]float32, 8), y[8:16])

	short, err := l.device.NewBuffer(element.F32, 3)
	require.NoError(t, err)
	half, err := l.device.NewBuffer(element.BF16, 1000)
	require.NoError(t, err)
	for _, test := range []struct {
		change func(*ExpertOperands)
		want   string
	}{
		{func(x *ExpertOperands) { x.X = nil }, "X is nil"},
		{func(x *ExpertOperands) { x.Weights = short }, "Weights has 3 elements, the layer needs 18"},
		{func(x *ExpertOperands) { x.GateUp = half }, "GateUp has elements of bf16, the layer is for f32"},
		{func(x *ExpertOperands) { x.DownBias = short }, "DownBias is not nil: the layer has no use for it"},
		{func(x *ExpertOperands) { x.Y = x.Index }, "Y has 18 elements, the layer needs 72"},
	} {
		wrong := l.with
		test.change(&wrong)
		require.ErrorContains(t, l.Run(t.Context(), wrong), test.want)
	}
}

// TestExpertsNone: a layer of no tokens does nothing.
func TestExpertsNone(t *testing.T) {
	of := someExperts
	of.Tokens = 0
	l := newExperts(t, someExperts)
	x, err := l.device.PrepareExperts(t.Context(), of, planner.Options{})
	require.NoError(t, err)
	require.NoError(t, x.Run(t.Context(), ExpertOperands{}))
	require.NoError(t, x.RunAt(t.Context(), 0, ExpertAddresses{}))
	require.NoError(t, x.Close())
}

func TestExpertsMistakes(t *testing.T) {
	d := newExperts(t, someExperts).device
	for _, test := range []struct {
		change func(*planner.Experts)
		want   string
	}{
		{func(x *planner.Experts) { x.Hidden = 0 }, "hidden 0 is not in"},
		{func(x *planner.Experts) { x.Intermediate = -1 }, "intermediate -1 is not in"},
		{func(x *planner.Experts) { x.TopK = 17 }, "17 choices of a token are not in [1, 16]"},
		{func(x *planner.Experts) { x.Experts = 4097 }, "4097 experts are not in [1, 4096]"},
		{func(x *planner.Experts) { x.Weights = element.Int8 }, "weights cannot be of int8"},
		{func(x *planner.Experts) { x.GateUp, x.TransB = planner.GateUpInterleaved, false },
			"gate and up are interleaved in columns"},
		{func(x *planner.Experts) { x.GateUp, x.Bias = planner.GateUpInterleaved, true },
			"their biases are joined"},
		{func(x *planner.Experts) { x.GateUp = 3 }, "unknown order 3 of gate and up"},
		{func(x *planner.Experts) { x.Activation = "elu" }, `unknown activation "elu"`},
	} {
		of := someExperts
		test.change(&of)
		_, err := d.PrepareExperts(t.Context(), of, planner.Options{})
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, test.want)
	}
	_, err := d.PrepareExperts(t.Context(), someExperts, planner.Options{TypeA: element.E4M3})
	require.ErrorContains(t, err, "rows cannot be of e4m3")
	_, err = d.PrepareExperts(t.Context(), someExperts,
		planner.Options{Epilogue: planner.Epilogue{Bias: true}})
	require.ErrorContains(t, err, "the layer says what its epilogues are")
}
