// Package soak is only a test: random batches on every backend that opens, for as long as BATCHGEMM_SOAK
// says (make soak: 10 minutes). It checks results, and that memory, file descriptors and goroutines do not
// grow.
//
// It runs without Go and without this repository:
//
//	go test -c -o soak ./internal/soak
//	BATCHGEMM_SOAK=2m ./soak -test.v -test.timeout 0
package soak
