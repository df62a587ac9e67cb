package native

import "testing"

// gateMutants are mistakes in gates that must be found.
var gateMutants = []inSanitizer{
	{mutant{"rows after the last end have a result", "kernels/gate.cuh", "if (row() >= rows()) return;",
		"if (row() >= choices.count()) return;"}, plain},
	{mutant{"the last end may be beyond the rows", "kernels/gate.cuh",
		"min(p.sizes[choices.experts - 1], choices.count())", "p.sizes[choices.experts - 1]"}, address},
	{mutant{"relu has a slope at 0", "kernels/gate.cuh", "v <= 0.0f ? 0.0f : 1.0f",
		"v < 0.0f ? 0.0f : 1.0f"}, plain},
	{mutant{"a choice that is none has a gradient", "kernels/gate.cuh",
		"if (slot < n) gradients[slot] = sum;", "gradients[slot] = sum;"}, address},
	{mutant{"choices that do not count have none", "kernels/gate.cuh", ">= choices.experts) gradients[r] = 0",
		"> choices.experts) gradients[r] = 0"}, plain},
	{mutant{"the second vector of a piece is whole", "kernels/gate.cuh", "max(2 * n, kPer) - kPer", "kPer"},
		address},
	{mutant{"a team of 64 sums as one of 32", "kernels/gate.cuh", "half = 1u << log >> 1",
		"half = 16"}, plain},
	{mutant{"no barrier between sums", "kernels/gate.cuh", "shared[threadId() + half];\n      barrier();",
		"shared[threadId() + half];"}, thread},
}

func TestGateMutants(t *testing.T) {
	compiled(t)
	testMutants(t, gateMutants, func(t *testing.T, m mutant, in sanitizer) error {
		return testLayer(t, m, in, 5000)
	}, plain)
}
