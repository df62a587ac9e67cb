package planner

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner/element"
)

// byPointers are epilogues with each operand by pointers, and with all.
var byPointers = []Epilogue{
	{Pointers: Pointers{A: true}},
	{Pointers: Pointers{B: true, Aligned: true}, Gated: true},
	{Pointers: Pointers{C: true}, Bias: true, ScatterRows: 400},
	{Pointers: Pointers{A: true, B: true, C: true}, GatherRows: 50, Activation: ReLU},
	{Pointers: Pointers{A: true, B: true, C: true, Aligned: true}},
}

// pointed returns the problems of a batch with operands for any epilogue. If C has addresses, all problems
// have the same place of C.
func pointed(b Batch, e Epilogue) Batch {
	b = operandsOf(b, e)
	for i := range b {
		b[i].Pointers = 3 + encoding.PointerWords*i
		if e.Pointers.C {
			b[i].C.Offset = 7
		}
	}
	return b
}

// TestPointerPlans: plans are complete, and launches have no base and no span for operands with addresses.
func TestPointerPlans(t *testing.T) {
	tight := *withEpilogue(device(t, "h200"))
	tight.MaxBinding = 64 << 10
	for _, d := range []*Device{device(t, "h200"), device(t, "mi210"), &tight} {
		for i, e := range byPointers {
			for _, s := range append(Schedules(), "") {
				t.Run(fmt.Sprintf("%s/%d/%d/%s", d.Name, d.MaxBinding, i, s), func(t *testing.T) {
					b := pointed(randomBatch(t, rand.New(rand.NewPCG(6, 2)), 30, 0, 120), e)
					p, err := New(d).Plan(t.Context(), b, Options{Epilogue: e, Schedule: s})
					require.NoError(t, err)
					checkAll(t, p)
					by := e.Pointers
					for _, l := range p.Launches {
						require.True(t, !by.A || l.BaseA == 0 && l.SpanA == 0, l)
						require.True(t, !by.B || l.BaseB == 0 && l.SpanB == 0 && l.BaseB2 == 0 &&
							l.SpanB2 == 0, l)
						require.True(t, !by.C || l.BaseC == 0 && l.SpanC == 0, l)
						require.False(t, l.Vector && !by.Aligned, l)
					}
					require.Equal(t, [3]bool{by.A, by.B, by.C}, [3]bool{p.ExtentA == 0, p.ExtentB == 0,
						p.ExtentC == 0})
					require.True(t, !by.B || p.ExtentB2 == 0)
					require.GreaterOrEqual(t, p.ExtentRows, 3+encoding.PointerWords*len(b))
					var again Plan
					text, err := json.Marshal(p)
					require.NoError(t, err)
					require.NoError(t, json.Unmarshal(text, &again))
					require.Equal(t, p.Encode(nil), again.Encode(nil))
					require.NoError(t, New(d).Renew(t.Context(), &again, b,
						Options{Epilogue: e, Schedule: s}))
					require.Equal(t, p.Encode(nil), again.Encode(nil), "the host makes the items")
				})
			}
		}
	}
}

func TestEncodePointers(t *testing.T) {
	p := Problem{M: 70, N: 9, K: 20, A: Matrix{100, 20}, B: Matrix{8, 12}, C: Matrix{4, 9}, B2: Matrix{4, 12},
		Pointers: 5000}
	rest := []uint32{encoding.Final, 0, 0, 0, 0, 0, 0, 0, 5000, 0, 0, 0, 0, 0}
	for _, c := range []struct {
		name   string
		by     Pointers
		flags  uint32
		extent [5]int // of A, B, C, B2 and Rows
	}{
		{"A", Pointers{A: true}, 0, [5]int{0, 8 + 19*12 + 9, 4 + 69*9 + 9, 4 + 19*12 + 9, 5008}},
		{"A, aligned", Pointers{A: true, Aligned: true}, encoding.ItemVector,
			[5]int{0, 8 + 19*12 + 9, 4 + 69*9 + 9, 4 + 19*12 + 9, 5008}},
		{"B", Pointers{B: true}, 0, [5]int{100 + 69*20 + 20, 0, 4 + 69*9 + 9, 0, 5008}},
		{"C", Pointers{C: true}, 0, [5]int{100 + 69*20 + 20, 8 + 19*12 + 9, 0, 4 + 19*12 + 9, 5008}},
		{"all, aligned", Pointers{A: true, B: true, C: true, Aligned: true}, encoding.ItemVector,
			[5]int{4: 5008}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := Epilogue{Gated: true, Pointers: c.by}
			plan, err := New(device(t, "mi210")).Plan(t.Context(), Batch{p},
				Options{Tile: "large-8x8", Epilogue: e})
			require.NoError(t, err)
			require.Equal(t, c.extent, [5]int{plan.ExtentA, plan.ExtentB, plan.ExtentC, plan.ExtentB2,
				plan.ExtentRows})
			w := plan.Encode(nil)[plan.Launches[0].Items:]
			for i, want := range []uint32{c.flags, c.flags | encoding.ItemSecond} {
				rest[encoding.Flags-encoding.Slot] = want
				rest[encoding.BiasAt-encoding.Slot] = uint32(9 * i)
				item := w[i*encoding.EpilogueItemWords:][:encoding.EpilogueItemWords]
				require.Equal(t, rest, item[encoding.Slot:], i)
			}
		})
	}
}

// TestPointersAligned: kernels for aligned rows need pointers that are promised to be aligned, and aligned
// matrices.
func TestPointersAligned(t *testing.T) {
	d := device(t, "h200")
	b := mustPack(t, GEMM(1024, 1024, 1024), GEMM(1024, 1024, 1024))
	for _, c := range []struct {
		name string
		by   Pointers
		odd  int
		wide bool
	}{
		{"without", Pointers{}, 0, true},
		{"aligned", Pointers{A: true, B: true, C: true, Aligned: true}, 0, true},
		{"aligned with an odd offset", Pointers{A: true, B: true, C: true, Aligned: true}, 1, false},
		{"A", Pointers{A: true}, 0, false},
		{"B", Pointers{B: true}, 0, false},
		{"C", Pointers{C: true}, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{TypeA: element.BF16, Epilogue: Epilogue{Activation: ReLU, Pointers: c.by}}
			odd := append(Batch{}, b...)
			odd[1].A.Offset += c.odd
			p, err := New(d).Plan(t.Context(), odd, o)
			require.NoError(t, err)
			for _, s := range p.Tiles {
				require.Equal(t, c.wide, strings.HasPrefix(s.Name, "aligned-"), s)
			}
			r := Ragged{Form: EndsOfRows, Groups: 4, M: 4096, N: 4096, K: 4096, A: Matrix{c.odd, 4096},
				B: Matrix{0, 4096}, C: Matrix{0, 4096}, StrideB: 4096 * 4096}
			p, err = New(d).PlanRagged(r, o)
			require.NoError(t, err)
			for _, l := range p.Launches[1:] {
				require.Equal(t, c.wide, strings.HasPrefix(l.Tile.Name, "aligned-"), l)
				require.False(t, l.Vector && c.by.Any() && !c.by.Aligned, l)
			}
		})
	}
}

func TestPointerMistakes(t *testing.T) {
	good := Problem{M: 2, N: 3, K: 4, A: Matrix{0, 4}, B: Matrix{0, 3}, C: Matrix{0, 3}, B2: Matrix{0, 3}}
	every := Pointers{A: true, B: true, C: true}
	far := " does not fit: its last offset from its address needs more than 32 bits"
	if maxElements == mostRagged { // not on 32-bit targets
		far = " does not fit: its last offset overflows"
	}
	for _, c := range []struct {
		name string
		e    Epilogue
		edit func(*Problem)
		want string // "" when nothing is wrong
	}{
		{"C of problems are at addresses", Epilogue{Pointers: every}, func(*Problem) {}, ""},
		{"not used", Epilogue{Bias: true}, func(p *Problem) { p.C.Offset, p.Pointers = 6, -1 }, ""},
		{"C in one buffer", Epilogue{Pointers: Pointers{A: true, B: true}}, func(*Problem) {},
			"problem 1: C overlaps C of problem 0"},
		{"aligned alone", Epilogue{Pointers: Pointers{Aligned: true}}, func(p *Problem) { p.C.Offset = 6 },
			"pointers are aligned, but none of A, B and C has addresses"},
		{"negative", Epilogue{Pointers: every}, func(p *Problem) { p.Pointers = -1 },
			"problem 1: pointers offset -1 is negative"},
		{"far", Epilogue{Pointers: every}, func(p *Problem) { p.Pointers = mostRagged - 7 },
			"problem 1: pointers do not fit: their last offset needs more than 32 bits"},
		{"lda", Epilogue{Pointers: every}, func(p *Problem) { p.A.LD = 3 },
			"problem 1: lda 3 < row length 4"},
		{"offset", Epilogue{Pointers: every}, func(p *Problem) { p.B.Offset = -8 },
			"problem 1: B offset -8 is negative"},
		{"far A", Epilogue{Pointers: every}, func(p *Problem) { p.A.Offset = mostRagged - 7 },
			"problem 1: A" + far},
		{"far A that is not read", Epilogue{Pointers: every},
			func(p *Problem) { p.A.Offset, p.Alpha = mostRagged, Scale(0) }, ""},
		{"last A", Epilogue{Pointers: every}, func(p *Problem) { p.A.Offset = mostRagged - 8 }, ""},
		{"far rows of A", Epilogue{GatherRows: math.MaxInt32, Pointers: every}, func(*Problem) {},
			"problem 0: A" + far},
		{"far B", Epilogue{Pointers: every}, func(p *Problem) { p.B.LD = math.MaxInt32 },
			"problem 1: B" + far},
		{"far B2", Epilogue{Gated: true, Pointers: every}, func(p *Problem) { p.B2.Offset = mostRagged },
			"problem 1: B2" + far},
		{"far C", Epilogue{Pointers: every}, func(p *Problem) { p.C.Offset = mostRagged },
			"problem 1: C" + far},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := good
			c.edit(&p)
			_, err := New(device(t, "h200")).Plan(t.Context(), Batch{good, p}, Options{Epilogue: c.e})
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, c.want)
			require.ErrorIs(t, err, ErrInvalid)
		})
	}
	for _, name := range []string{"lavapipe", "h200-webgpu"} {
		d := device(t, name)
		_, err := New(d).Plan(t.Context(), nil, Options{Epilogue: Epilogue{Pointers: every}})
		require.EqualError(t, err, "device "+name+" has no kernels for pointers")
		require.ErrorIs(t, err, ErrInvalid)
		_, err = New(d).PlanRagged(Ragged{Form: EndsOfRows, Groups: 1},
			Options{Epilogue: Epilogue{Pointers: every}})
		require.EqualError(t, err, "device "+name+" has no kernels for pointers")
	}
}

func TestRaggedPointers(t *testing.T) {
	r := Ragged{Form: EndsOfRows, Groups: 5, M: 100, N: 30, K: 20, A: Matrix{3, 20}, B: Matrix{1, 31},
		C: Matrix{2, 30}, B2: Matrix{0, 30}, Pointers: 11}
	for _, c := range []struct {
		name   string
		e      Epilogue
		extent [5]int // of A, B, C, B2 and Rows
	}{
		{"B of groups", Epilogue{Pointers: Pointers{B: true}}, [5]int{3 + 99*20 + 20, 0, 2 + 99*30 + 30, 0,
			11 + 5*8}},
		{"all", Epilogue{Gated: true, Pointers: Pointers{A: true, B: true, C: true}}, [5]int{4: 11 + 5*8}},
		{"none", Epilogue{Gated: true}, [5]int{3 + 99*20 + 20, 1 + 19*31 + 30, 2 + 99*30 + 30, 19*30 + 30,
			0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := New(device(t, "mi210")).PlanRagged(r, Options{Epilogue: c.e})
			require.NoError(t, err)
			require.Equal(t, c.extent, [5]int{p.ExtentA, p.ExtentB, p.ExtentC, p.ExtentB2, p.ExtentRows})
			l := p.Launches[len(p.Launches)-1]
			require.Equal(t, c.extent, [5]int{l.SpanA, l.SpanB, l.SpanC, l.SpanB2, l.SpanRows})
			require.Equal(t, c.e.Pointers, p.Launches[0].Epilogue.Pointers)
			b, _ := r.Batch(nil, []int32{10, 10, 40, 41, 90}, Options{Epilogue: c.e})
			at := 11
			if !c.e.Pointers.Any() {
				require.Equal(t, 11, b[2].Pointers)
				at = 0
			} else {
				require.Equal(t, 11+2*8, b[2].Pointers)
			}
			require.EqualValues(t, at, p.Encode(nil)[encoding.BoundPointers])
			require.Equal(t, [3]int{3 + 10*20, 1, 2 + 10*30}, [3]int{b[2].A.Offset, b[2].B.Offset,
				b[2].C.Offset}, "rows advance after an address")
		})
	}
	far := r
	far.Pointers = mostRagged - 39
	_, err := New(device(t, "mi210")).PlanRagged(far, Options{Epilogue: byPointers[0]})
	require.EqualError(t, err, fmt.Sprintf("ragged batch: the pointers of the last group do not fit in %d "+
		"words", mostRagged))
	far.A.Offset = mostRagged - 100
	_, err = New(device(t, "mi210")).PlanRagged(far, Options{Epilogue: byPointers[0]})
	require.EqualError(t, err, "ragged batch: problem 0: A does not fit: its last offset from its address "+
		"needs more than 32 bits")
	depth := r
	depth.Form, depth.A.LD, depth.TransA = EndsOfDepth, 100, true
	_, err = New(device(t, "mi210")).PlanRagged(depth, Options{})
	require.ErrorContains(t, err, "the C of groups overlap")
	p, err := New(device(t, "mi210")).PlanRagged(depth,
		Options{Epilogue: Epilogue{Pointers: Pointers{C: true}}})
	require.NoError(t, err, "who writes addresses knows")
	require.Equal(t, [2]int{0, 11 + 5*8}, [2]int{p.ExtentC, p.ExtentRows})
	b, _ := depth.Batch(nil, []int32{5, 5, 7, 20, 20}, Options{Epilogue: p.Options.Epilogue})
	require.Equal(t, [4]int{3 + 7*100, 1 + 7*31, 2, 11 + 3*8}, [4]int{b[3].A.Offset, b[3].B.Offset,
		b[3].C.Offset, b[3].Pointers}, "K advances after an address")
}

func TestRowsPointers(t *testing.T) {
	got := Rows{7}
	require.Equal(t, 1, got.Pointers(0x1_0000_0002, 0xfedc_ba98_7654_3210, 3, math.MaxUint64))
	require.Equal(t, Rows{7, 2, 1, 0x7654_3210, -0x0123_4568, 3, 0, -1, -1}, got)
	require.Len(t, got, 1+encoding.PointerWords)
	require.Equal(t, [4]int{0, 2, 4, 6}, [4]int{encoding.PointerA, encoding.PointerB, encoding.PointerC,
		encoding.PointerB2})
}

// TestPointersJSON: the JSON of options has their pointers, if there are any.
func TestPointersJSON(t *testing.T) {
	o := Options{Epilogue: Epilogue{Pointers: Pointers{A: true, B: true, C: true, Aligned: true}}}
	text, err := json.Marshal(o)
	require.NoError(t, err)
	require.JSONEq(t, `{"epilogue": {"pointers": {"a": true, "b": true, "c": true, "aligned": true}}}`,
		string(text))
	var read Options
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, o, read)
}
