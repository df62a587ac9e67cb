package native

import "testing"

// gateMutants are mistakes in gates that must be found.
var gateMutants = []inSanitizer{
	{mutant{"rows after the last end have a result", "kernels/gate.cuh", "if (row() >= rows()) return;",
		"if (row() >= choices.count()) return;"}, plain},
	{mutant{"the last end may be beyond the rows", "kernels/gate.cuh",
		"min(p.sizes[choices.experts - 1], choices.count())", "p.sizes[choices.experts - 1]"}, address},
	{mutant{"relu has a slope at 0", "kernels/activation.cuh", "v <= 0.0f ? 0.0f : 1.0f",
		"v < 0.0f ? 0.0f : 1.0f"}, plain},
	{mutant{"a choice that is none has a gradient", "kernels/gate.cuh",
		"if (slot < n) gradients[slot] = sum;", "gradients[slot] = sum;"}, address},
	{mutant{"choices that do not count have none", "kernels/gate.cuh", ">= choices.experts) gradients[r] = 0",
		"> choices.experts) gradients[r] = 0"}, plain},
	{mutant{"the second vector of a piece is whole", "kernels/gate.cuh", "max(2 * n, kPer) - kPer", "kPer"},
		address},
	{mutant{"a team sums half of its numbers", "kernels/gate.cuh", "half = 1u << log >> 1",
		"half = 1u << log >> 2"}, plain},
	{mutant{"a team of 64 sums as one of 32", "kernels/gate.cuh", "half = 1u << log >> 1",
		"half = 16"}, plain},
	{mutant{"clamped numbers have a slope", "kernels/activation.cuh", "none || beyond ? 0.0f", "none ? 0.0f"},
		plain},
	{mutant{"up is not clamped below", "kernels/activation.cuh", "if (v < -clamp.limit)",
		"if (v < -2.0f * clamp.limit)"}, plain},
	{mutant{"the slope of a square is that of relu", "kernels/activation.cuh", "v <= 0.0f ? 0.0f : 2.0f * v",
		"v <= 0.0f ? 0.0f : 1.0f"}, plain},
	{mutant{"erf of negative numbers is positive", "kernels/activation.cuh", "v < 0.0f ? tail : 1.0f - tail",
		"1.0f - tail"}, plain},
	{mutant{"a team has the largest number of its first threads", "kernels/quantize.cuh",
		"t < first + (1u << log); t += 32", "t < first + 32; t += 32"}, plain},
	{mutant{"bytes of what is not finite", "kernels/quantize.cuh", "by.finite ? four : 0", "four"}, plain},
	{mutant{"rows after the last end have scales", "kernels/quantize.cuh", "if (r < rows() && lane() == 0)",
		"if (lane() == 0)"}, plain},
	{mutant{"the least number is 0", "kernels/quantize.cuh", "max(largest, kQuantizedLeast)", "largest"},
		plain},
	{mutant{"no ties to even", "kernels/quantize.cuh", "0x7ffff + (size >> 20 & 1)", "0x80000"}, plain},
	{mutant{"a row ends at a whole piece", "kernels/quantize.cuh", "if (i < hidden - col) to[i]", "to[i]"},
		address},
	{mutant{"no barrier before the largest of a team", "kernels/quantize.cuh",
		"each[threadId() / 32] = x;\n    barrier();", "each[threadId() / 32] = x;"}, thread},
	{mutant{"no barrier between sums", "kernels/gate.cuh", "shared[threadId() + half];\n      barrier();",
		"shared[threadId() + half];"}, thread},
}

func TestGateMutants(t *testing.T) {
	compiled(t)
	testMutants(t, gateMutants, func(t *testing.T, m mutant, in sanitizer) error {
		return testLayer(t, m, in, 5000)
	}, plain)
}
