package wgsl

import (
	"fmt"

	"github.com/batchgemm/batchgemm/internal/elemtype"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/tile"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Limits are the properties of an adapter on which a shader depends.
type Limits struct {
	Threads     int // largest number of invocations of a workgroup
	SharedBytes int // largest workgroup memory of a workgroup
	Subgroup    int // lanes of a subgroup, 0 when unknown; only a hint for speed

	// Components: a store to a component of a vector preserves the others, whatever other threads store to
	// them. Vulkan guarantees this, Metal and Direct3D do not, and WGSL promises nothing
	// (gpuweb/gpuweb#2112).
	Components bool

	// Short: compiling takes longer than running, as on a software driver. K steps are then loops if their
	// text would be long. On an H200 such text takes 1.03 to 1.28 times as long to run.
	Short bool

	// Dot: in a browser, texts may require packed_4x8_integer_dot_product. Products of Int8 then take four k
	// at a time, with exact sums.
	Dot bool
}

// geometry is derived from a kernel and the limits: which thread computes and loads what, and where it is in
// workgroup memory.
type geometry struct {
	// Tile is the table's row, fitted to the limits. Threads, RM and RN may differ from the table, and TK
	// with B.Direct.
	Tile tile.Shape

	// The workgroup consists of Groups sets of GroupThreads threads. Group g takes the k with k % Groups ==
	// g: GroupSteps of each K step. With B.Direct, B.Together of them lie side by side.
	Groups, GroupThreads, GroupSteps int

	// The threads of a group form a grid of ThreadRows x ThreadCols over the
	// tile. A subgroup covers a patch of PatchRows x PatchCols of that grid.
	ThreadRows, ThreadCols int
	PatchRows, PatchCols   int

	A, B stage

	// A thread holds Accumulators vectors of B.Element columns each. With K
	// groups, Chunk of them at a time are summed over the groups.
	Accumulators, Chunk int
}

// sharedBytes is the workgroup memory of the shader.
func (g *geometry) sharedBytes() int {
	return 4 * (g.A.Rows*g.A.row(g.Groups)*g.A.Element + g.B.Rows*g.B.row(g.Groups)*g.B.Element)
}

// maxBlock is the largest register block that fitting to the limits makes: 8x8, which still runs well on an
// H200. Larger blocks spill.
const maxBlock = 64

func newGeometry(k encoding.Kernel, lim Limits) (*geometry, error) {
	t, err := fit(*k.Tile, lim)
	if err != nil {
		return nil, err
	}
	direct := isDirect(k, &t)
	if direct {
		t.TK = directSteps(k) * t.Groups()
	}
	g := &geometry{
		Tile:       t,
		Groups:     t.Groups(),
		ThreadRows: t.TM / t.RM,
		ThreadCols: t.TN / t.RN,
	}
	g.GroupThreads = t.Threads / g.Groups
	g.GroupSteps = t.TK / g.Groups
	g.PatchRows, g.PatchCols = 1, g.ThreadCols
	if k.TransB || elemtype.Bits4(k.TypeB()) {
		g.PatchRows, g.PatchCols = patch(g.ThreadRows, g.ThreadCols, t, lim.Subgroup)
	}

	elementA, elementB := vectorWidth(t.RM), vectorWidth(t.RN)
	if g.Groups > 1 { // sums over the groups use the memory of both
		elementA = min(elementA, elementB)
		elementB = elementA
	}
	number := k.TypeA == element.F32 && lim.Components
	g.A = newStage(t.TM, elementA, !k.TransA, k.Vector && k.TransA, number, t)
	// its elements are stored whole
	if k.TypeA == element.F32 && !number && !g.A.AlongK && !g.A.Vector && elementA > 1 {
		g.A.Apart = t.TM / elementA
	}
	switch {
	case direct:
		g.B = directStage(k, t)
	case elemtype.Bits4(k.TypeB()):
		g.B = packedStage(t.TN, elementB, t)
	default:
		vector := k.Vector && !k.TransB && k.TypeA != element.F32
		g.B = newStage(t.TN, elementB, k.TransB, vector, k.TypeC == element.F32 && lim.Components, t)
		if k.TypeC == element.F32 && !vector && elementB > 1 {
			g.B.Apart = t.TN / elementB
		}
	}
	g.Accumulators = t.RM * t.RN / g.B.Element
	if g.Groups > 1 {
		g.A.makeRoom(g)
		g.B.makeRoom(g)
		g.Chunk = g.chunk()
		if g.Chunk == 0 {
			return nil, fmt.Errorf("tile %v: %d K groups cannot be summed in %d bytes of workgroup memory",
				k.Tile, g.Groups, g.sharedBytes())
		}
	}
	if direct { // neighbours store to neighbouring rows, see newStage
		g.A.Pad = 1 - g.A.row(g.Groups)%2
	}
	if k.TypeC != element.F32 && g.B.Element == 1 { // otherwise they would not be whole words
		return nil, fmt.Errorf("tile %v: vectors of %d elements are too small for C of %s", k.Tile,
			g.B.Element, k.TypeC)
	}
	if bytes := g.sharedBytes(); bytes > lim.SharedBytes {
		return nil, fmt.Errorf("tile %v needs %d bytes of workgroup memory, the adapter allows %d",
			k.Tile, bytes, lim.SharedBytes)
	}
	return g, nil
}

// fit changes the number of threads of a tile to suit the limits.
//
// Too many threads: it makes fewer K groups, or larger register blocks. Fewer threads than a subgroup has
// lanes: it makes more K groups, because the other lanes would be idle.
func fit(t tile.Shape, lim Limits) (tile.Shape, error) {
	row := t
	if t.TM%4 != 0 || t.TN%4 != 0 || t.TK%4 != 0 {
		return t, fmt.Errorf("tile %v: sizes must be multiples of 4", &row)
	}
	for t.Threads > lim.Threads {
		switch {
		case t.Groups()%2 == 0:
		case t.RM*t.RN >= maxBlock:
			return t, fmt.Errorf("tile %v cannot run with %d threads, the most that the adapter allows",
				&row, lim.Threads)
		case t.RM <= t.RN:
			t.RM *= 2
		default:
			t.RN *= 2
		}
		t.Threads /= 2
	}
	for t.Threads < lim.Subgroup && 2*t.Threads <= lim.Threads && t.TK%(2*t.Groups()) == 0 {
		t.Threads *= 2
	}
	if t.Threads*t.RM*t.RN != t.Groups()*t.TM*t.TN || t.TM%t.RM != 0 || t.TN%t.RN != 0 ||
		t.TK%t.Groups() != 0 {
		return t, fmt.Errorf("tile %v: %d threads of %dx%d do not cover it evenly", &row,
			t.Threads, t.RM, t.RN)
	}
	return t, nil
}

// patch chooses the part of the grid of threads that one subgroup covers: the one that reads the fewest rows
// of A and columns of B. If the size of a subgroup is unknown or does not divide the grid, threads go row by
// row.
//
// It pays if B is transposed or Int4, whose columns have an odd pitch in workgroup memory: 2 percent on an
// H200 with tile large-8x4. Otherwise threads row by row are 2 percent faster there.
func patch(rows, cols int, t tile.Shape, subgroup int) (patchRows, patchCols int) {
	lanes := min(subgroup, rows*cols)
	patchRows, patchCols = 1, cols
	least := 0
	for r := 1; r <= min(rows, lanes); r++ {
		if lanes%r != 0 || rows%r != 0 || cols%(lanes/r) != 0 {
			continue
		}
		if reads := r*t.RM + lanes/r*t.RN; least == 0 || reads < least {
			patchRows, patchCols, least = r, lanes/r, reads
		}
	}
	return patchRows, patchCols
}

// makeRoom lengthens the pitch of a stage of few rows, so that one accumulator of every thread of half of
// the K groups fits.
func (s *stage) makeRoom(g *geometry) {
	if least := (g.Groups + 1) / 2 * g.GroupThreads / (s.Rows * g.Groups); s.Pitch < least {
		s.Pitch = least
		if s.AlongK {
			s.Pitch |= 1
		}
	}
}

// chunk returns how many accumulators of every thread fit in workgroup memory together, half of the K groups
// in that of A and half in that of B. It divides Accumulators. Every chunk is divided evenly: each group
// sums the same number of accumulators, or some groups sum one and the others none.
func (g *geometry) chunk() int {
	slots := (g.Groups + 1) / 2
	room := min(g.A.Rows*g.sumRow(&g.A), g.B.Rows*g.sumRow(&g.B)) / (slots * g.GroupThreads)
	for n := min(room, g.Accumulators); n > 0; n-- {
		if g.Accumulators%n == 0 && (n%g.Groups == 0 || n < g.Groups) {
			return n
		}
	}
	return 0
}

// sumRow returns how much of a row of workgroup memory the sums over the groups use: a power of two, which
// makes its index arithmetic cheap.
func (g *geometry) sumRow(s *stage) int {
	n := 1
	for 2*n <= g.Groups*s.Pitch {
		n *= 2
	}
	return n
}

// stage is the way of one operand into workgroup memory, where op(A) and op(B) look alike: for each k, the
// TM rows or TN columns of the tile.
//
// Threads load blocks of Span rows or columns at one k, each into a register. No two of them store to one
// element of workgroup memory, except with Limits.Components, which allows to store single numbers. Then the
// sweep takes 0.97 of the time of whole elements, for which a thread loads from four places of a row (H100
// through Vulkan). Lanes threads are side by side along the axis on which global memory is contiguous, the
// others in rows of Lanes along the other axis.
//
// If memory is K-major, scalar loads gather a block: vectors of 4 k, transposed in registers, took 15
// percent more time on an H200.
type stage struct {
	Extent int  // TM or TN
	AlongK bool // memory is contiguous along K: A as stored, B transposed, or the words of Int4
	Vector bool // loads of four elements; with AlongK only if Direct
	Direct bool // blocks are the columns that a thread multiplies, and stay in its registers

	// Together: with Direct, how many k of a K group lie side by side.
	Together int
	Element  int // rows or columns in one element of workgroup memory: 1, 2 or 4
	// Apart is the distance in rows or columns from one number of an element to the next: 1, or the number
	// of elements. In the second case, neighbouring threads load adjacent rows or columns for each of their
	// numbers, and store adjacent columns of B to C: a store of 16 threads touches 2 to 3 sectors of 32
	// bytes, not 16. The sweep takes 0.95 of the time, batches of K up to 128 0.77 to 0.99 (H100 through
	// Vulkan). B of fp32 is then loaded by single numbers, even if it allows four: 0.96. B of 16 bits with C
	// of fp32 uses this if it does not allow four: 0.945 (27 batches of the sweep, K up to 128 0.89). If it
	// does, gain and loss are equal.
	Apart int
	Pitch int // elements from one k to the next
	Rows  int // of workgroup memory, each with Groups k
	Pad   int // elements after each row

	Words  int // of each load, with 8 k of one column each; 0: not Int4
	Span   int
	Lanes  int
	Blocks []block // of a thread
}

// stride returns the distance in rows or columns between the first numbers of consecutive elements.
func (s *stage) stride() int {
	if s.Apart > 1 {
		return 1
	}
	return s.Element
}

// row returns the elements of a row of workgroup memory.
func (s *stage) row(groups int) int { return groups*s.Pitch + s.Pad }

// block is a block that each thread loads, as a distance from its first one.
type block struct {
	Along  int // blocks on the contiguous axis
	Across int // blocks on the other axis
	// Number of rows of threads that take part; 0: all.
	Limit int
}

// newStage returns the stage of an operand whose elements are stored whole, or by number if number is set
// and neither alongK nor vector is.
func newStage(extent, element int, alongK, vector, number bool, t tile.Shape) stage {
	s := stage{Extent: extent, AlongK: alongK, Vector: vector, Element: element, Apart: 1,
		Pitch: extent / element, Rows: t.TK / t.Groups(), Span: 1}
	switch {
	case alongK:
		// Neighbouring threads store to neighbouring k. An odd distance spreads them over the banks of
		// workgroup memory.
		s.Pitch |= 1
		s.Span = element
		s.share(t.TK, extent/s.Span, t.Threads)
		return s
	case vector:
		s.Span = 4
	case !number:
		s.Span = element
	}
	s.share(extent/s.Span, t.TK, t.Threads)
	return s
}

// packedStage returns the stage of Int4, whose words hold several k. A thread loads a word of each column of
// an element.
func packedStage(extent, element int, t tile.Shape) stage {
	s := stage{Extent: extent, AlongK: true, Element: element, Apart: 1, Pitch: extent/element | 1,
		Rows: t.TK / t.Groups(), Span: 1, Words: 1}
	s.share(t.TK/perPacked, extent/element, t.Threads)
	elements := s.Blocks
	s.Blocks = nil
	for _, e := range elements {
		for column := range element {
			s.Blocks = append(s.Blocks, block{Along: e.Along, Across: element*e.Across + column,
				Limit: element * e.Limit})
		}
	}
	return s
}

// share assigns blocks to threads.
func (s *stage) share(along, across, threads int) {
	s.Lanes = gcd(along, threads)
	rows := threads / s.Lanes
	for y := 0; y < across; y += rows {
		limit := 0
		if across-y < rows {
			limit = across - y
		}
		for x := 0; x < along; x += s.Lanes {
			s.Blocks = append(s.Blocks, block{Along: x, Across: y, Limit: limit})
		}
	}
}

func vectorWidth(n int) int { return gcd(n, 4) }

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
