// Kernels of fp64 in fakecuda.c: items have the lower words of alpha and beta where others have those of
// scales, and the launch says what is transposed.
enum { TRANS_A = 8388608, TRANS_B = 16777216 };

static double twice(uint32_t high, uint32_t low) {
	uint64_t w = (uint64_t)high << 32 | low;
	double x;
	return memcpy(&x, &w, 8), x;
}
static double activated_double(uint32_t flags, double v) {
	flags &= ACTIVATION;
	if (!flags) return v;
	if (flags == RELU) return v < 0 ? 0 : v;
	double z = flags == SILU ? v : 1.5957691216057308 * v * (1 + 0.044715 * v * v);
	return z <= -708 ? 0 : v / (1 + exp(-z));
}

// finish_double is finish for fp64. x is alpha times the sum.
static void finish_double(const epilogue *e, const uint32_t *words, double *c, uint32_t ldc, int i, int j,
    double x, double beta, double *kept, int second) {
	uint32_t row = e->flags & SCATTER ? e->rows[words[0] + i] : i;
	int is = !(e->flags & SCATTER) || row < words[1];
	double *at = c + row * (size_t)ldc + j;
	if (beta && is) x = fma(beta, *at, x);
	if (e->flags & BIAS) x += ((const double *)e->bias)[words[3] + j];
	x = second ? *kept * x : activated_double(e->flags, x);
	if (kept && !second) *kept = x;
	else if (is) *at = (e->flags & WEIGHTS ? bits(e->rows[words[2] + i]) : 1) * x;
}

static void fixup_double(const kernel *k, const uint32_t *w, const epilogue *e, double *c,
    const double *workspace) {
	if (e->flags & POINTERS_C) c = pointer(e, w[7], 2);
	for (int i = 0; i < (int)(w[2] & 0xffff); i++)
		for (int j = 0; j < (int)(w[2] >> 16); j++) {
			double sum = 0;
			for (uint32_t s = 0; s < w[6]; s++)
				sum += workspace[((size_t)(w[3] + s) * k->tm + i) * k->tn + j];
			finish_double(e, w + 8, c + w[0], w[1], i, j, twice(w[4], w[14]) * sum,
			    twice(w[5], w[15]), NULL, 0);
		}
}

static void segment_double(const kernel *k, const uint32_t *w, const epilogue *e, const double *a,
    const double *b, double *c, double *workspace, unsigned worker) {
	int depth = w[3], rows = w[7] & 0xffff, cols = w[7] >> 16, second = w[11] & 4;
	size_t lda = w[4], ldb = w[5];
	if (second) b = e->b2;
	if (e->flags & (POINTERS_A | POINTERS_B) && !(e->flags & ALIGNED) && w[11] & 1) return;
	if (depth && e->flags & POINTERS_A) a = pointer(e, w[18], 0);
	if (depth && e->flags & POINTERS_B) b = pointer(e, w[18], second ? 3 : 1);
	if (e->flags & POINTERS_C) c = pointer(e, w[18], 2);
	double alpha = depth ? twice(w[8], w[19]) : 0, beta = twice(w[9], w[20]);
	double sums[128];
	for (int i = 0; i < rows; i++) {
		uint32_t row = e->flags & GATHER ? e->rows[w[12] + i] : i;
		int none = e->flags & GATHER && row >= w[13];
		memset(sums, 0, sizeof sums);
		for (int p = 0; p < depth && !none; p++) {
			double x = a[w[0] + (e->flags & TRANS_A ? p * lda + i : row * lda + p)];
			for (int j = 0; j < cols; j++) sums[j] = fma(x, b[w[1] + (e->flags & TRANS_B ? j * ldb + p :
			    p * ldb + j)], sums[j]);
		}
		for (int j = 0; j < cols; j++) {
			double *kept = e->flags & GATED ? &workspace[((size_t)worker * k->tm + i) * k->tn + j] : NULL;
			if (w[10] != UINT32_MAX) workspace[((size_t)w[10] * k->tm + i) * k->tn + j] = sums[j];
			else finish_double(e, w + 14, c + w[2], w[6], i, j, alpha * sums[j], beta, kept, second);
		}
	}
}
