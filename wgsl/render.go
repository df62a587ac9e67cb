package wgsl

import (
	"errors"
	"fmt"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Shader is the text of a compute shader, with what its caller must know.
type Shader struct {
	Source      string
	Threads     int // invocations of a workgroup
	SharedBytes int // workgroup memory of a workgroup
	Pieces      int // workgroups for each worker, the grid's second dimension: 1, or more for fix-ups
	Bindings    []encoding.Binding
	geometry    geometry
}

// Render returns the shader of a kernel for an adapter. Its grid is the workers of a launch by
// Shader.Pieces. If the kernel's tile does not fit the adapter, it fails with an error that names the tile
// and the limit.
func Render(k encoding.Kernel, lim Limits) (Shader, error) {
	if k.Ragged > 0 {
		s, err := renderRagged(k, lim)
		if err != nil {
			return Shader{}, fmt.Errorf("wgsl: %w", err)
		}
		return s, nil
	}
	if k.Layer > 0 {
		s, err := renderLayer(k, lim)
		if err != nil {
			return Shader{}, fmt.Errorf("wgsl: %w", err)
		}
		return s, nil
	}
	if k.Tile == nil {
		return Shader{}, errors.New("wgsl: the kernel has no tile")
	}
	if unit := k.Tile.Unit; unit != tile.FMA {
		return Shader{}, fmt.Errorf("wgsl: tile %v needs tensor cores (%s)", k.Tile, unit)
	}
	g, err := newGeometry(k, lim)
	if err != nil {
		return Shader{}, fmt.Errorf("wgsl: %w", err)
	}
	if k.Fixup {
		threads, err := fixupThreads(k.Tile, lim)
		if err != nil {
			return Shader{}, fmt.Errorf("wgsl: %w", err)
		}
		r := renderer{geometry: g, kernel: k, threads: threads}
		r.fixup()
		return Shader{
			Source: r.text.String(), Threads: threads, SharedBytes: sharedOfFixup(k, threads),
			Pieces: g.Tile.TM * g.Tile.TN / (4 * fixupVectors(k.Tile)), Bindings: r.bindings, geometry: *g,
		}, nil
	}
	r := renderer{
		geometry: g, kernel: k, threads: g.Tile.Threads, short: lim.Short,
		a: operand{stage: &g.A, name: "A", of: k.TypeA, groups: g.Groups, step: g.Tile.TK, near: g.B.Together,
			gather: k.Epilogue.Gather, blocks: k.Epilogue.Blocks()},
		b: operand{stage: &g.B, name: "B", of: k.TypeB(), groups: g.Groups, step: g.Tile.TK,
			near: g.B.Together, gated: k.Epilogue.Gated,
			scaling: k.Epilogue.ScaleB, bits: k.TypeC != element.F32},
	}
	if lim.Dot && isDot(k, g) {
		r.useDots()
	}
	r.roll()
	shared := g.sharedBytes()
	if k.Dynamic {
		shared += takenBytes
	}
	if shared > lim.SharedBytes {
		return Shader{}, fmt.Errorf("wgsl: tile %v needs %d bytes of workgroup memory for tiles in turn, "+
			"the adapter allows %d", k.Tile, shared, lim.SharedBytes)
	}
	r.gemm()
	return Shader{Source: r.text.String(), Threads: r.threads, SharedBytes: shared, Pieces: 1,
		Bindings: r.bindings, geometry: *g}, nil
}

// renderer writes one shader.
type renderer struct {
	writer
	*geometry
	kernel  encoding.Kernel
	threads int
	short   bool // see Limits.Short
	late    bool // K steps are loaded when they are due: see roll
	a, b    operand
}

// main writes the entry point.
func (r *renderer) main(body func()) {
	r.line("")
	r.line("@compute @workgroup_size(%d)", r.threads)
	r.block(fmt.Sprintf("fn %s(@builtin(workgroup_id) worker: vec3<u32>, @builtin(local_invocation_index) "+
		"t: u32)", encoding.EntryPoint), body)
}

// gemm writes the kernel that multiplies.
func (r *renderer) gemm() {
	if r.dot() {
		r.line("requires packed_4x8_integer_dot_product;")
	}
	r.bind(encoding.BindItems, "items", "vec4<u32>")
	r.bind(encoding.BindA, "A", r.a.global())
	r.bind(encoding.BindB, "B", r.b.global())
	r.bindC()
	r.bindTable()
	if r.kernel.Split {
		r.bindWorkspace()
	}
	r.bindEpilogue()
	r.line("var<workgroup> sharedA: %s;", r.a.array())
	r.line("var<workgroup> sharedB: %s;", r.b.array())
	r.accessors(r.B.Element)
	r.epilogueFunctions()
	r.main(func() {
		r.declarePlace()
		r.a.declare(r.ahead(), &r.writer)
		r.b.declare(r.ahead(), &r.writer)
		r.declareAccumulators()
		if r.kernel.Epilogue.Gated {
			r.declareGates()
		}
		switch {
		case r.kernel.Dynamic:
			r.dynamic()
		case r.kernel.Loop:
			r.loop()
		default:
			r.line("let item = worker.x;")
			r.item()
		}
	})
}

// load loads that many words of an item, four at a time: item0, item1 and so on.
func (r *renderer) load(number string, words int) {
	for i := range words / 4 {
		r.line("let item%d = items[%s];", i, plus(fmt.Sprintf("%du * %s", words/4, number), i))
	}
}

// word returns the component of item0, item1 and so on that has a word of an item.
func word[W encoding.ItemWord | encoding.FixupWord](w W) string {
	return fmt.Sprintf("item%d.%c", w/4, "xyzw"[w%4])
}

// extent unpacks rows and columns.
func (r *renderer) extent(from string) {
	r.line("let rows = %s & %#xu;", from, 1<<encoding.ColsShift-1)
	r.line("let cols = %s >> %du;", from, encoding.ColsShift)
}

// item writes the work on one item.
func (r *renderer) item() {
	r.load("item", r.kernel.ItemWords())
	r.line("let offA = %s;", r.a.position(word(encoding.OffA)))
	r.line("let offB = %s;", r.b.position(word(encoding.OffB)))
	r.line("let offC = %s;", word(encoding.OffC))
	r.line("let depth = %s;", word(encoding.Depth))
	r.line("let ldA = %s;", r.a.position(word(encoding.LDA)))
	r.line("let ldB = %s;", r.b.leading(word(encoding.LDB)))
	r.line("let ldC = %s;", word(encoding.LDC))
	r.extent(word(encoding.Extent))
	r.line("let alpha = bitcast<f32>(%s);", word(encoding.Alpha))
	r.line("let beta = bitcast<f32>(%s);", word(encoding.Beta))
	if r.kernel.Split {
		r.line("let slot = %s;", word(encoding.Slot))
	}
	r.epilogueWords()
	if r.a.blocks {
		r.line("let blocks = (depth + %du) / %du;", encoding.Block-1, encoding.Block)
	}
	r.declareEven()
	r.clearAccumulators()
	r.multiply()
	switch {
	case r.rolled():
		r.finishRolled()
	case r.Groups > 1:
		r.finish(r.B.Element, r.reduce())
	default:
		r.finish(r.B.Element, r.outputs())
	}
}
