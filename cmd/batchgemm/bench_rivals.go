package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/batchgemm/batchgemm/dispatch"
	"github.com/batchgemm/batchgemm/internal/openblas"
	"github.com/batchgemm/batchgemm/planner/element"
)

// The methods of --vs.
const (
	cublasLoop    = "cublas-loop"
	cublasGraph   = "cublas-graph"
	cublasGrouped = "cublas-grouped"
	cublasPadded  = "cublas-padded" // the same with sizes rounded up
	plainF32      = "f32"           // our own kernels without tensor cores
	ownWebGPU     = "webgpu"        // our own through Vulkan
)

// takes reports whether a rival supports elements of a type.
func takes(rival string, of element.Type) bool {
	switch of.Bytes() {
	case 4:
		return true
	case 8:
		return slices.Contains([]string{cublasGrouped, openblas.OpenBLAS, openblas.BLIS, openblas.MKL}, rival)
	case 1:
		return rival == ownWebGPU
	}
	return rival == cublasGrouped || rival == cublasPadded || rival == ownWebGPU
}

// epilogueRivals are those with epilogues.
var epilogueRivals = []string{plainF32, ownWebGPU}

var rivals = []string{cublasLoop, cublasGraph, cublasGrouped, cublasPadded, openblas.OpenBLAS, openblas.BLIS,
	openblas.MKL, plainF32, ownWebGPU}

// open prepares what CUDA needs beside the device, and the rivals in vs. notes says which of them are not
// available.
func (b *bencher) open(ctx context.Context, vs []string) (notes []string, err error) {
	b.vs = vs
	if slices.Contains(vs, ownWebGPU) {
		there, err := dispatch.Open(ctx, dispatch.WithBackend("webgpu"))
		switch {
		case errors.Is(err, dispatch.ErrUnavailable):
			notes = append(notes, "no comparison with "+err.Error())
		case err != nil:
			return nil, err
		default:
			b.webgpu = &bencher{device: there, repeat: b.repeat, cold: b.cold, data: b.data}
		}
	}
	for _, name := range []string{openblas.OpenBLAS, openblas.BLIS, openblas.MKL} {
		if !slices.Contains(vs, name) {
			continue
		}
		note, err := b.openBLAS(ctx, name)
		if err != nil {
			return nil, err
		}
		notes = append(notes, note...)
	}
	ofCUDA, err := b.openCUDA(vs)
	return append(notes, ofCUDA...), err
}

// library returns the versions and arithmetic of the rivals' libraries.
func (b *bencher) library() string {
	var names []string
	if b.cuda != nil && b.cuda.handle != nil {
		names = append(names, b.cuda.handle.String())
	}
	for _, o := range b.blas {
		names = append(names, o.library.String())
	}
	return strings.Join(names, "; ")
}

// close frees what open made.
func (b *bencher) close() error {
	var errs []error
	if b.webgpu != nil {
		errs = append(errs, b.webgpu.device.Close())
	}
	for _, o := range b.blas {
		o.close()
	}
	if b.cuda != nil {
		errs = append(errs, b.cuda.close())
	}
	return errors.Join(errs...)
}
