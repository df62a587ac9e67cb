package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// typesHelp is for commands that take --type.
const typesHelp = `--type is that of the elements of A and B, --type-c that of C: float32, or the
same; where A and B are of e4m3 or int8 (8 bits), bf16, f16 or f32. Numbers of a workload that its
type does not have are rounded to the nearest, those too large for f16 to infinity, for
e4m3 to 448, for int8 to 127 or -128. Without matrices of its own, int8 has random numbers
from -128 to 127. Sums are in float32, whatever the types are.`

// typeFlags are the types of elements.
type typeFlags struct{ ab, c string }

func (f *typeFlags) flags(cmd *cobra.Command) {
	names := func() (names []string) {
		for _, t := range element.Types() {
			names = append(names, t.String())
		}
		return names
	}
	cmd.Flags().StringVar(&f.ab, "type", "", "elements of A and B: "+element.List(element.Types(), " or ")+" (default f32)")
	cmd.Flags().StringVar(&f.c, "type-c", "", "elements of C: f32, or as of A and B; of e4m3 and int8 "+element.List(element.Int8.TypesC(), " or ")+" (default as A and B, of e4m3 and int8 bf16)")
	complete(cmd, "type", names)
	complete(cmd, "type-c", names)
}

// set puts the types into options.
func (f *typeFlags) set(o *planner.Options) (err error) {
	if o.Type, err = element.Parse(f.ab); err != nil {
		return fmt.Errorf("--type: %w", err)
	}
	if o.TypeC, err = element.Parse(cmp.Or(f.c, o.Type.TypesC()[0].String())); err != nil {
		return fmt.Errorf("--type-c: %w", err)
	}
	return nil
}

// typesOf are the types of A, B, C, the bias and lists of rows.
func typesOf(o *planner.Options) [5]element.Type {
	return [5]element.Type{o.Type, o.Type, o.TypeC, o.TypeC, element.F32}
}

// showTypes names the types that are not all float32.
func showTypes(ab, c element.Type) string { return fmt.Sprintf("%s, C of %s", ab, c) }

// piece is how many elements are converted at a time, so that copies stay small.
const piece = 1 << 20

// write copies numbers, which the type of the buffer has, to its first elements.
func write(ctx context.Context, to *dispatch.Buffer, numbers []float32) error {
	if to.Type() == element.F32 {
		return to.Write(ctx, 0, numbers)
	}
	if of := to.Type(); of.Bytes() == 1 {
		return pieces(len(numbers), func(bits []uint8, first, end int) error {
			of.NarrowBytes(bits, numbers[first:end])
			return to.WriteBytes(ctx, first, bits)
		})
	}
	return pieces(len(numbers), func(bits []uint16, first, end int) error {
		to.Type().Narrow(bits, numbers[first:end])
		return to.WriteBits(ctx, first, bits)
	})
}

// read is the reverse of write, for types that C may have.
func read(ctx context.Context, from *dispatch.Buffer, numbers []float32) error {
	if from.Type() == element.F32 {
		return from.Read(ctx, 0, numbers)
	}
	return pieces(len(numbers), func(bits []uint16, first, end int) error {
		err := from.ReadBits(ctx, first, bits)
		from.Type().Widen(numbers[first:end], bits)
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
