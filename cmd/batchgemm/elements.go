package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/workload"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// typesHelp is for commands that take --type.
const typesHelp = `--type names the elements of A and B, --type-c those of C: f32, or the same as A and B.
If A and B are e4m3 or int8 (8 bits), C is bf16, f16 or f32. Sums are in float32. f64 is for A, B and C
together, sums and scalars are in float64 too, and a device that has it is chosen: cuda, hip (CDNA) or cpu.
Numbers of a workload are rounded to the type. Those that are too large become infinity in f16, 448 in e4m3,
and 127 or -128 in int8. NaN and infinities are an error for int8. Random numbers of int8 are from -128 to
127.
Arrays of a .npz file are float32, float16 or int8, or float64 for f64. For e4m3, A and B may also be
uint8, with its bits.

--type-b int4 gives B 4 bits, with --type bf16 or f16: numbers from 0 to 15. Each 128 k's of a column (64
with --epilogue group-64) share a scale and a zero point: a number stands for scale*(number - zero). K is a
multiple of that, and no matrix is transposed. The workload random: rounds K up. In a .npz file B0 is
  float32, float16  (K, N), to be quantised: the zero point is 8, the scale the better of two
  uint8, int8       (K, N), numbers from 0 to 15, with scales S0 (K/128, N), float32 or float16,
                    and zero points Z0 of the same shape, uint8 or int8; without Z0 they are 8
  uint32            (K/64, ld, 8), words as batchgemm.pack_int4 of Python makes them, with S0 and
                    Z0 (K/128, ld); N is that of C0, or ld if there is no C0
S0 may also be uint32: words of scales and zero points, as batchgemm.quantize_int4 makes them.`

// typeFlags are the types of elements.
type typeFlags struct{ a, b, c string }

func (f *typeFlags) flags(cmd *cobra.Command) {
	names := func() (names []string) {
		for _, t := range elemtype.TypesA() {
			names = append(names, t.String())
		}
		return names
	}
	cmd.Flags().StringVar(&f.a, "type", "", "elements of A and B: "+elemtype.List(elemtype.TypesA(), " or ")+
		" (default f32)")
	cmd.Flags().StringVar(&f.b, "type-b", "", "elements of B: int4 with A of bf16 or f16 (default as A)")
	cmd.Flags().StringVar(&f.c, "type-c", "", "elements of C: f32, or as of A; of e4m3 and int8 "+
		elemtype.List(elemtype.TypesC(element.Int8), " or ")+" (default as A, of e4m3 and int8 bf16)")
	complete(cmd, "type", names)
	complete(cmd, "type-b", func() []string {
		all := names()
		for _, of := range elemtype.Types4() {
			all = append(all, of.String())
		}
		return all
	})
	complete(cmd, "type-c", names)
}

// set adds the types to options with an epilogue. For B of 4 bits it also adds scales.
func (f *typeFlags) set(o *planner.Options) (err error) {
	if o.TypeA, err = typeAmong("--type", f.a, elemtype.TypesA()); err != nil {
		if _, err4 := typeAmong("", f.a, elemtype.Types4()); f.a != "" && err4 == nil {
			err = fmt.Errorf("%w: only B may be, with --type-b %s", err, f.a)
		}
		return err
	}
	if o.TypeC, err = typeAmong("--type-c", f.c, elemtype.TypesC(o.TypeA)); err != nil {
		return fmt.Errorf("%w if A is %s", err, o.TypeA)
	}
	ofB := []element.Type{o.TypeA}
	if o.TypeA.Bytes() == 2 {
		ofB = append(ofB, elemtype.Types4()...)
	}
	if o.TypeB, err = typeAmong("--type-b", f.b, ofB); err != nil {
		return fmt.Errorf("%w if A is %s", err, o.TypeA)
	}
	scale := &o.Epilogue.ScaleB
	switch bits4 := elemtype.Bits4(o.TypeB); {
	case bits4 && *scale == "":
		*scale = groupsOf[o.TypeB]
	case bits4 && scale.Group() == 0:
		return fmt.Errorf("--epilogue has scales of each %s, but B of %s needs those of groups", *scale,
			o.TypeB)
	case scale.Group() > 0 && scale.TypeB(o.TypeA) != o.TypeB:
		return fmt.Errorf("--epilogue %s is for --type-b %s", *scale, scale.TypeB(o.TypeA))
	}
	return nil
}

// groupsOf are the groups of types of 4 bits where --epilogue names none.
var groupsOf = map[element.Type]planner.Scaling{element.Int4: planner.PerGroup128,
	element.MXFP4: planner.PerGroup32, element.NVFP4: planner.PerGroup16}

// typeAmong returns the type that a flag names, among some types; without a name it is the first.
func typeAmong(flag, name string, types []element.Type) (element.Type, error) {
	if name == "" {
		return types[0], nil
	}
	i := slices.IndexFunc(types, func(t element.Type) bool { return t.String() == name })
	if i < 0 {
		return 0, fmt.Errorf("%s %q is not %s", flag, name, elemtype.List(types, " or "))
	}
	return types[i], nil
}

// typeB returns the type of B for reports: 0 if it is that of A.
func typeB(o *planner.Options) element.Type {
	if o.TypeB == o.TypeA {
		return 0
	}
	return o.TypeB
}

// content is the content of a buffer: numbers, of F64 as words, or words, for types of 4 bits or lists.
type content struct {
	of      element.Type
	numbers []float32
	packed  []uint32
}

// inBuffers returns the contents of the buffers of runOf.
func inBuffers(ops *workload.Operands, o *planner.Options) [5]content {
	b := content{of: o.TypeB, numbers: ops.B}
	if elemtype.Bits4(b.of) {
		b = content{of: b.of, packed: ops.Packed}
	}
	return [5]content{{of: o.TypeA, numbers: ops.A}, b, {of: o.TypeC, numbers: ops.C},
		{of: o.TypeC, numbers: ops.Bias}, {numbers: backend.Words(ops.Rows)}}
}

// len returns the number of elements.
func (c *content) len() int {
	return len(c.numbers)/elemtype.Words(elemtype.Sums(c.of), 1) + element.Int4.PerWord()*len(c.packed)
}

// write copies the content to the first elements of a buffer.
func (c *content) write(ctx context.Context, to *dispatch.Buffer) error {
	if !elemtype.Bits4(c.of) {
		return write(ctx, to, c.numbers)
	}
	return dispatch.Write(ctx, to, 0, c.packed)
}

// piece is how many elements are converted at a time, to keep copies small.
const piece = 1 << 20

// write copies numbers, which the buffer's type represents exactly, to its first elements.
func write(ctx context.Context, to *dispatch.Buffer, numbers []float32) error {
	switch to.Type() {
	case element.F32:
		return dispatch.Write(ctx, to, 0, numbers)
	case element.F64:
		return dispatch.Write(ctx, to, 0, workload.Doubles(numbers))
	}
	if of := to.Type(); of.Bytes() == 1 {
		return pieces(len(numbers), func(bits []uint8, first, end int) error {
			element.Narrow(of, bits, numbers[first:end])
			return dispatch.Write(ctx, to, first, bits)
		})
	}
	return pieces(len(numbers), func(bits []uint16, first, end int) error {
		element.Narrow(to.Type(), bits, numbers[first:end])
		return dispatch.Write(ctx, to, first, bits)
	})
}

// read inverts write, for types of C.
func read(ctx context.Context, from *dispatch.Buffer, numbers []float32) error {
	switch from.Type() {
	case element.F32:
		return dispatch.Read(ctx, from, 0, numbers)
	case element.F64:
		return dispatch.Read(ctx, from, 0, workload.Doubles(numbers))
	}
	return pieces(len(numbers), func(bits []uint16, first, end int) error {
		err := dispatch.Read(ctx, from, first, bits)
		element.Widen(from.Type(), numbers[first:end], bits)
		return err
	})
}

func pieces[T uint8 | uint16](n int, move func(bits []T, first, end int) error) error {
	bits := make([]T, min(n, piece))
	for first := 0; first < n; first += piece {
		end := min(first+piece, n)
		if err := move(bits[:end-first], first, end); err != nil {
			return err
		}
	}
	return nil
}
