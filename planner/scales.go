package planner

import (
	"slices"

	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/planner/element"
	"github.com/batchgemm/batchgemm/planner/encoding"
)

// Scaling says what has a scale of an operand, by which products are multiplied; "" is nothing.
type Scaling = encoding.Scaling

const (
	PerTensor = encoding.PerTensor // one for A, one for B and one for B2, of each problem
	PerRow    = encoding.PerRow    // each row of A, as stored where rows are gathered; each column of op(B)
)

// ScalesA is how many scales an A has of which products take so many rows.
func (e *Epilogue) ScalesA(rows int) int {
	switch e.ScaleA {
	case "":
		return 0
	case PerRow:
		return e.storedA(rows)
	}
	return 1
}

// ScalesB is how many scales the B of n columns has, with Gated those of B and behind them those of B2.
func (e *Epilogue) ScalesB(n int) int {
	switch e.ScaleB {
	case "":
		return 0
	case PerRow:
		return n * e.kernel().Products()
	}
	return e.kernel().Products()
}

// scaleA and scaleB are the words of Rows with the scales of a tile's first row and column.
func (e *Epilogue) scaleA(p *Problem, row int) uint32 {
	if e.kernel().EachRow() {
		return uint32(p.ScaleA + row)
	}
	return uint32(p.ScaleA)
}

func (e *Epilogue) scaleB(p *Problem, col int) uint32 {
	if e.ScaleB == PerRow {
		return uint32(p.ScaleB + col)
	}
	return uint32(p.ScaleB)
}

// scaled are the types whose elements may have scales.
var scaled = slices.DeleteFunc(element.Types(), func(t element.Type) bool { return !t.Scaled() })

// checkScales fails for scales that are none, or for elements of another type.
func (o *Options) checkScales() error {
	for _, s := range []Scaling{o.Epilogue.ScaleA, o.Epilogue.ScaleB} {
		switch {
		case s == "":
		case s != PerTensor && s != PerRow:
			return invalid.Errorf("unknown scaling %q (known: %s, %s)", s, PerTensor, PerRow)
		case !o.Type.Scaled():
			return invalid.Errorf("scales are for elements of %s, not %s", element.List(scaled, " or "), o.Type)
		}
	}
	return nil
}
