package planner

import (
	"slices"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/invalid"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Scaling says what shares a scale of an operand. Products are multiplied by it. "" is no scale.
type Scaling = encoding.Scaling

const (
	PerTensor = encoding.PerTensor // one each for A, B and B2 of each problem
	PerRow    = encoding.PerRow    // one for each row of A (as stored, with GatherRows) or column of op(B)

	// PerGroup64 and PerGroup128 are for B of element.Int4 only, with A of bf16 or fp16. Each column of B
	// has a word for every 64 or 128 k, its group: a scale and a zero point (element.GroupWord). Word
	// Problem.ScaleB + k/group*B.LD + j of Rows is that of column j; there is one row of B.LD words for each
	// group.
	//
	// Neither operand may be transposed. B is K x N in the layout of element.PackInt4. Its leading dimension
	// must be a multiple of 8 and its offset a multiple of 32, both in elements. Its addresses, if any, must
	// be Aligned. K must be a multiple of the group. Tiles are split along K only if a K step is a whole
	// number of groups; otherwise schedules deal them whole.
	PerGroup64  = encoding.PerGroup64
	PerGroup128 = encoding.PerGroup128

	// PerGroup32 is for B of element.MXFP4, PerGroup16 for B of element.NVFP4. Each column has a word of four
	// scales for every 128 or 64 k (element.PackFP4), in rows of B.LD words from Problem.ScaleB on.
	// PerGroup16 has a row of fp32 scales of the columns before them: B[k, j] is e2m1 * (E4M3 * fp32). K must
	// be a multiple of 64. The rest is as for PerGroup64, but tiles of PerGroup16 are not split along K.
	PerGroup32 = encoding.PerGroup32
	PerGroup16 = encoding.PerGroup16

	// PerBlock is for A and B of element.E4M3, both together. A has a scale for each row (as stored, with
	// GatherRows) and each 128 k. B has one for each block of 128 k x 128 columns of op(B). With n =
	// ceil(K/128), word Problem.ScaleA + i*n + k/128 is for A[i, k], and word Problem.ScaleB + j/128*n +
	// k/128 for B[k, j]. Scales of B2 follow all of B's. The products of each 128 k are multiplied by the
	// product of both scales. It is rounded to fp32, and must be 0 or a normal number, at least 2^-126.
	// Tiles are not split along K.
	PerBlock = encoding.PerBlock
)

// group returns how many k share a scale of B; 0: B has no groups.
func (e *Epilogue) group() int { return e.ScaleB.Group() }

// alongK names what shares scales if K has several; "": K has one.
func (e *Epilogue) alongK() string {
	switch {
	case e.group() > 0:
		return "groups"
	case e.kernel().Blocks():
		return "blocks"
	}
	return ""
}

// cutsAt returns the number of k, a group, at whose multiples tiles may be split along K; 0: tiles may not
// be split.
func (e *Epilogue) cutsAt() int {
	if e.Gated || e.kernel().Blocks() || e.ScaleB.ColumnRow() {
		return 0
	}
	return max(e.group(), 1)
}

// cuttable reports whether tiles of a shape may be split along K, if cuts must be at such multiples.
// Kernels that copy boxes store no partials.
func cuttable(t *tile.Shape, at int) bool { return at > 0 && t.TK%at == 0 && !t.Boxes }

// ScalesA returns the number of words of the scales of a problem's A.
func (e *Epilogue) ScalesA(p *Problem) int {
	switch e.ScaleA {
	case "":
		return 0
	case PerTensor:
		return e.kernel().ScaleWords()
	}
	return e.storedA(p.M) * e.scalesOfRow(p)
}

// scalesOfRow returns the number of words of the scales of a row of A, if rows have scales.
func (e *Epilogue) scalesOfRow(p *Problem) int {
	if e.ScaleA == PerBlock {
		return encoding.Blocks(p.K)
	}
	return e.kernel().ScaleWords()
}

// ScalesB returns the number of words of the scales of a problem's B. With Gated it includes those of B2,
// which follow.
func (e *Epilogue) ScalesB(p *Problem) int {
	if e.Gated {
		return e.scalesOf(p, p.B.LD) + e.scalesOf(p, p.B2.LD)
	}
	return e.scalesOf(p, p.B.LD)
}

// scalesOf returns the number of words of the scales of a B with that leading dimension.
func (e *Epilogue) scalesOf(p *Problem, ld int) int {
	switch group := e.group(); {
	case e.ScaleB == "":
		return 0
	case e.ScaleB == PerRow:
		return p.N * e.kernel().ScaleWords()
	case e.ScaleB == PerBlock:
		return encoding.Blocks(p.N) * encoding.Blocks(p.K)
	case group > 0:
		return e.ScaleB.GroupWords(p.K, ld)
	}
	return 1
}

// scaleA and scaleB return the words of Rows with the scales of a tile's first row and column. With groups,
// they start at that of k.
func (e *Epilogue) scaleA(p *Problem, row int) uint32 {
	if e.kernel().EachRow() {
		return uint32(p.ScaleA + row*e.scalesOfRow(p))
	}
	return uint32(p.ScaleA)
}

func (e *Epilogue) scaleB(p *Problem, k, col int) uint32 {
	switch {
	case e.ScaleB == PerRow:
		return uint32(p.ScaleB + col*e.kernel().ScaleWords())
	case e.group() > 0:
		return uint32(p.ScaleB + k/e.group()*p.B.LD + col)
	case e.ScaleB == PerBlock:
		return uint32(p.ScaleB + col/encoding.Block*encoding.Blocks(p.K))
	}
	return uint32(p.ScaleB)
}

// scaled lists the types whose elements may have scales.
var scaled = slices.DeleteFunc(elemtype.TypesA(), func(t element.Type) bool { return !elemtype.Scaled(t) })

// checkScales fails for unknown scales, and for scales that the types of elements do not allow.
func (o *Options) checkScales(d *Device) error {
	e := &o.Epilogue
	if err := o.checkZeros(); err != nil {
		return err
	}
	if e.ScaleA == PerBlock || e.ScaleB == PerBlock {
		return o.checkBlocks(d)
	}
	if e.group() > 0 {
		switch {
		case e.ScaleA != "":
			return invalid.Errorf("A cannot have scales if those of B are of groups")
		case o.TypeA.Bytes() != 2:
			return invalid.Errorf("scales of groups are for A of %s, not %s",
				elemtype.List([]element.Type{element.BF16, element.F16}, " or "), o.TypeA)
		case o.TypeB != e.ScaleB.TypeB(o.TypeA):
			return invalid.Errorf("scales %q are for B of %s, not %s", e.ScaleB, e.ScaleB.TypeB(o.TypeA),
				o.typeB())
		case e.Pointers.B && !e.Pointers.Aligned:
			return invalid.Errorf("addresses of B are not promised to be Aligned, as those "+
				"of %s must be", o.TypeB)
		}
		return nil
	}
	for _, s := range []Scaling{e.ScaleA, e.ScaleB} {
		switch {
		case s == "":
		case s != PerTensor && s != PerRow:
			return invalid.Errorf("unknown scaling %q (known: %s, %s, of both %s, and of B %s, %s, %s, %s)",
				s, PerTensor, PerRow, PerBlock, PerGroup64, PerGroup128, PerGroup32, PerGroup16)
		case !elemtype.Scaled(o.TypeA):
			return invalid.Errorf("scales are for elements of %s, not %s", elemtype.List(scaled, " or "),
				o.TypeA)
		}
	}
	switch o.TypeB {
	case element.Int4:
		return invalid.Errorf("B of %s needs scales of groups: %s or %s", o.TypeB, PerGroup64,
			PerGroup128)
	case element.MXFP4:
		return invalid.Errorf("B of %s needs scales of groups: %s", o.TypeB, PerGroup32)
	case element.NVFP4:
		return invalid.Errorf("B of %s needs scales of groups: %s", o.TypeB, PerGroup16)
	}
	return nil
}

// checkZeros fails for zero points of operands that cannot have any, or whose place nothing says.
func (o *Options) checkZeros() error {
	switch e := &o.Epilogue; {
	case !e.ZeroA:
	case o.TypeA != element.Int8:
		return invalid.Errorf("zero points of A are for elements of %s, not %s", element.Int8, o.TypeA)
	case e.ScaleA != PerTensor && e.ScaleA != PerRow:
		return invalid.Errorf("zero points of A need scales %q or %q of A, not %q",
			PerTensor,
			PerRow, e.ScaleA)
	case e.ScaleB != PerRow:
		return invalid.Errorf("zero points of A need sums of columns of B after scales %q, "+
			"not %q",
			PerRow, e.ScaleB)
	}
	return nil
}

// checkBlocks checks options with scales of blocks, for A or B.
func (o *Options) checkBlocks(d *Device) error {
	switch e := &o.Epilogue; {
	case e.ScaleA != e.ScaleB:
		return invalid.Errorf("scales of blocks need both A and B, not %q of A and %q of B", e.ScaleA,
			e.ScaleB)
	case elemtype.Whole(o.TypeA):
		return invalid.Errorf("scales of blocks are for elements of %s, not %s: its sums over all of K "+
			"are exact", element.E4M3, o.TypeA)
	case o.TypeA != element.E4M3:
		return invalid.Errorf("scales of blocks are for elements of %s, not %s", element.E4M3, o.TypeA)
	case d != nil && !d.Blocks:
		return invalid.Errorf("%s has no kernels for scales of blocks", d)
	}
	return nil
}

// checkGroups checks a problem with scales of groups.
func (e *Epilogue) checkGroups(i int, p *Problem) error {
	unit, of := e.ScaleB.UnitK(), e.ScaleB.TypeB(element.BF16)
	switch {
	case unit == 0 || p.M == 0 || p.N == 0:
		return nil
	case p.TransA:
		return problemError(i, "transA", "is set, but with B of %s A cannot be transposed", of)
	case p.TransB:
		return problemError(i, "transB", "is set, but B of %s cannot be transposed", of)
	case p.K%unit != 0 && of == element.Int4:
		return problemError(i, "K", "%d is no multiple of the group of %d that share a scale of B", p.K, unit)
	case p.K%unit != 0:
		return problemError(i, "K", "%d is no multiple of %d, as B of %s needs", p.K, unit, of)
	}
	for _, m := range [...]struct {
		arg, ld string
		Matrix
		used bool
	}{{"B", "ldb", p.B, true}, {"B2", "ldb2", p.B2, e.Gated}} {
		switch {
		case !m.used:
		case m.LD%of.PerWord() != 0:
			return problemError(i, m.ld, "%d is no multiple of %d, as %s needs", m.LD,
				of.PerWord(), of)
		case m.Offset%elemtype.Line(of) != 0:
			return problemError(i, m.arg, "offset %d is no multiple of %d, 16 bytes of %s", m.Offset,
				elemtype.Line(of), of)
		}
	}
	return nil
}
