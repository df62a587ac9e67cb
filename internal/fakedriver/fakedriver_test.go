package fakedriver

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/planner"
)

// recorder is a test that notes its failures.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

// Each broken rule is reported.
func TestPromises(t *testing.T) {
	type objects struct {
		device, other *Device
		program       driver.Program
		ragged        driver.Program
		plan          *planner.Plan
		sizes         *planner.Plan // those on the device
		a, b, c       driver.Buffer
		short, far    driver.Buffer
	}
	submit := func(o *objects, p driver.Program, a, b, c driver.Buffer) {
		_ = o.device.Submit(t.Context(), []driver.Run{{Program: p, A: a, B: b, C: c}})
	}
	submitSizes := func(o *objects, p driver.Program, sizes, c driver.Buffer) {
		_ = o.device.Submit(t.Context(), []driver.Run{{Program: p, A: o.a, B: o.b, C: c, Sizes: sizes}})
	}
	four := make([]float32, 4)
	for name, c := range map[string]struct {
		do   func(o *objects)
		want string // "": no rule is broken
	}{
		"kept": {func(o *objects) {
			submit(o, o.program, o.a, o.a, o.c)
			_ = o.c.Read(t.Context(), 0, four)
		}, ""},
		"nothing": {func(o *objects) { _, _ = o.device.Alloc(0) }, "device: Alloc of 0 elements"},
		"too much": {func(o *objects) { _, _ = o.device.Alloc(backend.MaxLen + 1) },
			"device: Alloc of "},
		"short A": {func(o *objects) { submit(o, o.program, o.short, o.b, o.c) },
			"device: a run with a buffer of fake0 and 3 words, where 4"},
		"short C":        {func(o *objects) { submit(o, o.program, o.a, o.b, o.short) }, "3 words, where 4"},
		"foreign buffer": {func(o *objects) { submit(o, o.program, o.a, o.far, o.c) }, "a buffer of fake1"},
		"C is B": {func(o *objects) { submit(o, o.program, o.a, o.c, o.c) },
			"a run of a program of fake0, with A"},
		"updated": {func(o *objects) {
			_ = o.program.Update(t.Context(), o.plan)
			submit(o, o.program, o.a, o.b, o.c)
		}, ""},
		"updated to a foreign plan": {func(o *objects) {
			o.plan.Device = &planner.Device{Name: "another"}
			_ = o.program.Update(t.Context(), o.plan)
		}, "device: Update of a plan for another"},
		"updated during a run": {func(o *objects) {
			o.device.OnSubmit = func() error { return o.program.Update(t.Context(), o.plan) }
			submit(o, o.program, o.a, o.b, o.c)
		}, "program: Update during a call"},
		"run during an update": {func(o *objects) {
			o.device.OnUpdate = func() error { submit(o, o.program, o.a, o.b, o.c); return nil }
			_ = o.program.Update(t.Context(), o.plan)
		}, "program: a call during Update"},
		"ragged": {func(o *objects) {
			submitSizes(o, o.ragged, o.b, o.c)
			_, _ = o.ragged.Status(t.Context())
		}, ""},
		"ragged without sizes": {func(o *objects) { submitSizes(o, o.ragged, nil, o.c) },
			"device: a run of a program that needs 4 sizes"},
		"sizes of others": {func(o *objects) { submitSizes(o, o.program, o.b, o.c) },
			"device: a run of a program that needs 0 sizes"},
		"short sizes": {func(o *objects) { submitSizes(o, o.ragged, o.short, o.c) },
			"3 words, where 4"},
		"foreign sizes": {func(o *objects) { submitSizes(o, o.ragged, o.far, o.c) },
			"a buffer of fake1"},
		"C is sizes": {func(o *objects) { submitSizes(o, o.ragged, o.c, o.c) },
			"device: a run of a program that needs 4 sizes, with C"},
		"ragged updated": {func(o *objects) { _ = o.ragged.Update(t.Context(), o.plan) },
			"program: Update of a ragged program"},
		"updated to ragged": {func(o *objects) { _ = o.program.Update(t.Context(), o.sizes) },
			"program: Update of a ragged program, or to a ragged plan"},
		"status during an update": {func(o *objects) {
			o.device.OnUpdate = func() error { _, err := o.program.Status(t.Context()); return err }
			_ = o.program.Update(t.Context(), o.plan)
		}, "program: a call during Update"},
		"status during status": {func(o *objects) {
			o.device.OnStatus = func() error {
				o.device.OnStatus = nil
				_, err := o.ragged.Status(t.Context())
				return err
			}
			_, _ = o.ragged.Status(t.Context())
		}, "program: Status during Status"},
		"status of what is closed": {func(o *objects) {
			_ = o.ragged.Close()
			_, _ = o.ragged.Status(t.Context())
		}, "program: a call of what is closed"},
		"bad description": {func(o *objects) {
			o.sizes.Ragged.Groups = 0
			_, _ = o.device.Prepare(t.Context(), o.sizes)
		}, "device: Prepare of a plan for cpu: ragged batch: 0 groups"},
		"closed program": {func(o *objects) { _ = o.program.Close(); submit(o, o.program, o.a, o.b, o.c) },
			"program: a call of what is closed"},
		"closed buffer": {func(o *objects) { _ = o.a.Close(); submit(o, o.program, o.a, o.b, o.c) },
			"buffer: a call of what is closed"},
		"closed device": {func(o *objects) { _ = o.device.Close(); _ = o.device.Wait(t.Context()) },
			"device: a call of what is closed"},
		"closed twice": {func(o *objects) { _ = o.a.Close(); _ = o.a.Close() }, "buffer: closed twice"},
		"closed under a call": {func(o *objects) {
			o.device.OnSubmit = o.a.Close
			submit(o, o.program, o.a, o.b, o.c)
		}, "buffer: closed during a call"},
		"device closed under a call": {func(o *objects) {
			o.device.OnWrite = o.device.Close
			_ = o.a.Write(t.Context(), 0, four)
		}, "device: closed during a call"},
	} {
		t.Run(name, func(t *testing.T) {
			tb := &recorder{TB: t}
			f := &Driver{TB: tb, Backend: "fake", Kinds: make([]hardware.Kind, 2)}
			var o objects
			for i, d := range []**Device{&o.device, &o.other} {
				_, err := f.Open(t.Context(), i)
				require.NoError(t, err)
				*d = f.Last()
			}
			batch, err := planner.Pack(planner.GEMM(2, 2, 2))
			require.NoError(t, err)
			o.plan, err = planner.New(&o.device.info.Planner).Plan(t.Context(), batch, planner.Options{})
			require.NoError(t, err)
			o.program, err = o.device.Prepare(t.Context(), o.plan)
			require.NoError(t, err)
			row := planner.Matrix{LD: 1}
			o.sizes, err = planner.New(&o.device.info.Planner).PlanRagged(
				planner.Ragged{Form: planner.EndsOfRows, Groups: 4, M: 4, N: 1, K: 1, A: row, B: row, C: row,
					StrideB: 1}, planner.Options{})
			require.NoError(t, err)
			o.ragged, err = o.device.Prepare(t.Context(), o.sizes)
			require.NoError(t, err)
			for b, n := range map[*driver.Buffer]int{&o.a: 4, &o.b: 4, &o.c: 4, &o.short: 3} {
				*b, err = o.device.Alloc(n)
				require.NoError(t, err)
			}
			o.far, err = o.other.Alloc(4)
			require.NoError(t, err)
			require.Empty(t, tb.failures)

			c.do(&o)
			if c.want == "" {
				require.Empty(t, tb.failures)
				return
			}
			require.NotEmpty(t, tb.failures)
			require.Contains(t, strings.Join(tb.failures, "\n"), c.want)
		})
	}
}

// Ranges of Write and Read.
func TestRanges(t *testing.T) {
	for _, c := range []struct{ offset, n, failures int }{{0, 4, 0}, {3, 1, 0}, {0, 0, 1}, {-1, 1, 1},
		{1, 4, 1}, {math.MaxInt, 1, 1}} {
		tb := &recorder{TB: t}
		f := New(tb)
		d, err := f.Open(t.Context(), 0)
		require.NoError(t, err)
		b, err := d.Alloc(4)
		require.NoError(t, err)
		b.(*buffer).transfer("Write", c.offset, c.n)()
		require.Len(t, tb.failures, c.failures, c)
	}
}
