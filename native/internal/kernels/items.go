package kernels

import (
	"fmt"
	"math"
	"strings"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner/element"
)

// Items is the text of items.cuh: the words of items as structures of C, and how to load
// them.
func Items() string {
	var b strings.Builder
	fmt.Fprintf(&b, `// Generated from internal/encoding: the words of items and of the items of fix-ups.
#pragma once

#include "../dialect.h"

constexpr uint32_t kItemWords = %d, kFixupWords = %d;
constexpr uint32_t kItemVector = %d, kItemFloatC = %d, kItemF16C = %d, kItemPartial = %d, kFinal = %#x;
constexpr uint32_t kDynamicNext = %d, kDynamicEnd = %d, kDynamicFirst = %d, kDynamicChunk = %d, kDynamicLast = %d, kDynamicMark = %d, kEarlyMark = %d;
BG_DEVICE uint32_t extentOf(uint32_t rows, uint32_t cols) { return rows | cols << %d; }

`, encoding.ItemWords, encoding.FixupWords, encoding.ItemVector, encoding.ItemFloatC, encoding.ItemF16C, encoding.ItemPartial, uint32(encoding.Final),
		encoding.DynamicNext, encoding.DynamicEnd, encoding.DynamicFirst, encoding.DynamicChunk, encoding.DynamicLast, encoding.DynamicMark, encoding.EarlyMark, encoding.ColsShift)
	structure(&b, "Item", "itemAt", encoding.ItemNames[:])
	storer(&b, "Item", "storeItem", encoding.ItemNames[:])
	b.WriteString("\n")
	structure(&b, "FixupItem", "fixupAt", encoding.FixupNames[:])
	return b.String()
}

// EpilogueItems is the text of epilogue_items.cuh: the same of kernels with an epilogue, whose items
// begin with the words of the others.
func EpilogueItems() string {
	var b strings.Builder
	fmt.Fprintf(&b, `// Generated from internal/encoding: the words of items, and of the items of fix-ups, of kernels with
// an epilogue.
#pragma once

#include "../kernels/items.cuh"

constexpr uint32_t kEpilogueItemWords = %d, kEpilogueFixupWords = %d;
constexpr uint32_t kItemSecond = %d;
constexpr uint32_t kReLU = %d, kGELU = %d, kSiLU = %d, kActivation = %d;
constexpr uint32_t kBias = %d, kGated = %d, kGather = %d, kScatter = %d, kWeights = %d;
constexpr uint32_t kPointersA = %d, kPointersB = %d, kPointersC = %d, kPointersAligned = %d;
constexpr uint32_t kScaleA = %d, kRowsA = %d, kScaleB = %d, kColumnsB = %d;
constexpr uint32_t kGroups64 = %d, kGroups128 = %d, kInt4Panel = %d;
constexpr uint32_t kBlocks = %d, kScaleBlock = %d;
BG_DEVICE uint32_t scaleBlocks(uint32_t n) { return (n + kScaleBlock - 1) / kScaleBlock; }
constexpr uint32_t kPairs = %d, kZeros = %d;
BG_DEVICE uint32_t scaleWords(uint32_t flags) { return (flags & kPairs) != 0 ? 2 : 1; }
constexpr uint32_t kPointerA = %d, kPointerB = %d, kPointerC = %d, kPointerB2 = %d, kPointerWords = %d;
constexpr float kGeluLinear = %v, kGeluCubic = %v, kSigmoidLeast = %d, kLog2E = %v;

`, encoding.EpilogueItemWords, encoding.EpilogueFixupWords, encoding.ItemSecond,
		encoding.EpilogueReLU, encoding.EpilogueGELU, encoding.EpilogueSiLU, encoding.EpilogueReLU|encoding.EpilogueGELU|encoding.EpilogueSiLU,
		encoding.EpilogueBias, encoding.EpilogueGated, encoding.EpilogueGather, encoding.EpilogueScatter, encoding.EpilogueWeights,
		encoding.EpiloguePointersA, encoding.EpiloguePointersB, encoding.EpiloguePointersC, encoding.EpiloguePointersAligned,
		encoding.EpilogueScaleA, encoding.EpilogueRowsA, encoding.EpilogueScaleB, encoding.EpilogueColumnsB, encoding.EpilogueGroups64, encoding.EpilogueGroups128, element.Int4Panel,
		encoding.EpilogueBlocks, encoding.Block, encoding.EpiloguePairs, encoding.EpilogueZeros,
		encoding.PointerA, encoding.PointerB, encoding.PointerC, encoding.PointerB2, encoding.PointerWords,
		encoding.GELULinear, encoding.GELUCubic, encoding.SigmoidLeast, float32(math.Log2E))
	extended(&b, "Item", "epilogueItemAt", encoding.ItemNames[:], "ItemEpilogue", "itemEpilogueAt", encoding.EpilogueNames[:])
	b.WriteString("BG_DEVICE void storeEpilogueItem(uint4* items, uint32_t number, const Item& x, const ItemEpilogue& more) {\n")
	storeWords(&b, "x", encoding.ItemNames[:], 0, encoding.EpilogueItemWords)
	storeWords(&b, "more", encoding.EpilogueNames[:], encoding.ItemWords, encoding.EpilogueItemWords)
	b.WriteString("}\n\n")
	extended(&b, "FixupItem", "epilogueFixupAt", encoding.FixupNames[:], "FixupEpilogue", "fixupEpilogueAt", encoding.EpilogueFixupNames[:])
	return b.String()
}

// extended writes loaders of a structure, which is declared, and of one with what comes behind it.
func extended(b *strings.Builder, name, load string, names []string, more, loadMore string, moreNames []string) {
	all := len(names) + len(moreNames)
	part(b, name, load, names, 0, all)
	fmt.Fprintf(b, "struct %s {\n", more)
	words(b, moreNames)
	b.WriteString("};\n")
	part(b, more, loadMore, moreNames, len(names), all)
}

// Bounds is the text of bounds.cuh: the words of records and of what is known of the groups of a ragged
// plan.
func Bounds() string {
	var b strings.Builder
	fmt.Fprintf(&b, `// Generated from internal/encoding: what kernels that make items read.
#pragma once

#include "../dialect.h"

constexpr uint32_t kMaxGroups = %d, kRaggedKernels = %d, kRaggedKeys = %d, kStatusWord = %d;
constexpr uint32_t kEndsOfRows = %d, kEndsOfDepth = %d, kRecords = %d;

`, encoding.MaxGroups, encoding.RaggedKernels, encoding.RaggedKeys, encoding.StatusWord,
		encoding.EndsOfRows, encoding.EndsOfDepth, encoding.Records)
	b.WriteString("struct Record {\n")
	words(&b, encoding.RecordNames[:])
	b.WriteString("};\n")
	loader(&b, "Record", "recordAt", encoding.RecordNames[:])
	b.WriteString("// Those of kernels with an epilogue.\n")
	extended(&b, "Record", "epilogueRecordAt", encoding.RecordNames[:], "RecordEpilogue", "recordEpilogueAt", encoding.EpilogueRecordNames[:])
	fmt.Fprintf(&b, "constexpr uint32_t kEpilogueRecordWords = %d, kScaledRecordWords = %d;\n", encoding.EpilogueRecordWords, encoding.ScaledRecordWords)
	b.WriteString("\nstruct RaggedKernel {\n")
	words(&b, encoding.KernelNames[:])
	b.WriteString("};\nstruct Bounds {\n")
	words(&b, encoding.BoundNames[:])
	b.WriteString("  RaggedKernel tile[kRaggedKernels];\n};\n")
	b.WriteString("// EpilogueBounds come behind them.\nstruct EpilogueBounds {\n")
	words(&b, encoding.EpilogueBoundNames[:])
	b.WriteString("};\n")
	return b.String()
}

// structure writes a structure of words with an extent, and its loader.
func structure(b *strings.Builder, name, load string, names []string) {
	fmt.Fprintf(b, "struct %s {\n", name)
	words(b, names)
	fmt.Fprintf(b, "  BG_DEVICE uint32_t rows() const { return extent & %#x; }\n", 1<<encoding.ColsShift-1)
	fmt.Fprintf(b, "  BG_DEVICE uint32_t cols() const { return extent >> %d; }\n};\n", encoding.ColsShift)
	loader(b, name, load, names)
}

func words(b *strings.Builder, names []string) {
	fmt.Fprintf(b, "  uint32_t %s;\n", strings.Join(names, ", "))
}

// loader writes a function that loads a structure in vectors of 4.
func loader(b *strings.Builder, name, load string, names []string) {
	part(b, name, load, names, 0, len(names))
}

// part is loader of a structure that begins at a word of items that have so many.
func part(b *strings.Builder, name, load string, names []string, first, all int) {
	vectors, values := make([]string, len(names)/4), make([]string, len(names))
	for i := range vectors {
		vectors[i] = fmt.Sprintf("%c = items[%d * number + %d]", 'a'+i, all/4, first/4+i)
	}
	for i := range values {
		values[i] = fmt.Sprintf("%c.%c", 'a'+i/4, "xyzw"[i%4])
	}
	fmt.Fprintf(b, "BG_DEVICE %s %s(const uint4* items, uint32_t number) {\n  const uint4 %s;\n  return {%s};\n}\n", name, load,
		strings.Join(vectors, ", "), strings.Join(values, ", "))
}

// storer writes the function that is the inverse of the loader.
func storer(b *strings.Builder, name, store string, names []string) {
	fmt.Fprintf(b, "BG_DEVICE void %s(uint4* items, uint32_t number, const %s& x) {\n", store, name)
	storeWords(b, "x", names, 0, len(names))
	b.WriteString("}\n")
}

// storeWords writes the stores of a structure, as part says.
func storeWords(b *strings.Builder, of string, names []string, first, all int) {
	for i := 0; i < len(names); i += 4 {
		fmt.Fprintf(b, "  items[%d * number + %d] = {%s.%s};\n", all/4, (first+i)/4, of, strings.Join(names[i:i+4], ", "+of+"."))
	}
}
