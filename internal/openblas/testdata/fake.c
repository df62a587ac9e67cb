// An OpenBLAS that computes as a plain loop.

#include <stdio.h>
#include <stdlib.h>

#ifndef INTEGERS
#define INTEGERS ""
#endif

static int threads = 3;

static char config[128];

// The end is what the environment said when the library was loaded.
__attribute__((constructor)) static void load(void) {
	const char *timeout = getenv("OPENBLAS_THREAD_TIMEOUT");
	snprintf(config, sizeof config, "OpenBLAS 0.3.21 " INTEGERS "MAX_THREADS=64 timeout %s",
		timeout ? timeout : "none");
}

char *openblas_get_config(void) { return config; }

int openblas_get_num_threads(void) { return threads; }

#ifndef NO_SET_NUM_THREADS
void openblas_set_num_threads(int n) { threads = n; }
#endif

// What cblas_sgemm and cblas_dgemm refuse, they do not compute.
#define GEMM(name, real) \
void name(int order, int ta, int tb, int m, int n, int k, real alpha, const real *a, int lda, \
                 const real *b, int ldb, \
                 real beta, real *c, int ldc) { \
	if (order != 101 || (ta != 111 && ta != 112) || (tb != 111 && tb != 112)) return; \
	ta -= 111, tb -= 111; \
	if (m < 1 || n < 1 || k < 0 || lda < 1 || lda < (ta ? m : k) || ldb < 1 || ldb < (tb ? k : n)) return; \
	if (ldc < n) \
		return; \
	for (int i = 0; i < m; i++) \
		for (int j = 0; j < n; j++) { \
			real sum = 0; \
			for (int l = 0; l < k; l++) \
				sum += (ta ? a[l * lda + i] : a[i * lda + l]) * (tb ? b[j * ldb + l] : b[l * ldb + j]); \
			real *to = &c[i * ldc + j]; \
			*to = alpha * sum + (beta ? beta * *to : 0); \
		} \
}

GEMM(cblas_sgemm, float)
GEMM(cblas_dgemm, double)
