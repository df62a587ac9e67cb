/* Elements of 16 bits and of 8: on host memory, and in buffers. Operands are -1, 0 and 1, so that
 * each type has all results. */
#include "check.h"

#define HALF_NAN 0x7fff    /* in both types, and its low byte in e4m3 */
#define HALF_CANARY 0x7bcd /* a number in both types that is no result */

typedef struct {
	const char *name;
	int bytes;
	/* the bit after the exponent, of a float's; by how much float's exponents are larger. 0: no float */
	int top, bias;
} type;

static uint16_t narrow(const type *t, float x) {
	if (isnan(x)) return (uint16_t)(HALF_NAN & ((1 << (8 * t->bytes)) - 1));
	if (x == CANARY) return HALF_CANARY;
	if (!t->top) return (uint8_t)(int8_t)x;
	uint32_t bits;
	memcpy(&bits, &x, sizeof bits);
	uint16_t sign = (uint16_t)(bits >> 31 << (8 * t->bytes - 1));
	return x == 0 ? sign : (uint16_t)(sign | (((bits & 0x7fffffff) - ((uint32_t)t->bias << 23)) >> t->top));
}

static float widen(const type *t, uint16_t half) {
	if (half == HALF_CANARY) return CANARY;
	uint32_t bits = half & 0x7fff;
	if (bits) bits = (bits << t->top) + ((uint32_t)t->bias << 23);
	bits |= (uint32_t)(half & 0x8000) << 16;
	float x;
	memcpy(&x, &bits, sizeof x);
	return x;
}

static void whole(float *s, int64_t n) {
	for (int64_t i = 0; i < n; i++)
		if (!isnan(s[i]) && s[i] != CANARY) s[i] = s[i] < -0.4f ? -1 : s[i] > 0.4f;
}

/* Elements, the low byte of each first. */
static void *elements(const type *t, const float *from, int64_t n) {
	uint8_t *s = malloc((size_t)((n + 1) * t->bytes));
	CHECK(s);
	for (int64_t i = 0; i < n; i++) {
		uint16_t x = narrow(t, from[i]);
		memcpy(s + i * t->bytes, &x, (size_t)t->bytes);
	}
	return s;
}

/* Written in two parts: one may begin within a word. */
static bg_buffer upload(bg_device device, const char *type, const void *from, int64_t count, int64_t bytes) {
	bg_buffer b;
	int64_t part = count / 3;
	OK(bg_buffer_new_of(device, type, count, &b));
	OK(bg_buffer_write(b, part, (const char *)from + part * bytes, count - part, BG_NO_TIMEOUT));
	OK(bg_buffer_write(b, 0, from, part, BG_NO_TIMEOUT));
	return b;
}

/* C is of type of_c; NULL: float. */
static void test_type(bg_device device, const type *t, const type *of_c, uint32_t seed) {
	batch x = new_batch(9, 40, seed);
	whole(x.a, x.len_a), whole(x.b, x.len_b), whole(x.before, x.len_c);
	void *a = elements(t, x.a, x.len_a), *b = elements(t, x.b, x.len_b);
	uint16_t *c = of_c ? elements(of_c, x.before, x.len_c) : NULL;
	const char *type_c = of_c ? of_c->name : "f32";
	void *host = of_c ? (void *)c : x.c;
	int64_t bytes = of_c ? of_c->bytes : 4;
	memcpy(x.c, x.before, (size_t)x.len_c * sizeof(float));
	char options[64];
	snprintf(options, sizeof options, "{\"type_a\": \"%s\", \"type_c\": \"%s\"}", t->name, type_c);

	bg_plan plan;
	bg_program program;
	OK(bg_plan_new(device, x.problems, x.count, options, &plan));
	OK(bg_prepare(device, plan, &program));
	bg_buffer on_a = upload(device, t->name, a, x.len_a, t->bytes),
		on_b = upload(device, t->name, b, x.len_b, t->bytes);
	bg_buffer on_c = upload(device, type_c, host, x.len_c, bytes);
	OK(bg_run(program, on_a, on_b, on_c));

	OK(bg_gemm_of(device, x.problems, x.count, options, a, x.len_a, b, x.len_b, host, x.len_c,
		BG_NO_TIMEOUT));
	for (int64_t i = 0; of_c && i < x.len_c; i++) x.c[i] = widen(of_c, c[i]);
	check_batch(&x);

	memset(host, 0, (size_t)(x.len_c * bytes));
	OK(bg_buffer_read(on_c, 0, host, x.len_c, BG_NO_TIMEOUT));
	for (int64_t i = 0; of_c && i < x.len_c; i++) x.c[i] = widen(of_c, c[i]);
	check_batch(&x);

	if (of_c == t) FAILS(bg_run(program, on_a, on_b, on_a), BG_ERR_INVALID, "C");
	uint64_t made[] = {on_a, on_b, on_c, program, plan};
	for (size_t i = 0; i < sizeof made / sizeof *made; i++) OK(bg_close(made[i]));
	free(a), free(b), free(c), free_batch(&x);
}

static void test_mistakes(bg_device device) {
	bg_buffer b = 7;
	uint16_t x[2] = {0};
	float c[1] = {7};
	bg_problem p = bg_problem_of(1, 1, 1);
	FAILS(bg_buffer_new_of(device, "f8", 4, &b), BG_ERR_INVALID, "f8");
	CHECK(b == 0);
	FAILS(bg_buffer_new_of(device, "bf16", -1, &b), BG_ERR_INVALID, "buffer of -1 elements");
	OK(bg_buffer_new_of(device, "f16", 2, &b));
	FAILS(bg_buffer_write(b, 1, x, 2, 0), BG_ERR_INVALID, "2 elements from 1 on, in a buffer of 2");
	FAILS(bg_buffer_read(b, 0, NULL, 1, 0), BG_ERR_INVALID, "dst is NULL");
	FAILS(bg_buffer_write(b, 0, x, INT64_MAX, 0), BG_ERR_INVALID, "src: ");
	OK(bg_close(b));
	FAILS(bg_gemm_of(device, &p, 1, "{\"type_c\": \"bf16\"}", x, 1, x, 1, c, 1, 0), BG_ERR_INVALID, "bf16");
	FAILS(bg_gemm_of(device, &p, 1, "{\"type_a\": \"bf16\", \"type_c\": \"f16\"}", x, 1, x, 1, c, 1, 0),
		BG_ERR_INVALID, "f16");
	FAILS(bg_gemm_of(device, &p, 1, "{\"type_a\": \"e4m3\", \"type_c\": \"e4m3\"}", x, 1, x, 1, c, 1, 0),
		BG_ERR_INVALID, "e4m3");
	FAILS(bg_gemm_of(device, &p, 1, "{\"type_a\": \"i8\"}", x, 1, x, 1, c, 1, 0), BG_ERR_INVALID, "i8");
	FAILS(bg_gemm_of(device, &p, 1, "{\"type_a\": \"bf16\"}", x, 1, NULL, 1, c, 1, 0),
		BG_ERR_INVALID, "b is NULL");
	CHECK(c[0] == 7);
}

int main(void) {
	static const type bf16 = {"bf16", 2, 16, 0}, f16 = {"f16", 2, 13, 112}, e4m3 = {"e4m3", 1, 20, 120},
		int8 = {"int8", 1, 0, 0};
	static const type *const pairs[][2] = {{&bf16, &bf16}, {&bf16}, {&f16, &f16}, {&f16},
	                                  {&e4m3, &bf16}, {&e4m3, &f16}, {&e4m3}, {&int8, &bf16},
	                                  {&int8, &f16}, {&int8}};
	bg_device device;
	OK(bg_open("cpu", -1, &device));
	for (uint32_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
		test_type(device, pairs[i][0], pairs[i][1], i + 1);
	test_mistakes(device);
	OK(bg_close(device));
	puts("ok");
	return 0;
}
