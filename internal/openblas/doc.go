// Package openblas runs batches with OpenBLAS, BLIS or Intel's MKL, as a loop of cblas_sgemm, for comparison
// in benchmarks. It opens the library at run time; building does not need it.
package openblas

// Names of libraries.
const (
	OpenBLAS = "openblas"
	BLIS     = "blis"
	MKL      = "mkl"
)
