//go:build cgo && linux

#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

// Values of cblas.h.
enum {
	ROW_MAJOR = 101,
	NO_TRANS = 111,
	TRANS = 112,
};

int bgo_load(const char *path, const bgo_names *names, bgo_api *api, char *message, size_t size) {
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		snprintf(message, size, "%s", dlerror());
		return -1;
	}
#define BIND(entry, name) \
	*(void **)&api->entry = dlsym(library, name); \
	if (!api->entry) { \
		snprintf(message, size, "no symbol %s", name); \
		return -1; \
	}
	BIND(cblas_sgemm, "cblas_sgemm")
	BIND(cblas_dgemm, "cblas_dgemm")
	if (names->config) {
		BIND(config, names->config)
	}
	BIND(threads, names->threads)
	BIND(set_threads, names->set_threads)
#undef BIND
	if (strstr(bgo_config(api), "USE64BITINT")) {
		snprintf(message, size, "its integers have 64 bits");
		return -1;
	}
	return 0;
}

const char *bgo_config(const bgo_api *api) { return api->config ? api->config() : ""; }

int bgo_threads(const bgo_api *api) { return api->threads(); }

void bgo_set_threads(const bgo_api *api, int threads) { api->set_threads(threads); }

void bgo_loop(const bgo_api *api, const bgo_product *products, size_t count, const float *a,
	const float *b, float *c) {
	for (const bgo_product *p = products; p < products + count; p++)
		api->cblas_sgemm(ROW_MAJOR, p->transa ? TRANS : NO_TRANS, p->transb ? TRANS : NO_TRANS, p->m, p->n,
		                 p->k, (float)p->alpha,
		                 a + p->a, p->lda, b + p->b, p->ldb, (float)p->beta, c + p->c, p->ldc);
}

void bgo_loop64(const bgo_api *api, const bgo_product *products, size_t count, const double *a,
	const double *b, double *c) {
	for (const bgo_product *p = products; p < products + count; p++)
		api->cblas_dgemm(ROW_MAJOR, p->transa ? TRANS : NO_TRANS, p->transb ? TRANS : NO_TRANS, p->m, p->n,
		                 p->k, p->alpha, a + p->a, p->lda, b + p->b, p->ldb, p->beta, c + p->c, p->ldc);
}
