package dltest

import (
	"testing"

	"github.com/batchgemm/batchgemm/planner"
)

// Run tests everything in package dl that can be tested without a GPU.
func Run(t *testing.T, f *Fake) {
	for _, test := range []struct {
		name string
		run  func(*Fake, *testing.T)
	}{
		{"nothing leaks", (*Fake).testNothingLeaks},
		{"every call fails", (*Fake).testEveryCallFails},
		{"every call is lost", (*Fake).testEveryCallIsLost},
		{"kernel too large", (*Fake).testKernelTooLarge},
		{"grids", (*Fake).testGrids},
		{"lost", (*Fake).testLost},
		{"lost while reading", (*Fake).testLostWhileReading},
		{"landings", (*Fake).testLandings},
		{"plain error", (*Fake).testPlainError},
		{"alloc", (*Fake).testAlloc},
		{"wait ends", (*Fake).testWaitEnds},
		{"early launches", (*Fake).testEarlyLaunches},
		{"graphs", (*Fake).testGraphs},
		{"graphs of updates", (*Fake).testGraphsOfUpdates},
		{"graph fails", (*Fake).testGraphFails},
		{"graphs of a large submission", (*Fake).testGraphsOfLargeSubmission},
		{"graphs of a failed submission", (*Fake).testGraphsOfFailedSubmission},
		{"graphs are bounded", (*Fake).testGraphsAreBounded},
		{"close after graphs", (*Fake).testCloseAfterGraphs},
		{"no graphs", (*Fake).testNoGraphs},
		{"items of two", (*Fake).testItemsOfTwo},
		{"repeated runs", (*Fake).testRepeatedRuns},
		{"repeated runs are bounded", (*Fake).testRepeatedRunsAreBounded},
		{"steady state allocates nothing", (*Fake).testSteadyState},
		{"items are made once", (*Fake).testItemsAreMadeOnce},
		{"long transfer", (*Fake).testLongTransfer},
		{"staging memory", (*Fake).testStagingMemory},
		{"foreign stream and memory", (*Fake).testForeign},
		{"stream of another GPU", (*Fake).testForeignStream},
		{"wrap mistakes", (*Fake).testWrapMistakes},
		{"identity", (*Fake).testIdentity},
	} {
		t.Run(test.name, func(t *testing.T) {
			f.behaves(t)
			test.run(f, t)
		})
	}
}

// split is a plan with a workspace.
var split = planner.Options{Tile: "small", Schedule: planner.ScheduleSplitK}
