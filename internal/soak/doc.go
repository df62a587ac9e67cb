// Package soak is a test alone: random batches on every backend that opens, for
// as long as BATCHGEMM_SOAK says (make soak: 10 minutes), with results checked and
// with memory, file descriptors and goroutines that must stay flat.
//
// It runs without Go and without this repository:
//
//	go test -c -o soak ./internal/soak
//	BATCHGEMM_SOAK=2m ./soak -test.v -test.timeout 0
package soak
