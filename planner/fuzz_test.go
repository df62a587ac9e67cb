package planner

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// tape is the fuzzer's data, from which a case is read. After its end there are zeros.
type tape struct{ data []byte }

func randomTape(rng *rand.Rand, n int) *tape {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(rng.Uint32() >> (rng.IntN(2) * 5)) // small ones too
	}
	return &tape{data}
}

func (t *tape) byte() int {
	if len(t.data) == 0 {
		return 0
	}
	b := t.data[0]
	t.data = t.data[1:]
	return int(b)
}

// upTo returns a number in [0, limit]. Small numbers are more likely.
func (t *tape) upTo(limit int) int {
	n := uint64(0)
	for range t.byte() % 5 {
		n = n<<8 | uint64(t.byte())
	}
	return int(n % (uint64(limit) + 1))
}

func pick[T any](t *tape, from ...T) T { return from[t.byte()%len(from)] }

// device returns a device of the table, maybe with other limits.
func (t *tape) device() *Device {
	d := clone(known()[t.byte()%len(known())])
	d.Epilogues, d.Pointers, d.Types = true, true, append(slices.Clone(d.Types), element.E4M3, element.Int8)
	if !d.family().narrow {
		d.Types = append(d.Types, element.F64)
	}
	if t.byte()%2 == 1 {
		d.MaxBinding = pick(t, d.MaxBinding, 64<<10, 1<<20, 1<<31-4)
		d.MaxTrips = pick(t, d.MaxTrips, 0, 100, 65535)
		d.MaxWorkers = pick(t, d.MaxWorkers, 0, 3, 65535)
		d.ComputeUnits = pick(t, d.ComputeUnits, 1, 1024)
	}
	return d
}

func (t *tape) options() Options {
	o := Options{
		Compute:   pick(t, ComputeF32Emulated, ComputeF32, ComputeTF32, "", "half"),
		Rule:      pick(t, "", RuleCost, RuleZhang2025),
		Schedule:  pick(t, append(Schedules(), "")...),
		TLP:       pick[int](t, 0, 3, 4, 7),
		Threshold: pick(t, 0, 0, 1e5, 1e9, 1e300, -1, math.Inf(1), math.NaN()),
	}
	if t.byte()%2 == 1 {
		all := tile.Table()
		o.Tile = all[t.byte()%len(all)].Name
	}
	if t.byte()%2 == 1 {
		o.Epilogue = Epilogue{
			Activation: pick(t, "", ReLU, GELU, SiLU), Bias: t.byte()%2 == 1, Gated: t.byte()%2 == 1,
			Weights:    t.byte()%2 == 1,
			GatherRows: pick(t, 0, 1, 500), ScatterRows: pick(t, 0, 1, 500),
		}
		if t.byte()%2 == 1 {
			o.Epilogue.Pointers = Pointers{A: t.byte()%2 == 1, B: t.byte()%2 == 1, C: t.byte()%2 == 1,
				Aligned: t.byte()%4 == 1}
		}
	}
	switch turn := t.byte(); {
	case turn%16 == 2: // which most devices refuse
		o.TypeA, o.TypeC = element.F64, element.F64
	case turn%4 == 1:
		o.TypeA, o.TypeC = pick(t, element.E4M3, element.BF16, element.Int8),
			pick(t, element.BF16, element.F32)
		o.Epilogue.ScaleA, o.Epilogue.ScaleB = pick(t, "", PerRow, PerTensor), pick(t, "", PerRow, PerTensor)
		if o.TypeA == element.E4M3 && t.byte()%3 == 1 {
			o.Epilogue.ScaleA, o.Epilogue.ScaleB = PerBlock, PerBlock
		}
		o.Epilogue.ZeroA = t.byte()%2 == 1
	}
	return o
}

// problem returns any kind of problem with few tiles. Its matrices follow those before, or lie anywhere.
func (t *tape) problem(end *[3]int) Problem {
	limits := pick(t, [3]int{9, 9, 9}, [3]int{300, 300, 300}, [3]int{20, 20, 1 << 17}, [3]int{1 << 13, 8, 40},
		[3]int{8, 1 << 13, 40})
	p := Problem{M: t.upTo(limits[0]), N: t.upTo(limits[1]), K: t.upTo(limits[2]), TransA: t.byte()%2 == 1,
		TransB: t.byte()%2 == 1,
		Alpha:  Scale(float64(pick[float32](t, 1, 0, -2.5))), Beta: float64(pick[float32](t, 0, 1, 3))}
	place := func(i, rows, cols int) Matrix {
		m := Matrix{Offset: end[i], LD: cols}
		switch t.byte() % 6 {
		case 1:
			m.LD += t.upTo(9)
		case 2:
			m.LD = (cols + 3) / 4 * 4
			m.Offset = roundUp(m.Offset, 4)
		case 3:
			m.Offset += t.upTo(math.MaxInt32)
		case 4:
			m.LD = t.upTo(MaxDim)
		case 5:
			m.Offset = t.upTo(1<<16) * t.upTo(math.MaxInt32)
		}
		end[i] = max(end[i], m.end(rows, cols))
		return m
	}
	rows, cols := p.ShapeA()
	p.A = place(0, rows, cols)
	rows, cols = p.ShapeB()
	p.B = place(1, rows, cols)
	p.C = place(2, p.M, p.N)
	p.B2, p.Bias, p.RowsA, p.RowsC, p.Weights = place(1, rows, cols), t.upTo(1<<20), t.upTo(1<<20),
		t.upTo(99), t.upTo(math.MaxInt32)
	p.Pointers, p.ScaleA, p.ScaleB = t.upTo(1<<20), t.upTo(1<<20), t.upTo(1<<20)
	return p
}

func (t *tape) batch() (b Batch) {
	var end [3]int
	for range t.byte() % 8 {
		b = append(b, t.problem(&end))
	}
	return b
}

// FuzzPlan: for every batch, device and options there is an error, or a plan that computes every tile once
// within the device's limits. Its encoding agrees with the plan.
func FuzzPlan(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 400 {
		f.Add(randomTape(rng, 20+rng.IntN(200)).data)
	}
	var reused Plan // all cases reuse it
	f.Fuzz(func(t *testing.T, data []byte) {
		in := &tape{data}
		d, o, b := in.device(), in.options(), in.batch()
		p, err := New(d).Plan(t.Context(), b, o)
		if err != nil {
			require.True(t, explained(err), "%v", err)
			require.Error(t, New(d).Replan(t.Context(), &reused, b, o))
			require.Equal(t, Plan{}, reused, "no plan is left that is not valid")
			return
		}
		if len(p.Segments) > 20_000 { // many narrow windows: the checks would take seconds
			return
		}
		words := checkAll(t, p)
		require.NoError(t, New(d).Replan(t.Context(), &reused, b, o))
		require.Equal(t, words, reused.Encode(nil), "a plan in reused memory is another")
		require.Equal(t, p.Explain(), reused.Explain())
	})
}

// explained reports whether an error says what the caller can change.
func explained(err error) bool {
	var problem *ProblemError
	return errors.As(err, &problem) || slices.ContainsFunc([]string{"unknown compute mode",
		"unknown TLP equation", "threshold ",
		"needs tensor cores", "uses tensor cores", "has kernels for 16-bit elements only",
		"has kernels for elements of f64 only",
		"has kernels for 8-bit elements only", "has no tile of Table 3",
		"bytes of workgroup memory", "compute mode tf32 is for", "has no kernels ", "the bias needs ",
		"the buffer Rows needs ", "pointers are aligned, but none", "is only for aligned A and B of 64 bits",
		"scales are for elements of", "scales of blocks ", "zero points of A ",
	}, func(s string) bool { return strings.Contains(err.Error(), s) })
}

// checkAll checks the rules of all plans, and returns the plan's words.
func checkAll(t *testing.T, p *Plan) []uint32 {
	t.Helper()
	checkPlan(t, p)
	checkCost(t, p)
	checkWorkspace(t, p)
	checkTrips(t, p)
	words := p.Encode(nil)
	checkWords(t, p, words)
	return words
}

func checkCost(t *testing.T, p *Plan) {
	t.Helper()
	sum := 0.0
	for _, l := range p.Launches {
		require.Positive(t, l.Cost)
		sum += l.Cost
	}
	require.InDelta(t, p.Cost, sum, 1e-9*sum)
	require.False(t, math.IsInf(sum, 0))
	require.Positive(t, p.TLP+1) // not NaN
}

// checkWorkspace: the workspace ends with its last slot or map, or with less than a partial of another shape
// after it.
func checkWorkspace(t *testing.T, p *Plan) {
	t.Helper()
	end, largest := 0, 0
	for _, s := range p.Segments {
		tile := p.Tiles[s.Problem]
		end = max(end, int(s.Slot+1)*tile.TM*tile.TN)
		largest = max(largest, tile.TM*tile.TN)
	}
	for _, l := range p.Launches {
		if l.Epilogue.Gated && p.Device.KernelKind == encoding.KernelsNative {
			end = max(end, l.Count*l.Tile.TM*l.Tile.TN)
		}
		if l.Boxes || l.Tile.Boxes {
			end = max(end, l.Count*encoding.MapWords)
		}
	}
	var parts [][2]int // elements of a tile's partials
	for _, f := range p.Fixups {
		tile := p.Tiles[f.Problem]
		size := tile.TM * tile.TN
		parts = append(parts, [2]int{int(f.Slot) * size, int(f.Slot+f.Count) * size})
	}
	slices.SortFunc(parts, func(x, y [2]int) int { return x[0] - y[0] })
	for i := 1; i < len(parts); i++ {
		require.LessOrEqual(t, parts[i-1][1], parts[i][0], "partial sums overlap")
	}
	require.LessOrEqual(t, end, p.Workspace)
	require.Less(t, p.Workspace, end+max(largest, 1))
	require.LessOrEqual(t, uint64(end), uint64(math.MaxUint32), "element numbers are 32-bit")
}

// checkTrips adds up the iterations of all loops of a thread. A limit below one step and the way to C cannot
// be kept.
func checkTrips(t *testing.T, p *Plan) {
	t.Helper()
	for _, l := range p.Launches {
		if p.Device.MaxTrips < leastTrips*l.Epilogue.Products() || l.Fixup {
			continue
		}
		turns := 0
		for w := l.First; w < l.First+l.Count; w++ {
			if !l.Dynamic { // otherwise one worker may have all
				turns = 0
			}
			for _, s := range p.Segments[p.Workers[w]:p.Workers[w+1]] {
				turns += p.Options.tripLimit(p.Device).segment(l.Tile, int(s.K1-s.K0))
			}
			require.LessOrEqual(t, turns, p.Device.MaxTrips, "worker %d of %+v", w, l)
		}
	}
}

// checkWords reads the encoding like a kernel, and compares it with the plan.
func checkWords(t *testing.T, p *Plan, words []uint32) {
	t.Helper()
	require.Len(t, words, p.Words)
	for _, l := range p.Launches {
		items, table := words[l.Items:], words[l.Table:]
		if l.Fixup {
			for j := range l.Count {
				checkFixup(t, p, &l, items[j*l.ItemWords():], &p.Fixups[l.First+j])
			}
			continue
		}
		if l.Dynamic {
			checkDynamic(t, p, &l, table)
		}
		for w := range l.Count {
			first, end := uint32(w), uint32(w+1)
			switch {
			case l.Dynamic: // as in the plan
				products, from := int32(l.Epilogue.Products()), p.Workers[l.First]
				first, end = uint32((p.Workers[l.First+w]-from)*products),
					uint32((p.Workers[l.First+w+1]-from)*products)
			case l.Loop:
				first, end = table[w], table[w+1]
			}
			segments := p.Segments[p.Workers[l.First+w]:p.Workers[l.First+w+1]]
			if products := l.Epilogue.Products(); !l.Loop {
				require.Equal(t, 1, products)
			} else {
				require.Zero(t, (first|end)%uint32(products))
				first, end = first/uint32(products), end/uint32(products)
			}
			require.Len(t, segments, int(end-first))
			for j := range segments {
				w := items[(int(first)+j)*l.ItemWords()*l.Epilogue.Products():]
				if segments[j].Slot != encoding.NoSlot && l.Finishes > 0 {
					w = checkPartial(t, p, &l, items, w, &segments[j])
				}
				q := p.Batch[segments[j].Problem]
				checkItem(t, p, &l, w, &segments[j], q, 0)
				if l.Epilogue.Gated {
					q.B, q.Bias, q.ScaleB = q.B2, q.Bias+q.N, q.ScaleB+p.Options.Epilogue.scalesOf(&q, q.B.LD)
					checkItem(t, p, &l, w[l.ItemWords():], &segments[j], q, encoding.ItemSecond)
				}
			}
		}
	}
}

// checkItem compares an item with a segment of a problem. flags are those besides the flags of 16-byte
// loads.
func checkItem(t *testing.T, p *Plan, l *encoding.Launch, w []uint32, s *encoding.Segment, q Problem,
	flags uint32) {
	tile, e := l.Tile, &p.Options.Epilogue
	row, col, k0 := int(s.Row)*tile.TM, int(s.Col)*tile.TN, int(s.K0)
	alpha, alphaLow := encoding.PutScalar(l.TypeC, q.Alpha.Value())
	beta, betaLow := encoding.PutScalar(l.TypeC, q.Beta)
	want := [encoding.ItemWords]uint32{
		3: uint32(s.K1 - s.K0), 4: uint32(q.A.LD), 5: uint32(q.B.LD), 6: uint32(q.C.LD),
		7: uint32(min(tile.TM, q.M-row)) | uint32(min(tile.TN, q.N-col))<<16,
		8: alpha, 9: beta, 10: uint32(s.Slot), 11: w[11],
	}
	rowA, rowC, baseB := row, row, l.BaseB
	if e.GatherRows > 0 {
		rowA = 0
	}
	if e.ScatterRows > 0 {
		rowC = 0
	}
	if flags&encoding.ItemSecond != 0 {
		baseB = l.BaseB2
	}
	offsets := [3]int{q.elementA(rowA, k0) - l.BaseA, q.elementB(k0, col) - baseB, q.C.Offset + rowC*q.C.LD +
		col - l.BaseC}
	for i, off := range offsets {
		if i < 2 && want[3] == 0 {
			want[i] = w[i] // not read
			continue
		}
		if off != int(uint32(off)) {
			t.Fatalf("element %d of operand %d does not fit in 32 bits", off, i)
		}
		want[i] = uint32(off)
	}
	if s.K1 == 0 {
		want[8] = 0 // without a product, alpha does not matter
	}
	if s.Accumulate {
		want[9], betaLow = encoding.PutScalar(l.TypeC, 1)
	}
	if [encoding.ItemWords]uint32(w) != want {
		t.Fatalf("item %v of segment %+v, want %v", w[:encoding.ItemWords], *s, want)
	}
	if by := e.Pointers; (q.A.Offset|q.A.LD|q.B.Offset|q.B.LD)%(16/p.Options.TypeA.Bytes()) == 0 &&
		(by == Pointers{} || by.Aligned) {
		flags |= encoding.ItemVector
	}
	switch o := &p.Options; {
	case o.TypeA != element.F32 && o.TypeC == element.F32:
		flags |= encoding.ItemFloatC
	case o.TypeA.Bytes() == 1 && o.TypeC == element.F16:
		flags |= encoding.ItemF16C
	}
	if w[11] != flags {
		t.Fatalf("flags %d of segment %+v of %+v, want %d", w[11], *s, q, flags)
	}
	does := e.kernel()
	if s.Slot == encoding.NoSlot && int(s.K1) < q.depth() {
		does = does.OfPart()
	}
	require.Equal(t, does, l.Epilogue, "segment %+v", *s)
	if does != (encoding.Epilogue{}) {
		at := uint32(0)
		if e.Pointers.Any() {
			at = uint32(q.Pointers)
		}
		a, b := scalesAt(&q, e, row, col)
		if l.TypeC == element.F64 {
			if a, b = alphaLow, betaLow; want[3] == 0 {
				a = 0
			}
		}
		require.Equal(t, []uint32{uint32(q.RowsA + row), uint32(e.GatherRows), uint32(q.RowsC + row),
			uint32(e.ScatterRows),
			uint32(q.Weights + row), uint32(q.Bias + col), at, a, b, 0, 0, 0},
			w[encoding.ItemWords:encoding.EpilogueItemWords])
	}
}

// scalesAt returns the words of the scales of an element's row and column.
func scalesAt(q *Problem, e *Epilogue, row, col int) (a, b uint32) {
	a, b = uint32(q.ScaleA), uint32(q.ScaleB)
	each := 1
	if e.ZeroA {
		each = 2
	}
	if e.ScaleA == PerRow && e.GatherRows == 0 {
		a += uint32(each * row)
	}
	if e.ScaleB == PerRow {
		b += uint32(each * col)
	}
	if e.ScaleA == PerBlock {
		blocks := uint32(q.K+127) / 128
		b += uint32(col) / 128 * blocks
		if e.GatherRows == 0 {
			a += uint32(row) * blocks
		}
	}
	return a, b
}

// checkPartial follows the words of a partial to its tile, whose partials are not counted yet. It returns
// the item with the words that other items have there.
func checkPartial(t *testing.T, p *Plan, l *encoding.Launch, items, w []uint32,
	s *encoding.Segment) []uint32 {
	i := slices.IndexFunc(p.Fixups, func(f encoding.Fixup) bool {
		return f.Problem == s.Problem && f.Row == s.Row && f.Col == s.Col
	})
	require.True(t, l.FirstFixup <= i && i < l.FirstFixup+l.Finishes)
	f := &p.Fixups[i]
	require.True(t, f.Slot <= s.Slot && s.Slot < f.Slot+f.Count)
	checkFixup(t, p, l, items[4*w[encoding.PartialFixup]:], f)
	stored := int(w[encoding.PartialStored])
	require.Equal(t, make([]uint32, l.Counters()), items[stored:stored+l.Counters()])
	require.Equal(t, l.Sums-l.Items+l.Finishes*encoding.FixupWords+(i-l.FirstFixup)*l.Counters(), stored)
	require.NotZero(t, w[encoding.Flags]&encoding.ItemPartial)
	q, same := &p.Batch[s.Problem], slices.Clone(w[:l.ItemWords()])
	same[encoding.OffC] = uint32(q.C.Offset + int(s.Row)*l.Tile.TM*q.C.LD + int(s.Col)*l.Tile.TN - l.BaseC)
	same[encoding.LDC], same[encoding.Flags] = uint32(q.C.LD), w[encoding.Flags]&^encoding.ItemPartial
	return same
}

func checkFixup(t *testing.T, p *Plan, l *encoding.Launch, w []uint32, f *encoding.Fixup) {
	q, tile := &p.Batch[f.Problem], l.Tile
	row, col, e := int(f.Row)*tile.TM, int(f.Col)*tile.TN, &p.Options.Epilogue
	rowC, at := row, uint32(0)
	if e.ScatterRows > 0 {
		rowC = 0
	}
	if e.Pointers.C {
		at = uint32(q.Pointers)
	}
	alpha, alphaLow := encoding.PutScalar(l.TypeC, q.Alpha.Value())
	beta, betaLow := encoding.PutScalar(l.TypeC, q.Beta)
	require.Equal(t, []uint32{
		uint32(q.C.Offset + rowC*q.C.LD + col), uint32(q.C.LD),
		uint32(min(tile.TM, q.M-row)) | uint32(min(tile.TN, q.N-col))<<16, uint32(f.Slot),
		alpha, beta, uint32(f.Count), at,
	}, w[:encoding.FixupWords])
	if l.Epilogue != (encoding.Epilogue{}) {
		a, b := scalesAt(q, e, row, col)
		if l.TypeC == element.F64 {
			a, b = alphaLow, betaLow
		}
		require.Equal(t, []uint32{uint32(q.RowsC + row), uint32(e.ScatterRows), uint32(q.Weights + row),
			uint32(q.Bias + col),
			uint32(q.RowsA + row), uint32(e.GatherRows), a, b},
			w[encoding.FixupWords:encoding.EpilogueFixupWords])
	}
}
