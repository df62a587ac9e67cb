package main

import (
	"fmt"

	"github.com/batchgemm/batchgemm/internal/bench"
)

const padded = "cublas-padded"

// halvesTable is the sweep in bf16, with original sizes and with sizes rounded up to multiples of 8.
func halvesTable(asTheyAre, rounded *bench.Report) *table {
	cells := func(_ *bench.Report, keep func(*bench.Case) bool) []string {
		return []string{speedups(asTheyAre, "batchgemm", padded, keep).spread(),
			speedups(rounded, "batchgemm", grouped, keep).spread()}
	}
	t := groupTable(asTheyAre, "max M, N; max K", byRange, cells, "as they are, over padded cuBLAS",
		"rounded, over cuBLAS")
	t.row(append([]string{"all"}, cells(nil, every)...)...)
	return t
}

// halvesCases are single batches of both.
func halvesCases(asTheyAre, rounded *bench.Report) *table {
	t := newTable("max M, N; max K; batch", "as they are, µs", "cuBLAS padded", "rounded, µs",
		"cuBLAS", "TFLOPS")
	for i := range asTheyAre.Cases {
		c := &asTheyAre.Cases[i]
		mn, k, batch := zhangCase(c)
		other := find(rounded, fmt.Sprintf("rounded-%d-%d-%d", mn, k, batch))
		if other == nil || batch != 8 && batch != 64 && batch != 256 {
			continue
		}
		us := micros(other, "batchgemm")
		t.row(fmt.Sprintf("%d, %d, %d", mn, k, batch), digits(micros(c, "batchgemm")),
			digits(micros(c, padded)), digits(us), digits(micros(other, grouped)),
			digits(other.GFLOP/us*1e3))
	}
	return t
}
