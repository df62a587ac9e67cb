//go:build cgo && !nocuda && linux && (amd64 || arm64)

package cublas

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// The tests use a library that computes on the host.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "cublas")
	if err == nil {
		var path string
		if path, err = fake(dir, "fake.so"); err == nil {
			cudaPaths, cublasPaths = []string{path}, []string{path}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// fake builds testdata/fake.c.
func fake(dir, name string, flags ...string) (path string, err error) {
	path = filepath.Join(dir, name)
	out, err := exec.Command("gcc", append(flags, "-shared", "-fPIC", "-O1", "-o", path,
		"testdata/fake.c")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("gcc: %w: %s", err, out)
	}
	return path, nil
}

func TestBatch(t *testing.T) {
	scaled := planner.Problem{M: 7, N: 5, K: 3, TransA: true, Alpha: planner.Scale(2), Beta: -1}
	batch, err := planner.Pack(
		planner.GEMM(4, 6, 5),
		scaled,
		planner.Problem{M: 3, N: 8, K: 9, TransB: true, Beta: 1},
		planner.Problem{M: 5, N: 2, K: 4, TransA: true, TransB: true},
		planner.GEMM(0, 3, 3),
		planner.Problem{M: 2, N: 3, K: 0, Beta: 2},
	)
	require.NoError(t, err)
	need := batch.Lengths(planner.Epilogue{})
	rng := rand.New(rand.NewPCG(1, 0))
	data := [3][]float32{make([]float32, need.A), make([]float32, need.B), make([]float32, need.C)}
	for _, s := range data {
		reference.Integers(rng, s, 9)
	}
	before := slices.Clone(data[2])
	var pin runtime.Pinner
	defer pin.Unpin()
	var at [3]uintptr // the device is the host
	for i, s := range data {
		pin.Pin(&s[0])
		at[i] = uintptr(unsafe.Pointer(&s[0]))
	}

	stream, err := Open(0)
	require.NoError(t, err)
	handle, err := stream.CuBLAS()
	require.NoError(t, err)
	require.True(t, handle.HasGrouped())
	require.Equal(t, "cuBLAS 12.5.1, CUBLAS_DEFAULT_MATH (fp32)", handle.String())
	made, err := handle.Batch(batch, element.F32, at[0], at[1], at[2])
	require.NoError(t, err)
	for name, run := range map[string]func() error{"loop": made.Loop, "grouped": made.Grouped} {
		copy(data[2], before)
		require.NoError(t, run(), name)
		require.NoError(t, reference.CheckExact(batch, data[0], data[1], before, data[2]), name)
	}
	require.NoError(t, made.Close())
	require.NoError(t, made.Close())
	require.NoError(t, handle.Close())
	require.NoError(t, stream.Close())
	require.NoError(t, stream.Close())
}

// TestDoubles: products in fp64.
func TestDoubles(t *testing.T) {
	batch, err := planner.Pack(planner.Problem{M: 2, N: 1, K: 2, Alpha: planner.Scale(0.1), Beta: 1},
		planner.Problem{M: 1, N: 1, K: 3, TransA: true})
	require.NoError(t, err)
	need := batch.Lengths(planner.Epilogue{})
	rng := rand.New(rand.NewPCG(3, 0))
	var numbers [3][]float64
	var pin runtime.Pinner
	defer pin.Unpin()
	var at [3]uintptr
	for i, n := range [3]int{need.A, need.B, need.C} {
		numbers[i] = make([]float64, n)
		for j := range numbers[i] {
			numbers[i][j] = rng.Float64()
		}
		pin.Pin(&numbers[i][0])
		at[i] = uintptr(unsafe.Pointer(&numbers[i][0]))
	}
	x := reference.Doubles{A: numbers[0], B: numbers[1], C: slices.Clone(numbers[2])}
	stream, err := Open(0)
	require.NoError(t, err)
	handle, err := stream.CuBLAS()
	require.NoError(t, err)
	made, err := handle.Batch(batch, element.F64, at[0], at[1], at[2])
	require.NoError(t, err)
	require.NoError(t, made.Grouped())
	_, err = reference.CheckF64(batch, planner.Epilogue{}, x, numbers[2])
	require.NoError(t, err)
	require.NoError(t, made.Close())
	require.NoError(t, handle.Close())
	require.NoError(t, stream.Close())
}

// TestHalves is TestBatch for elements of 16 bits.
func TestHalves(t *testing.T) {
	for _, of := range []element.Type{element.BF16, element.F16} {
		batch, err := planner.Pack(planner.GEMM(4, 6, 5),
			planner.Problem{M: 7, N: 5, K: 3, TransB: true, Beta: 1})
		require.NoError(t, err)
		need := batch.Lengths(planner.Epilogue{})
		rng := rand.New(rand.NewPCG(2, 0))
		data, bits := [3][]float32{make([]float32, need.A), make([]float32, need.B),
			make([]float32, need.C)}, [3][]uint16{}
		var pin runtime.Pinner
		var at [3]uintptr
		for i, s := range data {
			reference.Integers(rng, s, 9)
			bits[i] = make([]uint16, len(s))
			element.Narrow(of, bits[i], s)
			pin.Pin(&bits[i][0])
			at[i] = uintptr(unsafe.Pointer(&bits[i][0]))
		}
		stream, err := Open(0)
		require.NoError(t, err)
		handle, err := stream.CuBLAS()
		require.NoError(t, err)
		made, err := handle.Batch(batch, of, at[0], at[1], at[2])
		require.NoError(t, err)
		require.NoError(t, made.Grouped())
		after := make([]float32, need.C)
		element.Widen(of, after, bits[2])
		require.NoError(t, reference.CheckRounded(of, batch, data[0], data[1], data[2], after))
		require.NoError(t, made.Close())
		require.NoError(t, handle.Close())
		require.NoError(t, stream.Close())
		pin.Unpin()
	}
}

func TestTime(t *testing.T) {
	stream, err := Open(0)
	require.NoError(t, err)
	defer stream.Close()
	var calls []int
	work := func(i int) error {
		calls = append(calls, i)
		return nil
	}
	device, host, err := stream.Time(4, work)
	require.NoError(t, err)
	require.Equal(t, 250*time.Microsecond, device)
	require.GreaterOrEqual(t, host, time.Duration(0))
	require.Equal(t, []int{3, 0, 1, 2, 3}, calls)

	calls = nil
	graph, err := stream.Capture(5, work)
	require.NoError(t, err)
	require.Equal(t, []int{0, 1, 2, 3, 4}, calls)
	device, err = graph.Time()
	require.NoError(t, err)
	require.Equal(t, 200*time.Microsecond, device)
	require.NoError(t, graph.Close())
	require.NoError(t, graph.Close())

	broken := errors.New("broken")
	fail := func(int) error { return broken }
	_, _, err = stream.Time(1, fail)
	require.ErrorIs(t, err, broken)
	_, err = stream.Capture(1, fail)
	require.ErrorIs(t, err, broken)
	_, _, err = stream.Time(1, work)
	require.NoError(t, err, "the capture was ended")
}

func TestOpenErrors(t *testing.T) {
	_, err := Open(1)
	require.EqualError(t, err, "open CUDA device 1: CUDA_ERROR_INVALID_DEVICE")
}

func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	_, err := openCuBLAS([]string{dir + "/a.so", dir + "/b.so"})
	require.ErrorIs(t, err, hardware.ErrUnavailable)
	for _, part := range []string{"cuBLAS: unavailable: tried ", dir + "/a.so: ", "; " + dir + "/b.so: "} {
		require.ErrorContains(t, err, part)
	}
	incomplete, err := fake(dir, "incomplete.so", "-DNO_SGEMM")
	require.NoError(t, err)
	_, err = openCuBLAS([]string{incomplete})
	require.ErrorIs(t, err, hardware.ErrUnavailable)
	require.ErrorContains(t, err, "no symbol cublasSgemm_v2")
}

// TestOldLibrary: a cuBLAS without the grouped call still has the loop.
func TestOldLibrary(t *testing.T) {
	path, err := fake(t.TempDir(), "old.so", "-DNO_GROUPED")
	require.NoError(t, err)
	api, err := openCuBLAS([]string{path})
	require.NoError(t, err)
	require.False(t, (&Handle{api: api}).HasGrouped())
}
