package backend

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/invalid"
)

type device struct{ driver.Device }

func (*device) Info() driver.Info { return info }

type buffer struct {
	driver.Buffer
	on *device
}

func (b *buffer) On() *device { return b.on }

type program struct {
	driver.Program
	on *device
}

func (p *program) On() *device { return p.on }

// pointed is a program that has A and B by pointers.
type pointed struct{ program }

func (*pointed) Apart() [3]bool { return [3]bool{true, true, false} }

func TestOperands(t *testing.T) {
	d, other := new(device), new(device)
	p := &program{on: d}
	a, b, c := &buffer{on: d}, &buffer{on: d}, &buffer{on: d}
	good := driver.Run{Program: p, A: a, B: b, C: c}
	gotP, got, err := Operands[*program, *buffer](d, &good)
	require.NoError(t, err)
	require.Same(t, p, gotP)
	require.Equal(t, [3]*buffer{a, b, c}, got)
	require.Zero(t, testing.AllocsPerRun(10, func() { _, _, _ = Operands[*program, *buffer](d, &good) }))

	type strange struct{ driver.Buffer }
	for name, x := range map[string]struct {
		run  driver.Run
		want string
	}{
		"no program": {driver.Run{A: a, B: b, C: c}, "fake: the program is of another device"},
		"foreign program": {driver.Run{Program: &program{on: other}, A: a, B: b, C: c},
			"fake: the program is of another device"},
		"no buffer": {driver.Run{Program: p, B: b, C: c}, "fake: A is of another device"},
		"foreign buffer": {driver.Run{Program: p, A: a, B: &buffer{on: other}, C: c},
			"fake: B is of another device"},
		"other type": {driver.Run{Program: p, A: a, B: b, C: strange{}}, "fake: C is of another device"},
	} {
		_, _, err := Operands[*program, *buffer](d, &x.run)
		require.EqualError(t, err, x.want, name)
		require.ErrorIs(t, err, invalid.Err, name)
	}

	_, _, err = Operands[*pointed, *buffer](d, &driver.Run{Program: &pointed{program{on: d}}, A: a})
	require.EqualError(t, err, "fake: C is of another device")
	_, got, err = Operands[*pointed, *buffer](d, &driver.Run{Program: &pointed{program{on: d}}, C: c})
	require.NoError(t, err)
	require.Equal(t, [3]*buffer{2: c}, got)

	beside, err := Beside[*buffer](d, &driver.Run{Bias: b})
	require.NoError(t, err)
	require.Equal(t, [3]*buffer{nil, b, nil}, beside)
	for want, run := range map[string]driver.Run{
		"fake: B2 is of another device":   {B2: &buffer{on: other}},
		"fake: Bias is of another device": {B2: a, Bias: strange{}},
		"fake: Rows is of another device": {Rows: &buffer{on: other}},
	} {
		_, err := Beside[*buffer](d, &run)
		require.EqualError(t, err, want)
		require.ErrorIs(t, err, invalid.Err)
	}

	sizes, err := Sizes[*buffer](d, &driver.Run{Sizes: a})
	require.NoError(t, err)
	require.Same(t, a, sizes)
	for _, sizes := range []driver.Buffer{nil, &buffer{on: other}, strange{}} {
		_, err := Sizes[*buffer](d, &driver.Run{Sizes: sizes})
		require.EqualError(t, err, "fake: the sizes are of another device")
		require.ErrorIs(t, err, invalid.Err)
	}

	to, from, err := Pair[*buffer](d, a, b)
	require.NoError(t, err)
	require.Equal(t, [2]*buffer{a, b}, [2]*buffer{to, from})
	for want, pair := range map[string][2]driver.Buffer{
		"fake: dst is of another device": {nil, b},
		"fake: src is of another device": {a, strange{}},
	} {
		_, _, err := Pair[*buffer](d, pair[0], pair[1])
		require.EqualError(t, err, want)
		require.ErrorIs(t, err, invalid.Err)
	}
}
