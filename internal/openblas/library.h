//go:build cgo && linux

// What this package does through a library of BLAS, without its headers.
#ifndef BGO_LIBRARY_H
#define BGO_LIBRARY_H

#include <stddef.h>

// bgo_api has the entry points of cblas.h, in a build whose integers are of type int, and those of the
// library itself. BLIS takes and returns a 64-bit number of threads, which is the same call for such numbers.
typedef struct {
	void (*cblas_sgemm)(int order, int transa, int transb, int m, int n, int k, float alpha,
	                    const float *a, int lda,
	                    const float *b, int ldb, float beta, float *c, int ldc);
	void (*cblas_dgemm)(int order, int transa, int transb, int m, int n, int k, double alpha,
	                    const double *a, int lda,
	                    const double *b, int ldb, double beta, double *c, int ldc);
	char *(*config)(void); // or NULL
	int (*threads)(void);
	void (*set_threads)(long threads);
} bgo_api;

// bgo_names are the names of the library's own entry points. config may be NULL.
typedef struct {
	const char *config, *threads, *set_threads;
} bgo_names;

// bgo_load opens a library, for good, and fills the table. On failure it says why in
// message.
int bgo_load(const char *path, const bgo_names *names, bgo_api *api, char *message, size_t size);

const char *bgo_config(const bgo_api *api);
int bgo_threads(const bgo_api *api);
void bgo_set_threads(const bgo_api *api, int threads);

// bgo_product is a product of matrices by rows, at elements a, b and c of the operands.
typedef struct {
	size_t a, b, c;
	int transa, transb, m, n, k, lda, ldb, ldc;
	double alpha, beta;
} bgo_product;

void bgo_loop(const bgo_api *api, const bgo_product *products, size_t count, const float *a,
	const float *b, float *c);
void bgo_loop64(const bgo_api *api, const bgo_product *products, size_t count, const double *a,
	const double *b, double *c);

#endif
