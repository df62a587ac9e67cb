//go:build cgo && linux

package openblas

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "library.h"
import "C"

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/batchgemm/batchgemm/internal/hardware"
	"github.com/batchgemm/batchgemm/planner"
	"github.com/batchgemm/batchgemm/planner/element"
)

// kind is a library that has cblas_sgemm.
type kind struct {
	name, install string
	paths         []string // where to search, in order

	config, threads, setThreads string // names of functions; config may be ""
}

// Fedora's libopenblas.so.0 has no threads, its libopenblasp.so.0 has.
var kinds = map[string]*kind{
	OpenBLAS: {"OpenBLAS", "install libopenblas0-pthread (Debian, Ubuntu) or openblas-threads (Fedora)",
		[]string{"libopenblasp.so.0", "libopenblas.so.0", "libopenblas.so"},
		"openblas_get_config", "openblas_get_num_threads", "openblas_set_num_threads"},
	BLIS: {"BLIS", "install libblis4-openmp (Debian, Ubuntu) or blis-openmp (Fedora)",
		[]string{"libblis.so.4", "libbliso.so.4", "libblis.so"},
		"bli_info_get_version_str", "bli_thread_get_num_threads", "bli_thread_set_num_threads"},
	MKL: {"MKL", "install Intel's oneMKL",
		[]string{"libmkl_rt.so.2", "libmkl_rt.so.1", "libmkl_rt.so"},
		"", "MKL_Get_Max_Threads", "MKL_Set_Num_Threads"},
}

// Library is a library of BLAS. A process has only one of a name.
type Library struct {
	name string
	api  C.bgo_api
}

// Open finds a library by its name: OpenBLAS, BLIS or MKL. If there is none, the error wraps
// hardware.ErrUnavailable and says what to install.
func Open(name string) (*Library, error) { return kinds[name].open(kinds[name].paths) }

// open opens the first library of paths that works. The error has the reasons for all.
func (k *kind) open(paths []string) (*Library, error) {
	const size = 512
	message := (*C.char)(C.calloc(1, size))
	defer C.free(unsafe.Pointer(message))
	names := C.bgo_names{threads: C.CString(k.threads), set_threads: C.CString(k.setThreads)}
	if k.config != "" {
		names.config = C.CString(k.config)
	}
	defer func() {
		for _, s := range [...]*C.char{names.config, names.threads, names.set_threads} {
			C.free(unsafe.Pointer(s))
		}
	}()
	var reasons []string
	defer shortenSpin()()
	for _, path := range paths {
		l := &Library{name: k.name}
		name := C.CString(path)
		code := C.bgo_load(name, &names, &l.api, message, size)
		C.free(unsafe.Pointer(name))
		if code == 0 {
			return l, nil
		}
		reasons = append(reasons, path+": "+strings.TrimPrefix(C.GoString(message), path+": "))
	}
	return nil, fmt.Errorf("%s: %w: %s (tried %s)", k.name, hardware.ErrUnavailable, k.install,
		strings.Join(reasons, "; "))
}

// Spin is how long threads of the library may wait for more work in a loop, which takes a core from later
// measurements. 100 ms and more are usual.
const Spin = 10 * time.Millisecond

// shortenSpin limits the wait of a library that is loaded before restore is called to 2^24 ticks of the
// processor's clock, 5 to 8 ms, unless the user has set it.
func shortenSpin() (restore func()) {
	const name = "OPENBLAS_THREAD_TIMEOUT"
	if _, chosen := os.LookupEnv(name); chosen {
		return func() {}
	}
	_ = os.Setenv(name, "24") // C's environment too
	return func() { _ = os.Unsetenv(name) }
}

// String returns the name, the version and the kernels as far as the library says them, and the number of
// threads.
func (l *Library) String() string {
	config := strings.TrimSpace(strings.TrimPrefix(C.GoString(C.bgo_config(&l.api)), l.name))
	return fmt.Sprintf("%s, threads: %d", strings.TrimSpace(l.name+" "+config), l.Threads())
}

// Threads returns how many threads work on a product.
func (l *Library) Threads() int { return int(C.bgo_threads(&l.api)) }

// SetThreads sets the number of threads for the whole process. A build without threads ignores it.
func (l *Library) SetThreads(n int) { C.bgo_set_threads(&l.api, C.int(n)) }

// Batch is a batch of problems in the form that the library takes.
type Batch struct {
	library *Library
	of      element.Type
	pieces  [][]C.bgo_product // of Loop
	shares  [][]C.bgo_product // of Deal
}

// pieceFLOPs is how much work Loop does between two looks at the context: 1 to 10 ms of a processor.
// shareFLOPs is how much a thread of Deal takes at a time, if problems are smaller: 20 to 200 us.
const (
	pieceFLOPs = 1e8
	shareFLOPs = 2e6
)

// Batch prepares a batch of elements of F32 or F64.
func (l *Library) Batch(batch planner.Batch, of element.Type) *Batch {
	made := &Batch{library: l, of: of}
	var all []C.bgo_product
	var work []float64
	for i := range batch {
		p := &batch[i]
		if p.M == 0 || p.N == 0 {
			continue
		}
		all = append(all, C.bgo_product{
			a: C.size_t(p.A.Offset), b: C.size_t(p.B.Offset), c: C.size_t(p.C.Offset),
			transa: flag(p.TransA), transb: flag(p.TransB), m: C.int(p.M), n: C.int(p.N), k: C.int(p.K),
			// with K = 0 it wants 1 too
			lda: C.int(max(p.A.LD, 1)), ldb: C.int(max(p.B.LD, 1)), ldc: C.int(p.C.LD),
			alpha: C.double(p.Alpha.Value()), beta: C.double(p.Beta),
		})
		work = append(work, batch[i:i+1].FLOPs())
	}
	made.pieces, made.shares = cut(all, work, pieceFLOPs), cut(all, work, shareFLOPs)
	return made
}

// cut cuts products into pieces of at least that much work, except the last.
func cut(all []C.bgo_product, work []float64, least float64) (pieces [][]C.bgo_product) {
	first, sum := 0, 0.0
	for i, w := range work {
		if sum += w; sum >= least || i == len(work)-1 {
			pieces = append(pieces, all[first:i+1])
			first, sum = i+1, 0
		}
	}
	return pieces
}

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

// Loop calls cblas_sgemm or cblas_dgemm for each problem. Numbers of F64 are two words each. If ctx ends, it
// stops between problems.
func (b *Batch) Loop(ctx context.Context, x, y, z []float32) error {
	for _, piece := range b.pieces {
		if err := ctx.Err(); err != nil {
			return err
		}
		b.loop(piece, x, y, z)
	}
	return ctx.Err()
}

// Deal does the same on that many threads, which take shares of the products from a counter. Each product
// has one thread if SetThreads says so.
func (b *Batch) Deal(ctx context.Context, threads int, x, y, z []float32) error {
	var next atomic.Int64
	var group sync.WaitGroup
	for range threads {
		group.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(b.shares) {
					return
				}
				b.loop(b.shares[i], x, y, z)
			}
		})
	}
	group.Wait()
	return ctx.Err()
}

func (b *Batch) loop(some []C.bgo_product, x, y, z []float32) {
	api, n := &b.library.api, C.size_t(len(some))
	if b.of == element.F64 {
		C.bgo_loop64(api, &some[0], n, data[C.double](x), data[C.double](y), data[C.double](z))
		return
	}
	C.bgo_loop(api, &some[0], n, data[C.float](x), data[C.float](y), data[C.float](z))
}

func data[T C.float | C.double](s []float32) *T { return (*T)(unsafe.Pointer(unsafe.SliceData(s))) }
