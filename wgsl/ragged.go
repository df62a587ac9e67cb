package wgsl

import (
	_ "embed"
	"fmt"
	"math"
	"math/bits"
	"os"
	"strconv"
	"strings"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner"
)

// The shaders that make the items of ragged plans. They are texts with named numbers, ${like.this}: little
// of them depends on the adapter, and nothing on the tile.
var (
	//go:embed ragged/problem.wgsl
	raggedProblem string
	//go:embed ragged/plan.wgsl
	raggedPlan string
	//go:embed ragged/expand.wgsl
	raggedExpand string
)

const (
	// raggedThreads is the most threads of a workgroup, raggedLeast the fewest: one for each pair of keys.
	raggedThreads, raggedLeast = 256, raggedPairs
	raggedPairs                = encoding.RaggedKeys / 2
	// raggedChunks is the most chunks of entries to count. A chunk has a 16-bit counter for each key, and
	// more chunks do not fit in the workgroup memory of every adapter.
	raggedChunks = 64
	raggedMost   = encoding.MaxGroups + 1 // entries
	// raggedSecond is the bit in a word of the order that selects the second kernel.
	raggedSecond = 1 << 31
)

// renderRagged returns the shader of a stage. Its workgroups share the work according to BoundMakers.
func renderRagged(k encoding.Kernel, lim Limits) (Shader, error) {
	threads := raggedThreads
	for threads > lim.Threads {
		threads /= 2
	}
	if threads < raggedLeast {
		return Shader{}, fmt.Errorf("ragged plans need %d threads, the adapter allows %d",
			raggedLeast, lim.Threads)
	}
	var head writer
	head.bindWritten(encoding.BindItems, "words", "u32")
	head.bind(encoding.BindSizes, "sizes", "u32")
	head.line("")
	s := Shader{Threads: threads, Pieces: 1, Bindings: head.bindings}
	text := raggedProblem + "\n" + raggedExpand
	if k.Ragged == encoding.RaggedPlan {
		text = raggedProblem + "\n" + raggedPlan
		s.SharedBytes = 4 * (threads + raggedKeyWords + raggedPairs*min(threads, raggedChunks) +
			raggedPairs + 3)
	}
	if s.SharedBytes > lim.SharedBytes {
		return Shader{}, fmt.Errorf("ragged plans need %d bytes of workgroup memory, the adapter allows %d",
			s.SharedBytes, lim.SharedBytes)
	}
	n := raggedNumbers(threads)
	n.addEpilogue(k)
	s.Source = head.text.String() + n.expand(kept(text, raggedParts(k.Epilogue)))
	return s, nil
}

// raggedParts returns the names of the parts of the texts that an epilogue needs. Part tail is for the tails
// of items and records. Its lines ask the bounds what the epilogue has, so that epilogues without gates and
// scales share a text: it takes long to compile. Adapters have no kernels for pointers.
func raggedParts(e encoding.Epilogue) map[string]bool {
	return map[string]bool{"tail": e != encoding.Epilogue{}, "gated": e.Gated,
		"scaled": e.Scaled(), "scale-a": e.ScaleA != "",
		"scale-b": e.ScaleB != "", "each-row": e.EachRow(), "pairs": e.Pairs, "groups": e.ScaleB.Group() > 0,
		"blocks": e.Blocks()}
}

// kept removes the lines between "#if" and "#end" whose part is not in there.
func kept(text string, there map[string]bool) string {
	var b strings.Builder
	keep := true
	for line := range strings.Lines(text) {
		switch words := strings.Fields(line); {
		case !strings.HasPrefix(line, "#"):
			if keep {
				b.WriteString(line)
			}
		case words[0] == "#end":
			keep = true
		default:
			for _, part := range words[1:] {
				is, known := there[part]
				if !known {
					panic("wgsl: the texts of ragged plans have the part " + part)
				}
				keep = keep && is
			}
		}
	}
	return b.String()
}

// names are the names in a text: numbers, and texts that have names themselves. A mistake in a name affects
// every text, so it is a panic, which any test finds.
type names map[string]string

// add panics if the name exists: the text would be ambiguous.
func (n names) add(name, part string) {
	if _, known := n[name]; known {
		panic("wgsl: the texts of ragged plans have two things of the name " + name)
	}
	n[name] = part
}

func (n names) number(name string, value uint32) {
	n.add(name, strconv.FormatUint(uint64(value), 10))
}

// addEpilogue adds names that depend on a kernel's epilogue.
func (n names) addEpilogue(k encoding.Kernel) {
	e := k.Epilogue
	n.number("item", uint32(k.ItemWords()*e.Products()))
	n.number("item.words", uint32(k.ItemWords()))
	n.number("record", uint32(e.RecordWords(k.TypeA)))
	n.number("products", uint32(e.Products()))
	n.add("apart.b", fmt.Sprintf("%du", e.ScaleB.ApartB()))
	n.add("written", "")
	if e != (encoding.Epilogue{}) { // an epilogue also changes C = 1*C
		n["written"] = " && false"
	}
	n.add("stored.a", "select(p.m, p.depth, transA)")
	n.add("stored.c", "p.m")
	if e != (encoding.Epilogue{}) { // lists of rows have them of so many
		n["stored.a"] = "select(" + n["stored.a"] + ", words[${gatherRows}u], words[${gatherRows}u] != 0u)"
		n["stored.c"] = "select(p.m, words[${scatterRows}u], words[${scatterRows}u] != 0u)"
	}
	n.add("items.before", "first + before(w, tiles, workers)")
	if e.Gated {
		n["items.before"] = "2u * (first + before(w, tiles, workers))"
	}
	w := writer{depth: 1}
	for i := range k.ItemWords() {
		w.line("words[second + %du] = words[at + %du];", i, i)
	}
	n.add("item.copy", w.text.String())
	n.addScales(e)
}

// words adds the indices of words by name; some words have no name.
func (n names) words(prefix string, all []string) {
	for i, name := range all {
		if name != "" {
			n.number(prefix+name, uint32(i))
		}
	}
}

func (n names) expand(text string) string {
	return os.Expand(text, func(name string) string {
		part, known := n[name]
		if !known {
			panic("wgsl: the texts of ragged plans name " + name)
		}
		return n.expand(part)
	})
}

// raggedKeyWords has a byte for each entry.
const raggedKeyWords = (raggedMost + 3) / 4

// raggedNumbers returns the numbers that the texts name. Words of bounds have their own names.
func raggedNumbers(threads int) names {
	chunks := uint32(min(threads, raggedChunks))
	all := names{}
	for name, number := range map[string]uint32{
		"threads":     uint32(threads),
		"keys.packed": raggedKeyWords, "chunks": chunks, "pairs": raggedPairs, "counts": raggedPairs * chunks,
		"second": raggedSecond, "entry": raggedSecond - 1,
		"most": planner.MaxDim, "one": math.Float32bits(1), "status": encoding.StatusWord,
		"rows": uint32(encoding.EndsOfRows), "depth": uint32(encoding.EndsOfDepth),
		"records":     uint32(encoding.Records),
		"second.flag": encoding.ItemSecond, "tile": uint32(encoding.BoundTile),
		"tile.words":  encoding.KernelWords,
		"split.tiles": encoding.SplitTiles, "split.total": encoding.SplitTotal,
		"split.groups": encoding.SplitGroups,
		"shift.cols":   encoding.ColsShift, "final": encoding.Final, "vector.flag": encoding.ItemVector,
	} {
		all.number(name, number)
	}
	all.words("", encoding.BoundNames[:])
	all.words("tile.", encoding.KernelNames[:])
	all.words("record.", encoding.RecordNames[:])
	all.words("item.", encoding.ItemNames[:])
	all.add("search", searchRanks())
	return all
}

// searchRanks writes a binary search among the most possible entries. It has no loop, because devices limit
// the iterations of all loops together, including those over tiles.
func searchRanks() string {
	w := writer{depth: 1}
	for bit := 1 << (bits.Len(raggedMost-1) - 1); bit > 0; bit /= 2 {
		w.line("next = r + %du;", bit)
		w.block("if (next < entries)", func() {
			w.block("if (words[starts + next] <= u)", func() { w.line("r = next;") })
		})
	}
	return w.text.String()
}
