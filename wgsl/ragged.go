package wgsl

import (
	_ "embed"
	"fmt"
	"math"
	"math/bits"
	"os"
	"strconv"

	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/encoding"
)

// The shaders that make the items of ragged plans. They are text with names of numbers,
// ${like.this}, because little of it depends on the adapter and nothing on the tile.
var (
	//go:embed ragged/problem.wgsl
	raggedProblem string
	//go:embed ragged/plan.wgsl
	raggedPlan string
	//go:embed ragged/expand.wgsl
	raggedExpand string
)

const (
	// raggedThreads is the most threads of a workgroup; raggedLeast the fewest: one for each
	// pair of keys.
	raggedThreads, raggedLeast = 256, raggedPairs
	raggedPairs                = encoding.RaggedKeys / 2
	// raggedChunks is the most chunks of entries that are counted, each with 16 bits for a key:
	// more do not fit in the workgroup memory that every adapter has.
	raggedChunks = 64
	raggedMost   = encoding.MaxGroups + 1 // entries
	// raggedSecond is the bit of a word of the order that stands for the second kernel.
	raggedSecond = 1 << 31
)

// renderRagged returns the shader of a stage. Its workgroups share the work as BoundMakers
// says.
func renderRagged(k encoding.Kernel, lim Limits) (Shader, error) {
	threads := raggedThreads
	for threads > lim.Threads {
		threads /= 2
	}
	if threads < raggedLeast {
		return Shader{}, fmt.Errorf("ragged plans need %d threads, the adapter allows %d", raggedLeast, lim.Threads)
	}
	s := Shader{Threads: threads, Pieces: 1}
	text := raggedProblem + "\n" + raggedExpand
	if k.Ragged == encoding.RaggedPlan {
		text = raggedProblem + "\n" + raggedPlan
		s.SharedBytes = 4 * (threads + raggedKeyWords + raggedPairs*min(threads, raggedChunks) + raggedPairs + 3)
	}
	if s.SharedBytes > lim.SharedBytes {
		return Shader{}, fmt.Errorf("ragged plans need %d bytes of workgroup memory, the adapter allows %d", s.SharedBytes, lim.SharedBytes)
	}
	numbers := raggedNumbers(threads)
	numbers["wide.mask"] = uint32(16/k.Type.Bytes() - 1)
	s.Source = os.Expand(text, func(name string) string {
		if name == "search" {
			return searchRanks()
		}
		n, ok := numbers[name]
		if !ok {
			panic("wgsl: the text of ragged plans names " + name) // which is a constant
		}
		return strconv.FormatUint(uint64(n), 10)
	})
	return s, nil
}

// raggedKeyWords has a byte for each entry.
const raggedKeyWords = (raggedMost + 3) / 4

// raggedNumbers are the numbers that the texts name: words of bounds by their names alone.
func raggedNumbers(threads int) map[string]uint32 {
	chunks := uint32(min(threads, raggedChunks))
	numbers := map[string]uint32{
		"bind.items": BindItems, "bind.sizes": BindSizes, "threads": uint32(threads),
		"keys.packed": raggedKeyWords, "chunks": chunks, "pairs": raggedPairs, "counts": raggedPairs * chunks,
		"second": raggedSecond, "entry": raggedSecond - 1,
		"most": planner.MaxDim, "one": math.Float32bits(1), "status": encoding.StatusWord,
		"rows": uint32(encoding.EndsOfRows), "records": uint32(encoding.Records),
		"record": encoding.RecordWords, "item": encoding.ItemWords, "tile": uint32(encoding.BoundTile), "tile.words": encoding.KernelWords,
		"split.tiles": encoding.SplitTiles, "split.total": encoding.SplitTotal,
		"shift.cols": encoding.ColsShift, "final": encoding.Final, "wide": encoding.ItemWide,
	}
	for prefix, names := range map[string][]string{
		"": encoding.BoundNames[:], "tile.": encoding.KernelNames[:], "record.": encoding.RecordNames[:], "item.": encoding.ItemNames[:],
	} {
		for word, name := range names {
			numbers[prefix+name] = uint32(word)
		}
	}
	return numbers
}

// searchRanks writes a binary search among the most entries that there may be, without a
// loop, whose turns would add to those over tiles: devices limit the turns of all loops.
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
