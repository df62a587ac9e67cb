package main

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestShowMicros(t *testing.T) {
	for us, want := range map[float64]string{0: "0us", 1.234: "1.23us", 999: "999us", 1234: "1.23ms",
		56_789: "56.8ms", 2_500_000: "2.5s"} {
		require.Equal(t, want, showMicros(us))
	}
}

// screen is a terminal for tests.
type screen struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(b)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

func TestProgress(t *testing.T) {
	var s screen
	p := startProgress(&s, 3, time.Hour)
	p.next("first")
	p.next("second")
	require.Empty(t, s.String(), "before the delay")
	p.show()
	require.Contains(t, s.String(), "second")
	require.Contains(t, s.String(), "1/3")
	p.next("third")
	require.Contains(t, s.String(), "third")
	p.stop()
	p.stop()
	shown := s.String()
	p.show() // the timer may fire at the same time as stop
	require.Equal(t, shown, s.String())
}

func TestNoProgressInPipe(t *testing.T) {
	cmd := newRun()
	cmd.SetErr(io.Discard)
	p := newProgress(cmd, 1)
	require.Nil(t, p.w)
	p.next("first")
	p.stop()
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestOutputFails(t *testing.T) {
	for _, args := range [][]string{{"devices"}, {"devices", "--json"}, {"plan", "inception-1", "--device",
		"mi210"}, {"plan", "inception-1", "--device", "mi210", "--json"}} {
		var errs bytes.Buffer
		require.Equal(t, exitFailure, execute(t.Context(), args, nil, fullDisk{}, &errs))
		require.Equal(t, "batchgemm: disk full\n", errs.String())
	}
}
