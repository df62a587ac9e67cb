// Package dltest tests package dl for a backend, as internal/drivertest tests the rules of all backends. Run
// uses a fake of the vendor's library, which runs on the CPU and fails on demand. Signals, TwoProcesses,
// IllegalAddress and RandomProblems need real GPUs. Benchmark works with both.
package dltest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/dispatch/driver"
	"github.com/batchgemm/batchgemm/internal/backend"
	"github.com/batchgemm/batchgemm/internal/dl"
	"github.com/batchgemm/batchgemm/internal/drivertest"
)

// Fake is a vendor with a library built from fake.h.
type Fake struct {
	Driver driver.Driver
	vendor dl.Vendor
	facts  dl.Facts         // of the first GPU
	images map[string]image // by name
}

// image is a result of dl.GPU.Image. Unpacking one takes 20 ms, too long for tests that open a thousand
// devices.
type image struct {
	code []byte
	err  error
}

// New returns the vendor with the library at path. The test fails if the library is used in a way that a
// real one need not survive.
func New(t testing.TB, v dl.Vendor, path string) *Fake {
	t.Helper()
	f := &Fake{vendor: v, images: map[string]image{}}
	f.vendor.Libraries = []string{path}
	f.vendor.Describe = func(facts dl.Facts) (*dl.GPU, error) {
		if f.facts == nil {
			f.facts = facts
		}
		gpu, err := v.Describe(facts)
		if err == nil {
			gpu.Image = f.remember(gpu)
		}
		return gpu, err
	}
	f.Driver = dl.Driver(&f.vendor)
	_, err := f.Driver.Devices(t.Context())
	require.NoError(t, err)
	f.behaves(t)
	return f
}

func (f *Fake) remember(gpu *dl.GPU) func(string) ([]byte, error) {
	load := gpu.Image
	return func(name string) ([]byte, error) {
		made, found := f.images[name]
		if !found {
			made.code, made.err = load(name)
			f.images[name] = made
		}
		return made.code, made.err
	}
}

// open opens the first device and closes it when the test ends.
func (f *Fake) open(t *testing.T) backend.Wrapper {
	t.Helper()
	return drivertest.Open(t, f.Driver).(backend.Wrapper)
}

// counter is an object or an event that the fake counts, in fake.h's order.
type counter int

const (
	allocations counter = iota
	pinned
	contexts
	modules
	streams
	events
	graphs
	launches
	earlyLaunches // launches that may begin while the previous one ends (PDL)
	graphLaunches
	copies
	injected // failures
	misuses  // uses that a real library need not survive
)

// The fake's own attributes of a device.
const (
	countersFrom = 10000 // and the counter
	newestLow    = 20000 // address of the newest allocation
	newestHigh   = 20001
	isCurrent    = 20002 // what is current in this thread
	takeNothing  = 20003 // reading these two changes it
	takeAnother  = 20004
)

// What a thread has made current, in fake.h's order.
const (
	nothing = iota
	theDevice
	another
)

// count returns a counter.
func (f *Fake) count(t testing.TB, c counter) int { return f.attribute(t, countersFrom+int(c)) }

// newest returns the address of the newest allocation.
func (f *Fake) newest(t testing.TB) uintptr {
	low, high := uint32(f.attribute(t, newestLow)), uint32(f.attribute(t, newestHigh))
	return uintptr(uint64(high)<<32 | uint64(low))
}

func (f *Fake) attribute(t testing.TB, number int) int {
	t.Helper()
	n, err := f.facts.Attribute(number)
	require.NoError(t, err)
	return n
}

// behaves fails the test if, from now until it ends, the library is used in a way that a real one need not
// survive.
func (f *Fake) behaves(t testing.TB) {
	before := f.count(t, misuses)
	t.Cleanup(func() { require.Equal(t, before, f.count(t, misuses), "stderr tells more") })
}

// has reports whether the vendor fills an entry of package dl.
func (f *Fake) has(entry string) bool { return f.symbol(entry) != "" }

func (f *Fake) symbol(entry string) string {
	i := slices.IndexFunc(f.vendor.Symbols, func(s dl.Symbol) bool { return s.Entry == entry })
	if i < 0 {
		return ""
	}
	return f.vendor.Symbols[i].Name
}

// Fail makes calls of an entry fail with a result until the test ends, after `after` calls that succeed.
func (f *Fake) Fail(t *testing.T, entry string, result, after int) {
	t.Helper()
	require.True(t, f.has(entry), entry)
	t.Setenv("FAKE_FAIL", fmt.Sprintf("%s=%d:%d", f.symbol(entry), result, after))
}

// failOnce makes one call of an entry fail, after `after` calls that succeed.
func (f *Fake) failOnce(t *testing.T, entry string, result, after int) {
	t.Helper()
	t.Setenv("FAKE_FAIL", fmt.Sprintf("%s=%d:%d:1", f.symbol(entry), result, after))
}

// failAll makes every call of the library fail, after `after` calls that succeed.
func (f *Fake) failAll(t *testing.T, result, after int) {
	t.Helper()
	t.Setenv("FAKE_FAIL", fmt.Sprintf("*=%d:%d", result, after))
}

// succeed ends the failures of the functions above.
func (f *Fake) succeed(t *testing.T) { t.Setenv("FAKE_FAIL", "") }
