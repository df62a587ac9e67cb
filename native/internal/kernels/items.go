package kernels

import (
	"fmt"
	"strings"

	"github.com/batchgemm/batchgemm/planner/encoding"
)

// Items is the text of items.cuh: the words of items as structures of C, and how to load
// them.
func Items() string {
	var b strings.Builder
	fmt.Fprintf(&b, `// Generated from planner/encoding: the words of items and of the items of fix-ups.
#pragma once

constexpr uint32_t kItemWords = %d, kFixupWords = %d;
constexpr uint32_t kItemWide = %d, kFinal = %#x;

`, encoding.ItemWords, encoding.FixupWords, encoding.ItemWide, uint32(encoding.Final))
	structure(&b, "Item", "itemAt", encoding.ItemNames[:])
	b.WriteString("\n")
	structure(&b, "FixupItem", "fixupAt", encoding.FixupNames[:])
	return b.String()
}

// structure writes a structure of words, and a function that loads it in vectors of 4.
func structure(b *strings.Builder, name, load string, words []string) {
	fmt.Fprintf(b, "struct %s {\n  uint32_t %s;\n", name, strings.Join(words, ", "))
	fmt.Fprintf(b, "  BG_DEVICE uint32_t rows() const { return extent & %#x; }\n", 1<<encoding.ColsShift-1)
	fmt.Fprintf(b, "  BG_DEVICE uint32_t cols() const { return extent >> %d; }\n};\n", encoding.ColsShift)
	vectors, values := make([]string, len(words)/4), make([]string, len(words))
	for i := range vectors {
		vectors[i] = fmt.Sprintf("%c = items[%d * number + %d]", 'a'+i, len(vectors), i)
	}
	for i := range values {
		values[i] = fmt.Sprintf("%c.%c", 'a'+i/4, "xyzw"[i%4])
	}
	fmt.Fprintf(b, "BG_DEVICE %s %s(const uint4* items, uint32_t number) {\n  const uint4 %s;\n  return {%s};\n}\n", name, load,
		strings.Join(vectors, ", "), strings.Join(values, ", "))
}
