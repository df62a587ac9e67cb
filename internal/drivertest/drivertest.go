// Package drivertest is the conformance suite of backends, as testing/fstest is
// for file systems. The test of a backend is one line:
//
//	func TestConformance(t *testing.T) { drivertest.Run(t, webgpu.Driver()) }
//
// An unavailable backend skips, unless it is in the environment variable BATCHGEMM_REQUIRE, a list of
// backend names separated by commas.
//
// The suite calls a driver like package dispatch, within the rules of package driver: it passes no range
// beyond a buffer and only positive sizes, closes nothing twice, calls no closed object, and closes no
// device while other calls use it. It tests errors only with errors.Is.
package drivertest

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/planner/element"
)

// RequireEnv is the environment variable that lists backends that must not skip.
const RequireEnv = "BATCHGEMM_REQUIRE"

// Option tells the suite what a backend does not guarantee.
type Option func(*suite)

// FiniteOnly leaves out the propagation of NaN and Inf through products, for the given reason. NaN in
// padding, and in C with beta = 0, is still tested.
func FiniteOnly(reason string) Option {
	return func(s *suite) { s.finiteOnly = reason }
}

// OneTile leaves out all tile shapes but the first in tests of single shapes, for the given reason, for
// example because another backend's tests run the same text with all shapes.
func OneTile(reason string) Option {
	return func(s *suite) { s.oneTile = reason }
}

// OneType leaves out all types of elements but F32 and those given, for the given reason.
func OneType(reason string, but ...element.Type) Option {
	return func(s *suite) { s.oneType, s.but = reason, but }
}

// Parts leaves out all other parts of the suite. A part is a name such as "Types".
func Parts(names ...string) Option {
	return func(s *suite) { s.parts = names }
}

// suite runs the tests on one open device, so that every kernel is made once.
type suite struct {
	driver     driver.Driver
	device     driver.Device
	finiteOnly string
	oneTile    string
	oneType    string
	but        []element.Type // that oneType keeps
	parts      []string       // to run; none: all
	leave      bool           // do not close objects; Close of the device must

	of, ofC element.Type // of the elements of jobs
	borrows bool         // runs use SubmitOn
	step    int          // unit of the leading dimensions of jobs with an epilogue; 0: any
	lines   bool         // see alongK
	forced  string       // tile of groups of rows; "": the planner chooses
}

// Run tests the backend's first device.
func Run(t *testing.T, d driver.Driver, options ...Option) {
	s := &suite{driver: d, device: Open(t, d)}
	for _, o := range options {
		o(s)
	}
	for _, part := range []struct {
		name    string
		test    func(*testing.T)
		numbers bool // many cases that differ in sizes and types
	}{
		{"Tiles", s.testTiles, true}, {"NewTile", s.testNewTile, true}, {"Schedules", s.testSchedules, true},
		{"Custom", s.testCustom, true}, {"Mixed", s.testMixed, true}, {"Windows", s.testWindows, false},
		{"NonFinite", s.testNonFinite, true}, {"Subnormals", s.testSubnormals, false},
		{"Spreads", s.testSpreads, true}, {"Scalars", s.testScalars, true},
		{"Extremes", s.testExtremes, false}, {"Empty", s.testEmpty, false}, {"Reuse", s.testReuse, false},
		{"Types", s.testTypes, true}, {"Epilogues", s.testEpilogues, true}, {"Groups", s.testGroups, true},
		{"Blocks", s.testBlocks, true}, {"Zeros", s.testZeros, true}, {"Update", s.testUpdate, true},
		{"Ragged", s.testRagged, true}, {"Routing", s.testRouting, true}, {"Combine", s.testCombine, true},
		{"Gate", s.testGate, true}, {"Quantize", s.testQuantize, true}, {"Experts", s.testExperts, true},
		{"GatedExperts", s.testGatedExperts, true}, {"Chain", s.testChain, false},
		{"Following", s.testFollowing, false}, {"Queued", s.testQueued, false},
		{"Concurrent", s.testConcurrent, false}, {"Time", s.testTime, false},
		{"Buffers", s.testBuffers, false}, {"StartRead", s.testStartRead, false},
		{"StartReadOrder", s.testStartReadOrder, false}, {"Slices", s.testSlices, false},
		{"Copy", s.testCopy, false}, {"CopyOrder", s.testCopyOrder, false},
		{"Compile", s.testCompile, false}, {"CompileFails", s.testCompileFails, false},
		{"OutOfMemory", s.testOutOfMemory, false}, {"Cancelled", s.testCancelled, false},
		{"Foreign", s.testForeign, false}, {"Open", s.testOpen, false}, {"Close", s.testClose, false},
	} {
		if len(s.parts) > 0 && !slices.Contains(s.parts, part.name) {
			continue
		}
		t.Run(part.name, func(t *testing.T) {
			if text, _ := s.texts(); part.numbers && text != nil {
				text.Whole(t)
			}
			part.test(t)
		})
	}
}

// Open opens the backend's first device and closes it after the test. It skips the test if the backend is
// unavailable and not required.
func Open(t *testing.T, d driver.Driver) driver.Device {
	t.Helper()
	device, err := open(d)
	if errors.Is(err, hardware.ErrUnavailable) && !required(d.Name()) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, device.Close()) })
	return device
}

func open(d driver.Driver) (driver.Device, error) {
	ctx := context.Background()
	infos, err := d.Devices(ctx)
	if err != nil {
		return nil, err
	}
	if len(infos) == 0 {
		return nil, errors.New("neither a device nor an error from Devices")
	}
	return d.Open(ctx, 0)
}

func required(name string) bool {
	return slices.Contains(strings.Split(os.Getenv(RequireEnv), ","), name)
}
