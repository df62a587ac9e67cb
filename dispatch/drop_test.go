package dispatch

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/batchgemm/batchgemm/internal/fakedriver"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// logged collects what the package logs during a test.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSuffix(l.text.String(), "\n"), "\n")
}

// count returns the number of lines that contain a text.
func (l *logged) count(text string) (n int) {
	for _, line := range l.lines() {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func captureLog(t *testing.T) *logged {
	t.Helper()
	collect(t, nil) // objects that other tests dropped
	l := new(logged)
	SetLogger(slog.New(slog.NewTextHandler(l, nil)))
	t.Cleanup(func() { SetLogger(nil) })
	return l
}

// collect runs the garbage collector until done. A device is found one cycle after its buffers.
func collect(t *testing.T, done func() bool) {
	t.Helper()
	for range 4 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	if done == nil {
		return
	}
	require.Eventually(t, func() bool { runtime.GC(); return done() }, 10*time.Second, time.Millisecond)
}

// use runs a program on buffers, and drops all of them.
//
//go:noinline
func use(t *testing.T, d *Device) {
	p := program(t, d, small(t))
	require.NoError(t, p.Run(t.Context(), Operands{A: buffer(t, d, 4), B: buffer(t, d, 4),
		C: buffer(t, d, 4)}))
}

func TestDroppedObjectsAreClosed(t *testing.T) {
	d, f := openFake(t)
	log := captureLog(t)
	const rounds = 10
	for range rounds {
		use(t, d)
	}
	kept, closed := buffer(t, d, 5), buffer(t, d, 6)
	require.NoError(t, closed.Close())
	collect(t, func() bool { return f.Buffers.Load() == 1 && f.Programs.Load() == 0 })
	require.NoError(t, Write(t.Context(), kept, 0, make([]float32, 5)))
	require.Equal(t, 3*rounds,
		log.count(
			`level=WARN msg="dropped without Close; closed now" backend=fake device=fake0 object=buffer `+
				`size=4`))
	require.Equal(t, rounds, log.count("object=program size=1"))
	require.Len(t, log.lines(), 4*rounds, "what is in use or was closed is not logged")
	require.Zero(t, f.Closes.Load())
}

//go:noinline
func openAndUse(t *testing.T) *fakedriver.Device {
	f := fakedriver.New(t)
	d, err := Open(t.Context(), WithDriver(f))
	require.NoError(t, err)
	use(t, d)
	batch := small(t)
	require.NoError(t, gemmOf(t.Context(), d, batch, planner.Options{}, make([]float32, 4),
		make([]float32, 4), make([]float32, 4)))
	return f.Last()
}

func TestDroppedDeviceIsClosed(t *testing.T) {
	t.Setenv(backendEnv, "")
	log := captureLog(t)
	f := openAndUse(t)
	collect(t, func() bool { return f.Closes.Load() == 1 })
	require.Equal(t, 1, log.count("object=device"))
	lines := log.lines()
	require.Len(t, lines, 5)
	require.Contains(t, lines[4], "object=device", "the device comes last")
}

//go:noinline
func openAndKeep(t *testing.T) (*Buffer, *fakedriver.Device) {
	f := fakedriver.New(t)
	d, err := Open(t.Context(), WithDriver(f))
	require.NoError(t, err)
	return buffer(t, d, 1), f.Last()
}

// A device stays open while one of its buffers is reachable. Closing the device closes the buffer.
func TestBufferKeepsItsDevice(t *testing.T) {
	t.Setenv(backendEnv, "")
	log := captureLog(t)
	b, f := openAndKeep(t)
	collect(t, nil)
	require.Zero(t, f.Closes.Load())
	require.NoError(t, Write(t.Context(), b, 0, []float32{1}))
	require.NoError(t, b.device.Close())
	buffer, device := weak.Make(b), weak.Make(b.device)
	collect(t, func() bool { return buffer.Value() == nil && device.Value() == nil })
	collect(t, nil)
	require.EqualValues(t, 1, f.Closes.Load(), "what was closed is not closed again")
	require.Equal(t, []string{""}, log.lines())
}

// Objects that only a call holds are closed after the call.
func TestDroppedDuringCall(t *testing.T) {
	d, f := openFake(t)
	started, end := make(chan struct{}), make(chan struct{})
	f.OnSubmit = func() error {
		close(started)
		<-end
		return nil
	}
	failed := make(chan error)
	go func() {
		p := program(t, d, small(t))
		failed <- p.Run(context.Background(), Operands{A: buffer(t, d, 4), B: buffer(t, d, 4),
			C: buffer(t, d, 4)})
	}()
	<-started
	collect(t, nil)
	require.EqualValues(t, 3, f.Buffers.Load())
	require.EqualValues(t, 1, f.Programs.Load())
	close(end)
	require.NoError(t, <-failed)
	collect(t, func() bool { return f.Buffers.Load() == 0 && f.Programs.Load() == 0 })
}

// A device that closes slowly delays nothing else.
func TestDroppedDeviceThatHangs(t *testing.T) {
	t.Setenv(backendEnv, "")
	hung := openAndUse(t)
	end := make(chan struct{})
	hung.OnClose = func() { <-end }
	collect(t, func() bool { return hung.Closes.Load() == 1 })
	other := openAndUse(t)
	collect(t, func() bool { return other.Closes.Load() == 1 })
	close(end)
}

//go:noinline
func useStream(t *testing.T) (first, stream *fakedriver.Device) {
	d, s := openSharing(t)
	other, err := d.OnStream(7)
	require.NoError(t, err)
	view, err := other.Wrap(element.F32, 64, 4)
	require.NoError(t, err)
	p := program(t, other, small(t))
	require.NoError(t, p.Run(t.Context(), Operands{A: view, B: buffer(t, other, 4), C: buffer(t, other, 4)}))
	require.NoError(t, d.Close())
	return s.Device, other.driver.(*sharing).Device
}

// A graph that the caller captured may still launch a program of a device on a stream, and the stream may be
// gone. So dropped objects stay open, except views.
func TestDroppedOnStream(t *testing.T) {
	log := captureLog(t)
	first, stream := useStream(t)
	collect(t, func() bool { return log.count("object=device") == 1 })
	require.EqualValues(t, 1, first.Closes.Load())
	require.Zero(t, stream.Closes.Load())
	require.EqualValues(t, 2, stream.Buffers.Load())
	require.EqualValues(t, 1, stream.Programs.Load())
	require.Equal(t, 1, log.count("closed now"))
	require.Equal(t, 4, log.count("dropped without Close; left open, since graphs of its stream may use it"))
}

// One collection frees everything of closed devices, including their open objects. If it took several
// collections, each starting when the heap has doubled, memory would grow without end as devices come and
// go.
func TestDevicesThatComeAndGo(t *testing.T) {
	for _, c := range []struct {
		name string
		use  func(t *testing.T, d *Device)
	}{
		{"open buffers", func(t *testing.T, d *Device) { buffer(t, d, 1000) }},
		{"closed buffers", func(t *testing.T, d *Device) { require.NoError(t, buffer(t, d, 1000).Close()) }},
		{"programs", func(t *testing.T, d *Device) { use(t, d) }},
		{"slices", func(t *testing.T, d *Device) {
			s, err := buffer(t, d, 1000).Slice(64, 64)
			require.NoError(t, err)
			require.NoError(t, Write(t.Context(), s, 0, []float32{1}))
		}},
		{"reads", func(t *testing.T, d *Device) {
			ReadAsync(t.Context(), buffer(t, d, 1000), 0, make([]float32, 1000))
		}},
		{"operands on the host", func(t *testing.T, d *Device) {
			require.NoError(t, gemmOf(t.Context(), d, small(t), planner.Options{}, make([]float32, 4),
				make([]float32, 4), make([]float32, 4)))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer debug.SetGCPercent(debug.SetGCPercent(-1))
			const devices, each = 50, 64 << 10 // bytes, at least, of a device
			comeAndGo := func() {
				d, err := Open(t.Context(), WithBackend("cpu"))
				require.NoError(t, err)
				c.use(t, d)
				require.NoError(t, d.Close())
			}
			comeAndGo()
			collect(t, nil)
			before := heap()
			for range devices {
				comeAndGo()
			}
			require.Greater(t, heap(), before+devices*each, "else there is nothing to see")
			runtime.GC() // once
			require.Less(t, heap(), before+devices*each/10)
		})
	}
}

// heap returns the bytes of objects in Go's heap.
func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
