package native

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/planner"
)

// raggedMutants are mistakes in the kernels that make items, each of which must be found.
var raggedMutants = []inSanitizer{
	{mutant{"no bound of K", "kernels/ragged.cuh", " || at.k > b.k", ""}, plain},
	{mutant{"no bound of leading dimensions", "kernels/ragged.cuh", "ld >= cols && ld <= 0x7fffffff && ", ""},
		plain},
	{mutant{"an operand may not end its buffer", "kernels/ragged.cuh", "off + cols <= length",
		"off + cols < length"}, plain},
	{mutant{"rows in 32 bits", "kernels/ragged.cuh", "static_cast<uint64_t>(rows - 1) * ld",
		"(rows - 1) * ld"}, plain},
	{mutant{"no empty groups", "kernels/ragged.cuh", "at.first <= at.end", "at.first < at.end"}, plain},
	{mutant{"ends beyond the bound", "kernels/ragged.cuh", " && at.end <= bound()", ""}, plain},
	{mutant{"all of the bound is there", "kernels/ragged.cuh", "extent != 0 ? extent : ", ""}, plain},
	{mutant{"a group more than there are", "kernels/ragged.cuh", "g < plan.bounds.groups; g += kThreads",
		"g <= plan.bounds.groups; g += kThreads"}, address},
	{mutant{"an entry too many", "kernels/ragged.cuh", "if (e < entries) {\n          key",
		"if (e <= entries) {\n          key"}, address},
	{mutant{"an end after the groups", "kernels/ragged.cuh", "group ? sizes[entry] : bound()",
		"sizes[entry]"}, address},
	{mutant{"rows that are not there are filled", "kernels/ragged.cuh", "group ? sizes[entry] : bound()",
		"group ? sizes[entry] : plan.bounds.m"}, plain},
	{mutant{"rows of groups that are refused are not filled", "kernels/ragged.cuh",
		"group ? entry : min(entry, plan.found.refused)", "entry"}, plain},
	{mutant{"groups of depth are not filled", "kernels/ragged.cuh",
		"kForm == kEndsOfDepth && entry >= plan.found.refused", "false"}, plain},
	{mutant{"groups of depth are filled in any case", "kernels/ragged.cuh", " && plan.bounds.rest != one()",
		""}, plain},
	{mutant{"C is filled with products", "kernels/ragged.cuh", "        r.alpha = 0;\n", ""}, plain},
	{mutant{"16 bits of rows", "kernels/ragged.cuh", "high += at.m >> 16;", ""}, plain},
	{mutant{"one row less than the bound", "kernels/ragged.cuh", "if (rows > plan.bounds.m)",
		"if (rows >= plan.bounds.m)"}, plain},
	{mutant{"a later group is told", "kernels/ragged.cuh", " && words[kStatusWord] == 0", ""}, plain},
	{mutant{"refused groups have tiles", "kernels/ragged.cuh", "e < plan.found.refused || fills(e)", "true"},
		plain},
	{mutant{"the first refused group has tiles", "kernels/ragged.cuh", "e < plan.found.refused || fills(e)",
		"e <= plan.found.refused || fills(e)"}, plain},
	{mutant{"products though alpha is -0", "kernels/ragged.cuh", "r.alpha << 1 == 0", "r.alpha == 0"}, plain},
	{mutant{"few tiles change nothing", "kernels/ragged.cuh", "(all || work(", "(work("}, plain},
	{mutant{"a second choice is counted", "kernels/ragged.cuh", "if (kernels == 1 || all) break;",
		"if (kernels == 1) break;"}, thread},
	{mutant{"dynamic tiles are those of another kernel", "kernels/ragged.cuh",
		"storeDynamic(table, deal.first, deal.tiles,", "storeDynamic(table, 0, deal.tiles,"}, plain},
	{mutant{"a chunk is one tile", "kernels/ragged.cuh",
		"const uint32_t chunk = plan.bounds.tile[kernel].chunk;", "const uint32_t chunk = 1;"}, plain},
	{mutant{"order is not stable", "kernels/ragged_order.cuh", "counts[cell] + same.before :",
		"counts[cell] + same.all - 1 - same.before :"}, plain},
	{mutant{"order of many is not stable", "kernels/ragged_order.cuh", "e / kChunk] + same.before]",
		"e / kChunk] + same.all - 1 - same.before]"}, plain},
	{mutant{"the first workers have one more in odd rounds", "kernels/ragged_order.cuh",
		"worker - min(worker, workers - rest)", "min(worker, rest)"}, plain},
	{mutant{"no way back", "kernels/ragged_order.cuh", "round % 2 == 0 ? turn : workers - 1 - turn", "turn"},
		plain},
	{mutant{"a tile is of the group before", "kernels/ragged.cuh", "plan.starts[middle] <= tile",
		"plan.starts[middle] < tile"}, plain},
	{mutant{"rows of A, transposed, are a line apart", "kernels/ragged.cuh",
		"at.first * (b.transA != 0 ? 1 : b.lda)", "at.first * b.lda"}, plain},
	{mutant{"C is filled with beta times itself", "kernels/ragged.cuh", "        r.beta = b.rest;\n", ""},
		plain},
	{mutant{"vector loads, whatever B is", "kernels/ragged.cuh",
		"(r.offA | r.lda | r.offB | r.ldb) & b.vector", "(r.offA | r.lda) & b.vector"}, plain},
	{mutant{"vector loads with 4 elements of any type", "kernels/ragged.cuh",
		"(r.offA | r.lda | r.offB | r.ldb) & b.vector", "(r.offA | r.lda | r.offB | r.ldb) & 3"}, plain},
	{mutant{"tables count tiles of two items", "kernels/ragged.cuh", "products() * deal.before(w)",
		"deal.before(w)"}, plain},
	{mutant{"a gathered A has the rows of the group", "kernels/ragged.cuh", "storedA(transA ? at.k : at.m)",
		"transA ? at.k : at.m"}, plain},
	{mutant{"a scattered C has the rows of the group", "kernels/ragged.cuh", "storedC(at.m)", "at.m"}, plain},
	{mutant{"records have no epilogue", "kernels/ragged.cuh",
		"has(kRecordsScaled) ? kScaledRecordWords : kEpilogueRecordWords", "kRecordWords"}, plain},
	{mutant{"lists in 32 bits", "kernels/ragged.cuh", "static_cast<uint64_t>(first) + n <= length",
		"first + n <= length"}, plain},
	{mutant{"gated groups with a C that is read", "kernels/ragged.cuh", "if (r.beta << 1 != 0) return false;",
		""}, plain},
	{mutant{"gated groups without beta of -0", "kernels/ragged.cuh", "r.beta << 1 != 0", "r.beta != 0"},
		plain},
	{mutant{"no bound of B2", "kernels/ragged.cuh", "if (depthOf(r) != 0 && !within(at.offB2",
		"if (false && !within(at.offB2"}, plain},
	{mutant{"a bound of a B2 that is not read", "kernels/ragged.cuh",
		"if (depthOf(r) != 0 && !within(at.offB2", "if (!within(at.offB2"}, plain},
	{mutant{"one bias of two", "kernels/ragged.cuh", "listed(at.bias, products() * r.n,",
		"listed(at.bias, r.n,"}, plain},
	{mutant{"no bound of gathered rows", "kernels/ragged.cuh", "listed(at.rowsA, r.m, more.lenRows)", "true"},
		plain},
	{mutant{"no bound of scattered rows", "kernels/ragged.cuh", "listed(at.rowsC, r.m, more.lenRows)",
		"true"}, plain},
	{mutant{"no bound of weights", "kernels/ragged.cuh", "listed(at.weights, r.m, more.lenRows)", "true"},
		plain},
	{mutant{"no bound of addresses", "kernels/ragged.cuh", "listed(at.pointers, kPointerWords, more.lenRows)",
		"true"}, plain},
	{mutant{"groups of depth share lists", "kernels/ragged.cuh", "row = kByRows ? at.first : group * b.m",
		"row = kByRows ? at.first : 0"}, plain},
	{mutant{"B2 of depth begins with k 0", "kernels/ragged.cuh", "at.first * (b.transB != 0 ? 1 : more.ldb2)",
		"0"}, plain},
	{mutant{"gathered rows begin with the group's", "kernels/ragged.cuh", "kByRows ? b.offA : r.offA",
		"r.offA"}, plain},
	{mutant{"gathered rows of a record are the first's", "kernels/ragged.cuh", "kByRows ? b.offA : r.offA",
		"b.offA"}, plain},
	{mutant{"scattered rows begin with the group's", "kernels/ragged.cuh", "(kByRows ? b.offC : r.offC)",
		"r.offC"}, plain},
	{mutant{"the second bias is as far as there may be columns", "kernels/ragged.cuh", "tail.biasAt += r.n",
		"tail.biasAt += b.n"}, plain},
	{mutant{"vector loads, whatever B2 is", "kernels/ragged.cuh", "(r.offA | r.lda | at.offB2 | at.ldb2)",
		"(r.offA | r.lda)"}, plain},
	{mutant{"a row has one scale of blocks", "kernels/ragged.cuh", "to.scaleA += row * scalesOfRow(k)",
		"to.scaleA += row"}, plain},
	{mutant{"a row of the groups before has one scale of blocks", "kernels/ragged.cuh",
		"first * scalesOfRow(b.k)", "first"}, plain},
	{mutant{"a row has one word with a zero point", "kernels/ragged.cuh",
		"scaleBlocks(k) : scaleWords(flags)", "scaleBlocks(k) : 1"}, plain},
	{mutant{"a group of columns has one word with a sum for each", "kernels/ragged.cuh",
		"cols * scaleWords(flags)", "cols"}, plain},
	{mutant{"a column has one word with a sum", "kernels/ragged.cuh", "col * scaleWords(flags)", "col"},
		plain},
	{mutant{"all columns are of one block", "kernels/ragged.cuh",
		"col / kScaleBlock * scaleBlocks(item.depth)", "0"}, plain},
	{mutant{"the last block has no scales", "kernels/items.cuh",
		"return (n + kScaleBlock - 1) / kScaleBlock;", "return n / kScaleBlock;"}, plain},
	{mutant{"no bound of scales of blocks", "kernels/ragged.cuh", "(!has(kScaleA | kBlocks) || at.scaleA",
		"(!has(kScaleA) || at.scaleA"}, plain},
	{mutant{"gathered rows have the group's scales of blocks", "kernels/ragged.cuh",
		"has(kRowsA | kBlocks) && !has(kGather)", "has(kRowsA | kBlocks)"}, plain},
	{mutant{"no barrier after what is refused", "kernels/ragged.cuh",
		"    barrier();\n    if constexpr (kForm == kRecords) {", "    if constexpr (kForm == kRecords) {"},
		thread},
	{mutant{"no barrier after too many rows", "kernels/ragged.cuh",
		"plan.found.refused = g;\n      }\n    }\n    barrier();", "plan.found.refused = g;\n      }\n    }"},
		thread},
	{mutant{"no barrier after the bounds", "kernels/ragged.cuh", "    barrier();\n    plan.clear();",
		"    plan.clear();"}, thread},
	{mutant{"no barrier before ranks are counted", "kernels/ragged_order.cuh",
		"order[rank] = static_cast<uint16_t>(e);\n    }\n    barrier();",
		"order[rank] = static_cast<uint16_t>(e);\n    }"}, thread},
	{mutant{"no barrier before tiles are written", "kernels/ragged_order.cuh",
		"starts[entries] = before + tiles;\n    barrier();", "starts[entries] = before + tiles;"}, thread},
	{mutant{"no barrier before items of many are written", "kernels/ragged_order.cuh",
		"starts[entries] = sum;\n    barrier();", "starts[entries] = sum;"}, thread},
	{mutant{"no barrier after the counts of many", "kernels/ragged_order.cuh",
		"(same.all);\n      }\n    }\n    barrier();", "(same.all);\n      }\n    }"}, thread},
}

// rowPanelMutants are mistakes in the panels of kernels of CUDA.
var rowPanelMutants = []mutant{
	{"panels of half the rows", "kernels/ragged.cuh", "most = kPanelRows >> k.tm",
		"most = kPanelRows / 2 >> k.tm"},
	{"no panels", "kernels/ragged.cuh", "if (all > most) {", "if (false) {"},
	{"a panel of rows begins in the one before", "kernels/ragged.cuh", "number / (most * across) * most",
		"number / (most * across)"},
	{"the last panel is whole", "kernels/ragged.cuh", "rows = min(most, all - first)", "rows = most"},
	{"tiles are counted from the first panel", "kernels/ragged.cuh", "    number -= first * across;\n", ""},
	{"all panels have the first rows", "kernels/ragged.cuh", "{first + number - col * rows",
		"{number - col * rows"},
}

func TestRowPanelMutants(t *testing.T) {
	compiled(t)
	jobs := panelGroups(t)
	for _, m := range rowPanelMutants {
		requireFound(t, m, func(t *testing.T) error { return runRagged(t, m, asCUDA, jobs) })
	}
}

func TestRaggedMutants(t *testing.T) {
	compiled(t)
	most := uint16(planner.MaxGroups + 1)
	small, large := manyGroups(t, 33, 256), manyGroups(t, 33, most)
	jobs := map[string][]*raggedJob{
		plain.name: slices.Concat(fewGroups(t, 256), wrongEnds(t, 256), epilogueGroups(t, 256),
			blockGroups(t, 256), large),
		address.name: small,
		// Groups of depth and records. These jobs have an order, and some have a refused group.
		thread.name: slices.Concat(small[2:], large[2:], []*raggedJob{choosesAgain(t, fewGroups(t, 256)),
			choosesAgain(t, fewGroups(t, most))}),
	}
	testMutants(t, raggedMutants, func(t *testing.T, m mutant,
		in sanitizer) error {
		return runRagged(t, m, in, jobs[in.name])
	}, plain)
}

// choosesAgain finds a job in which all groups take the second kernel, because there are few tiles.
func choosesAgain(t *testing.T, jobs []*raggedJob) *raggedJob {
	t.Helper()
	i := slices.IndexFunc(jobs, func(j *raggedJob) bool {
		return j.before[encoding.BoundKernels] == 2 && j.before[encoding.BoundFill] == alwaysFew
	})
	require.GreaterOrEqual(t, i, 0, "no job has few tiles for two kernels")
	return jobs[i]
}
