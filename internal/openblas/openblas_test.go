//go:build cgo && linux

package openblas

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/internal/reference"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// fake builds testdata/fake.c.
func fake(t *testing.T, flags ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "fake.so")
	out, err := exec.Command("cc", append(flags, "-shared", "-fPIC", "-O1", "-o", path,
		"testdata/fake.c")...).CombinedOutput()
	require.NoError(t, err, string(out))
	return path
}

// each runs a test with fakes, and with the real libraries if they are there.
func each(t *testing.T, test func(*testing.T, *Library)) {
	for name, k := range kinds {
		t.Run(name+"/fake", func(t *testing.T) {
			flags := []string{"-Dopenblas_get_num_threads=" + k.threads,
				"-Dopenblas_set_num_threads=" + k.setThreads}
			if k.config != "" {
				flags = append(flags, "-Dopenblas_get_config="+k.config)
			}
			l, err := k.open([]string{fake(t, flags...)})
			require.NoError(t, err)
			test(t, l)
		})
		t.Run(name+"/real", func(t *testing.T) {
			l, err := Open(name)
			if errors.Is(err, hardware.ErrUnavailable) {
				t.Skip(err)
			}
			require.NoError(t, err)
			test(t, l)
		})
	}
}

func TestLoop(t *testing.T) {
	each(t, func(t *testing.T, l *Library) {
		problems := []planner.Problem{
			planner.GEMM(4, 6, 5),
			{M: 7, N: 5, K: 3, TransA: true, Alpha: planner.Scale(2), Beta: -1},
			{M: 3, N: 8, K: 9, TransB: true, Beta: 1},
			{M: 5, N: 2, K: 4, TransA: true, TransB: true},
			planner.GEMM(0, 3, 3),
			planner.GEMM(3, 0, 3),
			{M: 2, N: 3, K: 0, Beta: 2},
			planner.GEMM(2, 3, 0),
			{M: 6, N: 4, K: 5, Alpha: planner.Scale(0), Beta: 3},
			planner.GEMM(400, 300, 700), // a separate piece
			planner.GEMM(9, 9, 9),
		}
		batch, err := planner.Pack(problems...)
		require.NoError(t, err)
		batch[0].A.LD, batch[0].A.Offset = 11, batch[len(batch)-1].A.Offset+100
		need := batch.Lengths(planner.Epilogue{})
		rng := rand.New(rand.NewPCG(1, 0))
		a, b, c := make([]float32, need.A), make([]float32, need.B), make([]float32, need.C)
		for _, s := range [][]float32{a, b, c} {
			reference.Integers(rng, s, 9)
		}
		before := slices.Clone(c)
		for _, i := range []int{0, 7} { // beta = 0: C is not read
			for k := range batch[i].M * batch[i].N {
				c[batch[i].C.Offset+k] = float32(math.NaN())
			}
		}
		made := l.Batch(batch, element.F32)
		require.Len(t, made.pieces, 2)
		require.NoError(t, made.Loop(t.Context(), a, b, c))
		require.NoError(t, reference.CheckExact(batch, a, b, before, c))
		dealt := slices.Clone(before)
		require.Len(t, made.shares, 2)
		require.NoError(t, made.Deal(t.Context(), 3, a, b, dealt))
		require.Equal(t, c, dealt)

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		after := slices.Clone(c)
		require.ErrorIs(t, made.Loop(ctx, a, b, c), context.Canceled)
		require.ErrorIs(t, made.Deal(ctx, 3, a, b, c), context.Canceled)
		require.Equal(t, after, c)
		require.NoError(t, l.Batch(nil, 0).Loop(t.Context(), nil, nil, nil))
		require.NoError(t, l.Batch(nil, 0).Deal(t.Context(), 3, nil, nil, nil))
	})
}

// TestDoubles: products in fp64, whose numbers are two words each.
func TestDoubles(t *testing.T) {
	each(t, func(t *testing.T, l *Library) {
		batch, err := planner.Pack(planner.Problem{M: 2, N: 1, K: 2, Alpha: planner.Scale(0.1), Beta: 1})
		require.NoError(t, err)
		words := func(numbers ...float64) []float32 {
			return unsafe.Slice((*float32)(unsafe.Pointer(&numbers[0])), 2*len(numbers))
		}
		c := words(0, 1<<40)
		made := l.Batch(batch, element.F64)
		require.NoError(t, made.Loop(t.Context(), words(1, 2, 3, 4), words(10, 20), c))
		require.Equal(t, words(0.1*50, 1<<40+0.1*110), c)
	})
}

func TestThreads(t *testing.T) {
	each(t, func(t *testing.T, l *Library) {
		before := l.Threads()
		defer l.SetThreads(before)
		for _, n := range []int{1, 2, 7} {
			l.SetThreads(n)
			require.Equal(t, n, l.Threads())
			require.Regexp(t, fmt.Sprintf(`^%s\b.*, threads: %d$`, l.name, n), l.String())
		}
	})
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct{ name, path, reason string }{
		{"no library", dir + "/none.so", "none.so: cannot open shared object file"},
		{"lacks a function", fake(t, "-DNO_SET_NUM_THREADS"), "no symbol openblas_set_num_threads"},
		{"64-bit integers", fake(t, `-DINTEGERS="USE64BITINT "`), "its integers have 64 bits"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := kinds[OpenBLAS].open([]string{dir + "/first.so", tc.path})
			require.ErrorIs(t, err, hardware.ErrUnavailable)
			for _, part := range []string{"OpenBLAS: unavailable: install libopenblas0-pthread (Debian, " +
				"Ubuntu) or ", "first.so: ", tc.reason} {
				require.ErrorContains(t, err, part)
			}
		})
	}
}

// The first library that works is used. Its threads spin for a short time, unless the user has set it.
func TestOpen(t *testing.T) {
	const name, text = "OPENBLAS_THREAD_TIMEOUT", "OpenBLAS 0.3.21 MAX_THREADS=64 timeout %s, threads: 3"
	for _, tc := range []struct{ chosen, want string }{{"", "24"}, {"9", "9"}} {
		t.Setenv(name, tc.chosen)
		if tc.chosen == "" {
			require.NoError(t, os.Unsetenv(name))
		}
		l, err := kinds[OpenBLAS].open([]string{t.TempDir() + "/none.so", fake(t)})
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf(text, tc.want), l.String())
		require.Equal(t, tc.chosen, os.Getenv(name))
	}
}
