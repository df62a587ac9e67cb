// Package openblas runs batches through OpenBLAS, as a loop of cblas_sgemm, for
// benchmarks to compare with. It opens the library at run time and needs it neither to
// build nor otherwise.
package openblas
