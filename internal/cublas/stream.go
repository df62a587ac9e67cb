//go:build cgo && !nocuda && linux && (amd64 || arm64)

package cublas

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "library.h"
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/hardware"
)

// Stream is a CUDA stream on which work is timed. It is not safe for concurrent
// use.
type Stream struct {
	c *C.bgb_stream
}

// Open makes a stream on a device, by CUDA's ordinal.
func Open(ordinal int) (*Stream, error) {
	api, err := loadCUDA()
	if err != nil {
		return nil, err
	}
	s := &Stream{(*C.bgb_stream)(C.malloc(C.sizeof_bgb_stream))}
	if code := C.bgb_open(s.c, api, C.int(ordinal)); code != 0 {
		name := C.GoString(C.bgb_error_name(api, code))
		C.free(unsafe.Pointer(s.c))
		return nil, fmt.Errorf("open CUDA device %d: %s", ordinal, name)
	}
	return s, nil
}

// Native returns the CUstream.
func (s *Stream) Native() uintptr { return uintptr(s.c.stream) }

// Close frees the stream. Close everything made from it before.
func (s *Stream) Close() error {
	if s.c != nil {
		C.bgb_close(s.c)
		C.free(unsafe.Pointer(s.c))
		s.c = nil
	}
	return nil
}

// Alloc allocates device memory; size is in bytes.
func (s *Stream) Alloc(size int) (uintptr, error) {
	var memory C.uint64_t
	err := s.check(C.bgb_alloc(s.c, C.size_t(size), &memory))
	return uintptr(memory), err
}

// Free frees it when queued work is done.
func (s *Stream) Free(memory uintptr) error {
	return s.check(C.bgb_free(s.c, C.uint64_t(memory)))
}

// Time calls work(0) to work(n-1), which each queue work on the stream. It returns the time of one on the
// device and that of the call. One more call before them is not counted: it keeps the device busy when the
// first event is queued.
func (s *Stream) Time(n int, work func(i int) error) (device, host time.Duration, err error) {
	if err := work(n - 1); err != nil {
		return 0, 0, err
	}
	if err := s.check(C.bgb_start(s.c)); err != nil {
		return 0, 0, err
	}
	start := time.Now()
	for i := range n {
		if err := work(i); err != nil {
			return 0, 0, err
		}
	}
	host = time.Since(start) / time.Duration(n)
	device, err = s.stop(n)
	return device, host, err
}

// stop returns the device time since the start event, for one of n.
func (s *Stream) stop(n int) (time.Duration, error) {
	var ms C.float
	err := s.check(C.bgb_stop(s.c, &ms))
	return time.Duration(float64(ms) * float64(time.Millisecond) / float64(n)), err
}

// Graph is a CUDA graph of copies of some work.
type Graph struct {
	stream *Stream
	exec   unsafe.Pointer
	n      int
}

// Capture records what work(0) to work(n-1) queue as one graph.
func (s *Stream) Capture(n int, work func(i int) error) (*Graph, error) {
	if err := s.check(C.bgb_begin_capture(s.c)); err != nil {
		return nil, err
	}
	var failed error
	for i := 0; i < n && failed == nil; i++ {
		failed = work(i)
	}
	g := &Graph{stream: s, n: n}
	err := s.check(C.bgb_end_capture(s.c, &g.exec))
	if failed != nil {
		err = failed
	}
	if err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// Time launches the graph and returns the device time of one copy. A launch before it is not counted, as in
// Stream.Time.
func (g *Graph) Time() (time.Duration, error) {
	s := g.stream
	if err := s.check(C.bgb_launch(s.c, g.exec)); err != nil {
		return 0, err
	}
	if err := s.check(C.bgb_start(s.c)); err != nil {
		return 0, err
	}
	if err := s.check(C.bgb_launch(s.c, g.exec)); err != nil {
		return 0, err
	}
	return s.stop(g.n)
}

// Close frees the graph.
func (g *Graph) Close() error {
	if g.exec == nil {
		return nil
	}
	exec := g.exec
	g.exec = nil
	return g.stream.check(C.bgb_free_graph(g.stream.c, exec))
}

// check turns a CUresult into an error.
func (s *Stream) check(code C.int) error {
	if code == 0 {
		return nil
	}
	return fmt.Errorf("CUDA: %s", C.GoString(C.bgb_error_name(s.c.api, code)))
}

// Search paths of the libraries, in order.
var (
	cudaPaths   = []string{"libcuda.so.1", "libcuda.so"}
	cublasPaths = []string{"libcublas.so.13", "libcublas.so.12", "libcublas.so.11",
		"/usr/local/cuda/lib64/libcublas.so.13", "/usr/local/cuda/lib64/libcublas.so.12",
		"/usr/local/cuda/lib64/libcublas.so.11"}
)

var (
	loadCUDA   = sync.OnceValues(func() (*C.bgb_cuda, error) { return openCUDA(cudaPaths) })
	loadCuBLAS = sync.OnceValues(func() (*C.bgb_cublas, error) { return openCuBLAS(cublasPaths) })
)

func openCUDA(paths []string) (*C.bgb_cuda, error) {
	api := (*C.bgb_cuda)(C.calloc(1, C.sizeof_bgb_cuda)) // kept, like the library
	return api, load("CUDA", paths, func(path, message *C.char, size C.size_t) C.int {
		return C.bgb_load_cuda(path, api, message, size)
	})
}

func openCuBLAS(paths []string) (*C.bgb_cublas, error) {
	api := (*C.bgb_cublas)(C.calloc(1, C.sizeof_bgb_cublas))
	return api, load("cuBLAS", paths, func(path, message *C.char, size C.size_t) C.int {
		return C.bgb_load_cublas(path, api, message, size)
	})
}

// load opens the first library of paths that works. The error has the reasons for all.
func load(name string, paths []string, open func(path, message *C.char, size C.size_t) C.int) error {
	const size = 512
	message := (*C.char)(C.calloc(1, size))
	defer C.free(unsafe.Pointer(message))
	var reasons []string
	for _, path := range paths {
		c := C.CString(path)
		code := open(c, message, size)
		C.free(unsafe.Pointer(c))
		if code == 0 {
			return nil
		}
		reasons = append(reasons, path+": "+strings.TrimPrefix(C.GoString(message), path+": "))
	}
	return fmt.Errorf("%s: %w: tried %s", name, hardware.ErrUnavailable, strings.Join(reasons, "; "))
}
