//go:build cgo && !nocuda && linux && (amd64 || arm64)

package cublas

// #include <stdlib.h>
// #include "library.h"
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// workspaceBytes is what NVIDIA recommends for Hopper (cuBLAS documentation,
// cublasSetWorkspace); other GPUs need 4 MiB. A workspace of the caller also
// keeps allocations out of captured graphs.
const workspaceBytes = 32 << 20

// Handle is a cuBLAS handle. Its work goes to the stream.
type Handle struct {
	stream    *Stream
	api       *C.bgb_cublas
	handle    unsafe.Pointer
	workspace C.uint64_t
	version   C.int
}

// CuBLAS makes a handle. Without cuBLAS it fails with an error that wraps hardware.ErrUnavailable.
func (s *Stream) CuBLAS() (*Handle, error) {
	api, err := loadCuBLAS()
	if err != nil {
		return nil, err
	}
	h := &Handle{stream: s, api: api}
	if err := s.check(C.bgb_alloc(s.c, workspaceBytes, &h.workspace)); err != nil {
		return nil, err
	}
	if err := h.check(C.bgb_create(s.c, api, h.workspace, workspaceBytes, &h.handle,
		&h.version)); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// String returns version and arithmetic.
func (h *Handle) String() string {
	v := int(h.version)
	// 120501 is 12.5.1 since version 12.
	return fmt.Sprintf("cuBLAS %d.%d.%d, CUBLAS_DEFAULT_MATH (fp32)", v/10000, v/100%100, v%100)
}

// HasGrouped reports whether Batch.Grouped can be called: cuBLAS has it since CUDA 12.5.
func (h *Handle) HasGrouped() bool {
	return h.api.cublasSgemmGroupedBatched != nil && h.api.cublasGemmGroupedBatchedEx != nil &&
		h.api.cublasDgemmGroupedBatched != nil
}

// Close frees the handle.
func (h *Handle) Close() error {
	var errs []error
	if h.handle != nil {
		errs = append(errs, h.check(C.bgb_destroy(h.stream.c, h.api, h.handle)))
		h.handle = nil
	}
	if h.workspace != 0 {
		errs = append(errs, h.stream.check(C.bgb_free(h.stream.c, h.workspace)))
		h.workspace = 0
	}
	return errors.Join(errs...)
}

// check turns a cublasStatus_t into an error.
func (h *Handle) check(code C.int) error {
	if code == 0 {
		return nil
	}
	return fmt.Errorf("cuBLAS: status %d (see cublasStatus_t)", int(code))
}

// Batch is a batch of problems in the form that cuBLAS takes.
type Batch struct {
	handle *Handle
	c      *C.bgb_batch
	memory []unsafe.Pointer // of C
}

// dataTypes are those of cudaDataType, except float, which has separate calls.
var dataTypes = map[element.Type]C.int{element.F32: 0, element.BF16: 14, element.F16: 2, element.F64: 1}

// Batch prepares a batch on buffers in device memory: A and B have elements of one type, C
// of the same.
func (h *Handle) Batch(batch planner.Batch, of element.Type, a, b, c uintptr) (*Batch, error) {
	out := &Batch{handle: h}
	out.c = &array[C.bgb_batch](out, 1)[0]
	out.c._type, out.c.type_c = dataTypes[of], dataTypes[of]
	address := func(base uintptr, m planner.Matrix) C.uint64_t {
		return C.uint64_t(base) + C.uint64_t(of.Bytes()*m.Offset)
	}
	n := len(batch)
	ints := func() (*C.int, []C.int) { s := array[C.int](out, n); return unsafe.SliceData(s), s }
	floats := func() (*C.float, []C.float) { s := array[C.float](out, n); return unsafe.SliceData(s), s }
	pointers := func() (*C.uint64_t, []C.uint64_t) {
		s := array[C.uint64_t](out, n)
		return unsafe.SliceData(s), s
	}
	var transa, transb, rows, cols, depth, lda, ldb, ldc, ones []C.int
	doubles := func() (*C.double, []C.double) { s := array[C.double](out, n); return unsafe.SliceData(s), s }
	var alpha, beta []C.float
	var alpha64, beta64 []C.double
	var pa, pb, pc []C.uint64_t
	d := out.c
	d.transa, transa = ints()
	d.transb, transb = ints()
	d.rows, rows = ints()
	d.cols, cols = ints()
	d.depth, depth = ints()
	d.lda, lda = ints()
	d.ldb, ldb = ints()
	d.ldc, ldc = ints()
	d.ones, ones = ints()
	d.alpha, alpha = floats()
	d.beta, beta = floats()
	d.alpha64, alpha64 = doubles()
	d.beta64, beta64 = doubles()
	d.pa, pa = pointers()
	d.pb, pb = pointers()
	d.pc, pc = pointers()

	count := 0
	for _, p := range batch {
		if p.M == 0 || p.N == 0 {
			continue
		}
		// A row-major matrix is the transpose of a column-major one. So C = A*B is computed as transposed C
		// = transposed B * transposed A.
		i := count
		transa[i], transb[i] = operation(p.TransB), operation(p.TransA)
		rows[i], cols[i], depth[i] = C.int(p.N), C.int(p.M), C.int(p.K)
		lda[i], ldb[i], ldc[i] = C.int(max(p.B.LD, 1)), C.int(max(p.A.LD, 1)), C.int(p.C.LD)
		alpha[i], beta[i], ones[i] = C.float(p.Alpha.Value()), C.float(p.Beta), 1
		alpha64[i], beta64[i] = C.double(p.Alpha.Value()), C.double(p.Beta)
		pa[i], pb[i], pc[i] = address(b, p.B), address(a, p.A), address(c, p.C)
		count++
	}
	d.n = C.int(count)
	for _, up := range []struct {
		from *C.uint64_t
		to   *C.uint64_t
	}{{d.pa, &d.device_pa}, {d.pb, &d.device_pb}, {d.pc, &d.device_pc}} {
		if err := h.stream.check(C.bgb_upload(h.stream.c, unsafe.Pointer(up.from), C.size_t(8*max(n, 1)),
			up.to)); err != nil {
			return nil, errors.Join(err, out.Close())
		}
	}
	return out, nil
}

// array allocates n zeroed elements of C memory that live as long as the batch:
// C may not keep pointers to Go's.
func array[T any](b *Batch, n int) []T {
	var zero T
	p := C.calloc(C.size_t(max(n, 1)), C.size_t(unsafe.Sizeof(zero)))
	b.memory = append(b.memory, p)
	return unsafe.Slice((*T)(p), n)
}

// operation is a cublasOperation_t.
func operation(trans bool) C.int {
	if trans {
		return 1
	}
	return 0
}

// Loop queues a cublasSgemm for each problem, of float32.
func (b *Batch) Loop() error {
	h := b.handle
	return h.check(C.bgb_loop(h.stream.c, h.api, h.handle, b.c))
}

// Grouped queues one cublasSgemmGroupedBatched, cublasDgemmGroupedBatched or cublasGemmGroupedBatchedEx, with
// a group for each problem. It needs HasGrouped.
func (b *Batch) Grouped() error {
	h := b.handle
	return h.check(C.bgb_grouped(h.stream.c, h.api, h.handle, b.c))
}

// Close frees what the batch holds.
func (b *Batch) Close() error {
	if b.c == nil {
		return nil
	}
	var errs []error
	s := b.handle.stream
	for _, p := range []C.uint64_t{b.c.device_pa, b.c.device_pb, b.c.device_pc} {
		if p != 0 {
			errs = append(errs, s.check(C.bgb_free(s.c, p)))
		}
	}
	b.c = nil
	for _, p := range b.memory {
		C.free(p)
	}
	b.memory = nil
	return errors.Join(errs...)
}
