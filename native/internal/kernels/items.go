package kernels

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Gates returns the text of kernels/gates.cuh.
func Gates() string {
	t := new(header)
	t.line("// Generated from internal/encoding: what kernels of gates read.\n#pragma once\n\n" +
		"#include \"../dialect.h\"\n")
	t.numbers("kLayerAlpha", encoding.LayerAlpha, "kLayerLimit", encoding.LayerLimit, "kLayerScales",
		encoding.LayerScales)
	number := func(a encoding.Activation) int { return slices.Index(encoding.GateActivations[:], a) }
	t.numbers("kGELUExact", number(encoding.GELUExact), "kReLU2", number(encoding.ReLU2), "kSwiGLUClamped",
		number(encoding.SwiGLUClamped), "kGateActivations", len(encoding.GateActivations))
	t.numbers("kGateActivation", encoding.GateActivation, "kGateGated", encoding.GateGated,
		"kGateInterleaved", encoding.GateInterleaved, "kGateBlocks", encoding.GateBlocks)
	t.line("constexpr uint32_t kQuantizedLeast = %#x;  // bits", math.Float32bits(encoding.QuantizedLeast))
	a := &encoding.ErfA
	t.line("constexpr float kErfP = %v, kErfA0 = %v, kErfA1 = %v, kErfA2 = %v,\n    kErfA3 = %v, "+
		"kErfA4 = %v, kErfMost = %v;", encoding.ErfP, a[0], a[1], a[2], a[3], a[4], float32(encoding.ErfMost))
	return t.String()
}

// Items returns the text of items.cuh: the words of items and of fix-up items as structures of C, head and
// tail, and how to load and store them, and what kernels that make items read.
func Items() string {
	t := new(header)
	t.line("// Generated from internal/encoding: the words of items and of the items of fix-ups, with tails")
	t.line("// for epilogues, and what kernels that make items read.")
	t.line("#pragma once\n\n#include \"../dialect.h\"\n")
	t.numbers("kItemWords", encoding.ItemWords, "kEpilogueItemWords", encoding.EpilogueItemWords,
		"kFixupWords", encoding.FixupWords, "kEpilogueFixupWords", encoding.EpilogueFixupWords)
	t.numbers("kItemVector", encoding.ItemVector, "kItemFloatC", encoding.ItemFloatC,
		"kItemSecond", encoding.ItemSecond,
		"kItemF16C", encoding.ItemF16C, "kItemPartial", encoding.ItemPartial)
	t.line("constexpr uint32_t kFinal = %#x;", uint32(encoding.Final))
	t.numbers("kDynamicNext", encoding.DynamicNext, "kDynamicEnd", encoding.DynamicEnd,
		"kDynamicFirst", encoding.DynamicFirst, "kDynamicChunk", encoding.DynamicChunk,
		"kDynamicLast", encoding.DynamicLast, "kDynamicMark", encoding.DynamicMark,
		"kEarlyMark", encoding.EarlyMark)
	t.line("BG_DEVICE uint32_t extentOf(uint32_t rows, uint32_t cols) { return rows | cols << %d; }",
		encoding.ColsShift)

	t.line("\n// The parameter of an epilogue.")
	t.numbers("kReLU", encoding.EpilogueReLU, "kGELU", encoding.EpilogueGELU, "kSiLU", encoding.EpilogueSiLU,
		"kActivation", encoding.EpilogueReLU|encoding.EpilogueGELU|encoding.EpilogueSiLU)
	t.numbers("kBias", encoding.EpilogueBias, "kGated", encoding.EpilogueGated,
		"kGather", encoding.EpilogueGather,
		"kScatter", encoding.EpilogueScatter, "kWeights", encoding.EpilogueWeights)
	t.numbers("kPointersA", encoding.EpiloguePointersA, "kPointersB", encoding.EpiloguePointersB,
		"kPointersC", encoding.EpiloguePointersC, "kPointersAligned", encoding.EpiloguePointersAligned)
	t.numbers("kScaleA", encoding.EpilogueScaleA, "kRowsA", encoding.EpilogueRowsA,
		"kScaleB", encoding.EpilogueScaleB, "kColumnsB", encoding.EpilogueColumnsB)
	t.numbers("kGroups64", encoding.EpilogueGroups64, "kGroups128", encoding.EpilogueGroups128,
		"kGroups32", encoding.EpilogueGroups32, "kGroups16", encoding.EpilogueGroups16)
	t.numbers("kInt4Panel", element.Int4Panel, "kBlocks", encoding.EpilogueBlocks,
		"kScaleBlock", encoding.Block)
	t.line("// wordsOf64 reports whether a column of a B of 4 bits has a word for each 64 k's, and not 128.")
	t.line("BG_DEVICE bool wordsOf64(uint32_t flags) { return (flags & (kGroups64 | kGroups16)) != 0; }")
	t.line("BG_DEVICE uint32_t scaleBlocks(uint32_t n) { return (n + kScaleBlock - 1) / kScaleBlock; }")
	t.numbers("kPairs", encoding.EpiloguePairs, "kZeros", encoding.EpilogueZeros)
	t.numbers("kDoubles", encoding.EpilogueDoubles, "kTransA", encoding.EpilogueTransA,
		"kTransB", encoding.EpilogueTransB)
	t.line("BG_DEVICE uint32_t scaleWords(uint32_t flags) { return (flags & kPairs) != 0 ? 2 : 1; }")
	t.numbers("kPointerA", encoding.PointerA, "kPointerB", encoding.PointerB, "kPointerC", encoding.PointerC,
		"kPointerB2", encoding.PointerB2, "kPointerWords", encoding.PointerWords)
	t.line("constexpr float kGeluLinear = %v, kGeluCubic = %v,\n    kSigmoidLeast = %d, kLog2E = %v;",
		encoding.GELULinear, encoding.GELUCubic, encoding.SigmoidLeast, float32(math.Log2E))

	head, tail := encoding.ItemNames[:encoding.ItemWords], encoding.ItemNames[encoding.ItemWords:]
	t.line("")
	t.structure("Item", head, true)
	t.structure("ItemEpilogue", tail, false)
	t.numbered("Item", "itemAt", head, len(head), len(head)+len(tail))
	t.loader("ItemEpilogue", "itemEpilogueAt", tail, len(head), len(head)+len(tail))
	t.line("BG_DEVICE void storeItem(uint4* items, uint32_t number, const Item& x) {")
	t.stores("x", head, 0, len(head))
	t.line("}\nBG_DEVICE void storeItem(uint4* items, uint32_t number, const Item& x, const " +
		"ItemEpilogue& tail) {")
	t.stores("x", head, 0, len(head)+len(tail))
	t.stores("tail", tail, len(head), len(head)+len(tail))
	t.line("}\n")

	head, tail = encoding.FixupNames[:encoding.FixupWords], encoding.FixupNames[encoding.FixupWords:]
	t.structure("FixupItem", head, true)
	t.structure("FixupEpilogue", tail, false)
	t.numbered("FixupItem", "fixupAt", head, len(head), len(head)+len(tail))
	t.loader("FixupEpilogue", "fixupEpilogueAt", tail, len(head), len(head)+len(tail))
	t.bounds()
	return t.String()
}

// bounds writes the words of records and of facts about the groups of a ragged plan.
func (t *header) bounds() {
	t.line("\n// What kernels that make items read: records, and what is known of groups.")
	t.numbers("kMaxGroups", encoding.MaxGroups, "kRaggedKernels", encoding.RaggedKernels,
		"kRaggedKeys", encoding.RaggedKeys, "kStatusWord", encoding.StatusWord)
	t.numbers("kEndsOfRows", encoding.EndsOfRows, "kEndsOfDepth", encoding.EndsOfDepth,
		"kRecords", encoding.Records)
	t.numbers("kRecordWords", encoding.RecordWords, "kEpilogueRecordWords", encoding.EpilogueRecordWords,
		"kScaledRecordWords", encoding.ScaledRecordWords)
	t.line("")
	all := encoding.RecordNames[:]
	t.structure("Record", all[:encoding.RecordWords], false)
	t.line("// RecordTail follows in records for kernels with an epilogue, and then scales, where it has " +
		"any.")
	t.structure("RecordTail", all[encoding.RecordWords:encoding.EpilogueRecordWords], false)
	t.structure("RecordScales", all[encoding.EpilogueRecordWords:], false)
	t.part("Record", "recordAt", all[:encoding.RecordWords], 0)
	t.part("RecordTail", "recordTailAt", all[encoding.RecordWords:encoding.EpilogueRecordWords],
		encoding.RecordWords)
	t.part("RecordScales", "recordScalesAt", all[encoding.EpilogueRecordWords:], encoding.EpilogueRecordWords)
	t.line("")
	t.structure("RaggedKernel", encoding.KernelNames[:], false)
	t.line("struct Bounds {")
	t.words(encoding.BoundNames[:encoding.BoundTile])
	t.line("  RaggedKernel tile[kRaggedKernels];\n};\n// EpilogueBounds follow for kernels with an epilogue.")
	t.structure("EpilogueBounds", encoding.BoundNames[encoding.BoundWords:], false)
}

// header collects the text of a header.
type header struct{ strings.Builder }

func (t *header) line(format string, args ...any) { fmt.Fprintf(t, format+"\n", args...) }

// list writes names in lines of limited length.
func (t *header) list(begin string, of []string, end string) {
	const most = 110
	line := begin
	for i, name := range of {
		if i < len(of)-1 {
			name += ","
		} else {
			name += end
		}
		if len(line)+1+len(name) > most {
			t.line("%s", line)
			line = "   "
		}
		line += " " + name
	}
	t.line("%s", line)
}

// numbers writes constants. Names and values alternate.
func (t *header) numbers(namesAndValues ...any) {
	var all []string
	for i := 0; i < len(namesAndValues); i += 2 {
		all = append(all, fmt.Sprintf("%s = %d", namesAndValues[i], namesAndValues[i+1]))
	}
	t.list("constexpr uint32_t", all, ";")
}

func (t *header) words(names []string) { t.list("  uint32_t", names, ";") }

// structure writes a structure of words, which may have an extent.
func (t *header) structure(name string, names []string, extent bool) {
	t.line("struct %s {", name)
	t.words(names)
	if extent {
		t.line("  BG_DEVICE uint32_t rows() const { return extent & %#x; }", 1<<encoding.ColsShift-1)
		t.line("  BG_DEVICE uint32_t cols() const { return extent >> %d; }", encoding.ColsShift)
	}
	t.line("};")
}

// numbered writes a loader of the heads of items with that many words, or with kTail that many.
func (t *header) numbered(name, load string, names []string, short, long int) {
	t.line("template <bool kTail = false>\nBG_DEVICE %s %s(const uint4* items, uint32_t number) {", name,
		load)
	t.values(names, fmt.Sprintf("items[(kTail ? %d : %d) * number + %%d]", long/4, short/4), 0)
}

// loader writes a loader of a tail, which starts at a word of items with that many words.
func (t *header) loader(name, load string, names []string, first, all int) {
	t.line("BG_DEVICE %s %s(const uint4* items, uint32_t number) {", name, load)
	t.values(names, fmt.Sprintf("items[%d * number + %%d]", all/4), first)
}

// part writes a loader of the words of a record from one on.
func (t *header) part(name, load string, names []string, first int) {
	t.line("BG_DEVICE %s %s(const uint4* record) {", name, load)
	t.values(names, "record[%d]", first)
}

// values writes code that loads a structure in vectors of 4 words, by number, from a word on, and returns
// it.
func (t *header) values(names []string, vector string, first int) {
	vectors, values := make([]string, len(names)/4), make([]string, len(names))
	for i := range vectors {
		vectors[i] = fmt.Sprintf("%c = "+vector, 'a'+i, first/4+i)
	}
	for i := range values {
		values[i] = fmt.Sprintf("%c.%c", 'a'+i/4, "xyzw"[i%4])
	}
	t.list("  const uint4", vectors, ";")
	t.line("  return {%s};\n}", strings.Join(values, ", "))
}

// stores writes the stores of a structure to items with that many words, from a word on.
func (t *header) stores(of string, names []string, first, all int) {
	for i := 0; i < len(names); i += 4 {
		t.line("  items[%d * number + %d] = {%s.%s};", all/4, (first+i)/4, of,
			strings.Join(names[i:i+4], ", "+of+"."))
	}
}
