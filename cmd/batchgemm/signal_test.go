package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/atomicfile"
)

func TestInterrupted(t *testing.T) {
	t.Setenv("BATCHGEMM_BACKEND", "cpu")
	for _, command := range []string{"run", "verify"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(interruption{syscall.SIGTERM})
		var out, errs bytes.Buffer
		code := execute(ctx, []string{command, "inception-1"}, nil, &out, &errs)
		require.Empty(t, out.String())
		require.Equal(t, "batchgemm: interrupted\n", errs.String())
		require.Equal(t, 143, code)
	}
}

// TestAwait: the first signal cancels a command; later, or at the second signal, it is abandoned.
func TestAwait(t *testing.T) {
	const never = time.Hour
	for _, tc := range []struct {
		name    string
		grace   time.Duration
		signals []os.Signal
		ends    bool // it ends when it is cancelled
		code    int
	}{
		{"ends in order", never, []os.Signal{os.Interrupt}, true, 7},
		{"does not end", time.Millisecond, []os.Signal{syscall.SIGTERM}, false, 143},
		{"second signal", never, []os.Signal{syscall.SIGTERM, os.Interrupt}, false, 130},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			f, err := atomicfile.Create(filepath.Join(dir, "out"))
			require.NoError(t, err)
			defer f.Close()
			ctx, cancel := context.WithCancelCause(t.Context())
			done, signals := make(chan int, 1), make(chan os.Signal, len(tc.signals))
			for _, s := range tc.signals {
				signals <- s
			}
			if tc.ends {
				context.AfterFunc(ctx, func() { done <- tc.code })
			}
			require.Equal(t, tc.code, await(done, signals, cancel, tc.grace))
			require.Error(t, ctx.Err())
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Equal(t, tc.ends, len(left) == 1, "a command that is given up leaves nothing behind")
		})
	}
	done := make(chan int, 1)
	done <- exitUsage
	require.Equal(t, exitUsage, await(done, nil, nil, never))
}
