// Package openblas runs batches with OpenBLAS, as a loop of cblas_sgemm, for comparison in benchmarks. It
// opens the library at run time; building does not need it.
package openblas
