package native

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/drivertest"
	"github.com/batchgemm/batchgemm/internal/encoding"
	"github.com/batchgemm/batchgemm/internal/sample"
	"github.com/batchgemm/batchgemm/planner/element"
)

func (f *jobFile) layerJob(j *drivertest.LayerJob, order int) {
	l := j.Plan.Launches[0]
	shape, number, epilogue := j.Plan.Layer.Parameters(&l)
	if l.Layer == encoding.LayerGate || l.Layer == encoding.LayerGateBackward {
		shape, number = number, epilogue>>32
	}
	index := slices.Clone(j.Index)
	for len(index)%4 != 0 { // kernels read vectors
		index = append(index, 0)
	}
	head := j.Plan.Encode(nil)
	f.put(uint32(order), uint32(32), uint32(0), uint32(1), uint32(len(index)+len(head)), uint32(len(j.A)),
		uint32(len(j.B)), uint32(len(j.Before)), uint32(0), [2]uint32{}, uint32(len(j.Rows)))
	var name [40]byte
	copy(name[:len(name)-1], sm90a.KernelName(l.Kernel))
	threads, _ := Geometry(l.Kernel)
	f.put(name, uint32(l.Count), uint32(1), uint32(threads), uint32(0), uint32(len(index)), uint32(j.Sizes),
		uint32(0), uint32(shape>>32), uint32(shape),
		uint32(0), uint32(number), uint32(j.Extent))
	f.put(index, head, j.A, j.B, j.Before, j.Rows)
}

// runLayer runs steps of layers of experts and compares all of C.
func (e emulator) runLayer(dir string, jobs []drivertest.LayerJob) error {
	results, err := e.results(dir, func(in *jobFile) {
		in.put(uint32(len(jobs)))
		for i := range jobs {
			in.layerJob(&jobs[i], i%3)
		}
	})
	if err != nil {
		return err
	}
	for _, j := range jobs {
		got := make([]float32, len(j.Want))
		n, err := binary.Decode(results, binary.NativeEndian, got)
		if err != nil {
			return err
		}
		results = results[n:]
		if err := j.Check(got); err != nil {
			return fmt.Errorf("%s of %+v: %w", j.Plan.Launches[0].Kernel, j.Plan.Layer, err)
		}
	}
	return nil
}

// testLayer runs the steps of layers with a mistake, those of at most so many choices.
func testLayer(t *testing.T, m mutant, s sanitizer, most int) error {
	t.Helper()
	e, source := buildMutant(t, m, s, map[string]string{"lists/hip.inc": "", "lists/ragged.inc": ""})
	types := []element.Type{element.F32, element.BF16, element.F16}
	jobs := drivertest.LayerJobs(t, device(t, "mi210"), types)
	jobs = slices.DeleteFunc(jobs, func(j drivertest.LayerJob) bool { return j.Plan.Layer.Choices() > most })
	if m == (mutant{}) {
		jobs = sample.Jobs(t, sample.Kernels, jobs)
	}
	return e.runLayer(source, jobs)
}

// TestLayerEmulated runs the steps of a layer of experts in orders of their threads.
func TestLayerEmulated(t *testing.T) {
	compiled(t)
	require.NoError(t, testLayer(t, mutant{}, plain, math.MaxInt))
}

// TestLayerInBounds runs them with AddressSanitizer.
func TestLayerInBounds(t *testing.T) {
	compiled(t)
	require.NoError(t, testLayer(t, mutant{}, address, 5000))
}

// TestLayerWithoutRaces runs them with ThreadSanitizer.
func TestLayerWithoutRaces(t *testing.T) {
	compiled(t)
	require.NoError(t, testLayer(t, mutant{}, thread, 5000))
}

// layerMutants are mistakes that must be found.
var layerMutants = []inSanitizer{
	{mutant{"a number that is none counts", "kernels/routing.cuh", "const bool counts = e < choices.experts;",
		"const bool counts = e <= choices.experts;"}, plain},
	{mutant{"64 bits are 32", "kernels/routing.cuh", "return high == 0 ? low : ~0u;", "return low;"}, plain},
	{mutant{"the last vector is whole", "kernels/routing.cuh", "i >= n || e", "i >= n + 3 || e"}, plain},
	{mutant{"choices before the group's are none", "kernels/routing.cuh", "i < first ? ", "i < 0 ? "}, plain},
	{mutant{"the extent is not the tokens", "kernels/routing.cuh",
		"tokens(extent != 0 ? static_cast<uint32_t>(extent) : static_cast<uint32_t>(shape))",
		"tokens(static_cast<uint32_t>(shape))"}, plain},
	{mutant{"lists are as long as the run", "kernels/routing.cuh", "all = choices.bound * choices.topK",
		"all = choices.count()"}, plain},
	{mutant{"rounds do not follow each other", "kernels/routing.cuh", "own.starts[e] += left;\n",
		"if (left == 0) own.starts[e] += left;\n"}, plain},
	{mutant{"cells are left from the round before", "kernels/routing.cuh",
		"i < words; i += kRouteThreads) own.rest", "i < words / 2; i += kRouteThreads) own.rest"}, plain},
	{mutant{"a row of the last token is read beyond it", "kernels/routing.cuh", "if (c < n) to[c] = from[c];",
		"to[c] = from[c];"}, address},
	{mutant{"a sum is written beyond its row", "kernels/routing.cuh",
		"if (c < n) to[c] = Element::bits(sum[c]);", "to[c] = Element::bits(sum[c]);"}, plain},
	{mutant{"tokens that are not there have sums", "kernels/routing.cuh",
		"if (token >= choices.tokens) return;", "if (token >= choices.bound) return;"}, plain},
	{mutant{"no barrier after counts are 0", "kernels/routing.cuh",
		"own.starts[e] = own.rest[e] = 0;\n    barrier();", "own.starts[e] = own.rest[e] = 0;"}, thread},
	{mutant{"no barrier after counts", "kernels/routing.cuh", "count(first * per);\n    barrier();",
		"count(first * per);"}, thread},
	{mutant{"no barrier after a round's cells", "kernels/routing.cuh",
		"static_cast<uint16_t>(same.all);\n    barrier();", "static_cast<uint16_t>(same.all);"}, thread},
	{mutant{"no barrier before rows are placed", "kernels/routing.cuh",
		"left -= here;\n      }\n    }\n    barrier();", "left -= here;\n      }\n    }"}, thread},
	{mutant{"no barrier after a round", "kernels/routing.cuh",
		"if (r + 1 < end) mine = load((r + 1) * per);\n      barrier();",
		"if (r + 1 < end) mine = load((r + 1) * per);"}, thread},
}

func TestLayerMutants(t *testing.T) {
	compiled(t)
	testMutants(t, layerMutants, func(t *testing.T, m mutant, in sanitizer) error {
		return testLayer(t, m, in, 5000)
	}, plain)
}
