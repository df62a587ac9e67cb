package cpu

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batchgemm/batchgemm/planner/element"
)

// BenchmarkFewRows multiplies few rows by a B that is larger than caches, 128 columns at a time, by turns:
// nanoseconds of one thread for 1000 weights, of the fastest fifth of the turns, as others may use the cores.
func BenchmarkFewRows(b *testing.B) {
	const k, n = 4096, 8192
	words := make([]float32, k*n)
	for i := range words { // otherwise there is no memory
		words[i] = float32(i%7) - 3
	}
	groups := make([]int32, (k/64+1)*n)
	for i := range groups {
		groups[i] = 0x3f803f80
	}
	a := make([]float32, 16*k)
	c := make([]float32, 16*n)
	with, err := choose()
	if err != nil {
		b.Fatal(err)
	}
	var stop atomic.Bool
	scratch := newScratch(with, &stop)
	for _, rows := range []int{1, 4, 8, 16} {
		types := []element.Type{element.F32, element.Int4, element.MXFP4, element.NVFP4}
		spent := make([][]time.Duration, len(types))
		b.Run(fmt.Sprintf("%d", rows), func(b *testing.B) {
			for range b.N {
				for i, of := range types {
					for j := 0; j < n; j += 128 {
						p := product{rows: rows, cols: 128, depth: k, few: true, c: c[j:], ldc: n, alpha: 1}
						p.a, p.b = operand{data: a, ld: k}, operand{ld: n, narrow: narrow{of: of}}
						if of == element.F32 {
							p.few, p.b.data = false, words[j:]
						} else {
							p.a.narrow, p.b.narrow = narrowOf(element.BF16, a), narrowOf(of, words).from(64*j)
							p.b.groups, p.b.group = groups[j:], 128
							if of == element.NVFP4 {
								p.b.group = 64
							}
						}
						before := time.Now()
						scratch.multiply(&p)
						spent[i] = append(spent[i], time.Since(before))
					}
				}
			}
			for i, of := range types {
				slices.Sort(spent[i])
				b.ReportMetric(float64(spent[i][len(spent[i])/5].Nanoseconds())/(128*k/1000), of.String())
			}
		})
	}
}
